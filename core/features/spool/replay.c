/*
 * Delivers the spool's messages, oldest first, with the service and tags of the run that made them.
 *
 *   ep_spool_replay -> send_spooled -> ep_deliver_message
 *                   -> replay_done, replay_refused, replay_stale, replay_apart
 */
#include "core/features/spool/parts.h"

#include <errno.h>
#include <string.h>

static bool is_of_this_boot(const struct ep *ep, const struct ep_spool_record *record)
{
    const char *boot = ep_spool->log.origin;

    boot += strlen(boot) + 1; /* tags */
    boot += strlen(boot) + 1;
    return *boot && strcmp(boot, ep->identity.boot_id) == 0 &&
           record->start_ns + record->duration_ns <= ep_port_uptime_ns();
}

/* The time since the end of the message's interval; UINT64_MAX: unknown. */
static uint64_t message_age(const struct ep *ep, const struct ep_spool_record *record)
{
    uint64_t end = record->start_ns + record->duration_ns, end_unix = end + record->unix_minus_uptime_ns;
    uint64_t unix_ns = ep_port_unix_ns();

    if (is_of_this_boot(ep, record))
        return ep_port_uptime_ns() - end;
    return record->unix_minus_uptime_ns && unix_ns >= end_unix ? unix_ns - end_unix : UINT64_MAX;
}

/* Removes a message that is delivered or dropped. The mark keeps a pprof from being sent twice. */
static void replay_done(struct ep *ep, const struct ep_spool_record *record, bool mark)
{
    ep_spool->held.file = 0;
    ep_spool_log_pass(&ep_spool->log, record, mark && ep_spool_converts());
    ep_spool_publish(ep);
}

/* True if the mark is behind the message: it is read again for those that follow in its segment. */
static bool is_known(const struct ep_spool_record *record)
{
    const struct ep_spool_place *marked = &ep_spool->log.marked;

    return ep_spool_converts() &&
           (record->file < marked->file || (record->file == marked->file && record->index < marked->index));
}

/* Receivers look at the age of the start. */
static enum ep_loss refusal(const struct ep_spool_record *record, uint64_t age_ns)
{
    bool dated = ep_spool->old_given || ep_spool_converts();

    return dated && (age_ns > ep_spool->old_ns || age_ns + record->duration_ns > ep_spool->old_ns) ? EP_LOSS_TOO_OLD
                                                                                                   : EP_LOSS_REFUSED;
}

static void replay_lost(struct ep *ep, const struct ep_spool_record *record, enum ep_loss reason, enum ep_shown shown)
{
    bool own = record->file >= ep_spool->log.first_own;

    ep_lose(ep, reason, record->samples, record->cpu_ns - record->lost_ns);
    (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[shown], own ? record->cpu_ns : 0);
    replay_done(ep, record, true);
}

static void replay_refused(struct ep *ep, const struct ep_spool_record *record)
{
    replay_lost(ep, record, refusal(record, message_age(ep, record)), EP_SHOWN_REFUSED);
    ep_spool->restarted = true;
}

/* The receiver does not know the message's segment: replays the segment from its start, once. */
static void replay_stale(struct ep *ep, const struct ep_spool_record *record)
{
    int back = ep_spool->restarted ? 0 : ep_spool_log_back(&ep_spool->log, record);

    if (back < 0)
        ep_spool_read_failed(ep, back);
    ep_spool->restarted = back >= 0;
    if (back)
        return;
    replay_lost(ep, record, EP_LOSS_SEGMENT, EP_SHOWN_SEGMENT);
}

static struct ep_message message_of(const struct ep_spool_record *record, const uint8_t *bytes, uint64_t offset_ns,
                                    uint64_t age_ns)
{
    return (struct ep_message){
        .data = bytes,
        .size = record->size,
        .format = EP_FORMAT_COMPACT,
        .segment = record->segment,
        .sequence = record->sequence,
        .start_unix_ns = offset_ns ? record->start_ns + offset_ns : 0,
        .end_unix_ns = offset_ns ? record->start_ns + record->duration_ns + offset_ns : 0,
        .age_ns = age_ns ? age_ns : 1,
    };
}

/* Sends the message with the service and tags of the run that made it. */
static int send_spooled(struct ep *ep, const struct ep_spool_record *record, const uint8_t *bytes, uint64_t limit)
{
    const struct ep_target target = ep->deliver->target;
    uint64_t age_ns = message_age(ep, record);
    uint64_t offset_ns = record->unix_minus_uptime_ns;
    struct ep_message message =
        message_of(record, bytes, is_of_this_boot(ep, record) ? ep_deliver_clock(offset_ns) : offset_ns, age_ns);

    ep->deliver->target.service = ep_spool->log.origin;
    ep->deliver->target.tags = ep_spool->log.origin + strlen(ep_spool->log.origin) + 1;
    const struct ep_delivery delivery = {
        .until = ep_spool_until(ep),
        .deadline_ns = limit,
        .refused = refusal(record, age_ns),
        .stored = true,
        .foreign = record->file < ep_spool->log.first_own,
        .known = is_known(record),
        .ends = ep_spool_log_is_last(&ep_spool->log),
    };
    int error = ep_deliver_message(ep, &message, &delivery);
    ep->deliver->target = target;
    return error;
}

/* Only a second endpoint failed: its pause holds for the spool, and new profiles go their way. */
static void replay_apart(struct ep *ep)
{
    ep_spool->apart_backoff_ns = ep->deliver->backoff_ns;
    ep_spool->replay_again_ns = ep->deliver->retry_at_ns;
    ep->deliver->retry_at_ns = 0;
    ep_spool_link_is_up(ep);
}

void ep_spool_replay(struct ep *ep, uint64_t limit)
{
    struct ep_spool_record record;
    struct ep_spool_dropped damaged = {0};
    const uint8_t *bytes;
    int failed = ep_spool_log_read(&ep_spool->log, &record, &bytes, &damaged);

    ep_spool_count_dropped(ep, EP_LOSS_SPOOL_DAMAGED, &damaged);
    ep_spool_publish(ep);
    if (failed)
        ep_spool_read_failed(ep, failed);
    else
        ep_spool_read_works(ep);
    if (!bytes)
        return;
    if (record.segment != ep_spool->reading)
        ep_spool->restarted = false;
    ep_spool->reading = record.segment;
    uint64_t before = ep_port_uptime_ns(), backoff_ns = ep->deliver->backoff_ns;
    ep_apart = false;
    ep->deliver->backoff_ns = ep_spool->apart_backoff_ns ? ep_spool->apart_backoff_ns : backoff_ns;
    int error = send_spooled(ep, &record, bytes, limit);
    uint64_t now = ep_port_uptime_ns();
    ep_spool->replay_again_ns = now + (now - before) * (100 - ep_spool->share_pct) / ep_spool->share_pct;
    if (error >= 0) {
        if (!is_known(&record))
            ep_count(ep, EP_COUNT_REPLAYED, 1);
        replay_done(ep, &record, error == 0);
        if (error > 0) { /* nothing was sent */
            ep->deliver->backoff_ns = backoff_ns;
            ep_spool->replay_again_ns = before;
            return;
        }
    } else if (error == -EBADMSG) {
        replay_refused(ep, &record);
    } else if (error == -ESTALE) {
        replay_stale(ep, &record);
    } else {
        ep_spool->held = record;
        ep_spool->held.file = ep_spool_converts() ? record.file : 0;
        if (ep_apart)
            replay_apart(ep);
        return;
    }
    ep_spool->apart_backoff_ns = 0;
    ep_spool_link_is_up(ep);
}
