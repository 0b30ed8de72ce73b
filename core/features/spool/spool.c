/*
 * Store-and-forward: keeps undelivered messages on disk. Decides what is stored and when, and delivers it; spool_log.c
 * has the files. Only programs that call ep_spool_start() link this. Everything else runs on the deliver thread.
 *
 * While the link is up nothing is written. After a failed send, messages are stored in large batches (flash wears): as
 * soon as they fill a quarter of the outbox, or the oldest has waited for sync_ms. ep_stop() reserves time for the
 * disk.
 *
 *   spool_round -> deliver_step -> store_outbox -> store_batch -> batch_gather, the log
 *                                               -> send_live -> ep_deliver_live
 *                                               -> replay -> ep_deliver_message, replay_done / _refused / _stale
 */
#include "core/deliver/deliver.h"
#include "core/profile/encoding.h"
#include "core/features/spool/spool_log.h"

#include <errno.h>
#include <string.h>

#define SYNC_MS         60000u
#define SHARE_PCT       25u
#define OLD_PPROF_MS    3600000u
#define CAP_BYTES       (16u << 20)
#define CAP_LARGEST     (1u << 30)
#define FILES_A_CAP     16u
#define DISK_AGAIN_NS   60000000000u
#define DISK_RESERVE_NS 1000000000u
#define MS              1000000u
#define DIR_BYTES       256u

struct spool {
    char dir[DIR_BYTES];
    uint64_t sync_ns, old_ns;
    uint32_t share_pct;
    bool old_given;
    bool open;
    bool segment_spooled;     /* a part of `segment` is in the spool, and collect may be going on with it */
    uint64_t disk_again_ns;   /* uptime of the next try after a disk error */
    uint64_t unread_again_ns; /* uptime of the next try of files that could not be read at the start */
    uint64_t read_backoff_ns; /* after a failed read; 0: reading works */
    uint64_t replay_again_ns; /* uptime of the next replay, to keep link_share_pct or after a failure of its own */
    uint64_t
        apart_backoff_ns; /* ep->deliver->backoff_ns of replays that fail at a second endpoint; 0: the last did not */
    struct ep_deadline send; /* of the message being sent */
    char headers[EP_HEADERS_BYTES + 64];
    uint64_t segment;            /* of the message stored last; 0: none, or only the receiver has its beginning */
    uint64_t asked;              /* segment whose dictionary was asked for */
    bool unsure;                 /* the receiver may have the outbox's oldest message, whose send failed */
    uint64_t reading;            /* segment being replayed */
    struct ep_spool_record held; /* given to a converter, which failed to send it; file 0: none */
    bool restarted; /* its replay was restarted, or a message is missing: a receiver that does not know it never will */
    struct ep_spool_log log;
};

static struct spool *spool;

/* ---- counters ---- */

static void counter_store(struct ep *ep, enum ep_counter counter, uint64_t value)
{
    atomic_store_explicit(&ep->counter[counter], value, memory_order_relaxed);
}

static void counters_publish(struct ep *ep)
{
    counter_store(ep, EP_COUNT_SPOOL_MESSAGES, ep_spool_log_messages(&spool->log));
    counter_store(ep, EP_COUNT_SPOOL_BYTES, spool->log.bytes);
    counter_store(ep, EP_COUNT_SPOOL_WRITTEN, spool->log.written);
    counter_store(ep, EP_COUNT_SPOOL_DAMAGED, spool->log.damaged);
    counter_store(ep, EP_COUNT_SPOOL_DAMAGED_BYTES, spool->log.damaged_bytes);
}

/* If a converter has counted a dropped message, removes it from *dropped. */
static void held_drop(struct ep *ep, struct ep_spool_dropped *dropped)
{
    struct ep_spool_record *held = &spool->held;
    bool own = held->file >= spool->log.first_own;

    if (!held->file || spool->log.file[held->file % EP_SPOOL_FILES].number == held->file)
        return;
    if (ep->config.encoder->forget(ep, held->segment, held->sequence, own)) {
        dropped->all.messages--;
        dropped->all.samples -= held->samples;
        dropped->all.cpu_ns -= held->cpu_ns;
        dropped->all.lost_ns -= held->lost_ns;
        dropped->own_cpu_ns -= own ? held->cpu_ns : 0;
    }
    held->file = 0;
}

