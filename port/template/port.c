/*
 * A port that compiles, links and does nothing useful. Copy the folder and work through the notes below.
 * core/edgeprof/port.h has the contract and the context of each function.
 *
 * Unchanged, ep_start() works, but nothing is sampled and there are no collect and deliver threads: use EP_MANUAL and
 * call ep_collect() and ep_deliver() from the program's own loop.
 */
#include <edgeprof/port_calls.h>

#include <errno.h>
#include <string.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/outlive.h>

/* ==== level 1: the first flame graph, with EP_MANUAL ==== */

uint64_t ep_port_uptime_ns(void)
{
    static uint64_t now;

    /* !FIXME: a monotonic clock in nanoseconds, callable from the sampling context. A counter only keeps time moving.
     */
    return now += 1000;
}

uint64_t ep_port_ticks(void)
{
    /* !FIXME: a counter that is cheaper to read than the clock, if there is one. */
    return ep_port_uptime_ns();
}

uint64_t ep_port_ticks_ns(uint64_t ticks)
{
    return ticks;
}

uint64_t ep_port_unix_ns(void)
{
    /* !FIXME: nanoseconds since 1970; leave 0 while the date is not known. */
    return 0;
}

void ep_port_random(void *bytes, size_t size)
{
    static uint32_t state = 1;
    uint8_t *at = bytes;

    /* !FIXME: segment ids must differ between devices and boots: seed this from hardware. */
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        at[i] = (uint8_t)(state >> 24);
    }
}

void *ep_port_memory(size_t size)
{
    /* !FIXME: from the system's allocator, or parts of one array. pprof, names and the control endpoint need it. */
    (void)size;
    return NULL;
}

const char *ep_port_forbidden(void)
{
    return NULL;
}

void ep_port_identity(struct ep_identity *identity)
{
    /* !FIXME: identifies this device and boot; unknown strings stay empty. */
    *identity = (struct ep_identity){.arch = "unknown"};
    memcpy(identity->executable, "firmware", sizeof "firmware");
}

void *ep_port_thread_part(enum ep_thread_part part)
{
    static _Alignas(8) unsigned char parts[EP_PARTS][EP_PART_OTEL_BYTES];

    return parts[part];
}

struct ep_work *ep_port_work(void)
{
    /* !FIXME: one a task, for instance in its control block. */
    static struct ep_work work;
    return &work;
}

size_t ep_port_memory_size(unsigned threads)
{
    /* !FIXME: size of the thread table. */
    (void)threads;
    return 0;
}

int ep_port_sampling_start(void *memory, unsigned threads, uint32_t period_ns, uint32_t clock)
{
    /* !FIXME: from here on, every period_ns of a thread's CPU time: if (ep_hold()) { ep_capture(...); ep_release(); },
     * with the interrupted registers and the bounds of the interrupted stack. If ep_capture() returns -ENOSPC, add the
     * sample's time to the thread's next one. */
    (void)memory;
    (void)threads;
    (void)period_ns;
    (void)clock;
    return 0;
}

void ep_port_sampling_stop(void)
{
    /* !FIXME: stop the source, and ep_thread_residual() for each thread that was armed. */
}

void ep_port_sampling_period(uint32_t period_ns)
{
    /* !FIXME: sample with this period from now on; 0: no more, until there is another. */
    (void)period_ns;
}

int ep_port_threads_scan(void)
{
    /* !FIXME: find threads that have appeared or ended; the number that are armed. */
    return 0;
}

uint32_t ep_port_tick_hz(void)
{
    return 0; /* !FIXME: the highest rate of samples that this system can hold, if it has one. */
}

uint32_t ep_port_clock(uint64_t *error)
{
    if (error)
        *error = 0; /* !FIXME: why it is not the clock that was asked for, an errno value. */
    return EP_CLOCK_TIMERS;
}

uint64_t ep_port_modules_generation(void)
{
    /* !FIXME: count up when code is loaded or unloaded; a statically linked image never does. */
    return 0;
}

int ep_port_modules_scan(int pin)
{
    (void)pin;
    /* !FIXME: ep_module_seen() for each range of code, with its unwind tables (__eh_frame_hdr_start or __exidx_start
     * of the linker script) and its build id. */
    return 0;
}

uintptr_t ep_port_hijack_stub(void)
{
    return 0; /* no .NET runtime */
}

/* ==== level 2: edgeprof's own threads ==== */

int ep_port_thread_start(enum ep_role role, void (*fn)(void))
{
    /* !FIXME: one task a role; the deliver role at low priority. Without tasks the program uses EP_MANUAL. */
    (void)role;
    (void)fn;
    return -ENOSYS;
}

int ep_port_thread_join(enum ep_role role, uint64_t until_ns)
{
    /* !FIXME: wait until the role's fn has returned, or until that time. */
    (void)role;
    (void)until_ns;
    return -ENOSYS;
}

void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns)
{
    /* !FIXME: sleep until the value differs from seen, timeout_ns at most. Returning at once is allowed. */
    (void)event;
    (void)seen;
    (void)timeout_ns;
}

