/*
 * The deliver thread: takes messages from the outbox to the transport, in order, each until it is accepted or refused.
 *
 * A message that was not delivered is sent again after a pause: what the receiver asks for, else one that doubles from
 * 1 s to a minute. Up to a quarter comes on top at random, so that a fleet does not come back in step. Nothing upstream
 * waits for this thread but stop, whose deadline also ends the send that is under way; before that it makes one more
 * attempt, whatever the pause.
 *
 *   ep_deliver_thread -> ep_deliver_round -> attempt -> transport->send, then accepted / refused / stale / later
 */
#include "internal.h"

#include <errno.h>

#define SEND_TIMEOUT_NS  10000000000u
#define BACKOFF_FIRST_NS 1000000000u
#define BACKOFF_MOST_NS  60000000000u
#define ASKED_MOST_NS    86400000000000u
#define FOREVER_NS       3600000000000u

static void popped(struct ep *ep)
{
    ep_outbox_pop(&ep->outbox);
    if (atomic_load(&ep->encode_pending) || atomic_load(&ep->stopping))
        ep_port_wake(&ep->collect_event);
}

static void accepted(struct ep *ep, const struct ep_box_header *header)
{
    ep_count(ep, EP_COUNT_DELIVERED, 1);
    ep_count(ep, EP_COUNT_DELIVERED_BYTES, header->size);
    ep->backoff_ns = 0;
    popped(ep);
}

static void dropped(struct ep *ep, const struct ep_box_header *header, enum ep_loss reason, _Atomic uint64_t *ns)
{
    ep_lose(ep, reason, header->samples, header->cpu_ns);
    (void)atomic_fetch_add(ns, header->cpu_ns);
    popped(ep);
}

/* The receiver does not know the segment: what was made for it is useless, collect starts another. */
static void stale(struct ep *ep, uint64_t segment)
{
    const struct ep_box_header *header;

    atomic_store(&ep->segment_stale, true);
    while ((header = ep_outbox_peek(&ep->outbox)) != NULL && header->segment == segment)
        dropped(ep, header, EP_LOSS_SEGMENT, &ep->lost_ns_segment);
}

/* What the message told of the dictionary was not learned: the next one starts a new segment. */
static void refused(struct ep *ep, const struct ep_box_header *header)
{
    atomic_store(&ep->segment_stale, true);
    dropped(ep, header, EP_LOSS_REFUSED, &ep->lost_ns_refused);
}

static void later(struct ep *ep, uint64_t asked_ns, uint64_t now)
{
    uint8_t dice;

    ep_port_random(&dice, sizeof dice);
    ep->backoff_ns = ep->backoff_ns ? ep->backoff_ns * 2 : BACKOFF_FIRST_NS;
    if (ep->backoff_ns > BACKOFF_MOST_NS)
        ep->backoff_ns = BACKOFF_MOST_NS;
    uint64_t pause = asked_ns ? asked_ns : ep->backoff_ns;
    if (pause > ASKED_MOST_NS)
        pause = ASKED_MOST_NS;
    ep->retry_at_ns = now + pause + pause / 4 * dice / 256;
    ep_count(ep, EP_COUNT_DELIVERY_FAILURES, 1);
}

void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns)
{
    uint64_t was = atomic_load(&deadline->at_ns);

    while (at_ns < was && !atomic_compare_exchange_weak(&deadline->at_ns, &was, at_ns))
        ;
}

/* Stop stores its deadline first and shrinks this one then: whichever of the two stores here comes first, one of us
 * sees the other. */
static void send_before(struct ep *ep, uint64_t deadline_ns)
{
    atomic_store(&ep->send_deadline.at_ns, deadline_ns);
    uint64_t stop = atomic_load(&ep->stop_deadline_ns);
    if (stop)
        ep_deadline_shrink(&ep->send_deadline, stop);
}

static int attempt(struct ep *ep, const struct ep_box_header *header, uint64_t deadline_ns)
{
    struct ep_message message = {
        .data = (const uint8_t *)(header + 1),
        .size = header->size,
        .format = ep->config.encoder->format,
        .family = header->family,
        .segment = header->segment,
        .sequence = header->sequence,
        .start_unix_ns = header->start_unix_ns,
        .end_unix_ns = header->end_unix_ns,
    };
    uint64_t asked_ns = 0;

    send_before(ep, deadline_ns);
    int error = ep->transport->send(ep->transport_state, &message, &ep->send_deadline, &asked_ns);
    if (error)
        atomic_store(&ep->last_error, error);
    if (error == 0)
        accepted(ep, header);
    else if (error == -ESTALE)
        stale(ep, header->segment);
    else if (error == -EBADMSG || error == -EMSGSIZE)
        refused(ep, header);
    else {
        later(ep, asked_ns, ep_port_uptime_ns());
        return error;
    }
    return 0;
}

int ep_deliver_round(struct ep *ep, uint64_t deadline_ns)
{
    const struct ep_box_header *header;

    while ((header = ep_outbox_peek(&ep->outbox)) != NULL) {
        uint64_t now = ep_port_uptime_ns();
        if (now < ep->retry_at_ns)
            return -EAGAIN;
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        uint64_t limit = now + SEND_TIMEOUT_NS;
        int error = attempt(ep, header, limit < deadline_ns ? limit : deadline_ns);
        if (error)
            return error;
    }
    return 0;
}

/* How long to wait before the next round; 0: it is time to end. */
static uint64_t pause_ns(struct ep *ep, int error)
{
    uint64_t now = ep_port_uptime_ns(), stop = atomic_load(&ep->stop_deadline_ns);

    if (stop && ((error == 0 && atomic_load(&ep->collected) && ep_outbox_empty(&ep->outbox)) || now >= stop))
        return 0;
    uint64_t pause = error == 0 ? FOREVER_NS : ep->retry_at_ns > now ? ep->retry_at_ns - now : 1;
    return stop && stop - now < pause ? stop - now : pause;
}

void ep_deliver_thread(void)
{
    struct ep *ep = ep_running();
    bool ending = false;

    for (;;) {
        unsigned seen = atomic_load(&ep->deliver_event.value);
        uint64_t stop = atomic_load(&ep->stop_deadline_ns);
        if (stop && !ending) {
            ending = true;
            ep->retry_at_ns = 0;
        }
        int error = ep_deliver_round(ep, stop ? stop : UINT64_MAX);
        atomic_store_explicit(&ep->counter[EP_COUNT_DELIVER_CPU_NS], ep_port_thread_cpu_ns(), memory_order_relaxed);
        uint64_t pause = pause_ns(ep, error);
        if (pause == 0)
            return;
        ep_port_wait(&ep->deliver_event, seen, pause);
        ep_count(ep, EP_COUNT_WAKEUPS, 1);
    }
}
