/*
 * The outbox: encoded messages on their way from the collect thread to the deliver thread.
 *
 * A byte ring in which every message is contiguous: [header|bytes][header|bytes]... A message that does not fit behind
 * the head goes to the start of the ring; a header of size 0 marks the jump. One producer and one consumer need no
 * lock: each moves its own offset. Eight bytes always stay free, so equal offsets mean "empty".
 *
 * Both offsets are in one word, because the producer moves both to the start when the ring is empty. Else the room
 * would be in two pieces, and the larger one could be as small as half of it.
 */
#include "core/deliver/outbox.h"

#include <string.h>

#define HEADER ((uint32_t)sizeof(struct ep_box_header))

static uint32_t round_up(uint32_t size)
{
    return (size + 7u) & ~7u;
}

void ep_outbox_init(struct ep_outbox *box, void *memory, size_t size)
{
    box->memory = memory;
    box->size = (uint32_t)size & ~7u;
    box->held = false;
    atomic_init(&box->ends, 0);
}

static uint64_t ends_load(const struct ep_outbox *box)
{
    return atomic_load_explicit(&box->ends, memory_order_acquire);
}

static uint32_t head_of(uint64_t ends)
{
    return (uint32_t)ends;
}

static uint32_t tail_of(uint64_t ends)
{
    return (uint32_t)(ends >> 32);
}

/* Moves one offset while the other side may move its own. */
static void head_set(struct ep_outbox *box, uint32_t head)
{
    uint64_t ends = ends_load(box);

    while (!atomic_compare_exchange_weak(&box->ends, &ends, (uint64_t)tail_of(ends) << 32 | head)) {
    }
}

static void tail_set(struct ep_outbox *box, uint32_t tail)
{
    uint64_t ends = ends_load(box);

    while (!atomic_compare_exchange_weak(&box->ends, &ends, (uint64_t)tail << 32 | head_of(ends))) {
    }
}

static struct ep_box_header *header_at(struct ep_outbox *box, uint32_t offset)
{
    return (struct ep_box_header *)(void *)(box->memory + offset);
}

/* Returns the room for a message, and in *at its offset: behind the head or at the start of the ring. */
static uint32_t room_find(struct ep_outbox *box, uint32_t *at)
{
    uint64_t ends = ends_load(box);
    uint32_t behind, start = 0;

    if (head_of(ends) == tail_of(ends) && atomic_compare_exchange_strong(&box->ends, &ends, 0))
        ends = 0;
    uint32_t head = head_of(ends), tail = tail_of(ends);
    if (head < tail) {
        behind = tail - head - 8;
    } else {
        behind = box->size - head - (tail == 0 ? 8 : 0);
        start = tail >= 8 ? tail - 8 : 0;
    }
    *at = behind >= start ? head : 0;
    uint32_t most = behind >= start ? behind : start;
    return most > HEADER && !box->held ? most - HEADER : 0;
}

uint32_t ep_outbox_room(struct ep_outbox *box, uint8_t **data)
{
    uint32_t size = room_find(box, &box->reserved);

    *data = box->memory + box->reserved + HEADER;
    return size;
}

const struct ep_box_header *ep_outbox_put(struct ep_outbox *box, const struct ep_box_header *header, bool hold)
{
    uint32_t at = box->reserved, head = head_of(ends_load(box));
    struct ep_box_header *put = header_at(box, at);

    *put = *header;
    box->held = hold;
    if (hold)
        return put;
    if (at != head && box->size - head >= HEADER)
        header_at(box, head)->size = 0;
    uint32_t next = at + HEADER + round_up(header->size);
    head_set(box, next == box->size ? 0 : next);
    return put;
}

bool ep_outbox_empty(const struct ep_outbox *box)
{
    uint64_t ends = ends_load(box);

    return head_of(ends) == tail_of(ends);
}

const struct ep_box_header *ep_outbox_peek(struct ep_outbox *box)
{
    uint64_t ends = ends_load(box);
    uint32_t tail = tail_of(ends);

    if (tail == head_of(ends))
        return NULL;
    if (box->size - tail < HEADER || header_at(box, tail)->size == 0) {
        tail = 0;
        tail_set(box, 0);
    }
    return header_at(box, tail);
}

const struct ep_box_header *ep_outbox_after(struct ep_outbox *box, const struct ep_box_header *header)
{
    uint32_t head = head_of(ends_load(box));
    uint32_t next = (uint32_t)((const uint8_t *)(header + 1) - box->memory) + round_up(header->size);

    if (next == box->size)
        next = 0;
    if (next == head)
        return NULL;
    return box->size - next < HEADER || header_at(box, next)->size == 0 ? header_at(box, 0) : header_at(box, next);
}

void ep_outbox_pop(struct ep_outbox *box)
{
    uint32_t tail = tail_of(ends_load(box));
    uint32_t next = tail + HEADER + round_up(header_at(box, tail)->size);

    tail_set(box, next == box->size ? 0 : next);
}
