/*
 * The interface of the mirror, which reads compact messages back into a tree (core/FORMAT.md).
 *
 * In: the messages of a segment, from the first on. Out: the segment's dictionary, and the values of an interval, for
 * an encoder of another format. A mirror reads what this library wrote, maybe in an earlier run; it checks it all the
 * same.
 */
#ifndef EP_MIRROR_H
#define EP_MIRROR_H

#include "core/profile/labels.h"
#include "core/profile/tree.h"
#include "core/sample/profiler.h"

/* Of one mirror: entries of an interval, bytes of modules' paths and build ids. */
#define EP_MIRROR_ENTRIES (EP_MIRROR_NODES / 4)
#define EP_MIRROR_TEXT    (EP_MAX_MODULES * 192u)

struct ep_mirror {
    uint64_t segment;          /* 0: none */
    uint32_t sequence;         /* of the message read last */
    uint32_t origin;           /* hash of the run that made it */
    bool more;                 /* that message is not its interval's last */
    uint64_t start_ns, end_ns; /* uptime: of the interval so far; 0: none */
    uint64_t sent_ns;          /* end of the values before: the parts of an interval have times of their own */
    uint64_t period[EP_KINDS];
    uint64_t clock_error; /* of the last statistics */
    struct ep_tree tree;
    struct ep_labels labels;
    struct ep_modules table;
    struct ep_tags tags;
    uint16_t set[EP_TAG_SETS + 1];        /* in `tags`, by the id in messages */
    uint16_t label[EP_MIRROR_LABELS + 1]; /* in `labels`, by the number in the message */
    unsigned numbered, text_used;
    bool values, merged; /* it has values; nodes of more than one segment */
    unsigned nodes;      /* of the segment, + 1 */

    uint16_t id[EP_MIRROR_NODES]; /* in `tree`, by the id in messages */
    struct ep_node node[EP_MIRROR_NODES];
    struct ep_entry entry[EP_MIRROR_ENTRIES];
    uint32_t mark[EP_MIRROR_NODES / 32];
    struct ep_label_key key[EP_MIRROR_LABELS];
    struct ep_thread_name name[EP_THREADS];
    uint8_t text[EP_MIRROR_TEXT];
};

/* Reads a message. With values == false only the dictionary is taken. A new segment may continue an interval. Returns
 * 0; -ESTALE: it does not continue the mirror's segment, and nothing has changed; -ENOSPC: the mirror has values that
 * must leave before, and nothing has changed; -EBADMSG: it is not valid or too large, and the mirror is empty now.
 * Context: deliver. */
int ep_mirror_read(struct ep_mirror *mirror, const uint8_t *bytes, size_t size, bool values);

/* The interval's values are sent: begins the next one. Context: deliver. */
void ep_mirror_next(struct ep_mirror *mirror);

/* Forgets everything. Context: init, deliver. */
void ep_mirror_clear(struct ep_mirror *mirror);

#endif
