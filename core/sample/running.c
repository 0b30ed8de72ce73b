/*
 * Which threads may use the profiler's memory, and when parked threads start.
 *
 * Holding: the memory belongs to the caller and disappears after ep_stop(). A thread of the service uses it only
 * between ep_hold() and ep_release(), and only through the pointer from ep_hold(), because ep_stop() may unpublish the
 * profiler meanwhile. ep_stop() then waits until no thread holds it.
 *
 * Parked threads (EP_LAZY_THREADS) start when the ring is nearly full, when both an interval and 3 s are over, when a
 * stack is cut in code of no known module, or on a request of the program or of a user. A signal handler may start
 * them.
 */
#include "core/sample/profiler.h"

_Atomic(struct ep *) ep_current;
atomic_uint ep_run;
atomic_uint ep_hook_kinds, ep_hook_periods[EP_KINDS];
uint32_t ep_history_kinds;
atomic_uint ep_history_alone;
_Atomic(const char *) ep_kind_missing[EP_KINDS];
static atomic_uint holders;

void ep_publish(struct ep *ep)
{
    atomic_store(&ep_run, ep ? ep->run : 0);
    atomic_store(&ep_current, ep);
}

bool ep_held(void)
{
    return atomic_load(&holders) != 0;
}

__attribute__((hot)) struct ep *ep_hold(void)
{
    (void)atomic_fetch_add(&holders, 1);
    struct ep *ep = atomic_load(&ep_current);
    if (!ep)
        (void)atomic_fetch_sub(&holders, 1);
    return ep;
}

__attribute__((hot)) void ep_release(void)
{
    (void)atomic_fetch_sub_explicit(&holders, 1, memory_order_release);
}

bool ep_held_once(void)
{
    return atomic_load(&holders) == 1;
}

void ep_running_forget(void)
{
    atomic_store(&ep_hook_kinds, 0);
    ep_publish(NULL);
    atomic_store(&holders, 0);
}

/* Long before the last quarter, which ticks leave free. */
static bool threads_due(const struct ep *ep)
{
    unsigned words = ep->ring.mask + 1;

    return ep_ring_used(&ep->ring) >= words / 2 || ep_port_uptime_ns() >= ep->resume_at_ns;
}

void ep_parked_look(struct ep *ep)
{
    if (ep_outlive_due)
        ep_outlive_due(ep);
    if (threads_due(ep))
        ep_collect_wake(ep);
}

int ep_threads_resume(struct ep *ep)
{
    if (ep_outlive_due && atomic_load(&ep->parked))
        ep_outlive_due(ep); /* edgeprof's threads will use what it moves */
    if (!atomic_exchange(&ep->parked, false))
        return 0;
    int error = ep_port_thread_resume(EP_ROLE_DELIVER);
    error = error ? error : ep_port_thread_resume(EP_ROLE_COLLECT);
    if (error)
        atomic_store(&ep->parked, true); /* the next sample tries again */
    else
        atomic_store(&ep->threads_run, true);
    return error;
}

void ep_collect_wake(struct ep *ep)
{
    if (atomic_load_explicit(&ep->parked, memory_order_relaxed))
        (void)ep_threads_resume(ep);
    ep_port_wake(&ep->collect_event);
}

void ep_threads_needed(void)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    (void)ep_threads_resume(ep);
    ep_release();
}
