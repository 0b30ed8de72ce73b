/*
 * The deliver thread: sends messages from the outbox to the transport, in order, each until it is accepted or refused.
 *
 * After a failure it retries when the receiver asks for it, else after a pause that doubles from 1 s to a minute. A
 * random part of up to a quarter keeps a fleet from retrying in step. Only ep_stop() waits for this thread. Its
 * deadline also ends the current send, and before that one more attempt is made at once. A feature may make the rounds
 * instead, as a spool does.
 *
 *   ep_deliver_thread -> deliver_loop -> ep_deliver_round -> memory_round -> ep_deliver_live
 *   ep_deliver_live   -> ep_deliver_message -> ep_deliver_try -> transport->send, retry_later
 *                     -> ep_deliver_popped, ep_deliver_dropped, ep_deliver_restart
 */
#include "core/deliver/deliver.h"

#include <errno.h>

#define ASKED_MOST_NS 86400000000000u
#define FOREVER_NS    ((uint64_t)1 << 42) /* more than an hour; loaded by one instruction */
#define SEND_FIRST_NS 10000000000u
#define SEND_MOST_NS  60000000000u
#define CLOCK_STEP_NS 2000000000u /* a smaller change is the clock's own correction */

bool ep_apart;

void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns)
{
    uint64_t was = atomic_load(&deadline->at_ns);

    while (at_ns < was && !atomic_compare_exchange_weak(&deadline->at_ns, &was, at_ns))
        ;
}

/* ---- the outbox's messages ---- */

void ep_deliver_popped(struct ep *ep)
{
    ep_outbox_pop(&ep->deliver->outbox);
    if (atomic_load(&ep->encode_pending) || atomic_load(&ep->stopping))
        ep_port_wake(&ep->collect_event);
}

void ep_deliver_dropped(struct ep *ep, const struct ep_box_header *header, enum ep_loss reason, enum ep_shown shown)
{
    ep_lose(ep, reason, header->samples, header->cpu_ns - header->lost_ns);
    (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[shown], header->cpu_ns);
    ep_deliver_popped(ep);
}

void ep_deliver_restart(struct ep *ep, enum ep_restart_state state)
{
    atomic_store(&ep->deliver->restart.state, state);
    ep_port_wake(&ep->collect_event);
}

const struct ep_box_header *ep_deliver_next(struct ep *ep)
{
    unsigned state = atomic_load(&ep->deliver->restart.state);

    return state == EP_RESTART_NONE   ? ep_outbox_peek(&ep->deliver->outbox)
           : state == EP_RESTART_PART ? ep->deliver->restart.part
                                      : NULL;
}

int ep_deliver_idle(struct ep *ep)
{
    return atomic_load(&ep->deliver->restart.state) == EP_RESTART_NONE ? 0 : -EINPROGRESS;
}

/* ---- sending a message ---- */

static void retry_later(struct ep *ep, uint64_t asked_ns, uint64_t now)
{
    uint8_t dice;

    ep_port_random(&dice, sizeof dice);
    ep->deliver->backoff_ns = ep->deliver->backoff_ns ? ep->deliver->backoff_ns * 2 : EP_BACKOFF_FIRST_NS;
    if (ep->deliver->backoff_ns > EP_BACKOFF_MOST_NS)
        ep->deliver->backoff_ns = EP_BACKOFF_MOST_NS;
    uint64_t pause = asked_ns ? asked_ns : ep->deliver->backoff_ns;
    if (pause > ASKED_MOST_NS)
        pause = ASKED_MOST_NS;
    ep->deliver->retry_at_ns = now + pause + pause / 4 * dice / 256;
    ep_count(ep, EP_COUNT_DELIVERY_FAILURES, 1);
}

/* Notes the result of a send. */
static void result_note(struct ep *ep, int error)
{
    struct ep_sent sent = {.error = error, .why = ""};

    if (ep->deliver->transport->answer)
        sent.status = ep->deliver->transport->answer(ep->deliver->transport_state, &sent.why);
    if (sent.status)
        atomic_store_explicit(&ep->deliver->last_status, sent.status, memory_order_relaxed);
    EP_EACH_FEATURE (at, sent)
        at.feature->sent(ep, &sent);
}

void ep_deliver_limit(const struct ep *ep, const struct ep_delivery *delivery, uint64_t now)
{
    uint64_t limit = now + SEND_FIRST_NS + ep->deliver->send_more_ns;

    atomic_store(&delivery->until.send->at_ns, limit < delivery->deadline_ns ? limit : delivery->deadline_ns);
    uint64_t stop = atomic_load(delivery->until.stop);
    if (stop)
        ep_deadline_shrink(delivery->until.send, stop);
}

