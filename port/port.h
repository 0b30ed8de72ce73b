/*
 * The porting contract: what edgeprof's core needs from an operating system, and what a port tells the core.
 *
 * A port is the set of functions below, linked in; there are no weak defaults, a forgotten one is a link error.
 * port/template/ compiles and does nothing, port/sim/ is scripted by tests, port/linux/ is the real one.
 *
 * General rules: pointers are never NULL; times are nanoseconds; int results are 0 or a negative errno value unless
 * a comment says otherwise. Each function ends with its context:
 *   signal   async-signal-safe: no lock, no allocation, errno kept, bounded
 *   collect  called on the collect thread only; must not block on files' or sockets' far ends
 *   deliver  called on the deliver thread only
 *   pull     called on the pull endpoint's thread only
 *   init     start and stop; one thread at a time; may block
 */
#ifndef EP_PORT_H
#define EP_PORT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "../core/unwind/context.h"

/* ---- clocks, random numbers, identity ---- */

/* Monotonic time that goes on in suspend where the system has such a clock. Context: signal. */
uint64_t ep_port_uptime_ns(void);

/* Wall clock, ns since 1970; 0 when the device does not know the date. Context: collect. */
uint64_t ep_port_unix_ns(void);

/* CPU time of the calling thread. Context: signal. */
uint64_t ep_port_thread_cpu_ns(void);

/* CPU time of the process, all threads that there are and were. Context: collect, init. */
uint64_t ep_port_process_cpu_ns(void);

/* Fills size bytes with random numbers good enough for ids and phases. Context: init, collect. */
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

/* Value of an environment variable or NULL. Context: init. */
const char *ep_port_env(const char *name);

/* ---- threads of our own ---- */

/* The last two exist in programs that ask for their endpoints. */
enum ep_role { EP_ROLE_COLLECT, EP_ROLE_DELIVER, EP_ROLE_CONTROL, EP_ROLE_PULL, EP_ROLES };

/* Runs fn() on a new thread of the given role with all signals blocked. Context: init. */
int ep_port_thread_start(enum ep_role role, void (*fn)(void));

/* The same, but the thread does not run, and the system does not know of it, until ep_port_thread_resume(). -ENOTSUP:
 * this system cannot do that. Context: init. */
int ep_port_thread_park(enum ep_role role, void (*fn)(void));

/* Lets a parked thread run; 0 as well when it runs already. After an error it is still parked. Context: signal. */
int ep_port_thread_resume(enum ep_role role);

/* Waits until that thread's fn has returned; a parked thread's has. Context: init. */
int ep_port_thread_join(enum ep_role role);

/* A counter that can be waited on. */
struct ep_event {
    atomic_uint value;
};

/* Waits until event->value differs from seen or timeout_ns have passed, whichever is first; may return early.
 * Context: collect, deliver, init. */
void ep_port_wait(struct ep_event *event, unsigned seen, uint64_t timeout_ns);

/* Adds one to event->value and wakes who waits. Context: signal. */
void ep_port_wake(struct ep_event *event);

/* ---- sampling ---- */

/* Bytes of caller's memory that the port wants for its thread table; at most EP_PORT_BYTES. Context: init. */
size_t ep_port_memory_size(void);

/* Installs the sampling source and arms every thread that runs (period_ns 0: none, see ep_port_sampling_period()). From
 * here on ep_capture() is called.
 * Returns the number of armed threads; -EBUSY: no signal is free for it. Context: init. */
int ep_port_sampling_start(void *memory, uint32_t period_ns);

/* Stops every source. ep_capture() may still be running on other threads when this returns; the core waits for
 * them. What threads have used since their last sample is reported by ep_thread_rest(). Context: init. */
void ep_port_sampling_stop(void);

/* Finds threads that have appeared or ended. Returns the number that have a timer. Context: collect. */
int ep_port_threads_scan(void);

/* 1 when new threads arm themselves (no frequent scan is needed), else 0. Context: collect. */
int ep_port_threads_announced(void);

/* Another period from now on, for threads that have a timer as well. Ticks that were already on their way carry the
 * period that they were made with. 0: nobody wants samples, there are no timers; what threads have used until then is
 * told as when sampling stops, what they use from then on belongs to nobody. Without effect when sampling has not
 * started or has stopped. Context: collect. */
void ep_port_sampling_period(uint32_t period_ns);

/* CPU time that a tick takes of a thread beside ep_capture(), as it was measured at start. Context: collect. */
uint64_t ep_port_tick_cost_ns(void);

