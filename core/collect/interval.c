/*
 * Ends an interval: the tree becomes one message or more in the outbox.
 *
 *   ep_collect_finish -> finish -> encode_all -> encode_some -> ep_encode_compact, ep_message_put
 *                               -> tree_empty
 *
 * If the outbox has no room the interval goes on, so a lost link costs resolution in time, but no samples.
 */
#include "core/collect/collect.h"
#include "core/encode/encode.h"
#include "core/profile/fold.h"

#include <string.h>

#define RESTART_ROOM 512u /* of the outbox, for parts of a dictionary */

void ep_segment_rename(struct ep *ep)
{
    unsigned count = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        ep->unwinder.modules.slot[i].declared = false;
    do
        ep_port_random(&ep->collect->segment, sizeof ep->collect->segment);
    while (ep->collect->segment == 0);
    ep->collect->sequence = 0;
}

void ep_segment_begin(struct ep *ep)
{
    ep_segment_rename(ep);
    ep->collect->nodes_declared = 1;
    memset(ep->collect->tags_declared, 0, sizeof ep->collect->tags_declared);
}

static void modules_note(struct ep *ep)
{
    unsigned count = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed);

    for (unsigned i = 0; i < count; i++)
        ep->unwinder.modules.slot[i].declared |= ep->unwinder.modules.slot[i].wanted;
}

const struct ep_box_header *ep_message_put(struct ep *ep, const struct ep_encoding *encoding, uint32_t size, bool hold)
{
    uint64_t unix_ns = encoding->unix_minus_uptime_ns;
    struct ep_box_header header = {
        .size = size,
        .sequence = ep->collect->sequence++,
        .segment = ep->collect->segment,
        .cpu_ns = encoding->sums.value[EP_KIND_CPU],
        .lost_ns = encoding->sums.lost_ns,
        .samples = ep_samples_of(ep, &encoding->sums),
        .end_ns = encoding->end_ns,
        .start_unix_ns = unix_ns ? encoding->start_ns + unix_ns : 0,
        .end_unix_ns = unix_ns ? encoding->end_ns + unix_ns : 0,
    };

    modules_note(ep);
    ep_count(ep, EP_COUNT_MESSAGES, 1);
    ep_count(ep, EP_COUNT_MESSAGE_BYTES, size);
    const struct ep_box_header *put = ep_outbox_put(&ep->deliver->outbox, &header, hold);
    ep_port_wake(&ep->deliver->event);
    return put;
}

/* The first node with something to encode. A message of the nodes before it would be empty. */
static unsigned first_pending(const struct ep *ep)
{
    const struct ep_tree *tree = &ep->collect->tree;
    unsigned id = 1, end = ep->collect->nodes_declared < tree->nodes ? ep->collect->nodes_declared : tree->nodes - 1;

    while (id < end && !ep_tree_has_data(tree, id))
        id++;
    return id;
}

/* Encodes one message: the whole tree, or as many nodes as fit into an empty outbox or the largest message. Returns the
 * first node not encoded, or 0 if there is no room now. */
static unsigned encode_some(struct ep *ep, struct ep_encoding *encoding, bool last)
{
    bool was_empty = ep_outbox_empty(&ep->deliver->outbox);
    unsigned low = first_pending(ep);

    encoding->segment = ep->collect->segment;
    encoding->sequence = ep->collect->sequence;
    encoding->nodes_declared = ep->collect->nodes_declared;
    encoding->size = ep_outbox_room(&ep->deliver->outbox, &encoding->data);
    if (!was_empty)
        encoding->size -= encoding->size < RESTART_ROOM ? encoding->size : RESTART_ROOM;
    if (encoding->size >= ep->deliver->message_bytes) {
        encoding->size = ep->deliver->message_bytes;
        was_empty = true; /* an empty outbox would have no more room */
    }
    for (encoding->limit = ep->collect->tree.nodes; encoding->limit > low;
         encoding->limit = low + (encoding->limit - low) / 2) {
        bool whole = encoding->limit == ep->collect->tree.nodes;
        encoding->more = ep->collect->interval_open || !whole;
        encoding->last = last && whole;
        ep_tree_sum(&ep->collect->tree, encoding->limit, &encoding->sums);
        int32_t size = ep_encode_compact(ep, encoding);
        if (size > 0) {
            (void)ep_message_put(ep, encoding, (uint32_t)size, false);
            return encoding->limit;
        }
        if (!was_empty)
            return 0;
    }
    encoding->limit = ep->collect->tree.nodes;
    ep_tree_sum(&ep->collect->tree, encoding->limit, &encoding->sums);
    ep_lose(ep, EP_LOSS_TOO_LARGE, ep_samples_of(ep, &encoding->sums),
            encoding->sums.value[EP_KIND_CPU] - encoding->sums.lost_ns);
    ep->collect->tree.full = true; /* its dictionary cannot be sent either: the segment ends here */
    return ep->collect->tree.nodes;
}

/* Notes what the segment's dictionary contains now. */
static void note_declared(struct ep *ep, unsigned reached)
{
    if (ep->collect->nodes_declared < reached)
        ep->collect->nodes_declared = reached;
    for (unsigned i = 1; i < ep->collect->labels.count; i++) {
        unsigned set = ep->collect->labels.key[i].tags;
        ep->collect->tags_declared[set / 32] |= 1u << (set % 32);
    }
}

