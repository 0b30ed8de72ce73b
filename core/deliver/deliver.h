/*
 * The interface of core/deliver, which sends messages out of the process.
 *
 * In: messages in the outbox. Out: calls of the transport, and files of the spool. All of it runs on the deliver
 * thread, which may wait for the network, always with a deadline.
 */
#ifndef EP_DELIVER_H
#define EP_DELIVER_H

#include "core/deliver/state.h"
#include "core/sample/feature.h"
#include "core/sample/profiler.h"

/* The pause after the first failure, and the longest one. */
#define EP_BACKOFF_FIRST_NS 1000000000u
#define EP_BACKOFF_MOST_NS  60000000000u

/* The result of a send: send()'s error, the HTTP status of the answer (0: none), and a line about it or "". */
struct ep_sent {
    int error;
    unsigned status;
    const char *why;
};

/* The last send was one to a second endpoint, so its result says nothing about new profiles. Context: deliver. */
extern bool ep_apart;

void ep_deliver_thread(void);

/* Makes a deadline earlier, never later. Context: any thread. */
void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns);

/* Delivers messages until deadline_ns (uptime). Returns 0 if nothing is left to do, else a negative errno value, and
 * ep->deliver->due_ns is the time of the next round.
 * Context: deliver. */
int ep_deliver_round(struct ep *ep, uint64_t deadline_ns);

/* ---- the steps of a round, for features that make rounds or send in another format. Context: deliver ---- */

/* The deadline of a send, and that of ep_stop(), which may shorten it. ep_stop() stores its own and then shrinks
 * this one; ep_deliver_message() does it in the opposite order. So at least one of them sees the other's. */
struct ep_deliver_until {
    struct ep_deadline *send;
    _Atomic uint64_t *stop;
};

/* How a message is sent. */
struct ep_delivery {
    struct ep_deliver_until until;
    uint64_t deadline_ns; /* no sending after this; one send may have less */
    enum ep_loss refused; /* why a refused message is lost */
    bool stored;          /* it comes from the spool */
    bool foreign;         /* another run of the profiler made it */
    bool known;           /* it has been delivered before: a converter needs it for the messages behind it */
    bool ends;            /* nothing follows soon: a converter sends what it has */
};

/* Returns the message to send: a part of a new segment's dictionary, or the oldest of the outbox. NULL: there is none,
 * or the collect thread has the outbox. */
const struct ep_box_header *ep_deliver_next(struct ep *ep);

/* Sends the message of ep_deliver_next() and handles the result. Returns 0 or 1 as ep_deliver_message() if the message
 * is gone, or the collect thread's turn has come. */
int ep_deliver_live(struct ep *ep, const struct ep_box_header *header, struct ep_deliver_until until,
                    uint64_t deadline_ns);

/* Returns the result of a round without a message to send. */
int ep_deliver_idle(struct ep *ep);

/* Sends a message in the configured format. Returns 0; 1: it is taken, and nothing was sent; -ESTALE; -EBADMSG: refused
 * permanently; any other error: retry at ep->deliver->retry_at_ns. */
int ep_deliver_message(struct ep *ep, const struct ep_message *message, const struct ep_delivery *delivery);

/* Returns the offset from uptime to Unix time of a message of this boot: the one of its encoding, unless the clock was
 * set since. 0: the device has no clock. Context: deliver. */
uint64_t ep_deliver_clock(uint64_t offset_ns);

/* Gives a message to the transport. Returns send()'s result. After a failure for which a later try makes sense, it sets
 * ep->deliver->retry_at_ns. */
int ep_deliver_try(struct ep *ep, const struct ep_message *message, const struct ep_delivery *delivery);

/* Sets the deadline of a send that begins now. */
void ep_deliver_limit(const struct ep *ep, const struct ep_delivery *delivery, uint64_t now);

/* Removes the outbox's oldest message, and wakes the collect thread if it waits for room. */
void ep_deliver_popped(struct ep *ep);

/* Does the same for a message whose values are lost; `shown` is the frame that shows its CPU time. */
void ep_deliver_dropped(struct ep *ep, const struct ep_box_header *header, enum ep_loss reason, enum ep_shown shown);

/* Lets the collect thread work on the queue's segment. Until it is done the outbox belongs to it. */
void ep_deliver_restart(struct ep *ep, enum ep_restart_state state);

#endif
