/*
 * The deliver thread: sends messages from the outbox to the transport, in order, each until it is accepted or refused.
 *
 * After a failure it retries when the receiver asks for it, else after a pause that doubles from 1 s to a minute. A
 * random part of up to a quarter keeps a fleet from retrying in step. Only ep_stop() waits for this thread. Its
 * deadline also ends the current send, and before that one more attempt is made at once. A feature may make the rounds
 * instead, as a spool does.
 *
 *   ep_deliver_thread -> deliver_loop -> ep_deliver_round -> memory_round -> the steps in steps.h
 */
#include "core/deliver/steps.h"
#include "core/sample/feature.h"

bool ep_apart;

void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns)
{
    uint64_t was = atomic_load(&deadline->at_ns);

    while (at_ns < was && !atomic_compare_exchange_weak(&deadline->at_ns, &was, at_ns))
        ;
}

static int memory_round(struct ep *ep, uint64_t deadline_ns)
{
    const struct ep_deliver_until until = {&ep->deliver->send_deadline, &ep->deliver->stop_deadline_ns};
    const struct ep_box_header *header;

    while ((header = ep_deliver_next(ep)) != NULL) {
        uint64_t now = ep_port_uptime_ns();
        if (now < ep->deliver->retry_at_ns)
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
    struct ep_feature_walk instead = {0};

    if (ep_feature_next(&instead, offsetof(struct ep_feature, deliver)))
        return instead.feature->deliver(ep, deadline_ns);
    int error = memory_round(ep, deadline_ns);
    ep->deliver->due_ns = ep->deliver->retry_at_ns;
    return error;
}

/* The time until the next round; 0: the thread must end. */
static uint64_t pause_before_next(struct ep *ep, int error)
{
    uint64_t now = ep_port_uptime_ns(), stop = atomic_load(&ep->deliver->stop_deadline_ns);
    const uint64_t due = ep->deliver->due_ns;

    if (stop && ((error == 0 && atomic_load(&ep->collected) && ep_outbox_empty(&ep->deliver->outbox)) || now >= stop))
        return 0;
    uint64_t pause = error == 0 || error == -EINPROGRESS ? EP_FOREVER_NS : due > now ? due - now : 1;
    return stop && stop - now < pause ? stop - now : pause;
}

static void deliver_loop(struct ep *ep)
{
    bool ending = false;

    for (;;) {
        unsigned seen = atomic_load(&ep->deliver->event.value);
        uint64_t stop = atomic_load(&ep->deliver->stop_deadline_ns);
        if (stop && !ending) {
            ending = true;
            ep->deliver->retry_at_ns = 0;
        }
        int error = ep_deliver_round(ep, stop ? stop : UINT64_MAX);
        atomic_store_explicit(&ep->counter[EP_COUNT_DELIVER_CPU_NS], ep_port_thread_cpu_ns(), memory_order_relaxed);
        uint64_t pause = pause_before_next(ep, error);
        if (pause == 0)
            return;
        ep_port_wait(&ep->deliver->event, seen, pause);
        ep_count(ep, EP_COUNT_WAKEUPS, 1);
    }
}

void ep_deliver_thread(void)
{
    struct ep *ep = ep_running();

    deliver_loop(ep);
    EP_EACH_FEATURE (at, deliver_end)
        at.feature->deliver_end(ep);
}
