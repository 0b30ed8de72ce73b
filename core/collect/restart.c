/*
 * Queued messages whose segment the receiver does not know, because it has lost it or has refused a message of it.
 *
 * The tree still has the segment's nodes. So the segment's dictionary is encoded again as the first messages of a new
 * segment, in parts that fit into what is free of the outbox. Then the queued messages continue that segment. They stay
 * where they are: their segment and sequence change, and their own additions to the dictionary become a field that
 * readers skip.
 *
 * This fails when the nodes have changed since, or when a part does not fit. Then the messages are counted as lost.
 *
 *   ep_restart_round -> part_encode, again each time the deliver thread has sent a part -> queue_rename
 */
#include "core/collect/collect.h"
#include "core/encode/encode.h"

/* Fields of core/proto/compact.proto. */
#define SEGMENT  1u
#define SEQUENCE 2u
#define SKIPPED  15u
#define ADDED    (1u << 4 | 1u << 5 | 1u << 10) /* modules, nodes, tag_sets */

/* Drops the queued messages, and begins a new segment. */
static void queue_drop(struct ep *ep)
{
    const struct ep_box_header *header;

    while (!ep->deliver->restart.optional && (header = ep_outbox_peek(&ep->deliver->outbox)) != NULL &&
           header->segment == ep->deliver->restart.of) {
        ep_lose(ep, EP_LOSS_SEGMENT, header->samples, header->cpu_ns - header->lost_ns);
        (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[EP_SHOWN_SEGMENT], header->cpu_ns);
        ep_outbox_pop(&ep->deliver->outbox);
    }
    if ((ep->collect->segment == ep->deliver->restart.of && !ep->deliver->restart.optional) ||
        ep->collect->segment == ep->deliver->restart.as)
        ep_segment_begin(ep);
}

/* Encodes the next part of the dictionary: nodes with their modules, then tag sets. */
static enum ep_restart_state part_encode(struct ep *ep)
{
    static const struct ep_labels no_labels = {.count = 1};
    unsigned at = ep->deliver->restart.at, nodes = ep->collect->nodes_declared;
    struct ep_encoding encoding = {
        .tree = &ep->collect->tree,
        .labels = &no_labels,
        .table = &ep->unwinder.modules,
        .modules = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed),
        .tags = &ep->tags,
        .tags_again = ep->collect->tags_declared,
        .segment = ep->collect->segment,
        .sequence = ep->collect->sequence,
        .nodes_declared = at < nodes ? at : nodes,
        .tags_begin = at < nodes ? 0 : at - nodes,
        .more = true,
    };

    encoding.size = ep_outbox_room(&ep->deliver->outbox, &encoding.data);
    if (encoding.size > ep->deliver->message_bytes)
        encoding.size = ep->deliver->message_bytes;
    for (unsigned limit = nodes + EP_TAG_SETS + 1; limit > at; limit = at + (limit - at) / 2) {
        encoding.limit = limit < nodes ? limit : nodes;
        encoding.tags_end = limit - encoding.limit;
        int32_t size = ep_encode_compact(ep, &encoding);
        if (size > 0) {
            ep->deliver->restart.at = limit;
            ep->deliver->restart.part = ep_message_put(ep, &encoding, (uint32_t)size, true);
            return EP_RESTART_PART;
        }
    }
    return EP_RESTART_FAILED;
}

static uint8_t *number_read(uint8_t *at, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0;; shift += 7) {
        *value |= (uint64_t)(*at & 0x7f) << shift;
        if (*at++ < 0x80)
            return at;
    }
}

/* Writes a number in place of one with the same number of digits. False: it has more. */
static bool number_replace(uint8_t *at, uint32_t value)
{
    for (; *at >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    if (value >= 0x80)
        return false;
    *at = (uint8_t)value;
    return true;
}

/* Makes a queued message the next of the segment. The bytes are this library's own, with fields below 16. */
static bool message_rename(struct ep *ep, struct ep_box_header *header)
{
    uint8_t *at = (uint8_t *)(header + 1), *end = at + header->size;
    uint64_t value;

    while (at < end) {
        uint8_t *tag = at++;
        unsigned field = *tag >> 3, type = *tag & 7;
        for (unsigned i = 0; field == SEGMENT && i < 8; i++)
            at[i] = (uint8_t)(ep->collect->segment >> 8 * i);
        if (field == SEQUENCE && !number_replace(at, ep->collect->sequence))
            return false;
        if (ADDED >> field & 1)
            *tag = SKIPPED << 3 | 2;
        at = type == 1 ? at + 8 : number_read(at, &value);
        at += type == 2 ? value : 0;
    }
    header->segment = ep->collect->segment;
    header->sequence = ep->collect->sequence++;
    return true;
}

/* Messages whose sequence has not enough digits keep their segment; the receiver will not know it. */
static void queue_rename(struct ep *ep)
{
    const struct ep_box_header *header = ep_outbox_peek(&ep->deliver->outbox);

    while (header && header->segment == ep->deliver->restart.of &&
           message_rename(
               ep, (void *)(ep->deliver->outbox.memory + ((const uint8_t *)header - ep->deliver->outbox.memory))))
        header = ep_outbox_after(&ep->deliver->outbox, header);
}

/* Begins a new segment if the queue is the end of the current one, so the tree has its nodes. */
static bool restart_begin(struct ep *ep)
{
    const struct ep_box_header *first = ep_outbox_peek(&ep->deliver->outbox);

    if (!first || first->segment != ep->deliver->restart.of || ep->collect->segment != ep->deliver->restart.of)
        return false;
    ep_segment_rename(ep);
    ep->deliver->restart.as = ep->collect->segment;
    ep->deliver->restart.at = 1;
    return true;
}

void ep_restart_round(struct ep *ep)
{
    struct ep_restart *restart = &ep->deliver->restart;
    unsigned state = atomic_load(&restart->state);

    if (state == EP_RESTART_NONE || state == EP_RESTART_PART)
        return;
    ep_outbox_let(&ep->deliver->outbox);
    if ((state == EP_RESTART_ASKED && !restart_begin(ep)) || ep->collect->segment != restart->as)
        state = EP_RESTART_FAILED;
    else if (state == EP_RESTART_SENT && restart->at > ep->collect->nodes_declared + EP_TAG_SETS)
        queue_rename(ep), state = EP_RESTART_NONE;
    else if (state != EP_RESTART_FAILED)
        state = part_encode(ep);
    if (state == EP_RESTART_FAILED)
        queue_drop(ep), state = EP_RESTART_NONE;
    atomic_store(&restart->state, state);
    ep_port_wake(&ep->deliver->event);
}
