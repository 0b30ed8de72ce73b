/*
 * The collect thread: records from the ring become stacks in the tree, and once an interval the tree becomes a message.
 *
 *   ep_collect_round -> drain -> add_sample, add_rest
 *                    -> modules and threads are looked for
 *                    -> ep_collect_finish -> encode_some -> ep_encode_*, ep_outbox_push
 *
 * Never blocks: when the outbox has no room the interval simply goes on, so a lost link costs resolution in time and
 * no samples. CPU time is counted in whole periods ("ticks"); what threads used beside their samples is kept as a
 * balance that may be negative and goes to [thread exit] whenever it has come to a period, so totals are right in
 * the long run although the last tick of a thread is never its end.
 */
#include "internal.h"

#include <string.h>

#define SCAN_ANNOUNCED_NS 10000000000u /* threads announce themselves: only ends can be missed */
#define SCAN_NS           5000000000u

static void add_special(struct ep *ep, enum ep_special frame, uint32_t count, uint64_t ticks)
{
    unsigned node = ep_tree_child(&ep->tree, 0, frame);

    (void)ep_tree_add(&ep->tree, node ? node : ep->tree.truncated, EP_KIND_CPU, count, ticks);
}

/* The frame that stands in for what the walk did not reach, as a node to hang the stack on. */
static unsigned root_node(struct ep *ep, unsigned end)
{
    if (!end)
        return 0;
    unsigned node = ep_tree_child(&ep->tree, 0, end);
    return node ? node : ep->tree.truncated;
}

static void add_sample(struct ep *ep, const struct ep_record *record)
{
    uint64_t ticks = (uint64_t)record->words[1];
    unsigned node = root_node(ep, record->end);

    for (unsigned i = record->count; i > 2; i--) {
        uint32_t frame = ep_module_linear(&ep->modules, record->words[i - 1], &ep->module_hint);
        unsigned child = ep_tree_child(&ep->tree, node, frame);
        if (!child) {
            unsigned truncated = ep_tree_child(&ep->tree, node, EP_FRAME_TRUNCATED);
            node = truncated ? truncated : ep->tree.truncated;
            ep_lose(ep, EP_LOSS_TREE_FULL, 1, ticks * ep->period_ns);
            break;
        }
        node = child;
    }
    if (!ep_tree_add(&ep->tree, node, EP_KIND_CPU, 1, ticks))
        ep_lose(ep, EP_LOSS_ENTRIES_FULL, 1, ticks * ep->period_ns);
    ep_count(ep, EP_COUNT_SAMPLES, 1);
    ep_count(ep, EP_COUNT_WEIGHT_NS, ticks * ep->period_ns);
    ep_count(ep, EP_COUNT_EXACT + (record->quality > EP_STACK_CUT ? EP_STACK_CUT : record->quality), 1);
}

static void add_rest(struct ep *ep, const struct ep_record *record)
{
    uint64_t low = (uint64_t)record->words[1], high = (uint64_t)record->words[2];

    ep->rest_balance_ns += (int64_t)(low | high << 32);
    if (ep->rest_balance_ns < (int64_t)ep->period_ns)
        return;
    uint64_t ticks = (uint64_t)ep->rest_balance_ns / ep->period_ns;
    ep->rest_balance_ns -= (int64_t)(ticks * ep->period_ns);
    add_special(ep, EP_FRAME_THREAD_EXIT, 0, ticks);
    ep_count(ep, EP_COUNT_THREAD_EXIT_NS, ticks * ep->period_ns);
}

static void drain(struct ep *ep)
{
    struct ep_record record;

    /* Bounded: handlers cannot keep this thread here for ever. */
    for (unsigned i = 0; i <= ep->ring.mask && ep_ring_peek(&ep->ring, &record); i++) {
        if (record.kind == EP_RECORD_SAMPLE)
            add_sample(ep, &record);
        else
            add_rest(ep, &record);
        ep_ring_pop(&ep->ring, &record);
    }
}

