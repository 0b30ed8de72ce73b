/*
 * This header is the porting contract: it declares the functions that edgeprof's core needs from an operating system.
 * port_calls.h declares the functions that a port may call.
 *
 * A port defines all functions below. There are no weak defaults, so a missing function is a link error.
 * port/template/ compiles and does nothing. port/sim/ is a simulated system for tests. port/linux/ is the real one.
 *
 * The functions stand in the order in which a port needs them. A port can stop after any level, and take the functions
 * of later levels from port/template/port.c. port/template/README.md lists what each level and each stub costs.
 *   1  the first flame graph, with EP_MANUAL    clocks, identity, sampling, modules
 *   2  edgeprof's own threads                   start, join, wait, wake; parked threads; forks
 *   3  all threads of a program                 how they are found, their stacks and names; waits and events
 *   4  settings, names and costs                variables, files, symbols, CPU time of edgeprof
 *   5  spool    6  endpoints    7  crash records    8  OpenTelemetry contexts
 *
 * General rules: pointers are never NULL; times are nanoseconds; int results are 0 or a negative errno value unless a
 * comment says otherwise. Each comment ends with the function's context:
 *   signal   async-signal-safe: no lock, no allocation, errno kept, bounded
 *   collect  called on the collect thread only; must not wait for another process or host
 *   deliver  called on the deliver thread only
 *   endpoint called on the thread of an endpoint only, EP_ROLE_CONTROL or EP_ROLE_PULL
 *   init     start and stop; one thread at a time; may block
 *   crash    in the handler of a fatal signal, see ep_port_crash_watch()
 */
#ifndef EP_PORT_H
#define EP_PORT_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <edgeprof/atomic.h>
#include <edgeprof/registers.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ep_work;

/* ==== level 1: the first flame graph, with EP_MANUAL ==== */

/* ---- clocks, random numbers, identity ---- */

/* Returns the monotonic time, including time in suspend where the system has such a clock. Context: signal. */
uint64_t ep_port_uptime_ns(void);

/* Returns a counter for durations, which should be cheaper to read than the clock. The counters of two processors may
 * differ by the time that a thread needs to move between them. Context: signal. */
uint64_t ep_port_ticks(void);
/* Converts a difference of two readings of that counter to ns. Context: signal. */
uint64_t ep_port_ticks_ns(uint64_t ticks);

/* Returns the wall clock in ns since 1970, or 0 if the device does not know the date. Context: collect. */
uint64_t ep_port_unix_ns(void);

/* Fills `size` bytes with random numbers, good enough for ids and phases. Ids must differ between devices and boots.
 * Context: init, collect. */
void ep_port_random(void *bytes, size_t size);

struct ep_identity {
    char host[64];
    char boot_id[40];
    char executable[64]; /* base name */
    const char *arch;
    uint32_t pid;
};

/* Fills in what the system knows; unknown strings stay empty. Context: init. */
void ep_port_identity(struct ep_identity *identity);

/* Returns `size` zeroed bytes, aligned to 64, that stay until the process ends; NULL: the system has none. A feature
 * with large tables calls it once, when it is used for the first time, so that a program that does not use it reserves
 * nothing. Without such memory the feature is off. Context: any thread. */
void *ep_port_memory(size_t size);

/* Returns the name of a system call of ep_start() for which the system would end the process; NULL: there is none.
 * Context: init. */
const char *ep_port_forbidden(void);

/* Returns the calling thread's struct ep_work, which must be zero at the thread's start and stay valid as long as the
 * thread exists. Context: signal. */
struct ep_work *ep_port_work(void);

/* Parts of edgeprof that need memory of the calling thread, and that not every program links. They do not use static
 * TLS, because a library that is loaded later gets static TLS from a small reserve. */
enum ep_thread_part { EP_PART_OTEL, EP_PART_ALLOCATIONS, EP_PART_EXCEPTIONS, EP_PART_HEAP, EP_PART_WRITES, EP_PARTS };
#define EP_PART_OTEL_BYTES        272
#define EP_PART_ALLOCATIONS_BYTES 160
#define EP_PART_EXCEPTIONS_BYTES  136
#define EP_PART_HEAP_BYTES        40
#define EP_PART_WRITES_BYTES      72

