/*
 * Copies the counters into struct ep_stats. Each counter is written by one thread or by atomic additions, and any
 * thread may read it. A copy is not of one moment, but no count is lost or torn.
 */
#include "core/lifecycle/start.h"
#include "core/collect/collect.h"

static uint64_t counter_load(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

#define PLACE(member) (uint16_t) offsetof(struct ep_stats, member)

/* The field of each 64-bit counter. Counters from EP_COUNT_THREADS on have 32-bit fields. */
static const uint16_t place[EP_COUNT_THREADS] = {
    [EP_COUNT_SAMPLES] = PLACE(samples),
    [EP_COUNT_WEIGHT_NS] = PLACE(weight_ns),
    [EP_COUNT_EXACT] = PLACE(exact),
    [EP_COUNT_GAP] = PLACE(gap),
    [EP_COUNT_CUT] = PLACE(cut),
    [EP_COUNT_THREAD_EXIT_NS] = PLACE(thread_exit_ns),
    [EP_COUNT_RULE_HITS] = PLACE(rule_hits),
    [EP_COUNT_RULE_MISSES] = PLACE(rule_misses),
    [EP_COUNT_MESSAGES] = PLACE(messages),
    [EP_COUNT_MESSAGE_BYTES] = PLACE(message_bytes),
    [EP_COUNT_DELIVERED] = PLACE(delivered),
    [EP_COUNT_DELIVERED_BYTES] = PLACE(delivered_bytes),
    [EP_COUNT_DELIVERY_FAILURES] = PLACE(delivery_failures),
    [EP_COUNT_INTERVALS_MERGED] = PLACE(intervals_merged),
    [EP_COUNT_COLLECT_CPU_NS] = PLACE(collect_cpu_ns),
    [EP_COUNT_DELIVER_CPU_NS] = PLACE(deliver_cpu_ns),
    [EP_COUNT_WAKEUPS] = PLACE(wakeups),
    [EP_COUNT_HANDLER_NS] = PLACE(handler_ns),
    [EP_COUNT_COST_PPM] = PLACE(cost_ppm),
    [EP_COUNT_STRETCH_PCT] = PLACE(stretch_pct),
    [EP_COUNT_STRETCHES] = PLACE(stretches),
    [EP_COUNT_SPOOLED] = PLACE(spooled),
    [EP_COUNT_REPLAYED] = PLACE(replayed),
    [EP_COUNT_SPOOL_MESSAGES] = PLACE(spool_messages),
    [EP_COUNT_SPOOL_BYTES] = PLACE(spool_bytes),
    [EP_COUNT_SPOOL_WRITTEN] = PLACE(spool_written),
    [EP_COUNT_SPOOL_ERROR] = PLACE(spool_error),
    [EP_COUNT_UNSAMPLED_NS] = PLACE(unsampled_ns),
    [EP_COUNT_EARLY] = PLACE(intervals_early),
    [EP_COUNT_DEGRADED + EP_DETAIL_LABELS - 1] = PLACE(degraded_labels),
    [EP_COUNT_DEGRADED + EP_DETAIL_ADDRESSES - 1] = PLACE(degraded_addresses),
    [EP_COUNT_DEGRADED + EP_DETAIL_FRAMES - 1] = PLACE(degraded_frames),
    [EP_COUNT_TIMED] = PLACE(timed_samples),
    [EP_COUNT_TIMED_FAULTS] = PLACE(timed_faults),
    [EP_COUNT_SPOOL_DAMAGED] = PLACE(spool_damaged),
    [EP_COUNT_SPOOL_DAMAGED_BYTES] = PLACE(spool_damaged_bytes),
    [EP_COUNT_CLOCK_ERROR] = PLACE(clock_error),
    [EP_COUNT_UNANSWERED] = PLACE(unanswered),
};

void ep_stats_fill(struct ep *ep, struct ep_stats *stats)
{
    *stats = (struct ep_stats){
        .last_error = atomic_load_explicit(&ep->deliver->last_error, memory_order_relaxed),
        .last_status = atomic_load_explicit(&ep->deliver->last_status, memory_order_relaxed),
        .threads = (uint32_t)counter_load(&ep->counter[EP_COUNT_THREADS]),
        .tree_nodes = (uint32_t)counter_load(&ep->counter[EP_COUNT_TREE_NODES]),
        .modules = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed),
        .tree_capacity = ep->collect->tree.node_capacity,
        .memory_used = ep->memory_used,
        .budget_ppm = ep->config.budget_ppm,
        .tick_hz = ep_port_tick_hz(),
        .clock = ep_port_clock(NULL),
    };
    for (unsigned i = 0; i < EP_COUNT_THREADS; i++)
        *(uint64_t *)(void *)((char *)stats + place[i]) = counter_load(&ep->counter[i]);
    for (unsigned i = 0; i < EP_KINDS; i++) {
        stats->kind_count[i] = counter_load(&ep->kind_count[i]);
        stats->kind_value[i] = counter_load(&ep->kind_value[i]);
        stats->kind_rate[i] = ep_rates_limit(ep, (enum ep_kind)i);
        stats->kind_distance[i] = (uint32_t)ep_hook_period((enum ep_kind)i);
    }
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        stats->lost_count[i] = counter_load(&ep->lost_count[i]);
        stats->lost_ns[i] = counter_load(&ep->lost_ns[i]);
    }
    for (unsigned i = 0; i < EP_UNSAMPLED; i++)
        ep_unsampled_read(ep, i, &stats->unsampled[i]);
}
