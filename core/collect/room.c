/*
 * Room for the next sample: nothing is dropped while the link takes messages.
 *
 * When little is left of the nodes, entries or label sets, what there is becomes a profile before the interval's end.
 * It carries its own start and duration. What it has used lately stays in the tree. When nothing can be sent, the tree
 * fills up; then detail is given up until the next profile, in the order that hurts least, with exact totals: labels
 * and spans, then addresses within a function, then the callees beyond a depth.
 *
 *   ep_make_room -> ep_collect_early, or ep_collect_discard
 *                -> degrade -> fold -> ep_tree_fold, function_of
 */
#include "core/collect/collect.h"
#include "core/profile/fold.h"

#define LABELS_SPARE 3u

static bool is_low(const struct ep *ep)
{
    const struct ep_labels *labels = &ep->collect->labels;

    return ep_tree_is_low(&ep->collect->tree) || labels->count + labels->capacity / 8 + LABELS_SPARE > labels->capacity;
}

static bool has_labels(const struct ep *ep)
{
    return ep->collect->detail == EP_DETAIL_ALL && ep->collect->labels.count > 1;
}

static bool may_send(const struct ep *ep)
{
    return !ep_collect_held(ep) && !atomic_load(&ep->encode_pending);
}

uint32_t ep_function_of(struct ep *ep, uint32_t frame)
{
    const struct ep_module *module =
        frame < EP_FRAME_FIRST_ADDRESS ? NULL : ep_module_of_linear(&ep->unwinder.modules, frame);

    if (!module || module->data)
        return frame;
    uintptr_t start = ep_function_start(module, module->start + (frame - module->base));
    return start > module->start && start < module->end ? module->base + (uint32_t)(start - module->start) : frame;
}

static uint32_t function_of(void *argument, uint32_t frame)
{
    return ep_function_of(argument, frame);
}

static bool features_thin(void)
{
    bool fewer = false;

    EP_EACH_FEATURE (at, tree_thin)
        fewer |= at.feature->tree_thin();
    return fewer;
}

unsigned ep_collect_mark(struct ep *ep)
{
    unsigned marked;

    do {
        ep_tree_unmark(&ep->collect->tree);
        marked = 0;
        EP_EACH_FEATURE (at, tree_mark)
            marked += at.feature->tree_mark(&ep->collect->tree);
    } while (marked > ep->collect->tree.node_capacity / 2 && features_thin());
    return marked;
}

static void fold(struct ep *ep, unsigned depth)
{
    struct ep_fold what = {.labels = ep->collect->detail >= EP_DETAIL_LABELS, .depth = depth};

    if (ep->collect->detail >= EP_DETAIL_ADDRESSES)
        what.frame = function_of, what.argument = ep;
    (void)ep_collect_mark(ep);
    atomic_store(&ep->collect->unsettled, 1);
    ep_tree_fold(&ep->collect->tree, &what);
    EP_EACH_FEATURE (at, tree_moved)
        at.feature->tree_moved(&ep->collect->tree);
    ep_tree_folded(&ep->collect->tree, &what);
    ep->collect->path.depth = 0;
    ep_labels_clear(ep);
    ep_segment_begin(ep); /* ids of nodes have changed */
    atomic_store(&ep->collect->unsettled, 0);
}

/* Takes the next step. False: there is none. */
static bool degrade(struct ep *ep)
{
    if (ep->collect->detail < EP_DETAIL_FRAMES)
        ep->collect->detail++;
    if (ep->collect->detail == EP_DETAIL_FRAMES) {
        if (ep->collect->depth_limit == 1)
            return false;
        ep->collect->depth_limit -= (ep->collect->depth_limit + 3) / 4;
        fold(ep, ep->collect->depth_limit);
    } else {
        fold(ep, 0);
    }
    ep_count(ep, EP_COUNT_DEGRADED + ep->collect->detail - 1, 1);
    return true;
}

void ep_make_room(struct ep *ep)
{
    if (!is_low(ep))
        return;
    if (!ep->deliver->transport)
        ep_collect_discard(ep);
    else if (may_send(ep))
        ep_collect_early(ep);
    if (ep->collect->labels.count + LABELS_SPARE > ep->collect->labels.capacity && has_labels(ep))
        (void)degrade(ep);
    while (ep_tree_is_full(&ep->collect->tree) && degrade(ep)) {
    }
}