/* Returns the calling thread's memory for a part, aligned to 8 bytes, zero at the thread's start and valid as long as
 * the thread exists. NULL: the system has none. Context: signal. */
void *ep_port_thread_part(enum ep_thread_part part);

/* ---- sampling ---- */

/* Returns the bytes of the caller's memory that the port needs for a table of so many threads. Context: signal. */
size_t ep_port_memory_size(unsigned threads);

/* Installs the sampling source and arms every running thread. From here on the port calls ep_capture().
 * period_ns: mean CPU time between two samples of a thread; 0: arms none, see ep_port_sampling_period().
 * clock: the wanted one of EP_CLOCKS (enum ep_flags), or 0 for the port's choice.
 * memory: ep_port_memory_size(threads) zeroed bytes, aligned to 8.
 *
 * Returns
 *   0 or more   the number of armed threads
 *   -EBUSY      no signal is free
 *   others      the system's error
 * Context: init. */
int ep_port_sampling_start(void *memory, unsigned threads, uint32_t period_ns, uint32_t clock);

/* Stops sampling, and reports each thread's residual CPU time with ep_thread_residual(). ep_capture() may still run on
 * other threads when this returns; the core waits for them. Context: init. */
void ep_port_sampling_stop(void);

/* Changes the period of all threads. A tick that began with the old period counts with the old period.
 * period_ns 0: removes all timers. The port then reports the threads' residual CPU time as ep_port_sampling_stop()
 * does, and reports no later CPU time. While sampling is stopped, the call has no effect. Context: collect. */
void ep_port_sampling_period(uint32_t period_ns);

/* Finds threads that have started or ended, and arms new ones. Returns the number of armed threads.
 * Context: collect. */
int ep_port_threads_scan(void);

/* Returns the highest rate of CPU samples that the system can hold, the kernel's ticks a second; 0: unknown.
 * Context: any thread. */
uint32_t ep_port_tick_hz(void);

/* Returns the clock that threads get now, one of EP_CLOCKS. Sets *error, which may be NULL, to the errno value that
 * ep_stats.clock_error shows. Context: any thread. */
uint32_t ep_port_clock(uint64_t *error);

/* ---- modules ---- */

struct ep_module_info {
    uintptr_t start, end; /* executable range in memory */
    uintptr_t bias;       /* memory address - ELF address */
    uintptr_t table;      /* .eh_frame_hdr (or .ARM.exidx) in memory, 0: none */
    size_t table_size;
    uintptr_t image_start, image_end; /* mapped image: limits reads of the table */
    const uint8_t *build_id;
    uint32_t build_id_size;
    const char *path;
    int data;         /* 1: not code, but a range with type descriptors, see ep_hook_event.type */
    int execute_only; /* 1: the code cannot be read */
};

/* Returns a number that changes when modules may have been loaded or unloaded. Context: collect. */
uint64_t ep_port_modules_generation(void);

/* Calls ep_module_seen() for every executable range, and for the program's writable range, which has the type
 * descriptors. Before each call it makes sure that the module stays mapped. With pin 0 it makes sure of nothing, and
 * leaves out modules that may be unmapped.
 *
 * Returns
 *   0        all modules were seen; their number is no result, and makes ep_start() return -EINVAL
 *   -EAGAIN  some modules could not be kept loaded yet: call it again
 *   others   the system's error, negative
 * Context: init, collect. */
int ep_port_modules_scan(int pin);

/* Returns the address that the .NET runtime makes hijacked frames return to; 0 without such a runtime. Context: init.
 */
uintptr_t ep_port_hijack_stub(void);

/* ==== level 2: edgeprof's own threads ==== */

enum ep_role {
    EP_ROLE_COLLECT,
    EP_ROLE_DELIVER,
    EP_ROLE_CONTROL, /* in programs that call ep_control_start() */
    EP_ROLE_PULL,    /* in programs that call ep_pull_start() */
    EP_ROLE_START,   /* for a port: it starts the profiler in a forked child; the core never uses this role */
    EP_ROLES
};