static void count_dropped(struct ep *ep, enum ep_loss reason, struct ep_spool_dropped *dropped)
{
    held_drop(ep, dropped);
    if (!dropped->all.messages)
        return;
    ep_lose(ep, reason, dropped->all.samples, dropped->all.cpu_ns - dropped->all.lost_ns);
    (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[EP_SHOWN_SPOOL], dropped->own_cpu_ns);
}

/* ---- to the disk ---- */

static int disk_failed(struct ep *ep, int error)
{
    spool->disk_again_ns = ep_port_uptime_ns() + DISK_AGAIN_NS;
    counter_store(ep, EP_COUNT_SPOOL_ERROR, (uint64_t)-error);
    counters_publish(ep);
    return error;
}

/* The spool works, unless something in it cannot be read. */
static void disk_works(struct ep *ep)
{
    if (!spool->read_backoff_ns && !spool->log.unread)
        counter_store(ep, EP_COUNT_SPOOL_ERROR, 0);
    counters_publish(ep);
}

static void read_tell(struct ep *ep, int error)
{
    counter_store(ep, EP_COUNT_SPOOL_ERROR, (uint64_t)-error);
    atomic_store(&ep->deliver->last_error, error);
}

/* A message cannot be read now: it stays, and is read again later. */
static void read_failed(struct ep *ep, int error)
{
    uint64_t next = spool->read_backoff_ns ? spool->read_backoff_ns * 2 : EP_BACKOFF_FIRST_NS;

    spool->read_backoff_ns = next < EP_BACKOFF_MOST_NS ? next : EP_BACKOFF_MOST_NS;
    spool->replay_again_ns = ep_port_uptime_ns() + spool->read_backoff_ns;
    read_tell(ep, error);
}

static void read_works(struct ep *ep)
{
    if (!spool->read_backoff_ns)
        return;
    spool->read_backoff_ns = 0;
    disk_works(ep);
}

static bool is_stopping(struct ep *ep)
{
    return atomic_load(&ep->deliver->stop_deadline_ns) != 0;
}

/* Tries again the files that could not be read at the start. */
static void unread_retry(struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();

    if (!spool->log.unread || now < spool->unread_again_ns || is_stopping(ep))
        return;
    spool->unread_again_ns = now + DISK_AGAIN_NS;
    int error = ep_spool_log_retry(&spool->log);
    if (error)
        read_tell(ep, error);
    else
        disk_works(ep);
}

/* True if the disk can be written. Opens the log if needed. */
static bool disk_usable(struct ep *ep)
{
    if (ep_port_uptime_ns() < spool->disk_again_ns && !is_stopping(ep))
        return false;
    if (!spool->open) {
        int error = ep_spool_log_open(&spool->log, spool->dir);
        if (error) {
            (void)disk_failed(ep, error);
            return false;
        }
        spool->open = true;
        spool->unread_again_ns = 0;
        disk_works(ep);
    }
    unread_retry(ep);
    return true;
}

/* "service\0tags\0boot id\0" */
static uint32_t origin_write(const struct ep *ep, char *text)
{
    const char *parts[] = {ep->config.service, ep->config.tags, ep->identity.boot_id};
    size_t used = 0;

    for (unsigned i = 0; i < 3; i++) {
        size_t size = strlen(parts[i]) + 1;
        memcpy(text + used, parts[i], size);
        used += size;
    }
    return (uint32_t)used;
}

static struct ep_spool_record record_of(const struct ep_box_header *header)
{
    uint64_t duration = header->end_unix_ns - header->start_unix_ns;
    struct ep_spool_record record = {
        .size = header->size,
        .sequence = header->sequence,
        .segment = header->segment,
        .start_ns = header->end_ns - duration,
        .duration_ns = duration,
        .unix_minus_uptime_ns = header->end_unix_ns ? header->end_unix_ns - header->end_ns : 0,
        .cpu_ns = header->cpu_ns,
        .lost_ns = header->lost_ns,
        .samples = header->samples,
    };

    return record;
}

/* True if this message should begin a new file. Files should end at the end of a segment. */
static bool begins_file(struct ep *ep, const struct ep_box_header *header)
{
    bool full = spool->log.write.offset >= spool->log.cap / FILES_A_CAP;

    if (full && header->sequence != 0) {
        atomic_store(&ep->deliver->stale_segment, header->segment);
        return false;
    }
    return full;
}