/* Losses of others become counts here and frames of their own, so that totals add up. */
static void collect_losses(struct ep *ep)
{
    unsigned samples = atomic_exchange(&ep->lost_samples, 0), ticks = atomic_exchange(&ep->lost_ticks, 0);

    if (ticks || samples) {
        ep_lose(ep, EP_LOSS_RING_FULL, samples, (uint64_t)ticks * ep->period_ns);
        add_special(ep, EP_FRAME_LOST_RING, 0, ticks);
    }
    if ((ticks = atomic_exchange(&ep->lost_ticks_refused, 0)) != 0)
        add_special(ep, EP_FRAME_LOST_REFUSED, 0, ticks);
    if ((ticks = atomic_exchange(&ep->lost_ticks_segment, 0)) != 0)
        add_special(ep, EP_FRAME_LOST_SEGMENT, 0, ticks);
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++) {
        unsigned count = atomic_exchange(&ep->refused[reason], 0);
        if (count)
            ep_lose(ep, (enum ep_loss)reason, count, 0);
    }
    ep_count(ep, EP_COUNT_RULE_HITS, atomic_exchange(&ep->rule_hits, 0));
    ep_count(ep, EP_COUNT_RULE_MISSES, atomic_exchange(&ep->rule_misses, 0));
}

void ep_segment_begin(struct ep *ep)
{
    unsigned count = atomic_load_explicit(&ep->modules.count, memory_order_relaxed);

    do
        ep_port_random(&ep->segment, sizeof ep->segment);
    while (ep->segment == 0);
    ep->sequence = 0;
    ep->nodes_declared = 1;
    for (unsigned i = 0; i < count; i++)
        ep->modules.slot[i].declared = false;
}

static int32_t encode(struct ep *ep, const struct ep_encoding *encoding)
{
    return ep->config.format == EP_FORMAT_PPROF ? ep_encode_pprof(ep, encoding) : ep_encode_compact(ep, encoding);
}

static void push(struct ep *ep, const struct ep_encoding *encoding, uint32_t size, uint64_t ticks)
{
    uint64_t unix_ns = encoding->unix_minus_uptime_ns;
    struct ep_box_header header = {
        .size = size,
        .sequence = ep->sequence++,
        .segment = ep->segment,
        .samples = encoding->samples,
        .ticks = ticks,
        .period_ns = ep->period_ns,
        .start_unix_ns = unix_ns ? encoding->start_ns + unix_ns : 0,
        .end_unix_ns = unix_ns ? encoding->end_ns + unix_ns : 0,
    };

    ep_outbox_push(&ep->outbox, &header);
    ep_count(ep, EP_COUNT_MESSAGES, 1);
    ep_count(ep, EP_COUNT_MESSAGE_BYTES, size);
    ep_port_wake(&ep->deliver_event);
}

static bool measured(const struct ep_tree *tree, unsigned node)
{
    for (unsigned i = tree->node[node].entry; i; i = tree->entry[i - 1].next)
        if (tree->entry[i - 1].count || tree->entry[i - 1].value)
            return true;
    return false;
}

/* The first node that has something to tell: all before it would be an empty message. */
static unsigned first_untold(const struct ep *ep)
{
    const struct ep_tree *tree = &ep->tree;
    bool by_dictionary = ep->config.format == EP_FORMAT_COMPACT && ep->nodes_declared < tree->nodes;
    unsigned id = 1, end = by_dictionary ? ep->nodes_declared : tree->nodes - 1;

    while (id < end && !measured(tree, id))
        id++;
    return id;
}

/* One message: all of the tree, or as many nodes as an empty outbox can take. Returns the limit that it reached, or 0
 * when there is no room now. */
static unsigned encode_some(struct ep *ep, struct ep_encoding *encoding, bool last)
{
    uint64_t ticks;
    bool was_empty = ep_outbox_empty(&ep->outbox);
    unsigned low = first_untold(ep);

    encoding->size = ep_outbox_room(&ep->outbox, &encoding->data);
    for (encoding->limit = ep->tree.nodes; encoding->limit > low; encoding->limit = low + (encoding->limit - low) / 2) {
        encoding->last = last && encoding->limit == ep->tree.nodes;
        ep_tree_sum(&ep->tree, encoding->limit, &encoding->samples, &ticks);
        int32_t size = encode(ep, encoding);
        if (size > 0) {
            push(ep, encoding, (uint32_t)size, ticks);
            return encoding->limit;
        }
        if (!was_empty)
            return 0;
    }
    ep_tree_sum(&ep->tree, ep->tree.nodes, &encoding->samples, &ticks);
    ep_lose(ep, EP_LOSS_TOO_LARGE, encoding->samples, ticks * ep->period_ns);
    ep->tree.full = true; /* its dictionary cannot be told either: the segment ends here */
    return ep->tree.nodes;
}

