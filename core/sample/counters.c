/*
 * Counters. Each is written by one thread or by atomic additions, and any thread may read it. A set of counters is not
 * of one moment, but no count is lost or torn.
 */
#include "core/sample/profiler.h"

void ep_count(struct ep *ep, enum ep_counter counter, uint64_t amount)
{
    (void)atomic_fetch_add_explicit(&ep->counter[counter], amount, memory_order_relaxed);
}

void ep_lose(struct ep *ep, enum ep_loss reason, uint64_t count, uint64_t weight_ns)
{
    (void)atomic_fetch_add_explicit(&ep->lost_count[reason], count, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&ep->lost_ns[reason], weight_ns, memory_order_relaxed);
}

void ep_count_kind(struct ep *ep, enum ep_kind kind, uint64_t count, uint64_t value)
{
    (void)atomic_fetch_add_explicit(&ep->kind_count[kind], count, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&ep->kind_value[kind], value, memory_order_relaxed);
}
