/* What the files of sampling share: sampler.c, tick_handler.c, thread_scan.c, sampling_fork.c. */
#ifndef EP_LINUX_SAMPLER_H
#define EP_LINUX_SAMPLER_H

#include "linux.h"

#include <edgeprof/hooks.h>

#include <sys/syscall.h>
#include <unistd.h>

/* The owner of the tick that starts the profiler in a forked child: no slot. */
#define EP_LINUX_FORK_OWNER (EP_THREADS_MOST << 8 | 1u)

/* True if threads may be armed. Context: signal. */
bool ep_linux_samples(void);
/* The period of sampling. Context: any thread. */
uint32_t ep_linux_period_ns(void);

/* Only one profiler of a process counts its CPU time. Returns false, and says so in a line, if another copy of edgeprof
 * does. Context: init. */
bool ep_linux_claim(void);
/* Sends a line if the program's own __wrap_pthread_create() replaces edgeprof's. Context: init. */
void ep_linux_wraps_check(void);
void ep_linux_claim_end(void);
void ep_linux_claim_forked(void);

/* Stops sampling in a forked child, where the timers are gone. True: it was not stopped. Context: init. */
bool ep_linux_sampling_forked(void);
/* From here on forks are prepared. Returns 0 or a negative errno value. Context: init. */
int ep_linux_fork_watch(void);

#define EP_LINUX_SHOWN 5 /* words: struct ep_work without its waits */

/* What edgeprof keeps for a thread (thread_memory.c). Zero until the thread is announced or sampled. */
struct ep_linux_here {
    atomic_uint of_tid; /* 0: free */
    uint32_t tid;       /* of ticks; 0: not known yet */
    struct ep_linux_bounds bounds;
    struct ep_work work;
    uint32_t owner;    /* what ticked, behind and stratum are of */
    uint32_t rootless; /* ep_linux_main_searches when it was known that the stack's root stays unknown */
    uint64_t ticked;   /* ep_port_ticks() of the last kernel tick */
    int64_t behind;    /* CPU time less what its ticks stand for */
    struct ep_stratum stratum;
    uint64_t fork_blocked; /* signals blocked by fork_prepare() */
    uint64_t shown[EP_LINUX_SHOWN];
    /* enum ep_thread_part */
    _Alignas(8) unsigned char otel[EP_PART_OTEL_BYTES];
    _Alignas(8) unsigned char allocations[EP_PART_ALLOCATIONS_BYTES];
    _Alignas(8) unsigned char exceptions[EP_PART_EXCEPTIONS_BYTES];
    _Alignas(8) unsigned char heap[EP_PART_HEAP_BYTES];
    _Alignas(8) unsigned char writes[EP_PART_WRITES_BYTES];
};

/* That of the calling thread; NULL: the system has no memory for it. Context: signal. */
struct ep_linux_here *ep_linux_here(void);

/* Stores the bounds of the calling thread's stack. Context: any thread. */
void ep_linux_here_begins(struct ep_linux_bounds bounds);
/* The calling thread is a forked child, with another id. Context: init. */
void ep_linux_here_forked(void);

/* The calling thread's id. Context: signal. */
static inline uint32_t ep_linux_tid(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

#endif
