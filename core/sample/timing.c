/*
 * Measures what samples and hooks cost, on the threads that run them, for the governor.
 */
#include "core/sample/capture.h"

/* A hook is shorter than this and a few readings. If more time has passed, the thread was interrupted. A generous limit
 * would let other programs' time in: with 100 us, and more runnable threads than processors, it was twice the hooks'.
 */
#define INTERRUPTED_NS 2000u

_Atomic uint64_t ep_hooks_ns;

/* Not exact: two threads that race time one sample more. */
__attribute__((noinline)) uint64_t ep_timing_begin(struct ep *ep, uint32_t *faults)
{
    unsigned left = atomic_load_explicit(&ep->timing.to_time, memory_order_relaxed);

    if (left == 0)
        return 0;
    atomic_store_explicit(&ep->timing.to_time, left - 1, memory_order_relaxed);
    *faults = ep_port_thread_faults();
    return ep_port_thread_cpu_ns();
}

__attribute__((noinline)) void ep_timing_end(struct ep *ep, uint64_t start_ns, uint32_t faults)
{
    (void)atomic_fetch_add_explicit(&ep->timing.timed, ((ep_port_thread_cpu_ns() - start_ns) << EP_TIMED_BITS) + 1,
                                    memory_order_relaxed);
    faults = ep_port_thread_faults() - faults;
    (void)atomic_fetch_add_explicit(&ep->counter[EP_COUNT_TIMED], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&ep->counter[EP_COUNT_TIMED_FAULTS], faults, memory_order_relaxed);
}

/* MurmurHash3's finalizer: threads that start at equal distances, or in places that differ by a few bits, would draw
 * nearly equal numbers without it. */
static uint32_t mix(uint32_t bits)
{
    bits = (bits ^ bits >> 16) * 0x85ebca6bu;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
    return bits ^ bits >> 16;
}

bool ep_hook_choose(struct ep_hook_timer *timer)
{
    bool first = timer->dice == 0;
    uint32_t seed = first ? mix((uint32_t)(ep_port_ticks() ^ (uintptr_t)timer >> 4)) : timer->dice;

    timer->dice = seed * 1664525u + 1013904223u;
    uint32_t chosen = (uint32_t)((uint64_t)timer->dice * EP_HOOK_TIMED_ONE_IN >> 32);
    timer->left = timer->rest + chosen;
    timer->rest = EP_HOOK_TIMED_ONE_IN - 1 - chosen;
    return !first;
}

static uint64_t ticks_ns(uint64_t from, uint64_t to)
{
    return to > from ? ep_port_ticks_ns(to - from) : 0;
}

/* A counter may be coarser than the hook. So a difference may be below the reading's own cost, and is then subtracted:
 * the sum is right. */
void ep_hook_cost(uint64_t from, unsigned calls)
{
    uint64_t to = ep_port_ticks(), reading = ticks_ns(to, ep_port_ticks()), took = ticks_ns(from, to);

    if (reading < INTERRUPTED_NS && took < INTERRUPTED_NS + 4 * reading)
        (void)atomic_fetch_add_explicit(&ep_hooks_ns, (took - reading) * calls, memory_order_relaxed);
}