void ep_port_wake(struct ep_event *event)
{
    /* !FIXME: wake the sleeper, from the sampling context. */
    (void)atomic_fetch_add(&event->value, 1);
}

/* Correct if threads cannot be parked: they start at once. */
int ep_port_thread_park(enum ep_role role, void (*fn)(void))
{
    (void)role;
    (void)fn;
    return -ENOTSUP;
}

int ep_port_thread_resume(enum ep_role role)
{
    (void)role;
    return 0;
}

int ep_port_forks(void (*child)(void))
{
    (void)child;
    return 0; /* !FIXME: where processes can be forked */
}

/* ==== level 3: all threads of a program ==== */

int ep_port_threads_announced(void)
{
    /* !FIXME: 1 when new threads arm themselves. */
    return 0;
}

bool ep_port_readable(uintptr_t at)
{
    (void)at;
    return false;
}

void ep_port_stacks_find(void)
{
    /* !FIXME: find the stacks of threads that were sampled without bounds; nothing if all bounds are known. */
}

int ep_port_threads_each(void (*fn)(uint32_t tid))
{
    /* !FIXME: fn() for each thread of the program, for stacks of all threads on demand. */
    (void)fn;
    return -ENOSYS;
}

int ep_port_thread_blocked(uint32_t tid, struct ep_registers *registers, uint64_t *ran_ns)
{
    /* !FIXME: the registers of a thread that does not run, as the scheduler has saved them. */
    (void)tid;
    (void)registers;
    (void)ran_ns;
    return -ENOSYS;
}

unsigned ep_port_thread_wait(uint32_t tid)
{
    /* !FIXME: what the thread waits for, where the scheduler knows it. */
    (void)tid;
    return EP_WAIT_OTHER;
}

size_t ep_port_copy(uint32_t tid, uintptr_t from, void *to, size_t size)
{
    (void)tid; /* stacks of tasks are never freed here */
    memcpy(to, (const void *)from, size);
    return size;
}

void ep_port_thread_name(uint32_t tid, char *name, size_t size)
{
    /* !FIXME: for EP_THREAD_LABELS. */
    (void)tid;
    if (size)
        name[0] = 0;
}

uint32_t ep_port_here(struct ep_registers *registers)
{
    /* !FIXME: the registers of the caller, in assembly; without them waits and events have no stacks. */
    *registers = (struct ep_registers){0};
    return 0;
}

uint32_t ep_port_bounds(struct ep_registers *registers)
{
    /* !FIXME: the bounds of the calling thread's stack. */
    registers->stack_start = registers->stack_end = 0;
    return 0;
}

unsigned ep_port_descriptor_wait(int fd)
{
    (void)fd;
    return EP_WAIT_OTHER; /* !FIXME: network or disk */
}

void ep_wait_begin(enum ep_wait wait)
{
    (void)wait; /* call ep_wait_open(sp | wait, pc, fp, 0) with the caller's registers; without it waits are not
                   recorded */
}

/* ==== level 4: settings, names and costs ==== */

const char *ep_port_env(const char *name)
{
    /* !FIXME: settings from outside the program, if there are any. */
    (void)name;
    return NULL;
}

int ep_port_file_read(const char *path, char *bytes, size_t size)
{
    /* !FIXME: reads the file; without a file system nothing is there. */
    (void)path;
    (void)bytes;
    (void)size;
    return -ENOENT;
}

uintptr_t ep_port_symbol(uintptr_t pc, char *name, size_t size)
{
    /* Correct without dynamic symbols: functions are then named module+0x1234. */
    (void)pc;
    if (size)
        name[0] = 0;
    return 0;
}

bool ep_port_function_next(uintptr_t from, uintptr_t end, struct ep_port_function *function)
{
    /* Correct on a system that gives programs no code of its own. */
    (void)from;
    (void)end;
    (void)function;
    return false;
}

uint64_t ep_port_thread_cpu_ns(void)
{
    /* !FIXME: CPU time of the calling thread; 0 makes edgeprof's own cost invisible in the statistics. */
    return 0;
}

uint64_t ep_port_process_cpu_ns(void)
{
    /* !FIXME: CPU time of the whole program; 0 makes a budget have no effect. */
    return 0;
}

uint64_t ep_port_tick_cost_ns(void)
{
    /* !FIXME: CPU time of an interrupt in addition to ep_capture(). */
    return 0;
}

uint32_t ep_port_thread_faults(void)
{
    return 0; /* !FIXME: where code and tables are read from a disk: the thread's page faults that waited for it */
}

uint64_t ep_port_resident(void)
{
    /* !FIXME: memory of the program in RAM; 0: an incident's limit of it has no effect. */
    return 0;
}

void ep_port_stay_begin(void) {}

bool ep_port_stayed(void)
{
    return false; /* !FIXME: true if the thread has not been off its processor; false costs a second reading of the
                     counter */
}

/* ==== level 5: storage, for programs that have a spool (core/features/spool/) ==== */

int ep_port_spool_open(const char *dir)
{
    /* !FIXME: for a spool: files or regions of flash by number; see port.h. Without it, the spool stays in memory. */
    (void)dir;
    return -ENOSYS;
}

