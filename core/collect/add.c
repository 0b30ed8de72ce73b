/*
 * Adds what the ring has to the tree: one record becomes one stack with its labels and value.
 *
 *   ep_collect_drain -> ep_record_read -> add_sample   -> mark_own, leaf_node, ep_label_find, ep_collect_add
 *                                      -> add_residual -> ep_add_residual
 */
#include "core/collect/collect.h"
#include "core/sample/record.h"

/* The C library's frames between a sample's leaf and a function of edgeprof that calls it. */
#define OWN_DEPTH 4u
/* edgeprof's frames between a sample's leaf and a hook. */
#define HOOK_DEPTH 12u

/* The node under the root for a special frame; the root for frame 0. */
static unsigned root_node(struct ep *ep, unsigned frame)
{
    unsigned node = frame ? ep_tree_child(&ep->collect->tree, 0, frame) : 0;

    return node || !frame ? node : ep->collect->tree.truncated;
}

/* Offers the value to the features, which may keep it for themselves, and adds it to the tree. False: no room. */
static __attribute__((noinline)) bool tree_add(struct ep *ep, unsigned node, enum ep_kind kind, unsigned label,
                                               uint32_t count, uint64_t value)
{
    bool taken = false;

    EP_EACH_FEATURE (at, value)
        taken |= at.feature->value(ep, node, kind, label, count, value);
    return taken || ep_tree_add(&ep->collect->tree, node, kind, label, count, value);
}

void ep_add_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t count, uint64_t value)
{
    if (count || value)
        (void)tree_add(ep, root_node(ep, frame), kind, 0, count, value);
}

static bool descend(struct ep *ep, unsigned *node, uintptr_t pc)
{
    uint32_t frame = ep_module_linear(&ep->unwinder.modules, pc, &ep->collect->module_hint);

    return ep_tree_step(&ep->collect->tree, node,
                        ep->collect->detail >= EP_DETAIL_ADDRESSES ? ep_function_of(ep, frame) : frame);
}

/* Moves *node along the frames that the record shares with the last one, whose nodes are known. Returns the number of
 * frames. */
static unsigned follow_path(struct ep *ep, const struct ep_sample *sample, unsigned most, unsigned *node)
{
    struct ep_path *path = &ep->collect->path;
    const atomic_uintptr_t *outermost = &sample->stack[sample->depth];
    unsigned depth = 0;

    if (most > path->depth)
        most = path->depth;
    while (depth < most && outermost[-1 - (int)depth] == path->pc[depth])
        depth++;
    if (depth)
        *node = path->node[depth - 1];
    path->depth = depth;
    return depth;
}

static void extend_path(struct ep *ep, unsigned depth, uintptr_t pc, unsigned node)
{
    struct ep_path *path = &ep->collect->path;

    if (depth >= EP_PATH_FRAMES || path->depth != depth)
        return;
    path->pc[depth] = pc;
    path->node[depth] = (uint16_t)node;
    path->depth++;
}

/* The node of the stack's frames up to `last`, outermost first. False: no room, a [truncated] node. */
static bool descend_all(struct ep *ep, const struct ep_sample *sample, unsigned last, unsigned *node)
{
    unsigned frames = sample->depth - last, depth = 0;
    unsigned modules = atomic_load_explicit(&ep->unwinder.modules.count, memory_order_relaxed);
    bool room = true;

    if (ep->collect->path.end != sample->end || ep->collect->path.modules != modules)
        ep->collect->path.depth = 0;
    ep->collect->path.end = sample->end;
    ep->collect->path.modules = modules;
    if (ep->collect->path.depth)
        depth = follow_path(ep, sample, frames, node);
    if (!depth)
        *node = root_node(ep, sample->end);
    for (; room && depth < frames; depth++) {
        uintptr_t pc = sample->stack[sample->depth - 1 - depth];
        room = descend(ep, node, pc);
        if (room)
            extend_path(ep, depth, pc, *node);
    }
    return room;
}

static struct ep_own_text own_text;

void ep_own_text_is(const struct ep_own_text *text)
{
    own_text = *text;
}

static bool is_in(const struct ep_module *module, uintptr_t pc)
{
    return pc - module->start < module->end - module->start;
}

/* In programs where edgeprof is a module of its own: the number of its frames at the leaf. They are edgeprof's work if
 * the leaf is, or if the innermost of edgeprof's functions calls the C library for edgeprof alone. Otherwise they
 * called the program's function, as every hook does. */
