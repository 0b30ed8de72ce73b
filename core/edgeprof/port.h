/*
 * The porting contract: what edgeprof's core needs from an operating system. port_calls.h has what a port calls.
 *
 * A port is the set of functions below, linked in. There are no weak defaults: a missing function is a link error.
 * port/template/ compiles and does nothing, port/sim/ is scripted by tests, port/linux/ is the real one.
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

#include <stdatomic.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <edgeprof/registers.h>

/* ---- clocks, random numbers, identity ---- */

/* Monotonic time, including time in suspend where the system has such a clock. Context: signal. */
uint64_t ep_port_uptime_ns(void);

/* A counter for durations, cheaper to read than that clock where possible; and a difference of two readings in ns. Two
 * processors' readings may differ by what a thread needs to move. Context: signal. */
uint64_t ep_port_ticks(void);
uint64_t ep_port_ticks_ns(uint64_t ticks);

/* ep_port_stayed(): true if the calling thread has not left its processor since its last ep_port_stay_begin(), so it
 * has not slept. False: it may have, or the port cannot tell. Cheaper than ep_port_ticks(). Context: signal. */
void ep_port_stay_begin(void);
bool ep_port_stayed(void);

/* Wall clock, ns since 1970; 0 if the device does not know the date. Context: collect. */
uint64_t ep_port_unix_ns(void);

/* CPU time of the calling thread. Context: signal. */
uint64_t ep_port_thread_cpu_ns(void);

/* Page faults of the calling thread that had to wait for a disk; 0: unknown. It may wrap. Context: signal. */
uint32_t ep_port_thread_faults(void);

/* CPU time of the process: of all its threads, including ended ones. Context: collect, init. */
uint64_t ep_port_process_cpu_ns(void);

/* Memory of the process that is in RAM, in bytes; 0: unknown. Context: collect. */
uint64_t ep_port_resident(void);

/* Fills `size` bytes with random numbers, good enough for ids and phases. Context: init, collect. */
void ep_port_random(void *bytes, size_t size);

struct ep_identity {
    char host[64];
    char boot_id[40];
    char executable[64]; /* base name */
    const char *arch;
    uint32_t pid;
};

/* Fills in what is known; unknown strings stay empty. Context: init. */
void ep_port_identity(struct ep_identity *identity);

/* Reads a whole small file. Returns its size; -EFBIG: more than `size` bytes; else the system's error.
 * Context: init, deliver. */
int ep_port_file_read(const char *path, char *bytes, size_t size);

/* Value of an environment variable or NULL; also NULL in a program with more rights than its caller (setuid), who must
 * not choose files or addresses for it. Context: init. */
const char *ep_port_env(const char *name);

/* The same, but an empty variable counts as not set. Context: init. */
static inline const char *ep_env_text(const char *name)
{
    const char *value = ep_port_env(name);

    return value && *value ? value : 0;
}

/* ---- edgeprof's own threads ---- */

enum ep_role {
    EP_ROLE_COLLECT,
    EP_ROLE_DELIVER,
    EP_ROLE_CONTROL, /* in programs that call ep_control_start() */
    EP_ROLE_PULL,    /* in programs that call ep_pull_start() */
    EP_ROLE_START,   /* for a port: it starts the profiler in a forked child; the core never uses this role */
    EP_ROLES
};

/* Runs fn() on a new thread of the given role with all signals blocked. Context: init. */
int ep_port_thread_start(enum ep_role role, void (*fn)(void));

/* The same, but the thread is parked: it does not run, and the kernel does not know it, until
 * ep_port_thread_resume(). -ENOTSUP: not possible on this system. Context: init. */
int ep_port_thread_park(enum ep_role role, void (*fn)(void));

/* Starts a parked thread; returns 0 also if it runs already. After an error it is still parked. Context: signal. */
int ep_port_thread_resume(enum ep_role role);

/* Waits until the thread's fn has returned; returns at once for a parked thread. Context: init. */
int ep_port_thread_join(enum ep_role role);

/* From here on a forked child calls child(), before fork() returns there. 0 or a negative errno value; 0 also where
 * processes cannot be forked. Context: init; child() calls only async-signal-safe functions. */
int ep_port_forks(void (*child)(void));