/* Runs fn() on a new thread of the given role, which blocks all signals. The deliver thread should have a low priority.
 * Context: init. */
int ep_port_thread_start(enum ep_role role, void (*fn)(void));

/* Waits until the thread's fn has returned. Returns 0, also at once for a parked thread; -ETIMEDOUT: fn still ran at
 * `until_ns` (uptime), so call it again later. Context: init. */
int ep_port_thread_join(enum ep_role role, uint64_t until_ns);

/* A counter that threads can wait for. */
struct ep_event {
    EP_ATOMIC(unsigned) value;
};

/* Waits until event->value differs from `seen` or timeout_ns have passed; may return early.
 * Context: collect, deliver, init. */
void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns);

/* Adds one to event->value and wakes all waiting threads. Context: signal. */
void ep_port_wake(struct ep_event *event);

/* Makes a parked thread of the given role. It does not run, and the kernel does not know it, until
 * ep_port_thread_resume(). Returns 0; -ENOTSUP: this system has no parked threads, so the core starts the thread at
 * once; else the system's error. Context: init. */
int ep_port_thread_park(enum ep_role role, void (*fn)(void));

/* Starts a parked thread. Returns 0, also if it runs already; after an error it is still parked. Context: signal. */
int ep_port_thread_resume(enum ep_role role);

/* Makes each forked child call child() before fork() returns there. Returns 0, also where processes cannot be forked,
 * or a negative errno value. child() may only do what POSIX permits in a child. Context: init. */
int ep_port_forks(void (*child)(void));

/* ==== level 3: all threads of a program ==== */

/* Returns 1 if new threads arm themselves, so that rare scans are enough, else 0. Context: collect. */
int ep_port_threads_announced(void);

/* Finds the stacks of threads whose sample had registers without bounds (stack_end 0). Cheap if there is none.
 * Context: collect. */
void ep_port_stacks_find(void);

/* Returns true if the word at this address can be read. It asks the system, so no access faults. A system that cannot
 * answer returns false; then stacks that are not a thread's own are cut. Context: signal. */
bool ep_port_readable(uintptr_t at);

/* Calls fn for every thread of the process except edgeprof's own. Returns 0 or a negative errno value.
 * Context: collect. */
int ep_port_threads_each(void (*fn)(uint32_t tid));

/* An unknown register: not a valid address, and not the end of a frame pointer chain. */
#define EP_PORT_UNKNOWN 1u

/* Reads pc and sp of a thread that is blocked in the kernel. Unknown registers become EP_PORT_UNKNOWN, and the bounds
 * 0. *ran_ns: the thread's CPU time. While it and the registers stay the same, the thread has not run and its stack is
 * unchanged.
 *
 * Returns
 *   0         *registers and *ran_ns are filled in
 *   -EAGAIN   the thread runs
 *   -ESRCH    the thread has ended
 *   others    the system's error
 * Context: collect. */
int ep_port_thread_blocked(uint32_t tid, struct ep_registers *registers, uint64_t *ran_ns);

/* Returns the class (enum ep_wait) of the system call in which a thread is blocked; EP_WAIT_OTHER: unknown.
 * Context: collect. */
unsigned ep_port_thread_wait(uint32_t tid);

/* Copies memory of another thread. Returns the bytes copied, 0 if the thread has ended. Never faults.
 * Context: collect. */
size_t ep_port_copy(uint32_t tid, uintptr_t from, void *to, size_t size);

/* Writes the name of a thread of this process, "" if it has ended. Context: any thread. */
void ep_port_thread_name(uint32_t tid, char *name, size_t size);

/* Fills in the calling thread's registers as they are when this function returns to its caller, and the stack bounds.
 * Returns the thread's id. Context: signal. */
uint32_t ep_port_here(struct ep_registers *registers);

/* Fills in only the stack bounds. Returns the thread's id. Context: signal. */
uint32_t ep_port_bounds(struct ep_registers *registers);

