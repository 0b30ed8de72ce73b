/*
 * Counters. Each is written by one thread or by atomic addition and may be read by any; a snapshot is not a
 * point in time, but no count is ever lost or torn.
 */
#include "internal.h"

#include <string.h>

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

static uint64_t get(const _Atomic uint64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

#define PLACE(member) (uint16_t) offsetof(struct ep_stats, member)

/* Where a counter goes; the last ones are narrower. */
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
};

void ep_stats_fill(struct ep *ep, struct ep_stats *stats)
{
    *stats = (struct ep_stats){
        .last_error = atomic_load_explicit(&ep->last_error, memory_order_relaxed),
        .threads = (uint32_t)get(&ep->counter[EP_COUNT_THREADS]),
        .tree_nodes = (uint32_t)get(&ep->counter[EP_COUNT_TREE_NODES]),
        .modules = atomic_load_explicit(&ep->modules.count, memory_order_relaxed),
        .tree_capacity = ep->tree.node_capacity,
        .memory_used = ep->memory_used,
        .budget_ppm = ep->config.budget_ppm,
    };
    for (unsigned i = 0; i < EP_COUNT_THREADS; i++)
        *(uint64_t *)(void *)((char *)stats + place[i]) = get(&ep->counter[i]);
    for (unsigned i = 0; i < EP_KINDS; i++) {
        stats->kind_count[i] = get(&ep->kind_count[i]);
        stats->kind_value[i] = get(&ep->kind_value[i]);
    }
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        stats->lost_count[i] = get(&ep->lost_count[i]);
        stats->lost_ns[i] = get(&ep->lost_ns[i]);
    }
}

const char *ep_loss_name(unsigned reason)
{
    static const char names[EP_LOSS_REASONS][16] = {
        "ring full",      "no timer",     "no slot",  "tree full",  "entries full",  "modules full",
        "refused",        "segment",      "stopped",  "too large",  "tags full",     "contexts full",
        "live heap full", "waiters full", "no stack", "spool full", "spool damaged", "refused too old",
    };

    return reason < EP_LOSS_REASONS ? names[reason] : NULL;
}

const char *ep_special_name(unsigned frame)
{
    static const char names[EP_FRAME_SPECIALS][20] = {
        "[none]",          "[truncated]",
        "[stack cut]",     "[deeper frames]",
        "[thread exit]",   "[lost: ring full]",
        "[lost: refused]", "[lost: segment]",
        "[gc hijack]",     "[unknown]",
        "[gap]",           "[wait]",
        "[lock]",          "[sleep]",
        "[network]",       "[disk]",
        "[idle]",          "[gc gen0]",
        "[gc gen1]",       "[gc gen2]",
        "[gc background]", "[lost: stopped]",
        "[no stack]",      "[gc loh]",
        "[gc poh]",        "[gc fragmentation]",
        "[gc unused]",     "[lost: spool]",
    };

    return names[frame < EP_FRAME_SPECIALS ? frame : EP_FRAME_UNKNOWN];
}

struct kind_words {
    char name[12], unit[12];
};

static const struct kind_words *kind_words(unsigned kind)
{
    static const struct kind_words words[EP_KINDS] = {
        [EP_KIND_CPU] = {"cpu", "nanoseconds"},   [EP_KIND_WAIT] = {"wait", "nanoseconds"},
        [EP_KIND_LOCK] = {"lock", "nanoseconds"}, [EP_KIND_ALLOC] = {"alloc", "bytes"},
        [EP_KIND_LIVE] = {"live", "bytes"},       [EP_KIND_EXCEPTION] = {"exception", "count"},
        [EP_KIND_GC] = {"gc", "nanoseconds"},     [EP_KIND_THREAD] = {"thread", "count"},
        [EP_KIND_HEAP] = {"heap", "bytes"},
    };

    return kind >= EP_KIND_CPU && kind < EP_KINDS ? &words[kind] : NULL;
}

const char *ep_kind_name(unsigned kind)
{
    return kind_words(kind) ? kind_words(kind)->name : NULL;
}

const char *ep_kind_unit(unsigned kind)
{
    return kind_words(kind) ? kind_words(kind)->unit : NULL;
}
