/*
 * The steps of delivery that deliver.c and spool.c share. Inline, so that a program without a spool has no extra code.
 *
 *   a round -> ep_deliver_live -> ep_deliver_message -> transport->send, ep_deliver_later
 *                              -> ep_deliver_popped / ep_deliver_dropped / ep_deliver_restart
 *
 * Context of everything here: deliver.
 */
#ifndef EP_DELIVER_STEPS_H
#define EP_DELIVER_STEPS_H

#include "core/deliver/deliver.h"
#include "core/profile/encoding.h"

#include <errno.h>

#define EP_BACKOFF_FIRST_NS 1000000000u
#define EP_BACKOFF_MOST_NS  60000000000u
#define EP_ASKED_MOST_NS    86400000000000u
#define EP_FOREVER_NS       ((uint64_t)1 << 42) /* more than an hour; loaded by one instruction */
#define EP_SEND_FIRST_NS    10000000000u
#define EP_SEND_MOST_NS     60000000000u

/* Removes the outbox's oldest message, and wakes the collect thread if it waits for room. */
static inline void ep_deliver_popped(struct ep *ep)
{
    ep_outbox_pop(&ep->deliver->outbox);
    if (atomic_load(&ep->encode_pending) || atomic_load(&ep->stopping))
        ep_port_wake(&ep->collect_event);
}

static inline void ep_deliver_dropped(struct ep *ep, const struct ep_box_header *header, enum ep_loss reason,
                                      enum ep_shown shown)
{
    ep_lose(ep, reason, header->samples, header->cpu_ns - header->lost_ns);
    (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[shown], header->cpu_ns);
    ep_deliver_popped(ep);
}

/* Lets the collect thread work on the queue's segment. Until it is done the outbox belongs to it. */
static inline void ep_deliver_restart(struct ep *ep, enum ep_restart_state state)
{
    atomic_store(&ep->deliver->restart.state, state);
    ep_port_wake(&ep->collect_event);
}

/* The message to send: a part of a new segment's dictionary, or the oldest of the outbox. NULL: there is none, or the
 * collect thread has the outbox. */
static inline const struct ep_box_header *ep_deliver_next(struct ep *ep)
{
    unsigned state = atomic_load(&ep->deliver->restart.state);

    return state == EP_RESTART_NONE   ? ep_outbox_peek(&ep->deliver->outbox)
           : state == EP_RESTART_PART ? ep->deliver->restart.part
                                      : NULL;
}

/* The result of a round without a message to send. */
static inline int ep_deliver_idle(struct ep *ep)
{
    return atomic_load(&ep->deliver->restart.state) == EP_RESTART_NONE ? 0 : -EINPROGRESS;
}

static inline void ep_deliver_later(struct ep *ep, uint64_t asked_ns, uint64_t now)
{
    uint8_t dice;

    ep_port_random(&dice, sizeof dice);
    ep->deliver->backoff_ns = ep->deliver->backoff_ns ? ep->deliver->backoff_ns * 2 : EP_BACKOFF_FIRST_NS;
    if (ep->deliver->backoff_ns > EP_BACKOFF_MOST_NS)
        ep->deliver->backoff_ns = EP_BACKOFF_MOST_NS;
    uint64_t pause = asked_ns ? asked_ns : ep->deliver->backoff_ns;
    if (pause > EP_ASKED_MOST_NS)
        pause = EP_ASKED_MOST_NS;
    ep->deliver->retry_at_ns = now + pause + pause / 4 * dice / 256;
    ep_count(ep, EP_COUNT_DELIVERY_FAILURES, 1);
}

/* The deadline of a send, and that of ep_stop(), which may shorten it. ep_stop() stores its own and then shrinks
 * this one; ep_deliver_message() does it in the opposite order. So at least one of them sees the other's. */
struct ep_deliver_until {
    struct ep_deadline *send;
    _Atomic uint64_t *stop;
};

/* Notes the result of a send. */
static inline void ep_deliver_note(struct ep *ep, int error)
{
    struct ep_sent sent = {.error = error, .why = ""};

    if (ep->deliver->transport->answer)
        sent.status = ep->deliver->transport->answer(ep->deliver->transport_state, &sent.why);
    if (sent.status)
        atomic_store_explicit(&ep->deliver->last_status, sent.status, memory_order_relaxed);
    EP_EACH_FEATURE (at, sent)
        at.feature->sent(ep, &sent);
}

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

/* Sets the deadline of a send that begins now. */
static inline void ep_deliver_limit(const struct ep *ep, const struct ep_delivery *delivery, uint64_t now)
{
    uint64_t limit = now + EP_SEND_FIRST_NS + ep->deliver->send_more_ns;

    atomic_store(&delivery->until.send->at_ns, limit < delivery->deadline_ns ? limit : delivery->deadline_ns);
    uint64_t stop = atomic_load(delivery->until.stop);
    if (stop)
        ep_deadline_shrink(delivery->until.send, stop);
}

