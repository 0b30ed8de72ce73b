/*
 * The deliver thread: sends messages from the outbox to the transport, in order, each until it is accepted or refused.
 *
 * After a failure it retries when the receiver asks for it, else after a pause that doubles from 1 s to a minute. A
 * random part of up to a quarter keeps a fleet from retrying in step. Only ep_stop() waits for this thread. Its
 * deadline also ends the current send, and before that one more attempt is made at once. With a spool, spool.c makes
 * the rounds.
 *
 *   ep_deliver_thread, ep_deliver_round -> memory_round -> the steps in steps.h
 */
#include "core/deliver/steps.h"

const struct ep_spool *ep_spool;
const struct ep_notice *ep_notice;
const struct ep_token *ep_token;
bool ep_apart;

void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns)
{
    uint64_t was = atomic_load(&deadline->at_ns);

    while (at_ns < was && !atomic_compare_exchange_weak(&deadline->at_ns, &was, at_ns))
        ;
}

static int memory_round(struct ep *ep, uint64_t deadline_ns)
{
    const struct ep_deliver_until until = {&ep->send_deadline, &ep->stop_deadline_ns};
    const struct ep_box_header *header;

    while ((header = ep_deliver_next(ep)) != NULL) {
        uint64_t now = ep_port_uptime_ns();
        if (now < ep->retry_at_ns)
            return -EAGAIN;
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        int error = ep_deliver_live(ep, header, until, deadline_ns);
        if (error < 0)
            return error;
    }
    return ep_deliver_idle(ep);
}

int ep_deliver_round(struct ep *ep, uint64_t deadline_ns)
{
    return ep_spool ? ep_spool->round(ep, deadline_ns) : memory_round(ep, deadline_ns);
}

void ep_deliver_thread(void)
{
    struct ep *ep = ep_running();

    if (ep_spool)
        ep_spool->thread(ep);
    else
        ep_deliver_loop(ep, memory_round, &ep->retry_at_ns);
}
