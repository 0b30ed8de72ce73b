/*
 * Measures what samples and hooks cost, on the threads that run them, for the governor.
 */
#include "core/capture/capture.h"

/* A hook is shorter than this. If more time has passed, the thread was interrupted. */
#define INTERRUPTED_NS 100000u

_Atomic uint64_t ep_hooks_ns;

/* Not exact: two threads that race time one sample more. */
__attribute__((noinline)) uint64_t ep_timing_begin(struct ep *ep)
{
    unsigned left = atomic_load_explicit(&ep->governor.to_time, memory_order_relaxed);

    if (left == 0)
        return 0;
    atomic_store_explicit(&ep->governor.to_time, left - 1, memory_order_relaxed);
    return ep_port_thread_cpu_ns();
}

__attribute__((noinline)) void ep_timing_end(struct ep *ep, uint64_t start_ns)
{
    (void)atomic_fetch_add_explicit(&ep->governor.timed, ((ep_port_thread_cpu_ns() - start_ns) << EP_TIMED_BITS) + 1,
                                    memory_order_relaxed);
}

void ep_hook_cost(uint64_t start_ns, unsigned calls)
{
    uint64_t end_ns = ep_port_uptime_ns(), took = end_ns - start_ns, clock = ep_port_uptime_ns() - end_ns;

    if (took > clock && took < INTERRUPTED_NS)
        (void)atomic_fetch_add_explicit(&ep_hooks_ns, (took - clock) * calls, memory_order_relaxed);
}
