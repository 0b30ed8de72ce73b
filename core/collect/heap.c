/*
 * The sizes of a collector's heap as a profile: what a language runtime says of them at the end of an interval, a stack
 * of one frame or two for each part. A level, no sum: each interval tells what there is, so the profiles of a process
 * are a timeline. Does not know any runtime; a program without one does not link it.
 *
 *   ep_heap_attach, then once an interval charge -> the runtime's read
 */
#include "core/collect/collect.h"

static unsigned (*reader)(struct ep_heap_part part[EP_HEAP_PARTS]);

static unsigned node_of(struct ep_tree *tree, const struct ep_heap_part *part)
{
    unsigned node = ep_tree_child(tree, 0, part->frame);

    if (node && part->inner)
        node = ep_tree_child(tree, node, part->inner);
    return node ? node : tree->truncated;
}

static void charge(struct ep *ep)
{
    struct ep_heap_part part[EP_HEAP_PARTS];
    uint64_t total = 0;

    ep_tree_zero_entries(&ep->tree, ep->tree.nodes, EP_KIND_BIT(EP_KIND_HEAP));
    unsigned count = ep->kinds & EP_KIND_BIT(EP_KIND_HEAP) ? reader(part) : 0;
    for (unsigned i = 0; i < count; i++) {
        if (part[i].bytes && !ep_tree_add(&ep->tree, node_of(&ep->tree, &part[i]), EP_KIND_HEAP, 0, 0, part[i].bytes))
            ep_lose(ep, EP_LOSS_ENTRIES_FULL, 1, 0);
        total += part[i].bytes;
    }
    atomic_store_explicit(&ep->kind_value[EP_KIND_HEAP], total, memory_order_relaxed);
}

void ep_heap_attach(unsigned (*read)(struct ep_heap_part part[EP_HEAP_PARTS]))
{
    reader = read;
    ep_heap_charge = charge;
}
