/*
 * Encoded messages from the collect thread to the deliver thread: one producer, one consumer.
 */
#ifndef EP_DATA_OUTBOX_H
#define EP_DATA_OUTBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ep_box_header {
    uint32_t size; /* of the message; 0: continue at the start of the ring */
    uint32_t sequence;
    uint64_t segment;
    uint64_t samples, cpu_ns, lost_ns; /* lost_ns: the part of cpu_ns already counted as lost */
    uint64_t end_ns;                   /* uptime */
    uint64_t start_unix_ns, end_unix_ns;
};

/* CPU time that the deliver thread has lost, by the frame that shows it (collect.c maps these to frame numbers). */
enum ep_shown { EP_SHOWN_REFUSED, EP_SHOWN_SEGMENT, EP_SHOWN_SPOOL, EP_SHOWN };

struct ep_outbox {
    uint8_t *memory;
    uint32_t size;
    uint32_t reserved;     /* offset of the last room found; used by the producer only */
    bool held;             /* by a message that is not in the ring; likewise */
    _Atomic uint64_t ends; /* byte offsets, multiples of 8: head, and tail in the upper half; equal: empty */
};

/* Context: init. */
void ep_outbox_init(struct ep_outbox *box, void *memory, size_t size);

/* Finds room for one message at *data. Returns its size in bytes, 0 if there is none. Context: collect. */
uint32_t ep_outbox_room(struct ep_outbox *box, uint8_t **data);
/* Puts the message into the room found; returns its header. hold: it is not in the ring, and until ep_outbox_let()
 * there is no room. Context: collect. */
const struct ep_box_header *ep_outbox_put(struct ep_outbox *box, const struct ep_box_header *header, bool hold);
static inline void ep_outbox_let(struct ep_outbox *box)
{
    box->held = false;
}
bool ep_outbox_empty(const struct ep_outbox *box);

/* The oldest message, or NULL. Its bytes follow the header. Context: deliver; collect while deliver waits for a
 * restart. */
const struct ep_box_header *ep_outbox_peek(struct ep_outbox *box);
/* The message after the given one, or NULL. Context: the same. */
const struct ep_box_header *ep_outbox_after(struct ep_outbox *box, const struct ep_box_header *header);
void ep_outbox_pop(struct ep_outbox *box);

#endif
