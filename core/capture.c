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

#define SAMPLE_HEAD 2
#define SAMPLE_MOST (SAMPLE_HEAD + EP_MAX_DEPTH)
#define REST_WORDS  3

_Atomic(struct ep *) ep_current;
static atomic_uint holders;

void ep_publish(struct ep *ep)
{
    atomic_store(&ep_current, ep);
}

bool ep_held(void)
{
    return atomic_load(&holders) != 0;
}

struct ep *ep_hold(void)
{
    (void)atomic_fetch_add(&holders, 1);
    struct ep *ep = atomic_load(&ep_current);
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
    atomic_store(&ep_current, NULL);
    atomic_store(&holders, 0);
}

void ep_capture(const struct ep_context *context, uint32_t tid, uint32_t ticks)
{
    struct ep *ep = ep_running();
    bool wake = false;

    int at = ep_ring_reserve(&ep->ring, SAMPLE_MOST, &wake);
    if (at < 0) {
        (void)atomic_fetch_add_explicit(&ep->lost_samples, 1, memory_order_relaxed);
        (void)atomic_fetch_add_explicit(&ep->lost_ticks, ticks, memory_order_relaxed);
        ep_port_wake(&ep->collect_event);
        return;
    }
    atomic_uintptr_t *payload = ep_ring_payload(&ep->ring, at);
    struct ep_stack stack = {.pc = payload + SAMPLE_HEAD};
    ep_unwind(context, &stack);
    atomic_store_explicit(&payload[0], tid, memory_order_relaxed);
    atomic_store_explicit(&payload[1], ticks, memory_order_relaxed);
    struct ep_record record = {
        .kind = EP_RECORD_SAMPLE, .quality = stack.quality, .end = stack.end, .count = SAMPLE_HEAD + stack.depth};
    ep_ring_commit(&ep->ring, at, SAMPLE_MOST, &record);
    if (wake)
        ep_port_wake(&ep->collect_event);

    (void)atomic_fetch_add_explicit(&ep->rule_hits, stack.hits, memory_order_relaxed);
    if (stack.misses)
        (void)atomic_fetch_add_explicit(&ep->rule_misses, stack.misses, memory_order_relaxed);
}

void ep_thread_rest(uint32_t tid, int64_t rest_ns)
{
    struct ep *ep = ep_running();
    const struct ep_record record = {.kind = EP_RECORD_REST, .count = REST_WORDS};
    bool wake = false;

    int at = ep_ring_reserve(&ep->ring, REST_WORDS, &wake);
    if (at < 0) {
        uint32_t ticks = rest_ns > 0 ? (uint32_t)((uint64_t)rest_ns / ep->period_ns) : 0;
        (void)atomic_fetch_add_explicit(&ep->lost_ticks, ticks, memory_order_relaxed);
        return;
    }
    atomic_uintptr_t *payload = ep_ring_payload(&ep->ring, at);
    atomic_store_explicit(&payload[0], tid, memory_order_relaxed);
    atomic_store_explicit(&payload[1], (uintptr_t)((uint64_t)rest_ns & UINT32_MAX), memory_order_relaxed);
    atomic_store_explicit(&payload[2], (uintptr_t)((uint64_t)rest_ns >> 32), memory_order_relaxed);
    ep_ring_commit(&ep->ring, at, REST_WORDS, &record);
    if (wake)
        ep_port_wake(&ep->collect_event);
}

void ep_thread_refused(unsigned reason)
{
    struct ep *ep = ep_running();

    if (reason < EP_LOSS_REASONS)
        (void)atomic_fetch_add_explicit(&ep->refused[reason], 1, memory_order_relaxed);
}
