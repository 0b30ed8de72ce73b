/*
 * Forks: ticks wait while a thread forks, a child has no timers and no profiler, and a tick of CPU time may start one
 * there (EP_ROLE_START).
 */
#include "own_signal.h"
#include "cpu_clock.h"
#include "filter.h"
#include "own_threads.h"
#include "perf_clock.h"
#include "sampler.h"
#include "thread_table.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define FIRST_NS   100000000u
#define RETRIES_NS 200000000u

/* The kernel restarts a fork() that a signal interrupts. A large process that needs more than a period for it would
 * never succeed. Ticks in that time are not lost: they come as overruns. */
static void fork_prepare(void)
{
    struct ep_linux_here *here = ep_linux_here();
    uint64_t ours = ep_linux_filter_met() || ep_linux_filter_is_here() ? 0 : ep_linux_signals_ours();

    if (here)
        here->fork_blocked = ours ? ours & ~ep_linux_mask_raw(SIG_BLOCK, ours) : 0;
}

static void fork_parent(void)
{
    struct ep_linux_here *here = ep_linux_here();

    if (here && here->fork_blocked)
        (void)ep_linux_mask_raw(SIG_UNBLOCK, here->fork_blocked);
}

static void sampling_forked(void)
{
    if (ep_linux_sampling_forked())
        ep_linux_perf_forked();
    ep_linux_here_forked();
    ep_linux_stacks_forked();
    ep_linux_claim_forked();
    ep_linux_threads_lost();
    ep_forked();
    fork_parent();
    if (!ep_linux_filter_met() && !ep_linux_filter_is_here())
        ep_linux_signals_forked();
}

int ep_linux_fork_watch(void)
{
    static bool hooked;

    if (hooked)
        return 0;
    int error = pthread_atfork(fork_prepare, fork_parent, sampling_forked);
    hooked = !error;
    return -error;
}

static int fork_timer_plus_1; /* 0: none */

int ep_linux_fork_arm(void)
{
    int timer;

    fork_timer_plus_1 = 0;
    if (ep_linux_stack_is_tiny(ep_linux_tid()) || ep_linux_signal_borrow() != 0)
        return -EBUSY;
    int error = ep_linux_timer_make(ep_linux_tid(),
                                    ep_linux_tick_value(EP_LINUX_FORK_OWNER >> 8, EP_LINUX_FORK_OWNER & 0xff), &timer);
    if (error) {
        ep_linux_signals_forked();
        return error;
    }
    fork_timer_plus_1 = timer + 1;
    return ep_linux_timer_first(timer, FIRST_NS, RETRIES_NS);
}

void ep_linux_fork_disarm(void)
{
    if (fork_timer_plus_1)
        ep_linux_timer_delete(fork_timer_plus_1 - 1);
    fork_timer_plus_1 = 0;
    ep_linux_signal_own_again();
}
