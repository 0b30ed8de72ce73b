/*
 * Store-and-forward: keeps undelivered messages on disk. Decides what is stored and when, and delivers it; spool_log.c
 * has the files, writing.c stores messages, and replay.c delivers them. Only programs that call ep_spool_start() link
 * this. Everything else runs on the deliver thread.
 *
 * While the link is up nothing is written. After a failed send, messages are stored in large batches (flash wears): as
 * soon as they fill a quarter of the outbox, or the oldest has waited for sync_ms. ep_stop() reserves time for the
 * disk.
 *
 *   spool_round -> deliver_step -> ep_spool_write_outbox -> the log
 *                               -> send_live             -> ep_deliver_live
 *                               -> ep_spool_replay       -> ep_deliver_message
 */
#include "core/features/spool/parts.h"

#include <errno.h>
#include <string.h>

#define SYNC_MS         60000u
#define SHARE_PCT       25u
#define OLD_PPROF_MS    3600000u
#define CAP_BYTES       (16u << 20)
#define CAP_LARGEST     (1u << 30)
#define DISK_RESERVE_NS 1000000000u
#define MS              1000000u

struct ep_spool *ep_spool;

/* ---- from the outbox ---- */

void ep_spool_link_is_up(struct ep *ep)
{
    ep->deliver->backoff_ns = 0;
    if (ep_spool->segment_spooled)
        atomic_store(&ep->deliver->stale_segment, ep_spool->segment);
    ep_spool->segment_spooled = false;
}

struct ep_deliver_until ep_spool_until(struct ep *ep)
{
    return (struct ep_deliver_until){&ep_spool->send, &ep->deliver->stop_send_ns};
}

static void send_live(struct ep *ep, const struct ep_box_header *header, uint64_t limit)
{
    int error = ep_deliver_live(ep, header, ep_spool_until(ep), limit);

    ep_spool->unsure = error < 0 && (ep_spool->unsure || (error != -ECONNREFUSED && error != -ENETUNREACH));
    if (error == 0)
        ep_spool_link_is_up(ep);
}

static bool behind_spooled(const struct ep_box_header *header)
{
    return header->segment == ep_spool->segment && !ep_spool_log_empty(&ep_spool->log);
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

    if (ep_spool_is_stopping(ep))
        return behind_spooled(header) || now < ep->deliver->retry_at_ns || now >= send_until;
    if (!ep->deliver->backoff_ns)
        return behind_spooled(header);
    *due = header->end_ns + ep_spool->sync_ns;
    return now >= *due || outbox_used(ep) >= ep->deliver->outbox.size / 4 || atomic_load(&ep->encode_pending);
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
    bool spooled = ep_spool->open && !ep_spool_log_empty(&ep_spool->log) && !ep_spool_is_stopping(ep);

    if (header && to_disk(ep, header, until, &due)) {
        if (!is_part && ep_spool_ask_start(ep))
            return -EINPROGRESS;
        if ((is_part ? ep_spool_write_part(ep, header) : ep_spool_write_outbox(ep)) == 0)
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
    if (now < ep_spool->replay_again_ns)
        return set_due(ep, ep_spool->replay_again_ns);
    ep_spool_replay(ep, until);
    return 1;
}

/* Closes the spool and resets its state for the next run. */
static void spool_close(struct ep *ep)
{
    if (ep_spool->open) {
        ep_spool_log_close(&ep_spool->log, !ep_spool_converts());
        ep_spool_publish(ep);
    }
    ep_spool->open = ep_spool->segment_spooled = ep_spool->restarted = false;
    ep_spool->disk_again_ns = ep_spool->replay_again_ns = ep_spool->read_backoff_ns = ep_spool->apart_backoff_ns = 0;
    ep_spool->segment = ep_spool->reading = ep_spool->asked = 0;
    ep_spool->held.file = 0;
    ep_spool->unsure = false;
}

static int spool_round(struct ep *ep, uint64_t deadline_ns)
{
    int more = 0;

    if (!ep->deliver->transport)
        return 0;
    (void)ep_spool_disk_usable(ep);
    while ((more = deliver_step(ep, ep_spool_is_stopping(ep) ? atomic_load(&ep->deliver->stop_send_ns) : deadline_ns)) >
           0) {
    }
    if (ep_spool_is_stopping(ep) && ep->config.flags & EP_MANUAL)
        spool_close(ep); /* the last round is not announced */
    return more;
}

/* Reserves a part of the deadline for the disk. */
static void spool_stop(struct ep *ep, uint64_t deadline_ns)
{
    uint64_t now = ep_port_uptime_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    uint64_t until = deadline_ns - (left / 2 < DISK_RESERVE_NS ? left / 2 : DISK_RESERVE_NS);

    atomic_store(&ep->deliver->stop_send_ns, until ? until : 1);
    ep_deadline_shrink(&ep_spool->send, until);
}

/* With the first record of a new file. */
static uint32_t spool_largest(void)
{
    return ep_spool->log.size - 2 * EP_SPOOL_RECORD - EP_SPOOL_ORIGIN_SIZE;
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
    if (!config->dir || !config->dir[0] || strlen(config->dir) >= EP_SPOOL_DIR_BYTES)
        return "spool: dir: no directory given, or a path of more than 255 characters";
    if (!config->memory || config->memory_size < EP_SPOOL_MEMORY_MIN ||
        config->memory_size > CAP_LARGEST / EP_SPOOL_FILES_A_CAP)
        return "spool: memory_size: must be EP_SPOOL_MEMORY_MIN to 64 MiB";
    if (config->cap_bytes > CAP_LARGEST ||
        (config->cap_bytes ? config->cap_bytes : CAP_BYTES) < EP_SPOOL_FILES_A_CAP * (uint64_t)config->memory_size)
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
    size_t left = config->memory_size - (at - (uintptr_t)config->memory) - sizeof *ep_spool;
    ep_spool = (struct ep_spool *)at;
    *ep_spool = (struct ep_spool){
        .sync_ns = (config->sync_ms ? config->sync_ms : SYNC_MS) * (uint64_t)MS,
        .old_ns = (config->old_ms ? config->old_ms : OLD_PPROF_MS) * (uint64_t)MS,
        .old_given = config->old_ms != 0,
        .share_pct = config->link_share_pct ? config->link_share_pct : SHARE_PCT,
        .log = {.cap = config->cap_bytes ? config->cap_bytes : CAP_BYTES,
                .buffer = (uint8_t *)(ep_spool + 1),
                .size = (uint32_t)left & ~(EP_SPOOL_BLOCK - 1)},
    };
    memcpy(ep_spool->dir, config->dir, strlen(config->dir) + 1);
    return ep_feature_add(&spool_feature);
}