/* A counter that threads can wait for. */
struct ep_event {
    atomic_uint value;
};

/* Waits until event->value differs from `seen` or timeout_ns have passed; may return early.
 * Context: collect, deliver, init. */
void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns);

/* Adds one to event->value and wakes all waiting threads. Context: signal. */
void ep_port_wake(struct ep_event *event);

/* ---- sampling ---- */

/* Bytes of the caller's memory that the port needs for its thread table; at most EP_PORT_BYTES. Context: init. */
size_t ep_port_memory_size(void);

/* Installs the sampling source and arms every running thread (period_ns 0: none, see ep_port_sampling_period()).
 * From here on the port calls ep_capture(). clock: the wanted one of EP_CLOCKS (enum ep_flags), or 0.
 * Returns the number of armed threads; -EBUSY: no signal is free; else a negative errno value. Context: init. */
int ep_port_sampling_start(void *memory, uint32_t period_ns, uint32_t clock);

/* Stops sampling, and reports each thread's residual CPU time by ep_thread_rest(). ep_capture() may still run on
 * other threads when this returns; the core waits for them. Context: init. */
void ep_port_sampling_stop(void);

/* Finds threads that have started or ended. Returns the number of armed threads. Context: collect. */
int ep_port_threads_scan(void);

/* Looks up the stacks of threads whose ep_registers of a sample had no bounds (stack_end 0). Cheap if there is none.
 * Context: collect. */
void ep_port_stacks_find(void);

/* Returns 1 if new threads arm themselves, so that rare scans are enough, else 0. Context: collect. */
int ep_port_threads_announced(void);

/* Changes the period, also of armed threads. No tick of the old period is charged with the new one. 0: removes all
 * timers; the threads' residual CPU time is reported as in ep_port_sampling_stop(), and later CPU time is not
 * reported. No effect while sampling is stopped. Context: collect. */
void ep_port_sampling_period(uint32_t period_ns);

/* How often a second the kernel can tick at most, the highest rate of CPU samples; 0: unknown. Context: any thread. */
uint32_t ep_port_tick_hz(void);

/* The clock that threads get now, one of EP_CLOCKS. *error: an errno value, see ep_stats.clock_error; may be NULL.
 * Context: any thread. */
uint32_t ep_port_clock(uint64_t *error);

/* CPU time that a tick costs its thread in addition to ep_capture(), measured at start. Context: collect. */
uint64_t ep_port_tick_cost_ns(void);

struct ep_registers;
struct ep_work;

/* Calls fn for every thread of the process except edgeprof's own. 0 or a negative errno value. Context: collect. */
int ep_port_threads_each(void (*fn)(uint32_t tid));

/* Reads pc and sp of a thread that is blocked in the kernel. Other registers are EP_PORT_UNKNOWN if they are not
 * known, and the bounds 0. *ran_ns: its CPU time. While that and the registers stay the same, the thread has not run
 * and its stack is unchanged. Returns 0; -EAGAIN: it runs; -ESRCH: it has ended; else the system's error.
 * Context: collect. */
int ep_port_thread_blocked(uint32_t tid, struct ep_registers *context, uint64_t *ran_ns);

/* An unknown register: not a valid address, and not the end of a frame pointer chain. */
#define EP_PORT_UNKNOWN 1u

/* The name of a thread of this process, "" if it has ended. Context: any thread. */
void ep_port_thread_name(uint32_t tid, char *name, size_t size);

/* The calling thread's registers as they are when this returns to its caller, and its stack bounds. Returns the
 * thread's id. Context: signal. */
uint32_t ep_port_here(struct ep_registers *context);

/* Fills in only the stack bounds. Returns the thread's id. Context: signal. */
uint32_t ep_port_bounds(struct ep_registers *context);

/* Copies another thread's memory. Returns the bytes copied, 0 if the thread has ended. Never faults.
 * Context: collect. */
size_t ep_port_copy(uint32_t tid, uintptr_t from, void *to, size_t size);

/* The calling thread's struct ep_work; valid as long as the thread exists. Context: signal. */
struct ep_work *ep_port_work(void);
/* What samples and events of the calling thread show instead of ep_port_work(), up to `waiting`. Defined beside
 * ep_port_thread_context_find(), so NULL in programs without it. Context: signal. */
