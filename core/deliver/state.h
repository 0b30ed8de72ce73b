/*
 * The state of delivery: the outbox, which the collect thread fills, and what belongs to the deliver thread.
 */
#ifndef EP_DELIVER_STATE_H
#define EP_DELIVER_STATE_H

#include <edgeprof/transport.h>

#include "core/deliver/outbox.h"
#include "core/sample/profiler.h"

/* A receiver does not know the segment of queued messages: they become a new one. Its dictionary leaves before them, in
 * parts (core/collect/restart.c). The deliver thread asks, and waits until it is done, but for sending parts. */
enum ep_restart_state {
    EP_RESTART_NONE,
    EP_RESTART_ASKED,
    EP_RESTART_PART, /* to be sent: the deliver thread's turn; all others: the collect thread's */
    EP_RESTART_SENT,
    EP_RESTART_FAILED, /* cannot be repaired: drop the messages */
};

struct ep_restart {
    atomic_uint state;
    uint64_t of;   /* segment of the queued messages */
    bool optional; /* if it fails, the messages stay as they are */
    uint64_t as;   /* the new one; this and the next belong to the collect thread */
    unsigned at;   /* the dictionary's part before this is sent: nodes, then tag sets */
    const struct ep_box_header *part;
};

struct ep_deliver {
    /* between the threads */
    struct ep_outbox outbox;
    struct ep_restart restart;
    _Atomic uint64_t lost_shown_ns[EP_SHOWN]; /* to be added to the next profile */
    _Atomic uint64_t stale_segment;           /* must not go on; 0: none. Set by the deliver thread */
    uint32_t message_bytes;                   /* the largest message that delivery takes; constant in a run */
    struct ep_event event;                    /* wakes the deliver thread */

    const struct ep_transport *transport; /* NULL: nothing is sent; constant in a run */
    struct ep_target target;
    uint64_t backoff_ns, send_more_ns; /* send_more_ns: what a send may take beyond EP_SEND_FIRST_NS */
    _Atomic uint64_t retry_at_ns;      /* reset by ep_stop() */
    uint64_t due_ns;                   /* time of the next round after an error */
    _Atomic uint64_t stop_deadline_ns; /* 0: not stopping */
    /* With a spool, while stopping: no sending after this. Stored before stop_deadline_ns. */
    _Atomic uint64_t stop_send_ns;
    struct ep_deadline send_deadline; /* of the message being sent */
    atomic_int last_error;
    atomic_uint last_status; /* of HTTP */
    _Alignas(8) uint8_t transport_state[EP_TRANSPORT_BYTES];
};

#endif