struct ep_context;
struct ep_work;

/* Calls fn for every thread of the process but edgeprof's own. 0 or a negative errno value. Context: collect. */
int ep_port_threads_each(void (*fn)(uint32_t tid));

/* Of a thread that sleeps in the kernel: pc and sp; where nobody knows, other registers are EP_PORT_UNKNOWN, bounds 0.
 * *ran_ns: its CPU time; as long as that and the registers stay the same the thread has not run and its stack is what
 * it was. 0; -EAGAIN: it runs; -ESRCH: it is gone; else why the system does not say. Context: collect. */
int ep_port_thread_blocked(uint32_t tid, struct ep_context *context, uint64_t *ran_ns);

/* A register that nobody knows: an address of nothing, and no end of a chain of frames. */
#define EP_PORT_UNKNOWN 1u

/* Name of a thread of this process, "" when it is gone. Context: any thread. */
void ep_port_thread_name(uint32_t tid, char *name, size_t size);

/* The calling thread's registers as they are when this returns to its caller, and where its stack may be read. Returns
 * the thread's id. Context: signal. */
uint32_t ep_port_here(struct ep_context *context);

/* Bounds alone. Returns the thread's id. Context: signal. */
uint32_t ep_port_bounds(struct ep_context *context);

/* Copies another thread's memory; returns the bytes copied, 0 when the thread is gone. Never faults. Context: collect.
 */
size_t ep_port_copy(uint32_t tid, uintptr_t from, void *to, size_t size);

/* What the calling thread last said of itself; lives as long as the thread. Context: signal. */
struct ep_work *ep_port_work(void);

/* Where .NET's runtime makes a hijacked frame return to; 0 when there is no such runtime. Context: init. */
uintptr_t ep_port_hijack_stub(void);

/* ---- modules ---- */

struct ep_module_info {
    uintptr_t start, end; /* executable stretch in memory */
    uintptr_t bias;       /* memory address - ELF address */
    uintptr_t table;      /* .eh_frame_hdr (or .ARM.exidx) in memory, 0: none */
    size_t table_size;
    uintptr_t image_start, image_end; /* mapped image: table reads stay inside */
    const uint8_t *build_id;
    uint32_t build_id_size;
    const char *path;
    int data; /* not code: a stretch in which descriptors of types lie, see ep_hook_event.type */
};

/* A number that changes whenever modules may have been added or removed. Context: collect. */
uint64_t ep_port_modules_generation(void);

/* Calls ep_module_seen() for every executable stretch, having made sure that the module cannot be unmapped any
 * more; and for the program's writable stretch, where types' descriptors are. Context: init, collect. */
int ep_port_modules_scan(void);

/* The function's name that the system's dynamic symbols have for an address of code, cut to size bytes with its NUL.
 * Returns where it starts, 0: no symbol. Only for programs that ask for names. Context: deliver. */
uintptr_t ep_port_symbol(uintptr_t pc, char *name, size_t size);

/* ---- storage, for programs that have a spool ---- */

/* Files of one directory, by number; whoever opens it has it alone. All calls may wait for the disk, and the core never
 * makes them on another thread than the deliver thread. What was written is safe from a power cut when sync has
 * returned 0; until then any part of it may be there or not, sector by sector. Writes start at multiples of 4096 and
 * have that many bytes.
 *
 * open     0; -EBUSY: another process has it; else what the system said. The directory is made when its parent exists
 * size     of a file; 0: there is none
 * read     the bytes read, fewer at the end
 * write    0, or why not all of it was written
 * sync     0: the file's bytes, its size and that it exists are safe
 * cut      shortens it; to 0: it is removed, for good
 */
int ep_port_store_open(const char *dir);
void ep_port_store_close(void);
int64_t ep_port_store_size(unsigned file);
int64_t ep_port_store_read(unsigned file, uint64_t at, void *bytes, size_t size);
int ep_port_store_write(unsigned file, uint64_t at, const void *bytes, size_t size);
int ep_port_store_sync(unsigned file);
int ep_port_store_cut(unsigned file, uint64_t size);

/* ---- what a port tells the core (implemented in core/) ---- */

struct ep;

/* A thread of the service calls the functions below only between ep_enter() and ep_leave(): in between, the profiler
 * and the memory that it gave to the port stay valid. ep_enter() returns the profiler, or NULL: no profiler runs, and
 * ep_leave() must not be called. Context: signal. */