__attribute__((weak)) struct ep_work *ep_work_shown(void);

/* The address that the .NET runtime makes hijacked frames return to; 0 without such a runtime. Context: init. */
uintptr_t ep_port_hijack_stub(void);

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

/* A number that changes when modules may have been loaded or unloaded. Context: collect. */
uint64_t ep_port_modules_generation(void);

/* Calls ep_module_seen() for every executable range, after making sure that its module is never unmapped; and for
 * the program's writable range, which has the type descriptors. pin 0: leaves out modules that may be unmapped.
 * Context: init, collect. */
int ep_port_modules_scan(int pin);

/* The function's name in the dynamic symbols, cut to `size` bytes including the NUL. Returns the function's address,
 * 0: no symbol. Used only in programs that send names. Context: deliver. */
uintptr_t ep_port_symbol(uintptr_t pc, char *name, size_t size);

/* ---- storage, for programs that have a spool ---- */

/* Files of one directory, by number; one process at a time may open it. All calls may wait for the disk. A completed
 * sync makes the data safe from a power cut. Before that, any subset of the written sectors may be on disk. Writes
 * start at multiples of 4096 and are multiples of 4096 bytes long.
 *
 * open: 0; -EBUSY: another process has it open; -EPERM: another user owns it, or everybody may write to it; else the
 * system's error. Creates the directory if its parent exists. A forked child does not keep it open.
 * size: of a file; 0: no such file; or the error.
 * read: the bytes read, fewer at the end; or the error.
 * write: 0, or the error if not everything was written.
 * sync: 0: the file's bytes, its size and its existence are safe.
 * cut: shortens the file; to 0: deletes it, permanently.
 * Errors are negative errno values.
 *
 * Context: deliver, all of them. */
int ep_port_store_open(const char *dir);
void ep_port_store_close(void);
int64_t ep_port_store_size(unsigned file);
int64_t ep_port_store_read(unsigned file, uint64_t at, void *bytes, size_t size);
int ep_port_store_write(unsigned file, uint64_t at, const void *bytes, size_t size);
int ep_port_store_sync(unsigned file);
int ep_port_store_cut(unsigned file, uint64_t size);

/* ---- sockets, for programs that have an endpoint (core/features/endpoint/) ---- */

/* Where an endpoint listens. */
struct ep_address {
    const char *path; /* of a Unix socket; NULL: listen at ip and port */
    uint8_t ip[16];   /* IPv4 address (4 bytes) or IPv6 address, in network order */
    unsigned ip_size; /* 4 or 16 */
    uint16_t port;
};

/* Most clients that an endpoint serves at a time. */
#define EP_PORT_CLIENTS 8u

/* Listens for the endpoint of this role, which serves at most `clients` clients at a time. A Unix socket's file must be
 * accessible for this user only, and replaces the file of an ended process. Returns 0; -ENOTSUP: this system has no
 * sockets; -EINVAL: the path is too long; -EADDRINUSE; -EPERM: everybody may rename files in the path's folder; else
 * the system's error. After an error nothing is left open. Context: init. */
int ep_port_listen(enum ep_role role, const struct ep_address *where, unsigned clients);

/* Ends ep_port_listen(); no effect if the endpoint does not listen. Removes a Unix socket's file if it is still the one
 * that ep_port_listen() made; a forked child only closes what it inherited. Context: init, and ep_port_forks(). */
void ep_port_listen_end(enum ep_role role);

/* Accepts a client. Returns its socket, 0 or greater, or a negative errno value. No call on a client's socket waits.
 * Context: endpoint. */
int ep_port_accept(enum ep_role role);

/* Reads what has come. Returns the number of bytes; 0: the client sends no more; -EAGAIN: nothing has come yet; else
 * the system's error. Context: endpoint. */
int64_t ep_port_socket_read(int socket, void *bytes, size_t size);

/* Sends as many bytes as there is room for; a new socket has room for at least 16 KiB. Returns the number of bytes;
 * -EAGAIN: no room; else the system's error. Context: endpoint. */
int64_t ep_port_socket_write(int socket, const void *bytes, size_t size);

/* Tells the client that no more bytes follow; reading stays possible. 0 or the system's error. Context: endpoint. */
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

