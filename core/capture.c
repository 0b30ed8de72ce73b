/*
 * Capture: what runs in a handler or hook on the service's own thread. Unwinds, writes one record, nothing else.
 *
 * Holding: the profiler's memory belongs to the caller and goes away after ep_stop(). Whoever touches it from a thread
 * that the profiler does not own brackets that by ep_hold() and ep_release(); ep_stop() unpublishes the profiler and
 * then waits until nobody holds it.
 *
 * Sample record: tid, ticks, pc ...    Rest record: tid, low half, high half.
 */
#include "internal.h"

static _Atomic(struct ep *) current;
static atomic_uint holders;

struct ep *ep_running(void)
{
    return atomic_load_explicit(&current, memory_order_acquire);
}

void ep_publish(struct ep *ep)
{
    atomic_store(&current, ep);
}

bool ep_held(void)
{
    return atomic_load(&holders) != 0;
}

struct ep *ep_hold(void)
{
    (void)atomic_fetch_add(&holders, 1);
    struct ep *ep = atomic_load(&current);
    if (!ep)
        (void)atomic_fetch_sub(&holders, 1);
    return ep;
}

void ep_release(void)
{
    (void)atomic_fetch_sub(&holders, 1);
}

int ep_enter(void)
{
    return ep_hold() != NULL;
}

void ep_leave(void)
{
    ep_release();
}

void ep_forked(void)
{
    atomic_store(&current, NULL);
    atomic_store(&holders, 0);
}

void ep_capture(const struct ep_context *context, uint32_t tid, uint32_t ticks)
{
    struct ep *ep = ep_running();
    struct ep_stack stack;
    bool wake = false;

    ep_unwind(context, &stack);
    (void)atomic_fetch_add_explicit(&ep->rule_hits, stack.hits, memory_order_relaxed);
    if (stack.misses)
        (void)atomic_fetch_add_explicit(&ep->rule_misses, stack.misses, memory_order_relaxed);

    unsigned count = stack.depth + 2u;
    int at = ep_ring_reserve(&ep->ring, count, &wake);
    if (at < 0) {
        (void)atomic_fetch_add_explicit(&ep->lost_samples, 1, memory_order_relaxed);
        (void)atomic_fetch_add_explicit(&ep->lost_ticks, ticks, memory_order_relaxed);
        return;
    }
    ep_ring_put(&ep->ring, at, 0, tid);
    ep_ring_put(&ep->ring, at, 1, ticks);
    for (unsigned i = 0; i < stack.depth; i++)
        ep_ring_put(&ep->ring, at, i + 2, stack.pc[i]);
    ep_ring_commit(&ep->ring, at, EP_RECORD_SAMPLE, stack.quality, stack.end, count);
    if (wake)
        ep_port_wake(&ep->collect_event);
}

void ep_thread_rest(uint32_t tid, int64_t rest_ns)
{
    struct ep *ep = ep_running();
    bool wake = false;

    int at = ep_ring_reserve(&ep->ring, 3, &wake);
    if (at < 0) {
        uint32_t ticks = rest_ns > 0 ? (uint32_t)((uint64_t)rest_ns / ep->period_ns) : 0;
        (void)atomic_fetch_add_explicit(&ep->lost_ticks, ticks, memory_order_relaxed);
        return;
    }
    ep_ring_put(&ep->ring, at, 0, tid);
    ep_ring_put(&ep->ring, at, 1, (uintptr_t)((uint64_t)rest_ns & UINT32_MAX));
    ep_ring_put(&ep->ring, at, 2, (uintptr_t)((uint64_t)rest_ns >> 32));
    ep_ring_commit(&ep->ring, at, EP_RECORD_REST, 0, 0, 3);
    if (wake)
        ep_port_wake(&ep->collect_event);
}

void ep_thread_refused(unsigned reason)
{
    struct ep *ep = ep_running();

    if (reason < EP_LOSS_REASONS)
        (void)atomic_fetch_add_explicit(&ep->refused[reason], 1, memory_order_relaxed);
}
