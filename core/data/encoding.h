/*
 * What an encoder is told, and what it is: the collect thread fills struct ep_encoding, core/encode has the encoders.
 */
#ifndef EP_DATA_ENCODING_H
#define EP_DATA_ENCODING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/data/contexts.h"
#include "core/data/tree.h"
#include "core/edgeprof.h"

struct ep;

/* An encoder writes the tree's nodes below `limit` and their entries as one message. Pprof may tell another tree than
 * the profiler's own; compact has a dictionary of that one. */
struct ep_encoding {
    uint8_t *data;
    uint32_t size; /* room */
    struct ep_tree *tree;
    const struct ep_contexts *contexts;
    unsigned modules;              /* the first that many */
    const uint32_t *count_high;    /* of each entry: what its count has in excess of 32 bits; NULL: nothing */
    const uint32_t *tag_strings;   /* a bit for each place of those that count; NULL: all */
    uint64_t period;               /* of the family's first kind; 0: as it is now */
    unsigned limit;                /* nodes [1, limit) and their entries */
    uint32_t kinds;                /* EP_KIND_BIT()s to tell */
    bool last;                     /* nothing follows in this segment */
    uint64_t start_ns, end_ns;     /* uptime */
    uint64_t unix_minus_uptime_ns; /* 0: the device has no clock */
    struct ep_sums sums;           /* of what is told */
};
struct ep_encoder {
    enum ep_format format;
    /* Returns the bytes written, or -ENOSPC. Context: collect. */
    int32_t (*encode)(struct ep *ep, const struct ep_encoding *encoding);
    /* The kinds that go into one message with the lowest of `kinds`. Context: collect. */
    uint32_t (*together)(uint32_t kinds);
    /* What ep_message.family is for such a message. Context: collect. */
    const char *(*family)(uint32_t kinds);
};

#endif
