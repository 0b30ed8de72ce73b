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

static uint64_t get(struct ep *ep, enum ep_counter counter)
{
    return atomic_load_explicit(&ep->counter[counter], memory_order_relaxed);
}

void ep_stats_fill(struct ep *ep, struct ep_stats *stats)
{
    *stats = (struct ep_stats){
        .samples = get(ep, EP_COUNT_SAMPLES),
        .weight_ns = get(ep, EP_COUNT_WEIGHT_NS),
        .exact = get(ep, EP_COUNT_EXACT),
        .gap = get(ep, EP_COUNT_GAP),
        .cut = get(ep, EP_COUNT_CUT),
        .thread_exit_ns = get(ep, EP_COUNT_THREAD_EXIT_NS),
        .rule_hits = get(ep, EP_COUNT_RULE_HITS),
        .rule_misses = get(ep, EP_COUNT_RULE_MISSES),
        .messages = get(ep, EP_COUNT_MESSAGES),
        .message_bytes = get(ep, EP_COUNT_MESSAGE_BYTES),
        .delivered = get(ep, EP_COUNT_DELIVERED),
        .delivered_bytes = get(ep, EP_COUNT_DELIVERED_BYTES),
        .delivery_failures = get(ep, EP_COUNT_DELIVERY_FAILURES),
        .intervals_merged = get(ep, EP_COUNT_INTERVALS_MERGED),
        .collect_cpu_ns = get(ep, EP_COUNT_COLLECT_CPU_NS),
        .deliver_cpu_ns = get(ep, EP_COUNT_DELIVER_CPU_NS),
        .wakeups = get(ep, EP_COUNT_WAKEUPS),
        .last_error = atomic_load_explicit(&ep->last_error, memory_order_relaxed),
        .threads = (uint32_t)get(ep, EP_COUNT_THREADS),
        .tree_nodes = (uint32_t)get(ep, EP_COUNT_TREE_NODES),
        .modules = atomic_load_explicit(&ep->modules.count, memory_order_relaxed),
        .tree_capacity = ep->tree.node_capacity,
        .memory_used = ep->memory_used,
    };
    for (unsigned i = 0; i < EP_KINDS; i++) {
        stats->kind_count[i] = atomic_load_explicit(&ep->kind_count[i], memory_order_relaxed);
        stats->kind_value[i] = atomic_load_explicit(&ep->kind_value[i], memory_order_relaxed);
    }
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        stats->lost_count[i] = atomic_load_explicit(&ep->lost_count[i], memory_order_relaxed);
        stats->lost_ns[i] = atomic_load_explicit(&ep->lost_ns[i], memory_order_relaxed);
    }
}

const char *ep_loss_name(unsigned reason)
{
    static const char names[EP_LOSS_REASONS][16] = {
        "ring full", "no timer",  "no slot",   "tree full",     "entries full",   "modules full", "refused",  "segment",
        "stopped",   "too large", "tags full", "contexts full", "live heap full", "waiters full", "no stack",
    };

    return reason < EP_LOSS_REASONS ? names[reason] : NULL;
}

const char *ep_special_name(unsigned frame)
{
    static const char names[EP_FRAME_SPECIALS][20] = {
        "[none]",          "[truncated]",       "[stack cut]",     "[deeper frames]",
        "[thread exit]",   "[lost: ring full]", "[lost: refused]", "[lost: segment]",
        "[gc hijack]",     "[unknown]",         "[gap]",           "[wait]",
        "[lock]",          "[sleep]",           "[network]",       "[disk]",
        "[idle]",          "[gc gen0]",         "[gc gen1]",       "[gc gen2]",
        "[gc background]", "[lost: stopped]",   "[no stack]",
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
