/*
 * Private to port/linux: how its files see each other.
 *
 *   sampler.c       the signal handler; threads that announce themselves or are found; start and stop
 *   thread_table.c  which threads have a timer, and what of their CPU time is accounted for
 *   cpu_clock.c     what makes a thread tick
 *   stack_bounds.c  where stacks lie
 *   own_signal.c    the signals' numbers, and what the program believes of them
 *   signal_calls.c  what the program asks for with signal functions, without our signals
 *   signal_wrap.c   those functions in programs that are linked with link.opt
 *   uncovered.c     threads that have no timer, and their CPU time
 *   signal_blocked.c  whether a thread has our signal blocked, as /proc shows it
 *   task_scan.c     finds threads in /proc/self/task
 *   blocked.c       threads that sleep, as /proc shows them
 *   thread_start.c  __wrap_pthread_create: threads that announce themselves
 *   stack_bounds.c  where a new thread's stack lies
 *   own_threads.c   collect and deliver threads, events
 *   modules.c       what the dynamic linker has loaded
 *   system.c        clocks, random numbers, identity
 *   context_<arch>.c  registers out of the kernel's ucontext
 */
#ifndef EP_LINUX_H
#define EP_LINUX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port/port.h"

/* Where a thread's stack lies. */
struct ep_linux_bounds {
    uintptr_t start, end;
    uintptr_t root; /* frames at or above only start the thread; 0: unknown */
};

/* The main thread's stack, as far as its limit allows; zero: unknown. */
extern struct ep_linux_bounds ep_linux_main_bounds;
/* Finds it. Context: init. */
void ep_linux_main_bounds_find(void);

/* Copies the interrupted registers. ucontext is what the kernel hands to a handler. Context: signal. */
void ep_linux_context(const void *ucontext, struct ep_context *context);

/* A pc as the kernel's text says it, as it is in struct ep_context. Context: collect. */
uintptr_t ep_linux_pc(uint32_t tid, uintptr_t pc);

/* The kind of program header that holds this architecture's unwind tables. */
extern const uint32_t ep_linux_table_segment;

/* Whether a thread's static TLS lies above its thread pointer on this architecture, else below. */
extern const bool ep_linux_tls_above;

/* The signal that carries ticks now; 0 before the first start. Context: signal. */
int ep_linux_signal(void);

/* The thread that announces itself: its bounds are noted, and it is armed if a profiler runs. Context: any thread. */
void ep_linux_thread_begins(struct ep_linux_bounds bounds);
/* Gives the calling thread's timer back and tells what it used since its last sample. Context: any thread. */
void ep_linux_thread_ends(void);
/* The calling thread is edgeprof's own: never sampled. Context: any thread. */
void ep_linux_thread_own(enum ep_role role);

/* Whether the thread has that signal blocked, and with `pending` one of it that waits. False when the system does not
 * say. Context: any thread. */
bool ep_linux_signal_blocked(uint32_t tid, bool pending);

/* ---- threads without a timer (uncovered.c) ---- */

#define EP_LINUX_USED_UNIT 1024u /* ns */

struct ep_linux_watched {
    atomic_uint tid;  /* 0: free */
    atomic_uint used; /* CPU time at the last scan, in EP_LINUX_USED_UNIT, wraps; the lowest bit: see uncovered.c */
};

/* memory: EP_MAX_THREADS entries, zeroed. Opens the books. Context: init. */
void ep_linux_uncovered_begin(struct ep_linux_watched *memory);

/* A thread is without a timer, for a reason that is counted once. used_ns: its CPU time, 0 when it begins. error: what
 * timer_create() answered; -EXFULL: the table is full; 0: it keeps our signal blocked. Returns what it used since the
 * last scan, in EP_LINUX_USED_UNIT, 0 when that is not known. Context: any thread. */
unsigned ep_linux_uncovered(uint32_t tid, uint64_t used_ns, int error);
/* Whether the thread gave its timer back because it kept our signal blocked, and still does. Context: collect. */
bool ep_linux_still_blocks(uint32_t tid);

/* CPU time of the process without our own threads, to be read before what its covered threads used is. Context: any
 * thread. */
uint64_t ep_linux_process_ns(void);
/* A thread used that much (modulo 2^64: it may be taken back) while it had a timer. Context: any thread. */
void ep_linux_covered(uint64_t ns);
/* Once there was a thread without a timer: tells what such threads have used by then, and
 * forgets those that have ended. Context: collect, init. */
void ep_linux_uncovered_tell(uint64_t process_ns);

/* ---- clocks ---- */

/* 0: it cannot be read. Context: signal. */
uint64_t ep_linux_clock_ns(int clock);
/* CPU time of our own threads. Context: any thread. */
uint64_t ep_linux_own_ns(void);

/* ---- the scan ---- */

/* Calls each() for every thread of the process. 0 or a negative errno value. Context: collect, init. */
int ep_linux_tasks(void (*each)(uint32_t tid));

/* Whether the calling thread is edgeprof's own. Context: signal. */
bool ep_linux_here_is_own(void);
/* A thread of the service does edgeprof's work for a while. Context: init. */
void ep_linux_here_set_own(bool own);
/* Whether the thread is edgeprof's own. Context: collect. */
bool ep_linux_thread_is_own(uint32_t tid);

/* Whether the calling thread runs the given start routine for edgeprof itself. Context: any thread. */
bool ep_linux_is_own_start(void *(*start)(void *));

/* Reads a small file of /proc whole: size bytes at most, 0-terminated. Bytes read or a negative errno value.
 * Context: any thread. */
int ep_linux_read(const char *path, char *text, size_t size);

/* The same of a thread: `name` is "/comm". Context: collect. */
int ep_linux_task_read(uint32_t tid, const char *name, char *text, size_t size);

/* Unsigned decimal at *text, which is moved behind it. Context: any thread. */
uint64_t ep_linux_number(const char **text);

/* CPU time clock of any thread of this process: MAKE_THREAD_CPUCLOCK of Linux' include/linux/posix-timers.h. */
static inline int ep_linux_cpu_clock(uint32_t tid)
{
    return (int)((~tid << 3) | 6u);
}

/* CPU time of a thread, 0: it is gone. Context: signal. */
static inline uint64_t ep_linux_cpu_ns(uint32_t tid)
{
    return ep_linux_clock_ns(ep_linux_cpu_clock(tid));
}

#endif