static unsigned own_in_module(const struct ep_module *own, const struct ep_sample *sample)
{
    unsigned at = 0, most = sample->depth < OWN_DEPTH ? sample->depth : OWN_DEPTH;

    while (at < most && !is_in(own, sample->stack[at]))
        at++;
    if (at == most || (at > 0 && sample->stack[at] - own_text.calls_start >= own_text.calls_end - own_text.calls_start))
        return 0;
    while (at < sample->depth && is_in(own, sample->stack[at]))
        at++;
    return at;
}

/* In programs that are linked with edgeprof: the number of frames from the leaf to a hook. A hook calls no function of
 * the program. A frame of another module may be below a signal's, so the search ends there. */
static unsigned own_in_hook(const struct ep *ep, const struct ep_sample *sample)
{
    const struct ep_module *module =
        EP_HAS_FEATURE(is_own) && sample->depth ? ep_module_find(&ep->unwinder.modules, sample->stack[0]) : NULL;
    unsigned own = 0;

    for (unsigned i = 0; module && i < HOOK_DEPTH && i < sample->depth; i++) {
        uintptr_t pc = sample->stack[i];
        if (!is_in(module, pc))
            break;
        EP_EACH_FEATURE (at, is_own)
            own = at.feature->is_own(ep, pc) ? i + 1 : own;
    }
    return own;
}

/* CPU time of edgeprof in the program's thread: puts [edgeprof] in place of its frames at the leaf. */
static void mark_own(const struct ep *ep, struct ep_sample *sample)
{
    const struct ep_module *own = own_text.inside ? ep_module_find(&ep->unwinder.modules, own_text.inside) : NULL;

    sample->skip = own ? own_in_module(own, sample) : own_in_hook(ep, sample);
    if (sample->skip)
        sample->frame = EP_FRAME_EDGEPROF;
}

/* Such samples are in no profile, so no loss of the profile either. */
bool ep_is_of_history(enum ep_kind kind)
{
    return atomic_load_explicit(&ep_history_alone, memory_order_relaxed) & EP_KIND_BIT(kind);
}

/* The node of the sample's leaf; creates its path from the root. */
static unsigned leaf_node(struct ep *ep, const struct ep_sample *sample)
{
    unsigned node, first = sample->skip;
    unsigned last = sample->depth - first > ep->collect->depth_limit ? sample->depth - ep->collect->depth_limit : first;
    bool room = descend_all(ep, sample, last, &node);

    if (room && last > first) {
        ep_tree_truncate(&ep->collect->tree, &node);
        room = false;
    }
    if (room && sample->frame)
        room = ep_tree_descend(&ep->collect->tree, &node, sample->frame);
    if (room && sample->type)
        room = ep_tree_descend(&ep->collect->tree, &node,
                               ep_module_linear(&ep->unwinder.modules, sample->type, &ep->collect->module_hint));
    if (!room && !ep_is_of_history(sample->kind))
        ep_lose(ep, EP_LOSS_TREE_FULL, 1, sample->kind == EP_KIND_CPU ? sample->value : 0);
    return node;
}

void ep_collect_add(struct ep *ep, unsigned node, enum ep_kind kind, unsigned label, uint32_t count, uint64_t value)
{
    /* CPU time counts even if the kind is off by now: it is charged to its thread. */
    if (!((ep->collect->kinds | EP_KIND_BIT(EP_KIND_THREAD) | EP_KIND_BIT(EP_KIND_CPU)) & EP_KIND_BIT(kind)))
        return;
    if (!tree_add(ep, node, kind, label, count, value))
        ep_lose(ep, EP_LOSS_ENTRIES_FULL, 1, kind == EP_KIND_CPU ? value : 0);
    ep_count_kind(ep, kind, count, value);
}

/* CPU time counts even if the kind is off by now: it is charged to its thread. An object may be followed. */
static bool is_wanted(const struct ep *ep, const struct ep_sample *sample)
{
    const uint32_t kinds = ep->collect->kinds | ep_history_kinds;

    return kinds & EP_KIND_BIT(sample->kind) || sample->kind == EP_KIND_CPU || sample->kind == EP_KIND_THREAD ||
           (sample->kind == EP_KIND_WAIT && kinds & EP_KIND_BIT(EP_KIND_LOCK)) ||
           (sample->kind == EP_KIND_ALLOC && sample->token);
}

/* False: the sample is not wanted. */
static bool classify(struct ep *ep, struct ep_sample *sample)
{
    bool in = true;

    EP_EACH_FEATURE (at, classify)
        in = in && at.feature->classify(ep, sample);
    return in;
}

/* True: a feature has the sample for itself. */
static bool is_taken(struct ep *ep, const struct ep_sample *sample, unsigned node)
{
    bool taken = false;

    EP_EACH_FEATURE (at, sample)
        taken |= at.feature->sample(ep, sample, node);
    return taken;
}

