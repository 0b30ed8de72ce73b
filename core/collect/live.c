/*
 * The live heap: sampled objects that are followed until they are gone, in a table that the hook brings along. Only
 * programs with such a hook link this file: the collect thread reaches it through ep_live, which ep_live_attach() sets.
 *
 *   hook:    ep_live_take -> the hook points a weak reference at the object -> ep_hook_event with the place as its
 * token collect: bind, when the event's stack is in the tree -> make_room, when the table gets full charge, when the
 * interval ends: what is still there goes into the tree clear_tree, when the tree has to be emptied: stacks of what is
 * still there stay
 *
 * A place is free, taken (by a hook; its event is on its way) or held (by collect). Only collect makes a place held,
 * and free again; but a hook may take one that is held by an object that is gone.
 *
 * What is in use is what has survived a collection: what came after the last one is mostly garbage that nobody has
 * looked at yet. Before the first collection everything counts.
 *
 * When the table gets full it is thinned: what is followed is laid end to end, cut into strata twice as long as before,
 * and of each one object stays and stands for all of it (ep_stratum_advance). So every stack keeps its expected size,
 * and the total is right to within two strata. Objects larger than a stratum stay as they are. An object that could not
 * be followed (no place, no room in the ring) is stood for by the next ones that can.
 */
#include "core/collect/collect.h"
#include "core/capture/capture.h"

#include <errno.h>
#include <string.h>

#define PROBES  64u
#define LONGEST (UINT64_MAX >> 2)

enum { FREE, TAKEN, HELD };

static struct {
    struct ep_live_place *place;
    const atomic_uint *collections;
    atomic_uint places, next, taken;
    unsigned held;   /* collect's count: some of them may be gone, and taken by a hook again */
    uint64_t period; /* length of a stratum, 1: everything is followed */
    uint64_t missed; /* that others have to stand for */
    struct ep_stratum stratum;
} live;

/* ---- hooks ---- */

static bool gone(const struct ep_live_place *place)
{
    return atomic_load_explicit(place->object, memory_order_relaxed) == 0;
}

static bool moved(struct ep_live_place *place, unsigned from, unsigned to)
{
    return atomic_compare_exchange_strong(&place->state, &from, to);
}

/* Any order but that in which places were taken before (MurmurHash3's finalizer). */
static unsigned mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Collect has not been here for a while: it gets going before there is no place left. */
static void hurry(unsigned taken, unsigned places)
{
    if (taken < places / 8 || (taken & (places / 16 - 1)) != 0)
        return;
    struct ep *ep = ep_hold();
    if (!ep)
        return;
    ep_collect_wake(ep);
    ep_release();
}

uint32_t ep_live_take(void)
{
    unsigned places = atomic_load_explicit(&live.places, memory_order_acquire);

    if (places == 0 || !ep_hook_wants(EP_KIND_LIVE))
        return 0;
    unsigned at = atomic_fetch_add_explicit(&live.next, 1, memory_order_relaxed);
    for (unsigned probe = 0; probe < PROBES; probe++) {
        unsigned number = mix(at * PROBES + probe) & (places - 1);
        struct ep_live_place *place = &live.place[number];
        if (!moved(place, FREE, TAKEN) && !(gone(place) && moved(place, HELD, TAKEN)))
            continue;
        place->since = atomic_load_explicit(live.collections, memory_order_relaxed);
        hurry(atomic_fetch_add(&live.taken, 1) + 1, places);
        return number + 1;
    }
    return 0;
}

void ep_live_drop(uint32_t token)
{
    if (moved(&live.place[token - 1], TAKEN, FREE))
        (void)atomic_fetch_sub(&live.taken, 1);
}

/* ---- collect ---- */

static void let_go(struct ep_live_place *place)
{
    if (moved(place, HELD, FREE) && live.held)
        live.held--;
}

/* The next place that is held by an object that is still there; others are let go. NULL: no more. */
static struct ep_live_place *next_held(unsigned *at)
{
    unsigned places = atomic_load_explicit(&live.places, memory_order_relaxed);

    while (*at < places) {
        struct ep_live_place *place = &live.place[(*at)++];
        if (atomic_load(&place->state) != HELD)
            continue;
        if (!gone(place))
            return place;
        let_go(place);
    }
    return NULL;
}

static void scale(struct ep_live_place *place, uint64_t stands_for)
{
    uint64_t size = place->value / (place->count ? place->count : 1);

    if (stands_for != place->value)
        place->count = ep_stratum_count(&live.stratum, stands_for, size);
    place->value = stands_for;
}

static void thin(void)
{
    struct ep_live_place *place;
    uint64_t least = 2 * ep_hook_period(EP_KIND_ALLOC);
    unsigned kept = 0;

    live.period = live.period < least / 2 ? least : live.period * 2;
    for (unsigned at = 0; (place = next_held(&at)) != NULL;) {
        uint64_t stands_for = ep_stratum_advance(&live.stratum, place->value, live.period);
        if (stands_for) {
            scale(place, stands_for);
            kept++;
        } else {
            let_go(place);
        }
    }
    live.held = kept;
}

static void count_held(void)
{
    unsigned at = 0, held = 0;

    while (next_held(&at))
        held++;
    live.held = held;
}

