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
    (void)atomic_fetch_add_explicit(&ep->kind_samples[kind], 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&ep->kind_count[kind], count, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&ep->kind_value[kind], value, memory_order_relaxed);
}

/* One sample, or more, of a kind; 0 without events. Live blocks and heap sizes are no samples: kind_samples is 0. */
static uint64_t samples_of(const struct ep *ep, unsigned kind, uint64_t events)
{
    uint64_t samples = atomic_load_explicit(&ep->kind_samples[kind], memory_order_relaxed);
    uint64_t count = atomic_load_explicit(&ep->kind_count[kind], memory_order_relaxed);
    uint64_t each = samples && count > samples ? (count << 8) / samples : 256; /* events of a sample, times 256 */
    uint64_t some = samples ? ((events << 8) + each / 2) / each : 0;

    return events && !some ? 1 : some;
}

uint64_t ep_samples_of(const struct ep *ep, const struct ep_sums *sums)
{
    uint64_t samples = sums->count[EP_KIND_CPU];

    for (unsigned kind = EP_KIND_CPU + 1; kind < EP_KINDS; kind++)
        samples += samples_of(ep, kind, sums->count[kind]);
    return samples;
}