/* Puts messages into a batch, from the oldest on. Returns their number, 0: not even one fits. */
static unsigned batch_gather(struct ep *ep, unsigned most)
{
    char text[EP_SPOOL_ORIGIN_SIZE];
    const struct ep_box_header *header = ep_outbox_peek(&ep->deliver->outbox);
    unsigned messages = 0;

    if (begins_file(ep, header))
        ep_spool_log_turn(&spool->log);
    ep_spool_log_begin(&spool->log, text, origin_write(ep, text));
    for (; header && messages < most && (messages == 0 || !begins_file(ep, header));
         header = ep_outbox_after(&ep->deliver->outbox, header)) {
        struct ep_spool_record record = record_of(header);
        if (!ep_spool_log_add(&spool->log, &record, header + 1))
            break;
        spool->segment = header->segment;
        messages++;
    }
    return messages;
}

/* Stores one batch. Returns 0, or the error; then the messages stay in the outbox. */
static int store_batch(struct ep *ep, unsigned most)
{
    struct ep_spool_dropped dropped = {0};
    uint64_t segment = spool->segment;
    unsigned messages = batch_gather(ep, most);

    if (messages == 0) {
        ep_spool_log_turn(&spool->log);
        return -EMSGSIZE;
    }
    int error = ep_spool_log_commit(&spool->log, &dropped);
    count_dropped(ep, EP_LOSS_SPOOL_FULL, &dropped);
    if (error) {
        spool->segment = segment;
        return error;
    }
    ep_count(ep, EP_COUNT_SPOOLED, messages);
    for (; messages && ep_outbox_peek(&ep->deliver->outbox);
         messages--) /* peek also skips the unused end of the ring */
        ep_deliver_popped(ep);
    return 0;
}

/* Stores a message that is not in the outbox. */
static int store_one(struct ep *ep, const struct ep_box_header *header, const void *bytes)
{
    struct ep_spool_dropped dropped = {0};
    struct ep_spool_record record = record_of(header);
    char text[EP_SPOOL_ORIGIN_SIZE];

    if (begins_file(ep, header))
        ep_spool_log_turn(&spool->log);
    ep_spool_log_begin(&spool->log, text, origin_write(ep, text));
    if (!ep_spool_log_add(&spool->log, &record, bytes))
        return -EMSGSIZE;
    int error = ep_spool_log_commit(&spool->log, &dropped);
    count_dropped(ep, EP_LOSS_SPOOL_FULL, &dropped);
    if (!error)
        ep_count(ep, EP_COUNT_SPOOLED, 1);
    return error;
}

/* Stores what a converter has taken, and messages that only it can read. */
static int store_rest(struct ep *ep)
{
    const struct ep_encoder *encoder = ep->config.encoder;
    struct ep_box_header header;
    const uint8_t *bytes;

    while (encoder && encoder->rest(ep, &bytes, &header)) {
        int error = store_one(ep, &header, bytes);
        if (error)
            return error;
        encoder->stored();
    }
    return 0;
}

/* Stores a part of a new segment's dictionary. */
static int store_part(struct ep *ep, const struct ep_box_header *header)
{
    int error = disk_usable(ep) ? 0 : -EIO;

    if (error)
        return error;
    error = store_one(ep, header, header + 1);
    if (error)
        return disk_failed(ep, error);
    spool->segment = header->segment;
    disk_works(ep);
    ep_deliver_restart(ep, EP_RESTART_SENT);
    return 0;
}

/* True if the spool must have the dictionary of the outbox's oldest messages before them, because only the receiver has
 * the beginning of their segment, and may have lost it by then. The collect thread encodes it again, as a new segment.
 * The receiver may already have a message whose send failed: that one stays as it is, so that it never counts twice. */
static bool start_ask(struct ep *ep)
{
    const struct ep_box_header *header = ep_outbox_peek(&ep->deliver->outbox);

    if (header->sequence == 0 || header->segment == spool->segment || header->segment == spool->asked ||
        is_stopping(ep) || ep->config.encoder || !disk_usable(ep))
        return false;
    uint64_t segment = header->segment;
    if (spool->unsure && store_batch(ep, 1) != 0)
        return false;
    header = ep_outbox_peek(&ep->deliver->outbox);
    spool->unsure = false;
    spool->asked = segment;
    spool->segment = 0;
    if (!header || header->segment != segment) {
        atomic_store(&ep->deliver->stale_segment, segment);
        return false;
    }
    ep->deliver->restart.of = segment;
    ep->deliver->restart.optional = true;
    ep_deliver_restart(ep, EP_RESTART_ASKED);
    return true;
}

