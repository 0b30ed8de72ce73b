/*
 * The ring between handlers and the collect thread: many writers, one reader, variable-length records.
 *
 *   tail                       head
 *    v                          v
 *    [header|payload..][header|payload....][0 being written ...]
 *
 * A writer advances `head` by compare-and-swap, fills its words and stores the header last. The reader stops at a
 * header of 0, zeroes what it has read (any word may become a header) and advances `tail`. Nobody waits: a writer
 * without room fails, and a preempted writer only delays the reader. Records are contiguous; a pad record fills the end
 * of the ring.
 */
#include "core/sample/ring.h"

#include <errno.h>

/* After this many lost races in a row a writer gives up and counts a loss. */
#define RESERVE_TRIES 64

void ep_ring_init(struct ep_ring *ring, atomic_uintptr_t *memory, unsigned words)
{
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->woken, false);
    ring->mask = words - 1;
    ring->wake_at = words / 2 < EP_RING_WAKE ? words / 2 : EP_RING_WAKE;
    ring->words = memory;
}

/* Events cannot come later, as ticks can: for them the reader is woken earlier. next: with the words that a record
 * reserves and may return, so many in a row reach the limit. Writers that race wake it twice. */
static bool is_to_wake(struct ep_ring *ring, unsigned next, unsigned spare)
{
    if (next < (spare == 0 ? ring->wake_at / 2 : ring->wake_at) ||
        atomic_load_explicit(&ring->woken, memory_order_relaxed))
        return false;
    atomic_store_explicit(&ring->woken, true, memory_order_relaxed);
    return true;
}

static void pad_from(struct ep_ring *ring, unsigned at, unsigned words)
{
    const struct ep_record pad = {.kind = EP_RING_PAD, .count = words - 1};

    atomic_store_explicit(&ring->words[at & ring->mask], ep_ring_header(&pad), memory_order_release);
}

/* The unwinder writes straight into the ring, so a writer reserves the maximum, and ep_ring_commit() returns the unused
 * words: by moving `head` back, or as a pad record if another writer has reserved since. `head` orders nothing: a
 * record is published by its header, and free words by `tail`. */
__attribute__((hot)) int ep_ring_reserve(struct ep_ring *ring, unsigned most, unsigned spare, bool *wake)
{
    unsigned size = ring->mask + 1, need = most + 1;
    unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    for (int i = 0; i < RESERVE_TRIES; i++) {
        /* acquire: pairs with the release in ep_ring_pop(), so that the words before `tail` are zero again */
        unsigned tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        unsigned used = head - tail;
        unsigned at = head & ring->mask;
        unsigned pad = at + need > size ? size - at : 0;
        if (used > size) { /* overtaken between the two loads */
            head = atomic_load_explicit(&ring->head, memory_order_relaxed);
            continue;
        }
        if (size - used < pad + need + spare)
            return -ENOSPC;
        if (!atomic_compare_exchange_weak_explicit(&ring->head, &head, head + pad + need, memory_order_relaxed,
                                                   memory_order_relaxed))
            continue;
        if (pad)
            pad_from(ring, at, pad);
        *wake = is_to_wake(ring, used + pad + need, spare);
        return (int)(pad ? 0 : at) + 1;
    }
    return -ENOSPC;
}

__attribute__((hot)) void ep_ring_commit(struct ep_ring *ring, int position, unsigned most, uintptr_t header)
{
    unsigned start = (unsigned)position - 1, count = (unsigned)(header >> 16), spare = most - count;

    if (spare) {
        unsigned head = atomic_load_explicit(&ring->head, memory_order_relaxed);
        bool last = ((head - (start + most + 1)) & ring->mask) == 0;
        if (!last || !atomic_compare_exchange_strong_explicit(&ring->head, &head, head - spare, memory_order_relaxed,
                                                              memory_order_relaxed))
            pad_from(ring, start + 1 + count, spare);
    }
    atomic_store_explicit(&ring->words[start], header, memory_order_release);
}

unsigned ep_ring_used(const struct ep_ring *ring)
{
    return atomic_load_explicit(&ring->head, memory_order_relaxed) -
           atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

bool ep_ring_peek(struct ep_ring *ring, struct ep_record *record)
{
    for (;;) {
        unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        const unsigned used = atomic_load_explicit(&ring->head, memory_order_relaxed) - tail;
        const unsigned whole = ring->mask + 1 - (tail & ring->mask); /* words up to the ring's end */
        atomic_uintptr_t *at = &ring->words[tail & ring->mask];
        if (used == 0)
            return false;
        /* acquire: pairs with the release in ep_ring_commit() */
        uintptr_t header = atomic_load_explicit(at, memory_order_acquire);
        if (header == 0)
            return false;
        record->kind = (unsigned)(header & 0xf);
        record->quality = (unsigned)(header >> 4) & 0xf;
        record->end = (unsigned)(header >> 8) & 0xff;
        record->count = (unsigned)(header >> 16) & 0xffff;
        record->words = at + 1;
        if (record->count >= whole)
            record->count = whole - 1;
        if (record->kind != EP_RING_PAD)
            return true;
        ep_ring_pop(ring, record);
    }
}

void ep_ring_pop(struct ep_ring *ring, const struct ep_record *record)
{
    unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    atomic_uintptr_t *at = &ring->words[tail & ring->mask], *end = at + record->count + 1;

    while (at < end)
        atomic_store_explicit(at++, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail + record->count + 1, memory_order_release);
}

/* Until `tail` follows, writers see the skipped words as used. */
void ep_ring_restart(struct ep_ring *ring)
{
    unsigned tail = atomic_load_explicit(&ring->tail, memory_order_relaxed), head = tail, at = tail & ring->mask;
    unsigned start = tail + (ring->mask + 1 - at);

    if (at &&
        atomic_compare_exchange_strong_explicit(&ring->head, &head, start, memory_order_relaxed, memory_order_relaxed))
        atomic_store_explicit(&ring->tail, start, memory_order_release);
}
