/*
 * A ring of variable-length records: many writers, one reader, no lock.
 *
 *   writer   ep_ring_reserve -> fill ep_ring_payload -> ep_ring_commit    signal handlers and hooks
 *   reader   ep_ring_peek    -> use the record       -> ep_ring_pop       the collect thread
 *
 * A full ring refuses: ep_ring_reserve() returns -ENOSPC, and the caller counts the loss. Records come out in the order
 * of ep_ring_reserve(). One that is not committed yet holds back all later ones. Always head - tail <= mask + 1.
 */
#ifndef EP_DATA_RING_H
#define EP_DATA_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ep_ring {
    atomic_uint head, tail; /* in words, running free */
    unsigned mask;
    atomic_uintptr_t *words; /* the first word of a record: its header, 0 while it is being written */
};

/* A record as the reader sees it. The ring gives `kind` EP_RING_PAD a meaning, record.h all others. `words` is valid
 * until ep_ring_pop(). */
#define EP_RING_PAD 1u
struct ep_record {
    unsigned kind, quality, end, count;
    const atomic_uintptr_t *words;
};

/* Initialises a ring over `words` words of zeroed memory, a power of two. Context: init. */
void ep_ring_init(struct ep_ring *ring, atomic_uintptr_t *memory, unsigned words);

/* Reserves room for a record of at most `most` payload words. Returns a positive position for ep_ring_payload() and
 * ep_ring_commit(), or -ENOSPC if the ring is full. Sets *wake if the reader should be woken. Context: signal. */
int ep_ring_reserve(struct ep_ring *ring, unsigned most, bool *wake);

/* The payload's words. Do not write words beyond the count given to ep_ring_commit(). Context: signal. */
static inline atomic_uintptr_t *ep_ring_payload(struct ep_ring *ring, int position)
{
    return &ring->words[position];
}

static inline uintptr_t ep_ring_header(const struct ep_record *record)
{
    return (uintptr_t)record->kind | (uintptr_t)record->quality << 4 | (uintptr_t)record->end << 8 |
           (uintptr_t)record->count << 16;
}

/* Words reserved or not yet popped. Context: signal. */
unsigned ep_ring_used(const struct ep_ring *ring);

/* Publishes the record with the number of words in its header, and returns the rest of `most` to the ring.
 * Context: signal. */
void ep_ring_commit(struct ep_ring *ring, int position, unsigned most, uintptr_t header);

/* Reads the oldest complete record, which is inside the ring whatever its header says. False: there is none.
 * Context: collect. */
bool ep_ring_peek(struct ep_ring *ring, struct ep_record *record);
void ep_ring_pop(struct ep_ring *ring, const struct ep_record *record);

#endif
