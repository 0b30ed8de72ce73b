/*
 * The encoders' input; core/encode has the encoders.
 */
#ifndef EP_DATA_ENCODING_H
#define EP_DATA_ENCODING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/profile/labels.h"
#include "core/profile/tree.h"
#include <edgeprof/edgeprof.h>

struct ep_modules;
struct ep_names;
struct ep_tags;

/* What an encoder writes: a tree and what it refers to. */
struct ep_encoding {
    uint8_t *data;
    uint32_t size; /* room */
    struct ep_tree *tree;
    const struct ep_labels *labels;
    struct ep_modules *table;
    unsigned modules; /* number of modules to use */
    const struct ep_tags *tags;
    uint32_t kinds;                /* EP_KIND_BIT()s to write */
    uint64_t start_ns, end_ns;     /* uptime */
    uint64_t unix_minus_uptime_ns; /* 0: the device has no clock */

    /* ---- compact ---- */
    uint64_t segment;
    uint32_t sequence;
    unsigned nodes_declared;       /* the segment's dictionary has the nodes below, */
    const uint32_t *tags_declared; /* and these tag sets: a bitmap; NULL: none */
    const uint32_t *tags_again;    /* tag sets to write besides those of label sets: a bitmap; NULL: none */
    unsigned tags_begin, tags_end; /* ids in that bitmap to look at */
    const uint64_t *periods;       /* of each kind; NULL: the current ones */
    const uint32_t *chosen;        /* bitmap of the nodes to write, with their callers; NULL: all */
    unsigned limit;                /* nodes [1, limit) and their entries */
    bool last;                     /* this message ends the segment */
    bool more;                     /* others of the same interval follow */
    struct ep_sums sums;           /* totals of this message */

    /* ---- pprof ---- */
    const uint32_t *tag_strings;         /* bitmap of the tag strings to write; NULL: all */
    const uint32_t *count_high;          /* per entry: bits 32 and up of its count; NULL: all 0 */
    uint64_t clock_error;                /* ep_stats.clock_error */
    uint64_t period;                     /* of the family's first kind; 0: the current one */
    bool callers_first;                  /* samples in the order of a walk through the tree; else of the nodes' ids */
    unsigned samples_begin, samples_end; /* the samples to write, in that order; end 0: all */
    const struct ep_names *names;        /* NULL: no names */
    const char *root_name;               /* of one more outermost frame of each stack; NULL: none */
};

#endif