/* A receiver that answers late has the message, and would get it again and again. So the next send has twice as much
 * time, until answers come early again. */
static inline void ep_deliver_patience(struct ep *ep, int error, uint64_t took_ns)
{
    uint64_t limit = EP_SEND_FIRST_NS + ep->deliver->send_more_ns;

    if (error == -ETIME)
        limit = limit < EP_SEND_MOST_NS / 2 ? limit * 2 : EP_SEND_MOST_NS;
    else if (error == 0 && took_ns < EP_SEND_FIRST_NS / 2)
        limit = EP_SEND_FIRST_NS;
    ep->deliver->send_more_ns = limit - EP_SEND_FIRST_NS;
}

/* Gives a message to the transport. Returns send()'s result. After a failure for which a later try makes sense, it sets
 * ep->deliver->retry_at_ns. */
static inline int ep_deliver_try(struct ep *ep, const struct ep_message *message, const struct ep_delivery *delivery)
{
    uint64_t asked_ns = 0, start = ep_port_uptime_ns();

    ep_deliver_limit(ep, delivery, start);
    int error = ep->deliver->transport->send(ep->deliver->transport_state, message, delivery->until.send, &asked_ns);
    EP_EACH_FEATURE (at, answered)
        error = at.feature->answered(ep, message, error);
    ep_deliver_patience(ep, error, ep_port_uptime_ns() - start);
    if (error == -ETIME || error == -ECONNRESET)
        ep_count(ep, EP_COUNT_UNANSWERED, 1);
    error = error == -ETIME ? -ETIMEDOUT : error;
    ep_deliver_note(ep, error);
    if (error == 0) {
        ep_count(ep, EP_COUNT_DELIVERED, 1);
        ep_count(ep, EP_COUNT_DELIVERED_BYTES, message->size);
        return 0;
    }
    atomic_store(&ep->deliver->last_error, error);
    if (error != -ESTALE && error != -EBADMSG && error != -EMSGSIZE)
        ep_deliver_later(ep, asked_ns, ep_port_uptime_ns());
    return error > 0 ? -EIO : error;
}

/* Sends a message. Returns 0; 1: it is taken, and nothing was sent; -ESTALE; -EBADMSG: refused permanently; any other
 * error: retry at ep->deliver->retry_at_ns. */
static inline int ep_deliver_message(struct ep *ep, const struct ep_message *message,
                                     const struct ep_delivery *delivery)
{
    const struct ep_encoder *encoder = ep->config.encoder;
    int error = encoder ? encoder->send(ep, message, delivery) : ep_deliver_try(ep, message, delivery);

    if (error == 0)
        ep->deliver->backoff_ns = 0;
    return error == -EMSGSIZE ? -EBADMSG : error;
}

/* Handles the result of a part of a new segment's dictionary. */
static inline int ep_deliver_part(struct ep *ep, int error)
{
    if (error >= 0)
        ep_deliver_restart(ep, EP_RESTART_SENT);
    else if (error == -ESTALE || error == -EBADMSG)
        ep_deliver_restart(ep, EP_RESTART_FAILED);
    else
        return error;
    return 1;
}

/* Sends the message of ep_deliver_next() and handles the result. Returns 0 or 1 as ep_deliver_message() if the message
 * is gone, or the collect thread's turn has come. */
static inline int ep_deliver_live(struct ep *ep, const struct ep_box_header *header, struct ep_deliver_until until,
                                  uint64_t deadline_ns)
{
    const struct ep_delivery delivery = {.until = until, .deadline_ns = deadline_ns, .refused = EP_LOSS_REFUSED};
    struct ep_message message = {
        .data = (const uint8_t *)(header + 1),
        .size = header->size,
        .format = EP_FORMAT_COMPACT,
        .segment = header->segment,
        .sequence = header->sequence,
        .start_unix_ns = header->start_unix_ns,
        .end_unix_ns = header->end_unix_ns,
    };
    int error = ep_deliver_message(ep, &message, &delivery);

    if (atomic_load(&ep->deliver->restart.state) != EP_RESTART_NONE)
        return ep_deliver_part(ep, error);
    if (error >= 0) {
        ep_deliver_popped(ep);
        return error;
    }
    if (error != -ESTALE && error != -EBADMSG)
        return error;
    /* The receiver has not learned this message's part of the dictionary. */
    bool hopeless = error == -ESTALE && header->sequence == 0; /* it is complete, and refused all the same */
    ep->deliver->restart.of = header->segment;
    ep->deliver->restart.optional = false;
    if (error == -EBADMSG)
        ep_deliver_dropped(ep, header, EP_LOSS_REFUSED, EP_SHOWN_REFUSED);
    if (!atomic_load(&ep->collected) ||
        !ep_outbox_empty(&ep->deliver->outbox)) /* else the collect thread may have ended */
        ep_deliver_restart(ep, hopeless ? EP_RESTART_FAILED : EP_RESTART_ASKED);
    return 0;
}

#endif