/* The segment knows these now. */
static void declare(struct ep *ep, unsigned reached)
{
    unsigned count = atomic_load_explicit(&ep->modules.count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        ep->modules.slot[i].declared |= ep->modules.slot[i].wanted;
    if (ep->nodes_declared < reached)
        ep->nodes_declared = reached;
}

/* Everything has been told: make room for the next interval. */
static void interval_done(struct ep *ep, uint64_t now)
{
    if (ep->tree.full) {
        ep_tree_clear(&ep->tree);
        ep_segment_begin(ep);
    } else {
        ep_tree_clear_entries(&ep->tree);
    }
    ep->interval_start_ns = now;
    atomic_store(&ep->encode_pending, false);
}

bool ep_collect_finish(struct ep *ep, bool last)
{
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns(), count, ticks;
    struct ep_encoding encoding = {
        .start_ns = ep->interval_start_ns, .end_ns = now, .unix_minus_uptime_ns = unix_ns > now ? unix_ns - now : 0};

    if (!ep->transport)
        return true;
    if (atomic_exchange(&ep->segment_stale, false))
        ep_segment_begin(ep);
    ep_tree_sum(&ep->tree, ep->tree.nodes, &count, &ticks);
    if (count == 0 && ticks == 0 && !(last && ep->sequence > 0)) {
        ep->interval_start_ns = now;
        return true;
    }
    for (unsigned reached = 0; reached < ep->tree.nodes;) {
        reached = encode_some(ep, &encoding, last || ep->tree.full);
        if (reached == 0) {
            if (!atomic_exchange(&ep->encode_pending, true))
                ep_count(ep, EP_COUNT_INTERVALS_MERGED, 1);
            return false;
        }
        ep_tree_zero_entries(&ep->tree, reached);
        declare(ep, reached);
    }
    interval_done(ep, now);
    return true;
}

void ep_collect_round(struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();
    uint64_t generation = ep_port_modules_generation();

    if (generation != ep->modules.generation && ep_port_modules_scan() == 0)
        ep->modules.generation = generation;
    drain(ep);
    collect_losses(ep);
    if (now >= ep->next_scan_ns && !atomic_load(&ep->stopping)) {
        int threads = ep_port_threads_scan();
        if (threads >= 0)
            atomic_store_explicit(&ep->counter[EP_COUNT_THREADS], (uint64_t)threads, memory_order_relaxed);
        ep->next_scan_ns = now + (ep_port_threads_announced() ? SCAN_ANNOUNCED_NS : SCAN_NS);
    }
    if (now - ep->interval_start_ns >= ep->interval_ns || atomic_exchange(&ep->flush, false) ||
        atomic_load(&ep->encode_pending))
        (void)ep_collect_finish(ep, false);
    atomic_store_explicit(&ep->counter[EP_COUNT_TREE_NODES], ep->tree.nodes, memory_order_relaxed);
}

static uint64_t until_next(const struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();
    uint64_t next = ep->interval_start_ns + ep->interval_ns;

    if (next <= now) /* waiting for room in the outbox: deliver wakes us */
        next = now + ep->interval_ns;
    if (ep->next_scan_ns < next)
        next = ep->next_scan_ns;
    return next > now ? next - now : 1;
}

void ep_collect_thread(void)
{
    struct ep *ep = ep_running();
    unsigned seen = atomic_load(&ep->collect_event.value);

    while (!atomic_load(&ep->stopping)) {
        ep_collect_round(ep);
        atomic_store_explicit(&ep->counter[EP_COUNT_COLLECT_CPU_NS], ep_port_thread_cpu_ns(), memory_order_relaxed);
        ep_port_wait(&ep->collect_event, seen, until_next(ep));
        ep_count(ep, EP_COUNT_WAKEUPS, 1);
        seen = atomic_load(&ep->collect_event.value);
    }
    ep_collect_round(ep);
    while (!ep_collect_finish(ep, true) && ep_port_uptime_ns() < atomic_load(&ep->stop_deadline_ns)) {
        ep_port_wait(&ep->collect_event, seen, 10000000);
        seen = atomic_load(&ep->collect_event.value);
    }
    atomic_store(&ep->collected, true);
    ep_port_wake(&ep->deliver_event);
}
