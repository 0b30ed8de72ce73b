/*
 * Stores messages: batches of the outbox, parts of a dictionary, and what a converter has not sent. Also counts what
 * the log drops, and notes whether the disk works.
 *
 *   ep_spool_write_outbox -> store_unsent, store_batch -> batch_gather, the log
 */
#include "core/features/spool/parts.h"

#include <errno.h>
#include <string.h>

#define DISK_AGAIN_NS 60000000000u

/* ---- counters ---- */

static void counter_store(struct ep *ep, enum ep_counter counter, uint64_t value)
{
    atomic_store_explicit(&ep->counter[counter], value, memory_order_relaxed);
}

void ep_spool_publish(struct ep *ep)
{
    counter_store(ep, EP_COUNT_SPOOL_MESSAGES, ep_spool_log_messages(&ep_spool->log));
    counter_store(ep, EP_COUNT_SPOOL_BYTES, ep_spool->log.bytes);
    counter_store(ep, EP_COUNT_SPOOL_WRITTEN, ep_spool->log.written);
    counter_store(ep, EP_COUNT_SPOOL_DAMAGED, ep_spool->log.damaged);
    counter_store(ep, EP_COUNT_SPOOL_DAMAGED_BYTES, ep_spool->log.damaged_bytes);
}

/* If a converter has counted a dropped message, removes it from *dropped. */
static void held_drop(struct ep *ep, struct ep_spool_dropped *dropped)
{
    struct ep_spool_record *held = &ep_spool->held;
    bool own = held->file >= ep_spool->log.first_own;

    if (!held->file || ep_spool->log.file[held->file % EP_SPOOL_FILES].number == held->file)
        return;
    const struct ep_feature *converter = EP_FEATURE_WITH(forget);
    if (converter && converter->forget(ep, held->segment, held->sequence, own)) {
        dropped->all.messages--;
        dropped->all.samples -= held->samples;
        dropped->all.cpu_ns -= held->cpu_ns;
        dropped->all.lost_ns -= held->lost_ns;
        dropped->own_cpu_ns -= own ? held->cpu_ns : 0;
    }
    held->file = 0;
}

void ep_spool_count_dropped(struct ep *ep, enum ep_loss reason, struct ep_spool_dropped *dropped)
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
    ep_spool->disk_again_ns = ep_port_uptime_ns() + DISK_AGAIN_NS;
    counter_store(ep, EP_COUNT_SPOOL_ERROR, (uint64_t)-error);
    ep_spool_publish(ep);
    return error;
}

/* The spool works, unless something in it cannot be read. */
static void disk_works(struct ep *ep)
{
    if (!ep_spool->read_backoff_ns && !ep_spool->log.unread)
        counter_store(ep, EP_COUNT_SPOOL_ERROR, 0);
    ep_spool_publish(ep);
}

static void read_tell(struct ep *ep, int error)
{
    counter_store(ep, EP_COUNT_SPOOL_ERROR, (uint64_t)-error);
    atomic_store(&ep->deliver->last_error, error);
}

void ep_spool_read_failed(struct ep *ep, int error)
{
    uint64_t next = ep_spool->read_backoff_ns ? ep_spool->read_backoff_ns * 2 : EP_BACKOFF_FIRST_NS;

    ep_spool->read_backoff_ns = next < EP_BACKOFF_MOST_NS ? next : EP_BACKOFF_MOST_NS;
    ep_spool->replay_again_ns = ep_port_uptime_ns() + ep_spool->read_backoff_ns;
    read_tell(ep, error);
}

void ep_spool_read_works(struct ep *ep)
{
    if (!ep_spool->read_backoff_ns)
        return;
    ep_spool->read_backoff_ns = 0;
    disk_works(ep);
}

/* Tries again the files that could not be read at the start. */
static void unread_retry(struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();

    if (!ep_spool->log.unread || now < ep_spool->unread_again_ns || ep_spool_is_stopping(ep))
        return;
    ep_spool->unread_again_ns = now + DISK_AGAIN_NS;
    int error = ep_spool_log_retry(&ep_spool->log);
    if (error)
        read_tell(ep, error);
    else
        disk_works(ep);
}

