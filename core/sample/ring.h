/*
 * Records from the service's threads to the collect thread: many writers, one reader, no lock.
 */
#ifndef EP_DATA_RING_H
#define EP_DATA_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words of a 64-bit number in a record. */
#define EP_WIDE_WORDS (8 / (int)sizeof(uintptr_t))

/* Words of a record, written by capture.c and read by collect.c. With a history (ep_history_kinds) the last word before
 * the stack is the time, in units of EP_TIME_SHIFT. */
enum ep_record_kind { EP_RECORD_PAD = 1, EP_RECORD_SAMPLE = 2, EP_RECORD_REST = 3, EP_RECORD_EVENT = 4 };

enum {
    EP_WORD_TID,
    EP_WORD_INFO,  /* tag set (bits 0-15), kind (16-19), flag: a span follows (20), skip (21-23), frame (24-31) */
    EP_WORD_VALUE, /* a 64-bit number */
    EP_SAMPLE_WORDS = EP_WORD_VALUE + EP_WIDE_WORDS,
    EP_WORD_COUNT = EP_SAMPLE_WORDS, /* events only, from here */
    EP_WORD_TYPE,
    EP_WORD_TOKEN,
    EP_EVENT_WORDS,
    EP_SPAN_WORDS = 3 * EP_WIDE_WORDS, /* follow the above if flagged: span id, trace id's halves */
};
#define EP_INFO_KIND_SHIFT  16
#define EP_INFO_SPAN        (1u << 20)
#define EP_INFO_SKIP_SHIFT  21
#define EP_INFO_FRAME_SHIFT 24

struct ep_ring {
    atomic_uint head, tail; /* in words, running free */
    unsigned mask;
    atomic_uintptr_t *words; /* the first word of a record: its header, 0 while it is being written */
};

/* A record as the reader sees it. `words` is valid until ep_ring_pop(). */
struct ep_record {
    enum ep_record_kind kind;
    unsigned quality, end, count;
    const atomic_uintptr_t *words;
};

/* Uptime in units of 2^20 ns, in one word: no division. */
#define EP_TIME_SHIFT 20

static inline uint64_t ep_wide_word(const atomic_uintptr_t *word)
{
    return EP_WIDE_WORDS == 1 ? word[0] : (uint64_t)word[0] | (uint64_t)word[EP_WIDE_WORDS - 1] << 32;
}

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

/* The oldest complete record; false when there is none. Context: collect. */
bool ep_ring_peek(struct ep_ring *ring, struct ep_record *record);
void ep_ring_pop(struct ep_ring *ring, const struct ep_record *record);

#endif
