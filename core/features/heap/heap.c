/*
 * The sizes of a garbage-collected heap as a profile, read from the language runtime at the end of an interval. Each
 * part is a stack of one or two frames. A gauge: each interval has the current sizes, so the profiles form a timeline.
 * Knows no specific runtime. A program without one does not link this file.
 *
 *   ep_heap_attach, then once an interval heap_gauges -> the runtime's read
 */
#include "core/collect/collect.h"

static unsigned (*heap_read)(struct ep_heap_part part[EP_HEAP_PARTS]);

static unsigned node_of(struct ep_tree *tree, const struct ep_heap_part *part)
{
    unsigned node = ep_tree_child(tree, 0, part->frame);

    if (node && part->inner)
        node = ep_tree_child(tree, node, part->inner);
    return node ? node : tree->truncated;
}

static void heap_gauges(struct ep *ep)
{
    struct ep_heap_part part[EP_HEAP_PARTS];
    uint64_t total = 0;

    ep_tree_zero_entries(&ep->collect->tree, ep->collect->tree.nodes, EP_KIND_BIT(EP_KIND_HEAP));
    unsigned count = ep->collect->kinds & EP_KIND_BIT(EP_KIND_HEAP) ? heap_read(part) : 0;
    for (unsigned i = 0; i < count; i++) {
        if (part[i].bytes &&
            !ep_tree_add(&ep->collect->tree, node_of(&ep->collect->tree, &part[i]), EP_KIND_HEAP, 0, 0, part[i].bytes))
            ep_lose(ep, EP_LOSS_ENTRIES_FULL, 1, 0);
        total += part[i].bytes;
    }
    atomic_store_explicit(&ep->kind_value[EP_KIND_HEAP], total, memory_order_relaxed);
}

void ep_heap_attach(unsigned (*read)(struct ep_heap_part part[EP_HEAP_PARTS]))
{
    static const struct ep_feature feature = {.name = "heap", .gauges = heap_gauges};

    heap_read = read;
    (void)ep_feature_add(&feature); /* there are fewer features than places */
}