/* Waits until one of `count` sockets (at most EP_PORT_CLIENTS) has what is wanted, until a client can be accepted if
 * `accept` is set, until ep_port_sockets_wake(), or until timeout_ns have passed. It may return early. Where the system
 * refuses to wait, it sleeps a while, so that its caller does not become a busy loop. Returns true if a client can be
 * accepted. Context: endpoint. */
bool ep_port_sockets_wait(enum ep_role role, struct ep_socket_wait *sockets, unsigned count, bool accept,
                          uint64_t timeout_ns);

/* Ends the current wait of this role and each later one, until ep_port_listen_end(). Context: any thread. */
void ep_port_sockets_wake(enum ep_role role);

/* ---- crash records, for programs that have them (core/features/crash/) ---- */

/* A fatal signal. Context `crash` is its handler: async-signal-safe, but it may use more of the stack than a sample,
 * and wait for the disk. A time limit of the port's own ends it. */
#define EP_CRASH_REGISTERS 36
struct ep_crash_event {
    int32_t signal, code, error; /* of siginfo_t */
    uint32_t tid, sender;        /* sender: the process that sent the signal, 0: none did */
    uint64_t address, time_ns;   /* of the fault; uptime */
    uint64_t lr;                 /* 0 where the architecture has none */
    struct ep_registers context;
    unsigned registers; /* their number */
    uint64_t value[EP_CRASH_REGISTERS];
};

/* One file in a directory, used by one process, of `size` bytes that are allocated already. open: -EBUSY: another
 * process has it; -EPERM as of ep_port_store_open(); else the system's error. A forked child has it closed. read: the
 * bytes read or the error. write: 0 or the error, never a signal. sync: what was written is safe from a power cut.
 * Context: init, for open and close; init, deliver, crash for the others. */
int ep_port_crash_open(const char *dir, size_t size);
void ep_port_crash_close(void);
int64_t ep_port_crash_read(uint64_t at, void *bytes, size_t size);
int ep_port_crash_write(uint64_t at, const void *bytes, size_t size);
int ep_port_crash_sync(void);

/* From here on a fatal signal calls ep_crash_begin() and, if that returns true, ep_crash_step() with 0, 1 ... below
 * EP_CRASH_STEPS, and ep_crash_end(). After a fault in a step the next one is called; after a second one, or limit_ms,
 * no more. Then the signal has the effect that it would have had before. 0 or a negative errno value. Context: init. */
int ep_port_crash_watch(uint32_t limit_ms);
void ep_port_crash_unwatch(void);

/* Handlers that were installed since come behind again, and get the signal after the record; a default action that was
 * set or a signal that is ignored stays. Returns how many there were; -ENOSPC: too many before. Context: init. */
int ep_port_crash_in_front(void);

/* Calls fn for each thread but the calling one and edgeprof's. Context: crash. */
void ep_port_crash_threads(void (*fn)(uint32_t tid));

/* What the language runtime has noted about the end of the process, as text. NULL: nothing. Context: crash. */
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

/* ---- OpenTelemetry's contexts, for programs that have them (core/features/otel/) ---- */

/* The memory of the process context, zeroed, under the name that readers look for; a forked child does not have it.
 * open: 0: it is new; 1: this process has it; -EEXIST: another library of this process has published one; else the
 * system's error. mine: true if this process has it. changed: its content was published; an error: readers cannot find
 * it. Context: init; any thread for mine and changed, one at a time. */
int ep_port_context_open(size_t size, void **memory);
bool ep_port_context_mine(void **memory);
int ep_port_context_changed(void);
void ep_port_context_close(void);

/* 0: readers find this thread-local variable, in the module with this function. -EEXIST: another module has one of that
 * name, too; -ENOENT: they do not find it. Context: init. */
int ep_port_context_symbol(const char *name);

/* Looks for a thread-local pointer of that name in the modules, but with skip_own not in this function's. From then on
 * ep_work_shown() has the span of the record that the calling thread's pointer leads to. If there is none yet, each
 * ep_port_modules_scan() with pin looks again. 1: found; 0: not yet; else an error. Context: init. */
int ep_port_thread_context_find(const char *name, bool skip_own);

#endif