bool ep_spool_disk_usable(struct ep *ep)
{
    if (ep_port_uptime_ns() < ep_spool->disk_again_ns && !ep_spool_is_stopping(ep))
        return false;
    if (!ep_spool->open) {
        int error = ep_spool_log_open(&ep_spool->log, ep_spool->dir);
        if (error) {
            (void)disk_failed(ep, error);
            return false;
        }
        ep_spool->open = true;
        ep_spool->unread_again_ns = 0;
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
    bool full = ep_spool->log.write.offset >= ep_spool->log.cap / EP_SPOOL_FILES_A_CAP;

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
        ep_spool_log_turn(&ep_spool->log);
    ep_spool_log_begin(&ep_spool->log, text, origin_write(ep, text));
    for (; header && messages < most && (messages == 0 || !begins_file(ep, header));
         header = ep_outbox_after(&ep->deliver->outbox, header)) {
        struct ep_spool_record record = record_of(header);
        if (!ep_spool_log_add(&ep_spool->log, &record, header + 1))
            break;
        ep_spool->segment = header->segment;
        messages++;
    }
    return messages;
}

/* Stores one batch. Returns 0, or the error; then the messages stay in the outbox. */
static int store_batch(struct ep *ep, unsigned most)
{
    struct ep_spool_dropped dropped = {0};
    uint64_t segment = ep_spool->segment;
    unsigned messages = batch_gather(ep, most);

    if (messages == 0) {
        ep_spool_log_turn(&ep_spool->log);
        return -EMSGSIZE;
    }
    int error = ep_spool_log_commit(&ep_spool->log, &dropped);
    ep_spool_count_dropped(ep, EP_LOSS_SPOOL_FULL, &dropped);
    if (error) {
        ep_spool->segment = segment;
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
        ep_spool_log_turn(&ep_spool->log);
    ep_spool_log_begin(&ep_spool->log, text, origin_write(ep, text));
    if (!ep_spool_log_add(&ep_spool->log, &record, bytes))
        return -EMSGSIZE;
    int error = ep_spool_log_commit(&ep_spool->log, &dropped);
    ep_spool_count_dropped(ep, EP_LOSS_SPOOL_FULL, &dropped);
    if (!error)
        ep_count(ep, EP_COUNT_SPOOLED, 1);
    return error;
}

/* Stores what a converter has taken, and messages that only it can read. */
static int store_unsent(struct ep *ep)
{
    const struct ep_feature *converter = EP_FEATURE_WITH(unsent);
    struct ep_box_header header;
    const uint8_t *bytes;

    while (converter && converter->unsent(ep, &bytes, &header)) {
        int error = store_one(ep, &header, bytes);
        if (error)
            return error;
        converter->stored();
    }
    return 0;
}

int ep_spool_write_part(struct ep *ep, const struct ep_box_header *header)
{
    int error = ep_spool_disk_usable(ep) ? 0 : -EIO;

    if (error)
        return error;
    error = store_one(ep, header, header + 1);
    if (error)
        return disk_failed(ep, error);
    ep_spool->segment = header->segment;
    disk_works(ep);
    ep_deliver_restart(ep, EP_RESTART_SENT);
    return 0;
}

/* True if the spool must have the dictionary of the outbox's oldest messages before them, because only the receiver has
 * the beginning of their segment, and may have lost it by then. The collect thread encodes it again, as a new segment.
 * The receiver may already have a message whose send failed: that one stays as it is, so that it never counts twice. */
bool ep_spool_ask_start(struct ep *ep)
{
    const struct ep_box_header *header = ep_outbox_peek(&ep->deliver->outbox);

    if (header->sequence == 0 || header->segment == ep_spool->segment || header->segment == ep_spool->asked ||
        ep_spool_is_stopping(ep) || ep_spool_converts() || !ep_spool_disk_usable(ep))
        return false;
    uint64_t segment = header->segment;
    if (ep_spool->unsure && store_batch(ep, 1) != 0)
        return false;
    header = ep_outbox_peek(&ep->deliver->outbox);
    ep_spool->unsure = false;
    ep_spool->asked = segment;
    ep_spool->segment = 0;
    if (!header || header->segment != segment) {
        atomic_store(&ep->deliver->stale_segment, segment);
        return false;
    }
    ep->deliver->restart.of = segment;
    ep->deliver->restart.optional = true;
    ep_deliver_restart(ep, EP_RESTART_ASKED);
    return true;
}

int ep_spool_write_outbox(struct ep *ep)
{
    if (!ep_spool_disk_usable(ep))
        return -EIO;
    int error = store_unsent(ep);
    if (error)
        return disk_failed(ep, error);
    while (error == 0 && !ep_outbox_empty(&ep->deliver->outbox)) {
        error = store_batch(ep, UINT32_MAX);
        if (error)
            return disk_failed(ep, error);
        if (!ep_spool->segment_spooled)
            atomic_store(&ep->deliver->stale_segment, ep_spool->segment);
        ep_spool->segment_spooled = true;
        disk_works(ep);
    }
    return error;
}