/* ==== level 4: settings, names and costs ==== */

/* Returns the value of an environment variable or NULL. A program with more rights than its caller (setuid) always gets
 * NULL, because the caller must not choose files or addresses for it. Context: init. */
const char *ep_port_env(const char *name);

/* Returns the value of an environment variable; NULL if it is empty or not set. Context: init. */
static inline const char *ep_env_text(const char *name)
{
    const char *value = ep_port_env(name);

    return value && *value ? value : 0;
}

/* Reads a whole small file. Returns its size; -EFBIG: it has more than `size` bytes; else the system's error.
 * Context: init, deliver. */
int ep_port_file_read(const char *path, char *bytes, size_t size);

/* Finds a function's name in the dynamic symbols and cuts it to `size` bytes including the NUL. Returns the function's
 * address, 0: no symbol. Only programs that send names use it. Context: deliver. */
uintptr_t ep_port_symbol(uintptr_t pc, char *name, size_t size);

/* A function of code that is in no file, such as Linux's vdso. The name stays valid. */
struct ep_port_function {
    uintptr_t start;
    size_t size;
    const char *name;
};

/* Finds the first such function that starts in [from, end). False: there is none; always, where a system has no such
 * code. Context: collect, deliver. */
bool ep_port_function_next(uintptr_t from, uintptr_t end, struct ep_port_function *function);

/* Returns the CPU time of the calling thread. With 0, the statistics show no cost of edgeprof. Context: signal. */
uint64_t ep_port_thread_cpu_ns(void);

/* Returns the CPU time of the whole process, including threads that have ended. With 0, ep_config.budget_ppm has no
 * effect. Context: collect, init. */
uint64_t ep_port_process_cpu_ns(void);

/* Returns the CPU time that a tick costs its thread in addition to ep_capture(), measured at start. Context: collect.
 */
uint64_t ep_port_tick_cost_ns(void);

/* Returns the page faults of the calling thread that had to wait for a disk; 0: unknown. The number may wrap.
 * Context: signal. */
uint32_t ep_port_thread_faults(void);

/* Returns the bytes of the process that are in RAM; 0: unknown. Incidents use it. Context: collect. */
uint64_t ep_port_resident(void);

/* Notes that the calling thread is on its processor now, for ep_port_stayed(). Context: signal. */
void ep_port_stay_begin(void);
/* Returns true if the calling thread has not left its processor since its last ep_port_stay_begin(), so it has not
 * slept. False: it may have slept, or the port does not know. It must be cheaper than ep_port_ticks().
 * Context: signal. */
bool ep_port_stayed(void);

/* ==== level 5: storage, for programs that have a spool (core/features/spool/) ==== */

/* The spool keeps files in one directory and names them by number. One process at a time may open the directory. All
 * calls may wait for the disk. A completed sync makes the data safe from a power cut. Before that, any subset of the
 * written sectors may be on disk. Writes start at multiples of 4096 and are multiples of 4096 bytes long.
 *
 *   open   creates the directory if its parent exists. A forked child does not keep it open. Returns 0; -EBUSY: another
 *          process has it open; -EPERM: another user may replace it or what is in it; else the system's error
 *   size   returns a file's size; 0: no such file; or the error
 *   read   returns the bytes read, fewer at the end; or the error
 *   write  returns 0, or the error if not everything was written
 *   sync   returns 0: the file's bytes, its size and its existence are safe
 *   cut    shortens the file; to 0: deletes it permanently
 *
 * Errors are negative errno values. Context: deliver, all of them. */
int ep_port_spool_open(const char *dir);
void ep_port_spool_close(void);
int64_t ep_port_spool_size(unsigned file);
int64_t ep_port_spool_read(unsigned file, uint64_t at, void *bytes, size_t size);
int ep_port_spool_write(unsigned file, uint64_t at, const void *bytes, size_t size);
int ep_port_spool_sync(unsigned file);
int ep_port_spool_cut(unsigned file, uint64_t size);

/* ==== level 6: sockets, for programs that have an endpoint (core/features/control/, core/features/pull/) ==== */