/* A receiver that answers late has the message, and would get it again and again. So the next send has twice as much
 * time, until answers come early again. */
static void patience_set(struct ep *ep, int error, uint64_t took_ns)
{
    uint64_t limit = SEND_FIRST_NS + ep->deliver->send_more_ns;

    if (error == -ETIME)
        limit = limit < SEND_MOST_NS / 2 ? limit * 2 : SEND_MOST_NS;
    else if (error == 0 && took_ns < SEND_FIRST_NS / 2)
        limit = SEND_FIRST_NS;
    ep->deliver->send_more_ns = limit - SEND_FIRST_NS;
}

int ep_deliver_try(struct ep *ep, const struct ep_message *message, const struct ep_delivery *delivery)
{
    uint64_t asked_ns = 0, start = ep_port_uptime_ns();

    ep_deliver_limit(ep, delivery, start);
    int error = ep->deliver->transport->send(ep->deliver->transport_state, message, delivery->until.send, &asked_ns);
    EP_EACH_FEATURE (at, answered)
        error = at.feature->answered(ep, message, error);
    patience_set(ep, error, ep_port_uptime_ns() - start);
    if (error == -ETIME || error == -ECONNRESET)
        ep_count(ep, EP_COUNT_UNANSWERED, 1);
    error = error == -ETIME ? -ETIMEDOUT : error;
    result_note(ep, error);
    if (error == 0) {
        ep_count(ep, EP_COUNT_DELIVERED, 1);
        ep_count(ep, EP_COUNT_DELIVERED_BYTES, message->size);
        return 0;
    }
    atomic_store(&ep->deliver->last_error, error);
    if (error != -ESTALE && error != -EBADMSG && error != -EMSGSIZE)
        retry_later(ep, asked_ns, ep_port_uptime_ns());
    return error > 0 ? -EIO : error;
}

int ep_deliver_message(struct ep *ep, const struct ep_message *message, const struct ep_delivery *delivery)
{
    const struct ep_feature *other = EP_FEATURE_WITH(convert);
    int error = other ? other->convert(ep, message, delivery) : ep_deliver_try(ep, message, delivery);

    if (error == 0)
        ep->deliver->backoff_ns = 0;
    return error == -EMSGSIZE ? -EBADMSG : error;
}

uint64_t ep_deliver_clock(uint64_t offset_ns)
{
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns();
    uint64_t current_ns = unix_ns > now ? unix_ns - now : 0;
    uint64_t step_ns = current_ns > offset_ns ? current_ns - offset_ns : offset_ns - current_ns;

    return current_ns && step_ns > CLOCK_STEP_NS ? current_ns : offset_ns;
}

static void message_date(struct ep_message *message, const struct ep_box_header *header)
{
    const uint64_t now = ep_port_uptime_ns(), duration_ns = header->end_unix_ns - header->start_unix_ns;

    message->age_ns = now > header->end_ns ? now - header->end_ns : 1;
    if (!header->end_unix_ns)
        return;
    message->end_unix_ns = header->end_ns + ep_deliver_clock(header->end_unix_ns - header->end_ns);
    message->start_unix_ns = message->end_unix_ns - duration_ns;
}

/* Handles the result of a part of a new segment's dictionary. */
static int part_done(struct ep *ep, int error)
{
    if (error >= 0)
        ep_deliver_restart(ep, EP_RESTART_SENT);
    else if (error == -ESTALE || error == -EBADMSG)
        ep_deliver_restart(ep, EP_RESTART_FAILED);
    else
        return error;
    return 1;
}

int ep_deliver_live(struct ep *ep, const struct ep_box_header *header, struct ep_deliver_until until,
                    uint64_t deadline_ns)
{
    const struct ep_delivery delivery = {.until = until, .deadline_ns = deadline_ns, .refused = EP_LOSS_REFUSED};
    struct ep_message message = {
        .data = (const uint8_t *)(header + 1),
        .size = header->size,
        .format = EP_FORMAT_COMPACT,
        .segment = header->segment,
        .sequence = header->sequence,
    };
    message_date(&message, header);
    int error = ep_deliver_message(ep, &message, &delivery);

    if (atomic_load(&ep->deliver->restart.state) != EP_RESTART_NONE)
        return part_done(ep, error);
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

/* ---- rounds ---- */

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
    const struct ep_feature *instead = EP_FEATURE_WITH(deliver);

    if (instead)
        return instead->deliver(ep, deadline_ns);
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
    uint64_t pause = error == 0 || error == -EINPROGRESS ? FOREVER_NS : due > now ? due - now : 1;
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
