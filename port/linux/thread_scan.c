/*
 * Finds threads by a scan of /proc/self/task: arms new ones, releases what belongs to ended ones, and reports CPU time
 * that no sample stands for. uncovered.c has the threads without a timer.
 */
#include "own_signal.h"
#include "filter.h"
#include "own_threads.h"
#include "perf_clock.h"
#include "sampler.h"
#include "thread_start.h"
#include "thread_table.h"

#include <errno.h>

/* Arms a thread without a timer. If that fails, the thread takes over the timer of the thread that used least CPU time,
 * provided that it used more itself. A thread that keeps the signal blocked, or whose alternate stack is too small for
 * it, gets no timer until that is over. */
static void arm_found(uint32_t tid, uint64_t now)
{
    if (ep_linux_stack_is_tiny(tid) || ep_linux_still_blocks(tid)) {
        (void)ep_linux_uncovered(tid, now, 0);
        return;
    }
    int error = ep_linux_arm(tid, now, ep_linux_period_ns());
    unsigned used = error ? ep_linux_uncovered(tid, now, error) : 0;
    struct ep_linux_slot *slot = used > ep_linux_period_ns() / EP_LINUX_USED_UNIT ? ep_linux_slot_idlest(used) : NULL;

    if (slot) {
        ep_linux_disarm(slot, EP_LINUX_USED_NOW); /* the next scan counts its thread as one without a timer */
        (void)ep_linux_arm(tid, now, ep_linux_period_ns());
    }
}

/* True if a filter of system calls refuses clocks of CPU time. Timers may work: then a thread's CPU time is that of its
 * ticks. */
static bool clocks_refused(void)
{
    return ep_port_thread_cpu_ns() == 0;
}

/* True if the thread has a perf event no more, or is not to have one. */
static bool perf_lost(const struct ep_linux_slot *slot, uint32_t tid)
{
    if (atomic_load(&slot->clock) != EP_LINUX_BY_PERF)
        return false;
    if (!ep_linux_perf_is_ours(atomic_load(&slot->timer), tid))
        ep_linux_perf_refuse(-EBADF);
    return !ep_linux_perf_is_used();
}

/* A thread with filters of its own, which may end it, has no timer. */
static bool is_apart(uint32_t tid, uint64_t now)
{
    if (!ep_linux_filter_differs(tid))
        return false;
    (void)ep_linux_uncovered(tid, now, -EPERM);
    return true;
}

static void scan_thread(uint32_t tid)
{
    struct ep_linux_slot *slot = ep_linux_slot_of(tid);
    uint64_t now = ep_linux_cpu_ns(tid), seen = slot ? atomic_load(&slot->seen_ns) : 0;

    if (slot && now && now < seen) { /* an ended thread had the same id; its timer is dead */
        ep_linux_disarm(slot, EP_LINUX_USED_BEFORE);
        slot = NULL;
    }
    if (!slot) {
        if (!ep_linux_thread_is_own(tid) && !is_apart(tid, now) && (now || clocks_refused()))
            arm_found(tid, now);
        return;
    }
    atomic_store(&slot->seen, true);
    if (perf_lost(slot, tid)) {
        ep_linux_disarm(slot, EP_LINUX_USED_NOW);
        (void)ep_linux_arm(tid, now, ep_linux_period_ns());
        return;
    }
    /* Fails if the slot belongs to another thread by now. */
    if (now && atomic_compare_exchange_strong(&slot->seen_ns, &seen, now)) {
        atomic_store(&slot->lately, (unsigned)((now - seen) / EP_LINUX_USED_UNIT));
        ep_linux_covered(now - seen, false);
        if (ep_linux_keeps_blocked(slot, tid, now))
            ep_linux_disarm(slot, EP_LINUX_USED_NOW);
        else
            ep_linux_missed(slot, tid, now);
    }
}

/* *settled: no thread is between releasing its slot and reporting its CPU time. Returns the number of armed threads. */
static int scan_end(bool *settled)
{
    int armed = 0;

    *settled = true;
    EP_LINUX_EACH_SLOT (slot) {
        unsigned state = atomic_load(&slot->state);
        if (state != EP_LINUX_SLOT_ARMED)
            *settled &= state == EP_LINUX_SLOT_FREE;
        else if (ep_linux_slot_is_twin(slot))
            ep_linux_disarm(slot, EP_LINUX_USED_NOTHING);
        else if (!atomic_load(&slot->seen) && ep_linux_cpu_ns(atomic_load(&slot->tid)) == 0)
            ep_linux_disarm(slot, EP_LINUX_USED_BEFORE);
        else
            armed++;
    }
    return armed;
}

static int scan_threads(void)
{
    uint64_t process_ns = ep_linux_process_ns();
    bool settled;

    EP_LINUX_EACH_SLOT (slot)
        atomic_store(&slot->seen, false);
    ep_linux_perf_check();
    int error = ep_linux_tasks(scan_thread);
    if (error)
        return error;
    int armed = scan_end(&settled);
    ep_linux_stacks_forget();
    ep_linux_stacks_tiny_forget();
    if (settled) /* else the next scan reports */
        ep_linux_uncovered_tell(process_ns);
    return armed;
}

int ep_port_threads_scan(void)
{
    int armed = 0;

    if (!ep_hold()) /* keeps the table valid while stop disarms */
        return 0;
    ep_linux_ticks_adjust();
    if (ep_linux_samples()) /* the collect thread starts before sampling does */
        armed = scan_threads();
    ep_release();
    if (ep_linux_here_is(EP_ROLE_COLLECT)) /* else the caller is a thread of the program's */
        ep_linux_process_look();
    return armed;
}