/* Lets go of what is gone, then of as much as it takes. A quarter stays free for what happens between two rounds. */
static void make_room(void)
{
    unsigned places = atomic_load_explicit(&live.places, memory_order_relaxed);

    if (live.held < places / 4 * 3)
        return;
    count_held();
    while (live.held >= places / 8 * 5 && live.period < LONGEST)
        thin();
}

/* Nobody wants to know any more. What is on its way here comes, and is dropped. */
static void forget(void)
{
    for (unsigned at = 0, places = atomic_load(&live.places); at < places; at++)
        (void)moved(&live.place[at], HELD, FREE);
    live.held = 0;
    live.period = 1;
    live.missed = 0;
}

static void begin(void)
{
    unsigned places = atomic_load(&live.places);

    for (unsigned i = 0; i < places; i++)
        atomic_store(&live.place[i].state, FREE);
    atomic_store(&live.taken, 0);
    forget();
}

static void miss(uint64_t value)
{
    live.missed += value;
}

/* What this one stands for beside itself: as much again at most, so that no single object stands for very much. */
static uint64_t others(uint64_t value)
{
    uint64_t share = live.missed < value ? live.missed : value;

    live.missed -= share;
    return share;
}

/* Hooks see it at once when the profiler stops, this thread goes on with what there is. */
static bool wanted(const struct ep *ep)
{
    return (ep->kinds & EP_KIND_BIT(EP_KIND_LIVE)) != 0;
}

static void bind(struct ep *ep, uint32_t token, const struct ep_live_stack *stack)
{
    if (token > atomic_load(&live.places) || (token == 0 && !wanted(ep)))
        return;
    if (token == 0) {
        ep_lose(ep, EP_LOSS_LIVE_FULL, 1, 0);
        miss(stack->value);
        return;
    }
    if (!wanted(ep)) {
        ep_live_drop(token);
        return;
    }
    struct ep_live_place *place = &live.place[token - 1];
    if (atomic_load(&place->state) != TAKEN)
        return;
    uint64_t stands_for = ep_stratum_advance(&live.stratum, stack->value + others(stack->value), live.period);
    if (!stands_for) {
        ep_live_drop(token);
        return;
    }
    place->node = (uint16_t)stack->node;
    place->tags = (uint16_t)stack->tags;
    place->count = stack->count;
    place->value = stack->value;
    scale(place, stands_for);
    live.held++;
    (void)atomic_fetch_sub(&live.taken, 1);
    atomic_store(&place->state, HELD);
    make_room();
}

static void charge(struct ep *ep)
{
    unsigned collections = atomic_load_explicit(live.collections, memory_order_relaxed);
    const struct ep_live_place *place;
    uint64_t count = 0, value = 0;

    ep_tree_zero_entries(&ep->tree, ep->tree.nodes, EP_KIND_BIT(EP_KIND_LIVE));
    if (!wanted(ep))
        forget();
    count_held();
    for (unsigned at = 0; (place = next_held(&at)) != NULL;) {
        const struct ep_context_key key = {.tags = place->tags};
        if (collections && place->since == collections)
            continue;
        if (!ep_tree_add(&ep->tree, place->node, EP_KIND_LIVE, ep_context_find(ep, &key), place->count, place->value))
            ep_lose(ep, EP_LOSS_ENTRIES_FULL, 1, 0);
        count += place->count;
        value += place->value;
    }
    atomic_store_explicit(&ep->kind_count[EP_KIND_LIVE], count, memory_order_relaxed);
    atomic_store_explicit(&ep->kind_value[EP_KIND_LIVE], value, memory_order_relaxed);
    if (live.held < atomic_load(&live.places) / 4 && live.period > 1)
        live.period /= 2;
}

/* Marks the stacks of what is followed; returns how many nodes that is. */
static unsigned mark(struct ep_tree *tree)
{
    const struct ep_live_place *place;
    unsigned marked = 0;

    memset(tree->mark, 0, (tree->node_capacity + 31) / 32 * sizeof tree->mark[0]);
    for (unsigned at = 0; (place = next_held(&at)) != NULL;) {
        for (unsigned id = place->node; id && !(tree->mark[id / 32] >> (id % 32) & 1u); id = tree->node[id].parent) {
            tree->mark[id / 32] |= 1u << (id % 32);
            marked++;
        }
    }
    return marked;
}

static void clear_tree(struct ep *ep)
{
    struct ep_live_place *place;
    struct ep_tree *tree = &ep->tree;

    while (live.held && mark(tree) > tree->node_capacity / 2 && live.period < LONGEST)
        thin();
    if (!live.held || live.period >= LONGEST) {
        forget();
        ep_tree_clear(tree);
        return;
    }
    ep_tree_keep(tree);
    for (unsigned at = 0; (place = next_held(&at)) != NULL;)
        place->node = tree->node[place->node].entry;
    ep_tree_clear_entries(tree);
}

int ep_live_attach(const struct ep_live_table *table)
{
    static const struct ep_live functions = {
        .begin = begin, .bind = bind, .miss = miss, .charge = charge, .clear_tree = clear_tree};

    if (table->places == 0 || (table->places & (table->places - 1)) != 0)
        return -EINVAL;
    live.place = table->place;
    live.collections = table->collections;
    atomic_store(&live.places, table->places);
    begin();
    ep_live = &functions;
    return 0;
}