/* Stores all waiting messages. Then a new segment begins, so that later messages can be read without them. */
static int store_outbox(struct ep *ep)
{
    if (!disk_usable(ep))
        return -EIO;
    int error = store_rest(ep);
    if (error)
        return disk_failed(ep, error);
    while (error == 0 && !ep_outbox_empty(&ep->deliver->outbox)) {
        error = store_batch(ep, UINT32_MAX);
        if (error)
            return disk_failed(ep, error);
        if (!spool->segment_spooled)
            atomic_store(&ep->deliver->stale_segment, spool->segment);
        spool->segment_spooled = true;
        disk_works(ep);
    }
    return error;
}

/* ---- from the outbox ---- */

static void link_is_up(struct ep *ep)
{
    ep->deliver->backoff_ns = 0;
    if (spool->segment_spooled)
        atomic_store(&ep->deliver->stale_segment, spool->segment);
    spool->segment_spooled = false;
}

static struct ep_deliver_until until_of(struct ep *ep)
{
    return (struct ep_deliver_until){&spool->send, &ep->deliver->stop_send_ns};
}

static void send_live(struct ep *ep, const struct ep_box_header *header, uint64_t limit)
{
    int error = ep_deliver_live(ep, header, until_of(ep), limit);

    spool->unsure = error < 0 && (spool->unsure || (error != -ECONNREFUSED && error != -ENETUNREACH));
    if (error == 0)
        link_is_up(ep);
}

static bool behind_spooled(const struct ep_box_header *header)
{
    return header->segment == spool->segment && !ep_spool_log_empty(&spool->log);
}

/* Bytes of the messages only, without the unused end of the ring. */
static uint32_t outbox_used(struct ep *ep)
{
    uint32_t used = 0;

    for (const struct ep_box_header *at = ep_outbox_peek(&ep->deliver->outbox); at;
         at = ep_outbox_after(&ep->deliver->outbox, at))
        used += (uint32_t)sizeof *at + at->size;
    return used;
}

/* True if the waiting messages should be stored now; otherwise *due is the time for that. */
static bool to_disk(struct ep *ep, const struct ep_box_header *header, uint64_t send_until, uint64_t *due)
{
    uint64_t now = ep_port_uptime_ns();

    if (is_stopping(ep))
        return behind_spooled(header) || now < ep->deliver->retry_at_ns || now >= send_until;
    if (!ep->deliver->backoff_ns)
        return behind_spooled(header);
    *due = header->end_ns + spool->sync_ns;
    return now >= *due || outbox_used(ep) >= ep->deliver->outbox.size / 4 || atomic_load(&ep->encode_pending);
}

/* ---- from the disk ---- */

/* The time since the end of the message's interval; UINT64_MAX: unknown. */
static uint64_t message_age(struct ep *ep, const struct ep_spool_record *record)
{
    const char *boot = spool->log.origin;
    uint64_t now = ep_port_uptime_ns(), unix_ns = ep_port_unix_ns();
    uint64_t end = record->start_ns + record->duration_ns, end_unix = end + record->unix_minus_uptime_ns;

    boot += strlen(boot) + 1; /* tags */
    boot += strlen(boot) + 1;
    if (*boot && strcmp(boot, ep->identity.boot_id) == 0 && end <= now)
        return now - end;
    return record->unix_minus_uptime_ns && unix_ns >= end_unix ? unix_ns - end_unix : UINT64_MAX;
}

/* The headers preceded by a line with the message's age for the receiver; the headers alone if there is no room. */
static const char *headers_with_age(const char *headers, uint64_t age_ns)
{
    static const char name[] = "X-Edgeprof-Age: ";
    char digits[20], *to = spool->headers;
    size_t at = sizeof digits, more = headers ? strlen(headers) : 0;

    if (sizeof name + sizeof digits + 1 + more > sizeof spool->headers)
        return headers;
    for (uint64_t ms = age_ns / MS; ms || at == sizeof digits; ms /= 10)
        digits[--at] = (char)('0' + ms % 10);
    memcpy(to, name, sizeof name - 1);
    to += sizeof name - 1;
    memcpy(to, age_ns == UINT64_MAX ? "unknown" : digits + at, age_ns == UINT64_MAX ? 7 : sizeof digits - at);
    to += age_ns == UINT64_MAX ? 7 : sizeof digits - at;
    if (more)
        *to++ = '\n';
    memcpy(to, headers ? headers : "", more + 1);
    return spool->headers;
}

