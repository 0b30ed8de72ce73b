/*
 * What edgeprof itself writes to files, as the frame [edgeprof]: its spool, and profiles that go to a file. The port's
 * hooks record the program's writes. A program without these hooks does not link this file.
 *
 *   ep_write_own -> own, then at the end of an interval write_gather -> ep_collect_add
 */
#include "core/collect/collect.h"

static struct {
    atomic_uint count;
    _Atomic uint64_t value;
} own[2]; /* EP_KIND_WRITE, EP_KIND_SYNC */

void ep_write_own(enum ep_kind kind, uint64_t value)
{
    (void)atomic_fetch_add(&own[kind - EP_KIND_WRITE].count, 1);
    (void)atomic_fetch_add(&own[kind - EP_KIND_WRITE].value, value);
}

static void write_gather(struct ep *ep)
{
    struct ep_tree *tree = &ep->collect->tree;

    for (unsigned kind = EP_KIND_WRITE; kind <= EP_KIND_SYNC; kind++) {
        uint32_t count = atomic_exchange(&own[kind - EP_KIND_WRITE].count, 0);
        uint64_t value = atomic_exchange(&own[kind - EP_KIND_WRITE].value, 0);
        unsigned node = value ? ep_tree_child(tree, 0, EP_FRAME_EDGEPROF) : 0;
        if (value)
            ep_collect_add(ep, node ? node : tree->truncated, (enum ep_kind)kind, 0, count, value);
    }
}

void ep_write_attach(void)
{
    static const struct ep_feature feature = {.name = "write", .gather = write_gather};

    (void)ep_feature_add(&feature); /* there are fewer features than places */
}