/* The address at which an endpoint listens. */
struct ep_address {
    const char *path; /* of a Unix socket; NULL: listen at ip and port */
    uint8_t ip[16];   /* IPv4 address (4 bytes) or IPv6 address, in network order */
    unsigned ip_size; /* 4 or 16 */
    uint16_t port;
};

/* Most clients that an endpoint serves at a time. */
#define EP_PORT_CLIENTS 8u

/* Listens for the endpoint of this role, which serves at most `clients` clients at a time. Only this user may access
 * the file of a Unix socket; it replaces the file of an ended process. After an error nothing is left open.
 *
 * Returns
 *   0            the endpoint listens
 *   -ENOTSUP     this system has no sockets
 *   -EINVAL      the path is too long
 *   -EADDRINUSE  another program listens there
 *   -EPERM       another user may replace files in the path's folder, or a folder before it
 *   others       the system's error
 * Context: init. */
int ep_port_listen(enum ep_role role, const struct ep_address *where, unsigned clients);

/* Ends ep_port_listen(); no effect if the endpoint does not listen. Removes a Unix socket's file if it is still the one
 * that ep_port_listen() made; a forked child only closes what it inherited. Context: init, and ep_port_forks(). */
void ep_port_listen_end(enum ep_role role);

/* Accepts a client. Returns the client's socket, 0 or greater, or a negative errno value. No call with this socket
 * waits. Context: endpoint. */
int ep_port_accept(enum ep_role role);

/* Reads the bytes that have arrived. Returns their number; 0: the client sends no more; -EAGAIN: none has arrived yet;
 * else the system's error. Context: endpoint. */
int64_t ep_port_socket_read(int socket, void *bytes, size_t size);

/* Sends as many bytes as there is room for; a new socket has room for at least 16 KiB. Returns the number of bytes;
 * -EAGAIN: no room; else the system's error. Context: endpoint. */
int64_t ep_port_socket_write(int socket, const void *bytes, size_t size);

/* Tells the client that no more bytes follow; reading stays possible. Returns 0 or the system's error.
 * Context: endpoint. */
int ep_port_socket_finish(int socket);

/* Closes the socket. Context: endpoint, and ep_port_forks(). */
void ep_port_socket_close(int socket);

enum ep_socket_want {
    EP_SOCKET_BYTES, /* bytes to read, or the end of what the client sends */
    EP_SOCKET_ROOM,  /* room for bytes */
    EP_SOCKET_END    /* the client has disconnected */
};
struct ep_socket_wait {
    int socket;
    enum ep_socket_want want;
    bool ready; /* set by the port, also if the socket has failed */
};

/* Waits for the first of these events, and may return early:
 *   - one of `count` sockets (at most EP_PORT_CLIENTS) is ready for what it wants
 *   - a client can be accepted, if `accept` is set
 *   - ep_port_sockets_wake() was called
 *   - timeout_ns have passed
 * If the system refuses to wait, it sleeps a while, so that its caller does not become a busy loop. Returns true if a
 * client can be accepted. Context: endpoint. */
bool ep_port_sockets_wait(enum ep_role role, struct ep_socket_wait *sockets, unsigned count, bool accept,
                          uint64_t timeout_ns);

/* Ends the current wait of this role and each later one, until ep_port_listen_end(). Context: any thread. */
void ep_port_sockets_wake(enum ep_role role);

/* ==== level 7: crash records, for programs that have them (core/features/crash/) ==== */

/* A fatal signal. The context `crash` is its handler: functions must be async-signal-safe, but they may use more of the
 * stack than a sample, and wait for the disk. The port ends the handler after a time limit. */
#define EP_CRASH_REGISTERS 36
struct ep_crash_event {
    int32_t signal, code, error; /* of siginfo_t */
    uint32_t tid, sender;        /* sender: the process that sent the signal, 0: none did */
    uint64_t address, time_ns;   /* of the fault; uptime */
    uint64_t lr;                 /* 0 where the architecture has none */
    struct ep_registers registers;
    unsigned values; /* their number: all registers, in an order of the port's */
    uint64_t value[EP_CRASH_REGISTERS];
};