/* Removes a message that is delivered or dropped. The mark keeps a pprof from being sent twice. */
static void replay_done(struct ep *ep, const struct ep_spool_record *record, bool mark)
{
    spool->held.file = 0;
    ep_spool_log_pass(&spool->log, record, mark && ep->config.encoder);
    counters_publish(ep);
}

/* True if the mark is behind the message: it is read again for those that follow in its segment. */
static bool is_known(const struct ep *ep, const struct ep_spool_record *record)
{
    const struct ep_spool_place *marked = &spool->log.marked;

    return ep->config.encoder &&
           (record->file < marked->file || (record->file == marked->file && record->index < marked->index));
}

/* Receivers look at the age of the start. */
static enum ep_loss refusal(const struct ep *ep, const struct ep_spool_record *record, uint64_t age_ns)
{
    bool dated = spool->old_given || ep->config.encoder;

    return dated && (age_ns > spool->old_ns || age_ns + record->duration_ns > spool->old_ns) ? EP_LOSS_TOO_OLD
                                                                                             : EP_LOSS_REFUSED;
}

static void replay_lost(struct ep *ep, const struct ep_spool_record *record, enum ep_loss reason, enum ep_shown shown)
{
    bool own = record->file >= spool->log.first_own;

    ep_lose(ep, reason, record->samples, record->cpu_ns - record->lost_ns);
    (void)atomic_fetch_add(&ep->deliver->lost_shown_ns[shown], own ? record->cpu_ns : 0);
    replay_done(ep, record, true);
}

static void replay_refused(struct ep *ep, const struct ep_spool_record *record)
{
    replay_lost(ep, record, refusal(ep, record, message_age(ep, record)), EP_SHOWN_REFUSED);
    spool->restarted = true;
}

/* The receiver does not know the message's segment: replays the segment from its start, once. */
static void replay_stale(struct ep *ep, const struct ep_spool_record *record)
{
    int back = spool->restarted ? 0 : ep_spool_log_back(&spool->log, record);

    if (back < 0)
        read_failed(ep, back);
    spool->restarted = back >= 0;
    if (back)
        return;
    replay_lost(ep, record, EP_LOSS_SEGMENT, EP_SHOWN_SEGMENT);
}

static struct ep_message message_of(const struct ep_spool_record *record, const uint8_t *bytes, uint64_t offset_ns)
{
    return (struct ep_message){
        .data = bytes,
        .size = record->size,
        .format = EP_FORMAT_COMPACT,
        .segment = record->segment,
        .sequence = record->sequence,
        .start_unix_ns = offset_ns ? record->start_ns + offset_ns : 0,
        .end_unix_ns = offset_ns ? record->start_ns + record->duration_ns + offset_ns : 0,
    };
}

/* The message's offset from uptime to wall clock: as stored, else for a message of this boot as known now. */
static uint64_t clock_offset(const struct ep_spool_record *record, uint64_t age_ns)
{
    uint64_t unix_ns = ep_port_unix_ns(), end = record->start_ns + record->duration_ns;

    if (record->unix_minus_uptime_ns || age_ns == UINT64_MAX || unix_ns < age_ns + end)
        return record->unix_minus_uptime_ns;
    return unix_ns - age_ns - end;
}

/* Sends the message with the service and tags of the run that made it. */
static int send_spooled(struct ep *ep, const struct ep_spool_record *record, const uint8_t *bytes, uint64_t limit)
{
    const struct ep_target target = ep->deliver->target;
    uint64_t age_ns = message_age(ep, record);
    struct ep_message message = message_of(record, bytes, clock_offset(record, age_ns));

    ep->deliver->target.service = spool->log.origin;
    ep->deliver->target.tags = spool->log.origin + strlen(spool->log.origin) + 1;
    ep->deliver->target.headers = headers_with_age(target.headers, age_ns);
    const struct ep_delivery delivery = {
        .until = until_of(ep),
        .deadline_ns = limit,
        .refused = refusal(ep, record, age_ns),
        .stored = true,
        .foreign = record->file < spool->log.first_own,
        .known = is_known(ep, record),
        .ends = ep_spool_log_is_last(&spool->log),
    };
    int error = ep_deliver_message(ep, &message, &delivery);
    ep->deliver->target = target;
    return error;
}