void ep_port_spool_close(void) {}

int64_t ep_port_spool_size(unsigned file)
{
    (void)file;
    return 0;
}

int64_t ep_port_spool_read(unsigned file, uint64_t at, void *bytes, size_t size)
{
    (void)file;
    (void)at;
    (void)bytes;
    (void)size;
    return 0;
}

int ep_port_spool_write(unsigned file, uint64_t at, const void *bytes, size_t size)
{
    (void)file;
    (void)at;
    (void)bytes;
    (void)size;
    return -ENOSYS;
}

int ep_port_spool_sync(unsigned file)
{
    (void)file;
    return -ENOSYS;
}

int ep_port_spool_cut(unsigned file, uint64_t size)
{
    (void)file;
    (void)size;
    return -ENOSYS;
}

/* ==== level 6: sockets, for programs that have an endpoint (core/features/control/, core/features/pull/) ==== */

int ep_port_listen(enum ep_role role, const struct ep_address *where, unsigned clients)
{
    /* !FIXME: for the control and the pull endpoint. Without it, ep_control_start() and ep_pull_start() return this
     * error. */
    (void)role;
    (void)where;
    (void)clients;
    return -ENOTSUP;
}

void ep_port_listen_end(enum ep_role role)
{
    (void)role;
}

int ep_port_accept(enum ep_role role)
{
    (void)role;
    return -ENOTSUP;
}

int64_t ep_port_socket_read(int socket, void *bytes, size_t size)
{
    (void)socket;
    (void)bytes;
    (void)size;
    return -ENOTSUP;
}

int64_t ep_port_socket_write(int socket, const void *bytes, size_t size)
{
    (void)socket;
    (void)bytes;
    (void)size;
    return -ENOTSUP;
}

int ep_port_socket_finish(int socket)
{
    (void)socket;
    return -ENOTSUP;
}

void ep_port_socket_close(int socket)
{
    (void)socket;
}

bool ep_port_sockets_wait(enum ep_role role, struct ep_socket_wait *sockets, unsigned count, bool accept,
                          uint64_t timeout_ns)
{
    (void)role;
    (void)sockets;
    (void)count;
    (void)accept;
    (void)timeout_ns;
    return false;
}

void ep_port_sockets_wake(enum ep_role role)
{
    (void)role;
}

/* ==== level 7: crash records, for programs that have them (core/features/crash/) ==== */

int ep_port_crash_open(const char *dir, size_t size)
{
    /* !FIXME: for crash records: a file or a region of flash, and the handler of fatal faults; see port.h. Without it,
     * ep_crash_start() returns this error. */
    (void)dir;
    (void)size;
    return -ENOSYS;
}

void ep_port_crash_close(void) {}

int64_t ep_port_crash_read(uint64_t at, void *bytes, size_t size)
{
    (void)at;
    (void)bytes;
    (void)size;
    return -ENOSYS;
}

int ep_port_crash_write(uint64_t at, const void *bytes, size_t size)
{
    (void)at;
    (void)bytes;
    (void)size;
    return -ENOSYS;
}

int ep_port_crash_sync(void)
{
    return -ENOSYS;
}

int ep_port_crash_watch(uint32_t limit_ms)
{
    (void)limit_ms;
    return -ENOSYS;
}

void ep_port_crash_unwatch(void) {}

int ep_port_crash_in_front(void)
{
    return -ENOSYS;
}

void ep_port_crash_threads(void (*fn)(uint32_t tid))
{
    (void)fn;
}

const char *ep_port_crash_text(size_t *size)
{
    *size = 0;
    return NULL;
}

/* ==== level 8: OpenTelemetry contexts, for programs that have them (core/features/otel/) ==== */

int ep_port_context_open(size_t size, void **memory)
{
    /* !FIXME: where programs can read each other's memory: see port.h. Without it, ep_otel_publish() returns this
     * error. */
    (void)size;
    *memory = NULL;
    return -ENOSYS;
}

bool ep_port_context_mine(void **memory)
{
    *memory = NULL;
    return false;
}

int ep_port_context_changed(void)
{
    return -ENOSYS;
}

void ep_port_context_close(void) {}

int ep_port_context_symbol(const char *name)
{
    (void)name;
    return -ENOENT;
}

int ep_port_thread_context_find(const char *name, bool skip_own)
{
    (void)name;
    (void)skip_own;
    return -ENOSYS;
}

/* ==== level 9: the memory outlives the process ==== */

int ep_port_outlive_open(const char *folder)
{
    (void)folder;
    return -ENOSYS;
}

bool ep_port_outlived_next(struct ep_outlived_file *file)
{
    (void)file;
    return false;
}

void ep_port_outlived_done(const struct ep_outlived_file *file, bool remove)
{
    (void)file;
    (void)remove;
}

int ep_port_outlive_begin(struct ep_config *config, const struct ep_own_text *own_text, bool at_once)
{
    (void)config;
    (void)own_text;
    (void)at_once;
    return -ENOSYS;
}