static void add_sample(struct ep *ep, struct ep_sample *sample)
{
    bool in = sample->frame != EP_FRAME_BY_CALLER || classify(ep, sample);

    ep->collect->frames += sample->depth;
    ep_rates_note(ep, sample->kind, sample->value);
    if ((sample->kind == EP_KIND_WAIT && !in) || !is_wanted(ep, sample))
        return;
    ep_make_room(ep);
    if (sample->kind == EP_KIND_CPU)
        mark_own(ep, sample);
    if (ep->config.flags & EP_THREAD_LABELS || sample->kind == EP_KIND_THREAD)
        sample->labels.thread = ep_label_thread(ep, sample->tid);
    unsigned node = leaf_node(ep, sample);
    if (is_taken(ep, sample, node))
        return;
    unsigned label = ep_label_find(ep, &sample->labels);
    ep_collect_add(ep, node, sample->kind, label, sample->count, sample->value);
    if (sample->kind == EP_KIND_WAIT && sample->frame == EP_FRAME_WAIT + EP_WAIT_LOCK)
        ep_collect_add(ep, node, EP_KIND_LOCK, label, sample->token, sample->value);
    EP_EACH_FEATURE (at, added)
        at.feature->added(ep, sample, node);
    ep_count(ep, EP_COUNT_EXACT + sample->quality, 1);
    if (sample->kind == EP_KIND_CPU) {
        ep_count(ep, EP_COUNT_SAMPLES, 1);
        ep_count(ep, EP_COUNT_WEIGHT_NS, sample->value);
    }
}

void ep_collect_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t tid, uint64_t value)
{
    const struct ep_label_key label = {.thread = ep_label_thread(ep, tid)};

    ep_collect_add(ep, root_node(ep, frame), kind, ep_label_find(ep, &label), 1, value);
}

/* A damaged record may have any number: the sum wraps. */
void ep_add_residual(struct ep *ep, int64_t residual_ns)
{
    ep->collect->residual_balance_ns = (int64_t)((uint64_t)ep->collect->residual_balance_ns + (uint64_t)residual_ns);
}

void ep_residual_show(struct ep *ep)
{
    uint64_t period = ep->period_applied_ns;

    if (ep->collect->residual_balance_ns < (int64_t)period || !(ep->collect->kinds & EP_KIND_BIT(EP_KIND_CPU)))
        return;
    uint64_t ns = (uint64_t)ep->collect->residual_balance_ns / period * period;
    ep->collect->residual_balance_ns -= (int64_t)ns;
    ep_add_special(ep, EP_FRAME_THREAD_EXIT, EP_KIND_CPU, 0, ns);
    ep_count(ep, EP_COUNT_THREAD_EXIT_NS, ns);
}

static void add_residual(struct ep *ep, const struct ep_sample *residual)
{
    if (residual->end == EP_FRAME_NONE) {
        ep_add_residual(ep, (int64_t)residual->value);
        return;
    }
    ep_make_room(ep);
    ep_collect_special(ep, residual->end, EP_KIND_CPU, residual->tid, residual->value);
    ep_count(ep, EP_COUNT_THREAD_EXIT_NS, residual->value);
}

void ep_collect_drain(struct ep *ep)
{
    struct ep_record record;
    struct ep_sample sample;
    uint64_t start_ns = ep_port_thread_cpu_ns();
    unsigned i = 0;

    atomic_store_explicit(&ep->unseen, 0, memory_order_relaxed);
    ep_ring_begin(&ep->ring);
    /* Bounded, so that handlers cannot keep this thread here for ever. */
    for (; i <= ep->ring.mask && ep_ring_peek(&ep->ring, &record); i++) {
        if (!ep_record_read(&record, &sample))
            ep_lose(ep, EP_LOSS_DAMAGED, 1, 0);
        else if (sample.residual)
            add_residual(ep, &sample);
        else
            add_sample(ep, &sample);
        atomic_store_explicit(&ep->collect->ring_tail,
                              atomic_load_explicit(&ep->ring.tail, memory_order_relaxed) + record.count + 1,
                              memory_order_relaxed);
        ep_ring_pop(&ep->ring, &record);
    }
    ep_ring_restart(&ep->ring);
    /* pads have no record */
    atomic_store_explicit(&ep->collect->ring_tail, atomic_load_explicit(&ep->ring.tail, memory_order_relaxed),
                          memory_order_relaxed);
    ep_governor_drained(ep, i);
    ep->collect->governor.drain_ns += ep_port_thread_cpu_ns() - start_ns;
}
