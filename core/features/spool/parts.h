/*
 * Private to the spool: its state, and what spool.c, writing.c and replay.c call of each other. All of it runs on the
 * deliver thread.
 */
#ifndef EP_SPOOL_PARTS_H
#define EP_SPOOL_PARTS_H

#include "core/deliver/deliver.h"
#include "core/features/spool/spool_log.h"

#define EP_SPOOL_FILES_A_CAP 16u
#define EP_SPOOL_DIR_BYTES   256u

struct ep_spool {
    char dir[EP_SPOOL_DIR_BYTES];
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
    struct ep_deadline send;     /* of the message being sent */
    uint64_t segment;            /* of the message stored last; 0: none, or only the receiver has its beginning */
    uint64_t asked;              /* segment whose dictionary was asked for */
    bool unsure;                 /* the receiver may have the outbox's oldest message, whose send failed */
    uint64_t reading;            /* segment being replayed */
    struct ep_spool_record held; /* given to a converter, which failed to send it; file 0: none */
    bool restarted; /* its replay was restarted, or a message is missing: a receiver that does not know it never will */
    struct ep_spool_log log;
};

/* The caller's memory, from ep_spool_start() on. */
extern struct ep_spool *ep_spool;

/* Returns true if messages leave in another format than compact. Context: deliver. */
static inline bool ep_spool_converts(void)
{
    return EP_HAS_FEATURE(convert);
}

/* Returns true once ep_stop() has begun. Context: deliver. */
static inline bool ep_spool_is_stopping(struct ep *ep)
{
    return atomic_load(&ep->deliver->stop_deadline_ns) != 0;
}

/* ---- spool.c ---- */

/* Notes that a send has succeeded. Context: deliver. */
void ep_spool_link_is_up(struct ep *ep);
struct ep_deliver_until ep_spool_until(struct ep *ep);

/* ---- writing.c ---- */

/* Copies the log's figures to the statistics. Context: deliver. */
void ep_spool_publish(struct ep *ep);
/* Counts messages that the log has dropped. Context: deliver. */
void ep_spool_count_dropped(struct ep *ep, enum ep_loss reason, struct ep_spool_dropped *dropped);

/* Notes that a message cannot be read now: it stays, and is read again later. Context: deliver. */
void ep_spool_read_failed(struct ep *ep, int error);
/* Notes that reading works. Context: deliver. */
void ep_spool_read_works(struct ep *ep);

/* Returns true if the disk can be written. Opens the log if needed. Context: deliver. */
bool ep_spool_disk_usable(struct ep *ep);

/* Stores a part of a new segment's dictionary. Returns 0 or the error. Context: deliver. */
int ep_spool_write_part(struct ep *ep, const struct ep_box_header *header);
/* Stores all waiting messages. Then a new segment begins, so that later messages can be read without them. Returns 0 or
 * the error. Context: deliver. */
int ep_spool_write_outbox(struct ep *ep);
/* Asks the collect thread for the dictionary of the outbox's oldest messages, if the spool must have it before them.
 * Returns true if it has asked. Context: deliver. */
bool ep_spool_ask_start(struct ep *ep);

/* ---- replay.c ---- */

/* Sends the oldest message of the spool. Context: deliver. */
void ep_spool_replay(struct ep *ep, uint64_t limit);

#endif