/* Only a second endpoint failed: its pause holds for the spool, and new profiles go their way. */
static void replay_apart(struct ep *ep)
{
    spool->apart_backoff_ns = ep->deliver->backoff_ns;
    spool->replay_again_ns = ep->deliver->retry_at_ns;
    ep->deliver->retry_at_ns = 0;
    link_is_up(ep);
}

/* Sends the oldest message of the spool. */
static void replay(struct ep *ep, uint64_t limit)
{
    struct ep_spool_record record;
    struct ep_spool_dropped damaged = {0};
    const uint8_t *bytes;
    int failed = ep_spool_log_read(&spool->log, &record, &bytes, &damaged);

    count_dropped(ep, EP_LOSS_SPOOL_DAMAGED, &damaged);
    counters_publish(ep);
    if (failed)
        read_failed(ep, failed);
    else
        read_works(ep);
    if (!bytes)
        return;
    if (record.segment != spool->reading)
        spool->restarted = false;
    spool->reading = record.segment;
    uint64_t before = ep_port_uptime_ns(), backoff_ns = ep->deliver->backoff_ns;
    ep_apart = false;
    ep->deliver->backoff_ns = spool->apart_backoff_ns ? spool->apart_backoff_ns : backoff_ns;
    int error = send_spooled(ep, &record, bytes, limit);
    uint64_t now = ep_port_uptime_ns();
    spool->replay_again_ns = now + (now - before) * (100 - spool->share_pct) / spool->share_pct;
    if (error >= 0) {
        if (!is_known(ep, &record))
            ep_count(ep, EP_COUNT_REPLAYED, 1);
        replay_done(ep, &record, error == 0);
        if (error > 0) { /* nothing was sent */
            ep->deliver->backoff_ns = backoff_ns;
            spool->replay_again_ns = before;
            return;
        }
    } else if (error == -EBADMSG) {
        replay_refused(ep, &record);
    } else if (error == -ESTALE) {
        replay_stale(ep, &record);
    } else {
        spool->held = record;
        spool->held.file = ep->config.encoder ? record.file : 0;
        if (ep_apart)
            replay_apart(ep);
        return;
    }
    spool->apart_backoff_ns = 0;
    link_is_up(ep);
}

/* ---- a round ---- */

static int set_due(struct ep *ep, uint64_t at_ns)
{
    ep->deliver->due_ns = at_ns;
    return -EAGAIN;
}

/* One step. Live messages go first, in a new segment; then the spool, oldest first, for link_share_pct of the time.
 * Returns 1: call again; 0: nothing is left; else an error, with ep->deliver->due_ns set. */
static int deliver_step(struct ep *ep, uint64_t until)
{
    const struct ep_box_header *header = ep_deliver_next(ep);
    bool is_part = atomic_load(&ep->deliver->restart.state) == EP_RESTART_PART;
    uint64_t now = ep_port_uptime_ns(), due = UINT64_MAX;
    bool spooled = spool->open && !ep_spool_log_empty(&spool->log) && !is_stopping(ep);

    if (header && to_disk(ep, header, until, &due)) {
        if (!is_part && start_ask(ep))
            return -EINPROGRESS;
        if ((is_part ? store_part(ep, header) : store_outbox(ep)) == 0)
            return 1;
        header = ep_deliver_next(ep);
    }
    if (!header && !spooled)
        return ep_deliver_idle(ep);
    if (now < ep->deliver->retry_at_ns)
        return set_due(ep, due > now && due < ep->deliver->retry_at_ns ? due : ep->deliver->retry_at_ns);
    if (now >= until)
        return set_due(ep, now + 10 * MS); /* the link has no time left, and the disk did not take everything */
    if (header && !behind_spooled(header)) {
        send_live(ep, header, until);
        return 1;
    }
    if (now < spool->replay_again_ns)
        return set_due(ep, spool->replay_again_ns);
    replay(ep, until);
    return 1;
}

