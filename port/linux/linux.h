/*
 * Private to port/linux: how its files see each other.
 *
 *   sampler.c       timers and the signal handler; owns the thread table
 *   uncovered.c     threads that got no timer, and their CPU time
 *   task_scan.c     finds threads in /proc/self/task
 *   blocked.c       threads that sleep, as /proc shows them
 *   thread_start.c  __wrap_pthread_create: threads that announce themselves
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

/* Copies the interrupted registers. ucontext is what the kernel hands to a handler. Context: signal. */
void ep_linux_context(const void *ucontext, struct ep_context *context);

/* A pc as the kernel's text says it, as it is in struct ep_context. Context: collect. */
uintptr_t ep_linux_pc(uint32_t tid, uintptr_t pc);

/* The kind of program header that holds this architecture's unwind tables. */
extern const uint32_t ep_linux_table_segment;

/* The thread that announces itself: its bounds are noted, and it is armed if a profiler runs. Context: any thread. */
void ep_linux_thread_begins(struct ep_linux_bounds bounds);
/* Gives the calling thread's timer back and tells what it used since its last sample. Context: any thread. */
void ep_linux_thread_ends(void);
/* The calling thread is edgeprof's own: never sampled. Context: any thread. */
void ep_linux_thread_own(enum ep_role role);

/* ---- threads without a timer (uncovered.c) ---- */

#define EP_LINUX_USED_UNIT 1024u /* ns */

struct ep_linux_watched {
    atomic_uint tid;  /* 0: free */
    atomic_uint used; /* CPU time at the last scan, in EP_LINUX_USED_UNIT, wraps */
};

/* memory: EP_MAX_THREADS entries, zeroed. Opens the books. Context: init. */
void ep_linux_uncovered_begin(struct ep_linux_watched *memory);

/* A thread is without a timer, for a reason that is counted once. used_ns: its CPU time, 0 when it begins. Returns what
 * it used since the last scan, in EP_LINUX_USED_UNIT, 0 when that is not known. Context: any thread. */
unsigned ep_linux_uncovered(uint32_t tid, uint64_t used_ns, unsigned reason);

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
