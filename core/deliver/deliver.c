/*
 * The deliver thread: takes messages from the outbox to the transport, in order, each until it is accepted or refused.
 *
 * A message that was not delivered is sent again after a pause: what the receiver asks for, else one that doubles from
 * 1 s to a minute. Up to a quarter comes on top at random, so that a fleet does not come back in step. Nothing upstream
 * waits for this thread but stop, whose deadline also ends the send that is under way; before that it makes one more
 * attempt, whatever the pause. With a spool, spool.c makes the rounds instead.
 *
 *   ep_deliver_thread, ep_deliver_round -> round_of_memory -> the steps in deliver.h
 */
#include "core/deliver/steps.h"

const struct ep_spool *ep_spool;

void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns)
{
    uint64_t was = atomic_load(&deadline->at_ns);

    while (at_ns < was && !atomic_compare_exchange_weak(&deadline->at_ns, &was, at_ns))
        ;
}

static int round_of_memory(struct ep *ep, uint64_t deadline_ns)
{
    const struct ep_deliver_until until = {&ep->send_deadline, &ep->stop_deadline_ns};
    const struct ep_box_header *header;

    while ((header = ep_outbox_peek(&ep->outbox)) != NULL) {
        uint64_t now = ep_port_uptime_ns();
        if (now < ep->retry_at_ns)
            return -EAGAIN;
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        uint64_t limit = now + EP_SEND_TIMEOUT_NS;
        int error = ep_deliver_live(ep, header, until, limit < deadline_ns ? limit : deadline_ns);
        if (error)
            return error;
    }
    return 0;
}

int ep_deliver_round(struct ep *ep, uint64_t deadline_ns)
{
    return ep_spool ? ep_spool->round(ep, deadline_ns) : round_of_memory(ep, deadline_ns);
}

void ep_deliver_thread(void)
{
    struct ep *ep = ep_running();

    if (ep_spool)
        ep_spool->thread(ep);
    else
        ep_deliver_loop(ep, round_of_memory, &ep->retry_at_ns);
}
