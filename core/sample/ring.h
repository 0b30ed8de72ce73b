/*
 * A ring of variable-length records: many writers, one reader, no lock.
 *
 *   writer   ep_ring_reserve -> fill ep_ring_payload -> ep_ring_commit    signal handlers and hooks
 *   reader   ep_ring_peek    -> use the record       -> ep_ring_pop       the collect thread
 *
 * A full ring refuses: ep_ring_reserve() returns -ENOSPC. Records come out in the order of ep_ring_reserve(). One that
 * is not committed yet holds back all later ones. Always head - tail <= mask + 1.
 *
 * The reader is woken once when EP_RING_WAKE words are used, or half of a small ring, and by an event at half of that,
 * because one without room is lost; then not again until it has begun to read. What a large ring has beyond that is for
 * the time until the reader gets a processor. Pages of it that no burst has needed stay untouched: the reader starts
 * again at the ring's first word whenever the ring is empty.
 */
#ifndef EP_DATA_RING_H
#define EP_DATA_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EP_RING_WAKE 1024u

struct ep_ring {
    atomic_uint head, tail; /* in words, running free */
    unsigned mask, wake_at;
    atomic_bool woken;       /* the reader was woken and has not begun to read since */
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

/* Reserves room for a record of at most `most` payload words, if `spare` words stay free behind it. Returns a positive
 * position for ep_ring_payload() and ep_ring_commit(), or -ENOSPC if there is no such room. Sets *wake if the reader
 * should be woken. Context: signal. */
int ep_ring_reserve(struct ep_ring *ring, unsigned most, unsigned spare, bool *wake);

/* The words that records leave free which can come later without a loss. Context: signal. */
static inline unsigned ep_ring_kept(const struct ep_ring *ring)
{
    return (ring->mask + 1) / 4;
}

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
/* Lets the next full ring wake the reader again. To be called before it reads. Context: collect. */
static inline void ep_ring_begin(struct ep_ring *ring)
{
    atomic_store_explicit(&ring->woken, false, memory_order_relaxed);
}

/* Lets the next record begin at the ring's first word, if the ring is empty. Context: collect. */
void ep_ring_restart(struct ep_ring *ring);

#endif