struct ep *ep_enter(void);
void ep_leave(void);

/* Takes one sample that stands for `ns` of CPU time on the calling thread. `ep` is what ep_enter() returned.
 * Context: signal. */
void ep_capture(struct ep *ep, const struct ep_context *context, uint32_t tid, uint64_t ns);

/* ep_wait_begin() of core/edgeprof.h is the port's: it hands its caller's registers on, as they are after the call. The
 * stack pointer's low three bits, 0 wherever functions are called, are the class of waiting. Context: signal. */
void ep_wait_open(uintptr_t sp_and_wait, uintptr_t pc, uintptr_t fp, uintptr_t base);

#define EP_WORK_WAITING 48

/* What a thread says of itself, kept by the port for each thread, zero at its start. The thread itself alone writes it
 * (tags.c), handlers on it read it. */
struct ep_work {
    atomic_uint guard;      /* odd while the rest is being written */
    uint32_t run;           /* of the profiler that `tags` belongs to */
    uint32_t tags;          /* tag set, 0: none */
    uint32_t pushed_beyond; /* pushes that found no room: pops that belong to them do nothing */
    uint64_t span_id, trace_high, trace_low;
    uint64_t waiting[EP_WORK_WAITING]; /* waits.c */
};

/* A thread ends (or sampling stops) and has used rest_ns more CPU time than its samples say; may be negative. tid 0:
 * threads that cannot be sampled have used it.
 * Context: any thread, signal. */
void ep_thread_rest(uint32_t tid, int64_t rest_ns);

/* The process has another thread from now on: threads of edgeprof's own that were parked may run. Context: any thread.
 */
void ep_threads_needed(void);

/* Whether a profiler runs whose threads are parked: nothing has been delivered yet. Context: any thread. */
int ep_threads_parked(void);

/* A thread is not sampled; said once for each. reason: enum ep_loss; error, limit: as in struct ep_unsampled of
 * core/edgeprof.h. Context: any thread. */
void ep_thread_refused(unsigned reason, uint32_t tid, int error, uint64_t limit);

/* Such a thread ends: its name can be looked at for the last time. Context: any thread. */
void ep_thread_unsampled_ends(uint32_t tid);

/* This process is a fork: nothing of the profiler runs here. Context: init, in the child. */
void ep_forked(void);

/* One stretch of a module; called by ep_port_modules_scan() only. Context: init, collect. */
void ep_module_seen(const struct ep_module_info *info);

/* ---- serving: HTTP/1.1 for a port that has sockets; a client sends one request, without a body ---- */

/* Whether the request's head is complete, or so wrong that it never will be: `room` bytes are all there may be.
 * Context: any thread. */
int ep_request_complete(const char *request, size_t size, size_t room);

/* An answer on its way to a client; zero before there is one. */
struct ep_answer {
    size_t size;         /* bytes in the buffer, to be sent as they are; 0: there is no answer yet */
    uint64_t look_ns;    /* ... then ep_pull_look() is to be called at that time (uptime) */
    uint64_t body, sent; /* bytes to be sent after them, from ep_pull_piece(); the port counts those that are */
    /* pull.c's own: */
    uint64_t give_up_ns, period_ns;
    unsigned route, view;
};

/* The control endpoint (control.c). Does what the request asks for. Context: any thread. */
#define EP_CONTROL_REQUEST 1024 /* bytes of a request that are looked at */
#define EP_CONTROL_ANSWER  4096 /* bytes of the buffer that an answer needs at most */
void ep_control_answer(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer);

/* The pull endpoint (pull.c). One thread serves all its clients. token: what requests must carry, NULL: nothing. */
#define EP_PULL_REQUEST 2048
#define EP_PULL_ANSWER  16384

/* Takes the memory until ep_pull_close(). 0 or -ENOMEM. Context: init. */
int ep_pull_open(void *memory, size_t size);
void ep_pull_close(void);

/* Answers, or begins to. Waits for the collect thread's next round where that has to do something.
 * Context: pull. */
void ep_pull_answer(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer);
void ep_pull_look(char *buffer, struct ep_answer *answer);
/* Bytes of the body from answer->sent on, EP_PULL_ANSWER of them at most; 0: there are no more to be had. */
size_t ep_pull_piece(char *buffer, const struct ep_answer *answer);
/* The client is gone or has everything; may be called for any answer. */
void ep_pull_done(struct ep_answer *answer);

#endif
