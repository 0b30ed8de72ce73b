/*
 * An encoder and its input. The collect thread fills struct ep_encoding; core/encode has the encoders.
 */
#ifndef EP_DATA_ENCODING_H
#define EP_DATA_ENCODING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/data/contexts.h"
#include "core/data/tree.h"
#include "core/edgeprof.h"

struct ep;

/* The encoder writes the tree's nodes below `limit` and their entries as one message. Pprof may encode another tree
 * than the profiler's own (the pull endpoint's). Compact cannot: its dictionary belongs to the profiler's tree. */
struct ep_encoding {
    uint8_t *data;
    uint32_t size; /* room */
    struct ep_tree *tree;
    const struct ep_contexts *contexts;
    unsigned modules;              /* number of modules to use */
    const uint32_t *count_high;    /* per entry: bits 32 and up of its count; NULL: all 0 */
    const uint32_t *tag_strings;   /* bitmap of the tag strings to write; NULL: all */
    uint64_t period;               /* of the family's first kind; 0: the current one */
    unsigned limit;                /* nodes [1, limit) and their entries */
    uint32_t kinds;                /* EP_KIND_BIT()s to write */
    bool last;                     /* this message ends the segment */
    uint64_t start_ns, end_ns;     /* uptime */
    uint64_t unix_minus_uptime_ns; /* 0: the device has no clock */
    struct ep_sums sums;           /* totals of this message */
};
struct ep_encoder {
    enum ep_format format;
    /* Returns the bytes written, or -ENOSPC. Context: collect. */
    int32_t (*encode)(struct ep *ep, const struct ep_encoding *encoding);
    /* The kinds that share a message with the lowest of `kinds`. Context: collect. */
    uint32_t (*together)(uint32_t kinds);
    /* ep_message.family of such a message. Context: collect. */
    const char *(*family)(uint32_t kinds);
};

#endif