/* Closes the spool and resets its state for the next run. */
static void spool_close(struct ep *ep)
{
    if (spool->open) {
        ep_spool_log_close(&spool->log, !ep->config.encoder);
        counters_publish(ep);
    }
    spool->open = spool->segment_spooled = spool->restarted = false;
    spool->disk_again_ns = spool->replay_again_ns = spool->read_backoff_ns = spool->apart_backoff_ns = 0;
    spool->segment = spool->reading = spool->asked = 0;
    spool->held.file = 0;
    spool->unsure = false;
}

static int spool_round(struct ep *ep, uint64_t deadline_ns)
{
    int more = 0;

    if (!ep->deliver->transport)
        return 0;
    (void)disk_usable(ep);
    while ((more = deliver_step(ep, is_stopping(ep) ? atomic_load(&ep->deliver->stop_send_ns) : deadline_ns)) > 0) {
    }
    if (is_stopping(ep) && ep->config.flags & EP_MANUAL)
        spool_close(ep); /* the last round is not announced */
    return more;
}

/* Reserves a part of the deadline for the disk. */
static void spool_stop(struct ep *ep, uint64_t deadline_ns)
{
    uint64_t now = ep_port_uptime_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    uint64_t until = deadline_ns - (left / 2 < DISK_RESERVE_NS ? left / 2 : DISK_RESERVE_NS);

    atomic_store(&ep->deliver->stop_send_ns, until ? until : 1);
    ep_deadline_shrink(&spool->send, until);
}

/* With the first record of a new file. */
static uint32_t spool_largest(void)
{
    return spool->log.size - 2 * EP_SPOOL_RECORD - EP_SPOOL_ORIGIN_SIZE;
}

/* Its files belong to the parent. */
static void spool_forked(void);

static const struct ep_feature spool_feature = {.name = "spool",
                                                .message_most = spool_largest,
                                                .stop = spool_stop,
                                                .forked = spool_forked,
                                                .deliver = spool_round,
                                                .deliver_end = spool_close};

static void spool_forked(void)
{
    ep_feature_remove(&spool_feature);
}

/* ---- configuration ---- */

static const char *config_error(const struct ep_spool_config *config)
{
    if (!config->dir || !config->dir[0] || strlen(config->dir) >= DIR_BYTES)
        return "spool: dir: no directory given, or a path of more than 255 characters";
    if (!config->memory || config->memory_size < EP_SPOOL_MEMORY_MIN || config->memory_size > CAP_LARGEST / FILES_A_CAP)
        return "spool: memory_size: must be EP_SPOOL_MEMORY_MIN to 64 MiB";
    if (config->cap_bytes > CAP_LARGEST ||
        (config->cap_bytes ? config->cap_bytes : CAP_BYTES) < FILES_A_CAP * (uint64_t)config->memory_size)
        return "spool: cap_bytes: must be 16 times memory_size to 1 GiB";
    if (config->link_share_pct > 100)
        return "spool: link_share_pct: must be 1 to 100";
    return NULL;
}

int ep_spool_start(const struct ep_spool_config *config)
{
    if (ep_running())
        return ep_refuse(-EALREADY, "spool: the profiler is running; call ep_spool_start() before ep_start()");
    ep_feature_remove(&spool_feature);
    if (!config)
        return 0;
    const char *why = config_error(config);
    if (why)
        return ep_refuse(-EINVAL, why);
    uintptr_t at = ((uintptr_t)config->memory + 15) & ~(uintptr_t)15;
    size_t left = config->memory_size - (at - (uintptr_t)config->memory) - sizeof *spool;
    spool = (struct spool *)at;
    *spool = (struct spool){
        .sync_ns = (config->sync_ms ? config->sync_ms : SYNC_MS) * (uint64_t)MS,
        .old_ns = (config->old_ms ? config->old_ms : OLD_PPROF_MS) * (uint64_t)MS,
        .old_given = config->old_ms != 0,
        .share_pct = config->link_share_pct ? config->link_share_pct : SHARE_PCT,
        .log = {.cap = config->cap_bytes ? config->cap_bytes : CAP_BYTES,
                .buffer = (uint8_t *)(spool + 1),
                .size = (uint32_t)left & ~(EP_SPOOL_BLOCK - 1)},
    };
    memcpy(spool->dir, config->dir, strlen(config->dir) + 1);
    return ep_feature_add(&spool_feature);
}