/* One file in a directory, used by one process, of `size` bytes that are allocated already.
 *
 * open returns
 *   0       it is open; a forked child has it closed
 *   -EBUSY  another process has it
 *   -EPERM  as ep_port_spool_open()
 *   others  the system's error
 *
 * read returns the number of bytes read, or the error. write returns 0 or the error, and never raises a signal. sync
 * makes safe from a power cut what was written.
 *
 * Context: init, for open and close; init, deliver, crash for the others. */
int ep_port_crash_open(const char *dir, size_t size);
void ep_port_crash_close(void);
int64_t ep_port_crash_read(uint64_t at, void *bytes, size_t size);
int ep_port_crash_write(uint64_t at, const void *bytes, size_t size);
int ep_port_crash_sync(void);

/* Makes each fatal signal call ep_crash_begin() and, if that returns true, ep_crash_step() with 0, 1 ... below
 * EP_CRASH_STEPS, and ep_crash_end(). After a fault in a step the port calls the next one; after a second fault, or
 * after limit_ms, it calls no more. Then the signal has the effect that it would have had without edgeprof. Returns 0
 * or a negative errno value. Context: init. */
int ep_port_crash_watch(uint32_t limit_ms);
void ep_port_crash_unwatch(void);

/* Puts edgeprof's handler in front of handlers that were installed later. Those get the signal after the record. A
 * default action that was set, or a signal that is ignored, stays. Returns the number of such handlers; -ENOSPC: it was
 * called too often. Context: init. */
int ep_port_crash_in_front(void);

/* Calls fn for each thread but the calling one and edgeprof's. Context: crash. */
void ep_port_crash_threads(void (*fn)(uint32_t tid));

/* Returns what the language runtime has noted about the end of the process, as text; NULL: nothing. Context: crash. */
const char *ep_port_crash_text(size_t *size);

enum ep_crash_step_number {
    EP_CRASH_FAULT,   /* signal and registers */
    EP_CRASH_STACK,   /* of the crashing thread */
    EP_CRASH_MODULES, /* of that stack */
    EP_CRASH_TEXT,    /* of the runtime */
    EP_CRASH_WRITE,   /* to the disk */
    EP_CRASH_OTHERS,  /* stacks of the other threads, and their modules */
    EP_CRASH_WRITE_OTHERS,
    EP_CRASH_STEPS
};

/* ==== level 8: OpenTelemetry contexts, for programs that have them (core/features/otel/) ==== */

/* These manage the memory of the process context. It is zeroed at first and has the name that readers look for. A
 * forked child does not have it.
 *
 *   open     returns 0: it is new; 1: this process has it; -EEXIST: another library of this process has published one;
 *            else the system's error
 *   mine     returns true if this process has it
 *   changed  publishes its content; returns an error if readers cannot find it
 *
 * Context: init; for mine and changed also any thread, one at a time. */
int ep_port_context_open(size_t size, void **memory);
bool ep_port_context_mine(void **memory);
int ep_port_context_changed(void);
void ep_port_context_close(void);

/* Checks that readers find this thread-local variable, in the module with this function. Returns 0; -EEXIST: another
 * module has one of that name, too; -ENOENT: they do not find it. Context: init. */
int ep_port_context_symbol(const char *name);

/* Looks for a thread-local pointer of that name in all modules; with skip_own, in all but this function's own module.
 * After that, ep_work_shown() returns the span of the record to which the calling thread's pointer leads. If no module
 * has the pointer yet, each ep_port_modules_scan() with pin looks again. Returns 1: found; 0: not yet; else an error.
 * Context: init. */
int ep_port_thread_context_find(const char *name, bool skip_own);

/* Returns the work that samples and events of the calling thread show instead of ep_port_work(), up to the member
 * `waiting`. A port defines it in the file of ep_port_thread_context_find(), so it is NULL in programs that do not link
 * that file. Context: signal. */
__attribute__((weak)) struct ep_work *ep_work_shown(void);

#ifdef __cplusplus
}
#endif

#endif