/* Removes the stacks that no feature refers to or, if none does, that were not sampled lately. */
static void nodes_clear(struct ep *ep)
{
    struct ep_tree *tree = &ep->collect->tree;
    unsigned kept = ep_collect_mark(ep);

    if (kept == 0)
        kept = ep_tree_mark_used(tree);
    if (kept > tree->node_capacity / 2) {
        EP_EACH_FEATURE (at, tree_clear)
            at.feature->tree_clear();
        ep_tree_clear(tree);
        return;
    }
    ep_tree_keep(tree);
    EP_EACH_FEATURE (at, tree_moved)
        at.feature->tree_moved(tree);
    ep_tree_clear_entries(tree);
}

/* Empties the tree for the next profile. */
static void tree_empty(struct ep *ep, uint64_t now)
{
    if (ep->collect->tree.full) {
        nodes_clear(ep);
        ep_segment_begin(ep);
    } else {
        ep_tree_clear_entries(&ep->collect->tree);
    }
    ep->collect->path.depth = 0;
    ep_labels_clear(ep);
    ep->collect->interval_start_ns =
        now > ep->collect->interval_start_ns ? now : ep->collect->interval_start_ns + 1; /* no two have one start */
    ep->collect->detail = EP_DETAIL_ALL;
    ep->collect->depth_limit = EP_MAX_DEPTH;
}

void ep_collect_discard(struct ep *ep)
{
    ep->collect->tree.full |= ep_tree_nodes_are_low(&ep->collect->tree);
    tree_empty(ep, ep_port_uptime_ns());
}

/* Encodes the whole tree. False: no room now. */
static bool encode_all(struct ep *ep, struct ep_encoding *encoding, bool last)
{
    for (unsigned reached = 0; reached < ep->collect->tree.nodes;) {
        reached = encode_some(ep, encoding, last);
        if (reached == 0)
            return false;
        ep_tree_zero_entries(&ep->collect->tree, reached, EP_KINDS_ALL);
        note_declared(ep, reached);
    }
    return true;
}

static bool finish(struct ep *ep, bool last)
{
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns();
    struct ep_sums sums;
    struct ep_encoding encoding = {.tree = &ep->collect->tree,
                                   .labels = &ep->collect->labels,
                                   .table = &ep->unwinder.modules,
                                   .modules = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed),
                                   .tags = &ep->tags,
                                   .tags_declared = ep->collect->tags_declared,
                                   .kinds = EP_KINDS_ALL,
                                   .start_ns = ep->collect->interval_start_ns,
                                   .end_ns =
                                       now > ep->collect->interval_start_ns ? now : ep->collect->interval_start_ns,
                                   .unix_minus_uptime_ns = unix_ns > now ? unix_ns - now : 0};

    ep_residual_show(ep);
    if (!ep->deliver->transport) { /* only features see the values */
        ep_collect_discard(ep);
        return true;
    }
    ep_restart_round(ep);
    if (atomic_exchange(&ep->deliver->stale_segment, 0) == ep->collect->segment)
        ep_segment_begin(ep);
    ep_tree_sum(&ep->collect->tree, ep->collect->tree.nodes, &sums);
    if (!sums.kinds && !(last && ep->collect->sequence > 0) &&
        !(ep->collect->interval_promised && !ep->collect->interval_open)) {
        ep->collect->interval_start_ns = now > ep->collect->interval_start_ns ? now : ep->collect->interval_start_ns;
        return true;
    }
    atomic_store(&ep->collect->unsettled, 1);
    if (!encode_all(ep, &encoding, last || ep->collect->tree.full)) {
        atomic_store(&ep->collect->unsettled, 0);
        if (!atomic_exchange(&ep->encode_pending, true))
            ep_count(ep, EP_COUNT_INTERVALS_MERGED, 1);
        return false;
    }
    tree_empty(ep, now);
    atomic_store(&ep->collect->unsettled, 0);
    ep->collect->interval_promised = ep->collect->interval_open;
    atomic_store(&ep->encode_pending, false);
    return true;
}

bool ep_collect_held(const struct ep *ep)
{
    EP_EACH_FEATURE (at, holds)
        if (at.feature->holds(ep))
            return true;
    return false;
}

void ep_collect_early(struct ep *ep)
{
    ep->collect->tree.full |= ep_tree_nodes_are_low(&ep->collect->tree);
    ep->collect->interval_open = EP_HAS_FEATURE(convert);
    if (finish(ep, false))
        ep_count(ep, EP_COUNT_EARLY, 1);
    ep->collect->interval_open = false;
}

void ep_collect_gauges(struct ep *ep)
{
    EP_EACH_FEATURE (at, gauges)
        at.feature->gauges(ep);
}

bool ep_collect_finish(struct ep *ep, bool last)
{
    ep_collect_gauges(ep);
    if (!finish(ep, last))
        return false;
    ep->collect->interval_due_ns = ep->collect->interval_start_ns + ep->interval_ns;
    EP_EACH_FEATURE (at, interval_end)
        at.feature->interval_end(ep);
    return true;
}
