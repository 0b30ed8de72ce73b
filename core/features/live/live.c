/*
 * The live heap: follows sampled objects until they are freed, in tables that belong to the hooks. Only programs with
 * such a hook link this file: ep_live_attach() adds it to the features.
 *
 *   hook       ep_live_take, sets a weak reference, passes the place on as the token of ep_hook_event()
 *   collect    live_added when the event's stack is in the tree -> live_make_room when the table gets full
 *   collect    live_gauges when the interval ends: adds the remaining objects to the tree
 *   collect    live_mark, live_moved when the tree is emptied or folded: the stacks of the remaining objects stay
 *
 * A place is FREE, TAKEN (by a hook, its event is on its way) or HELD (by collect, which alone sets and ends this
 * state). A hook may reuse a HELD place whose object is gone.
 */
#include "core/collect/collect.h"
#include "core/sample/record.h"
#include "core/sample/capture.h"

#include <errno.h>

#define PROBES  64u
#define LONGEST (UINT64_MAX >> 2)
#define WHOLE   EP_LIVE_WHOLE /* parts of a weight */
#define MOST    16u           /* weights are corrected by this factor at most, up or down */

enum { FREE, TAKEN, HELD };

struct table {
    struct ep_live_place *place;
    const atomic_uint *collections, *left;
    atomic_uint places, next, taken;
    unsigned held;   /* HELD places as counted by collect; hooks may have reused some */
    uint64_t period; /* length of a stratum; 1: every object is followed */
    uint64_t unseen; /* bytes allocated before objects were followed */
    struct ep_stratum stratum;
    uint64_t (*allocated)(void), (*in_use)(void);
};
static struct table tables[EP_LIVE_TABLES];
static uint64_t missed; /* weight of lost objects, of any table, for which later objects must stand */

/* A program has one table, or two: of a runtime's objects and of native memory. */
#define EACH(one) for (struct table *one = tables; one < tables + EP_LIVE_TABLES && (one)->place; (one)++)

static struct table *table_of(uint32_t token)
{
    return &tables[(token - 1) / EP_LIVE_PLACES_MOST % EP_LIVE_TABLES];
}

static struct ep_live_place *place_of(uint32_t token)
{
    return &table_of(token)->place[EP_LIVE_PLACE(token)];
}

/* ---- hooks ---- */

static bool is_gone(const struct ep_live_place *place)
{
    return atomic_load_explicit(place->object, memory_order_relaxed) == 0;
}

static bool change_state(struct ep_live_place *place, unsigned from, unsigned to)
{
    return atomic_compare_exchange_strong(&place->state, &from, to);
}

/* Scatters the places, so that their order differs from the allocation order (MurmurHash3's finalizer). */
static unsigned scatter(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Wakes the collect thread before there is no place left. */
static void wake_collect(unsigned taken, unsigned places)
{
    if (taken < places / 8 || (taken & (places / 16 - 1)) != 0)
        return;
    struct ep *ep = ep_hold();
    if (!ep)
        return;
    ep_collect_wake(ep);
    ep_release();
}

uint32_t ep_live_take(unsigned which)
{
    struct table *live = &tables[which];
    unsigned places = atomic_load_explicit(&live->places, memory_order_acquire);

    if (places == 0 || !ep_hook_wants(EP_KIND_LIVE))
        return 0;
    unsigned at = atomic_fetch_add_explicit(&live->next, 1, memory_order_relaxed);
    for (unsigned probe = 0; probe < PROBES; probe++) {
        unsigned number = scatter(at * PROBES + probe) & (places - 1);
        struct ep_live_place *place = &live->place[number];
        if (!change_state(place, FREE, TAKEN) && !(is_gone(place) && change_state(place, HELD, TAKEN)))
            continue;
        place->since = atomic_load_explicit(live->collections, memory_order_relaxed);
        wake_collect(atomic_fetch_add(&live->taken, 1) + 1, places);
        return which * EP_LIVE_PLACES_MOST + number + 1;
    }
    return 0;
}

bool ep_live_is_shared(void)
{
    return tables[1].place != NULL;
}

void ep_live_drop(uint32_t token)
{
    if (change_state(place_of(token), TAKEN, FREE))
        (void)atomic_fetch_sub(&table_of(token)->taken, 1);
}

/* ---- collect ---- */

static void release_place(struct table *live, struct ep_live_place *place)
{
    if (change_state(place, HELD, FREE) && live->held)
        live->held--;
}

/* The next HELD place whose object still exists; releases the others. NULL: no more. */
static struct ep_live_place *next_held(struct table *live, unsigned *at)
{
    unsigned places = atomic_load_explicit(&live->places, memory_order_relaxed);

    while (*at < places) {
        struct ep_live_place *place = &live->place[(*at)++];
        if (atomic_load(&place->state) != HELD)
            continue;
        if (!is_gone(place))
            return place;
        release_place(live, place);
    }
    return NULL;
}

static void set_weight(struct table *live, struct ep_live_place *place, uint64_t stands_for)
{
    uint64_t size = place->value / (place->count ? place->count : 1);

    if (stands_for != place->value)
        place->count = ep_stratum_count(&live->stratum, stands_for, size);
    place->value = stands_for;
}

/* Thins the table: all followed objects form one sequence, cut into strata twice as long as before. One object of each
 * stratum stays and stands for all of it. So every stack keeps its expected size, and the total is right to within two
 * strata. Objects larger than a stratum stay as they are. */
static void thin_table(struct table *live)
{
    struct ep_live_place *place;
    uint64_t least = 2 * ep_hook_period(EP_KIND_ALLOC);
    unsigned kept = 0;

    live->period = live->period < least / 2 ? least : live->period * 2;
    for (unsigned at = 0; (place = next_held(live, &at)) != NULL;) {
        uint64_t stands_for = ep_stratum_advance(&live->stratum, place->value, live->period);
        if (stands_for) {
            set_weight(live, place, stands_for);
            kept++;
        } else {
            release_place(live, place);
        }
    }
    live->held = kept;
}

static void count_held(struct table *live)
{
    unsigned at = 0, held = 0;

    while (next_held(live, &at))
        held++;
    live->held = held;
}

static unsigned held_in_all(void)
{
    unsigned held = 0;

    EACH(live) held += live->held;
    return held;
}

/* Releases the places of freed objects, then thins the table until it has room. A quarter stays free for the next
 * round. */
static void live_make_room(struct table *live)
{
    unsigned places = atomic_load_explicit(&live->places, memory_order_relaxed);

    if (live->held < places / 4 * 3)
        return;
    count_held(live);
    while (live->held >= places / 8 * 5 && live->period < LONGEST)
        thin_table(live);
}

static void release_table(struct table *live)
{
    for (unsigned at = 0, places = atomic_load(&live->places); at < places; at++)
        (void)change_state(&live->place[at], HELD, FREE);
    live->held = 0;
    live->period = 1;
    live->stratum.position = live->stratum.length = 0; /* the next object begins a stratum of the new period */
}

/* Stops following all objects; later events are dropped. */
static void release_all(void)
{
    EACH(live) release_table(live);
    missed = 0;
}

static void begin_table(struct table *live)
{
    unsigned places = atomic_load(&live->places);

    for (unsigned i = 0; i < places; i++)
        atomic_store(&live->place[i].state, FREE);
    atomic_store(&live->taken, 0);
    release_table(live);
    live->unseen = live->allocated ? live->allocated() : UINT64_MAX;
}

static void live_start(struct ep *ep)
{
    (void)ep;
    EACH(live) begin_table(live);
    missed = 0;
}

static void live_lost(struct ep *ep, enum ep_kind kind, uint64_t value)
{
    (void)ep;
    missed += kind == EP_KIND_ALLOC ? value : 0;
}

/* The part of the lost weight that this object stands for: at most its own, so that no object gets a large weight. */
static uint64_t missed_share(uint64_t value)
{
    uint64_t share = missed < value ? missed : value;

    missed -= share;
    return share;
}

/* Uses ep->collect->kinds, since ep_hook_kinds is 0 as soon as the profiler stops. */
static bool live_is_wanted(const struct ep *ep)
{
    return (ep->collect->kinds & EP_KIND_BIT(EP_KIND_LIVE)) != 0;
}

/* Assigns the stack and weight of the object at that place. token 0: the object is not followed. */
static void live_added(struct ep *ep, const struct ep_sample *sample, unsigned node)
{
    const uint32_t token = sample->token;

    if (sample->kind != EP_KIND_ALLOC || (token == 0 && !live_is_wanted(ep)))
        return;
    if (token == 0) {
        ep_lose(ep, EP_LOSS_LIVE_FULL, 1, 0);
        missed += sample->value;
        return;
    }
    struct table *live = table_of(token);
    if (EP_LIVE_PLACE(token) >= atomic_load(&live->places))
        return;
    if (!live_is_wanted(ep)) {
        ep_live_drop(token);
        live->unseen = UINT64_MAX;
        return;
    }
    struct ep_live_place *place = place_of(token);
    if (atomic_load(&place->state) != TAKEN)
        return;
    uint64_t stands_for = ep_stratum_advance(&live->stratum, sample->value + missed_share(sample->value), live->period);
    if (!stands_for) {
        ep_live_drop(token);
        return;
    }
    place->node = (uint16_t)node;
    place->tags = (uint16_t)sample->labels.tags;
    place->count = sample->count;
    place->value = sample->value;
    set_weight(live, place, stands_for);
    live->held++;
    (void)atomic_fetch_sub(&live->taken, 1);
    atomic_store(&place->state, HELD);
    live_make_room(live);
}

/* Only objects that survived a collection count as in use; newer ones are mostly garbage. Before the first collection
 * all count. */
static bool is_new(const struct ep_live_place *place, unsigned collections)
{
    return collections && place->since == collections;
}

static uint64_t scaled(uint64_t value, uint64_t parts)
{
    return value / WHOLE * parts + (value % WHOLE * parts + WHOLE / 2) / WHOLE;
}

/* What weights must be multiplied by, in parts of WHOLE, so that the total is what the runtime says. It says the bytes
 * in use exactly, while followed objects are a sample: of a small heap, a few dozen. Objects from before the first one
 * that was followed may be in use, too. An object that stands for itself alone is exact already. */
static uint64_t correction(struct table *live, unsigned collections)
{
    const struct ep_live_place *place;
    uint64_t in_use = live->in_use && collections ? live->in_use() : 0, sampled = 0, alone = 0;

    for (unsigned at = 0; in_use && (place = next_held(live, &at)) != NULL;)
        if (!is_new(place, collections))
            *(place->count > 1 ? &sampled : &alone) += place->value;
    uint64_t most = in_use > alone ? in_use - alone : 0, least = most > live->unseen ? most - live->unseen : 0;
    uint64_t wanted = sampled > most ? most : sampled < least ? least : sampled;
    if (!in_use || wanted == sampled)
        return WHOLE;
    if (wanted > sampled * MOST)
        return WHOLE * MOST;
    return wanted < sampled / MOST ? WHOLE / MOST : wanted * WHOLE / sampled;
}

/* Adds to sum[0] the objects and to sum[1] their bytes. */
static void charge_places(struct ep *ep, struct table *live, uint64_t sum[2])
{
    unsigned collections = atomic_load_explicit(live->collections, memory_order_relaxed);
    const uint64_t parts = correction(live, collections);
    const struct ep_live_place *place;

    for (unsigned at = 0; (place = next_held(live, &at)) != NULL;) {
        const struct ep_label_key key = {.tags = place->tags};
        const uint64_t share = place->count > 1 ? parts : WHOLE;
        if (is_new(place, collections))
            continue;
        uint32_t count = (uint32_t)scaled(place->count < UINT32_MAX / MOST ? place->count : UINT32_MAX / MOST, share);
        const atomic_uint *left = live->left ? &live->left[place - live->place] : NULL;
        uint64_t value = scaled(place->value, share);
        if (left)
            value = scaled(value, atomic_load_explicit(left, memory_order_relaxed));
        if (!ep_tree_add(&ep->collect->tree, place->node, EP_KIND_LIVE, ep_label_find(ep, &key), count, value))
            ep_lose(ep, EP_LOSS_ENTRIES_FULL, 1, 0);
        sum[0] += count;
        sum[1] += value;
    }
}

static void live_gauges(struct ep *ep)
{
    uint64_t sum[2] = {0};

    ep_tree_zero_entries(&ep->collect->tree, ep->collect->tree.nodes, EP_KIND_BIT(EP_KIND_LIVE));
    if (!live_is_wanted(ep)) {
        release_all();
        EACH(live) live->unseen = UINT64_MAX;
    }
    EACH(live) count_held(live);
    if (ep->deliver->transport &&
        ep->collect->tree.entries + held_in_all() + ep->collect->tree.entry_capacity / 8 >
            ep->collect->tree.entry_capacity &&
        !atomic_load(&ep->encode_pending))
        ep_collect_early(ep);
    EACH(live)
    {
        charge_places(ep, live, sum);
        if (live->held < atomic_load(&live->places) / 4 && live->period > 1)
            live->period /= 2;
    }
    atomic_store_explicit(&ep->kind_count[EP_KIND_LIVE], sum[0], memory_order_relaxed);
    atomic_store_explicit(&ep->kind_value[EP_KIND_LIVE], sum[1], memory_order_relaxed);
}

static unsigned live_mark(struct ep_tree *tree)
{
    const struct ep_live_place *place;
    unsigned marked = 0;

    EACH(live)
    {
        for (unsigned at = 0; (place = next_held(live, &at)) != NULL;)
            marked += ep_tree_mark(tree, place->node);
    }
    return marked;
}

/* The table with more objects. */
static struct table *fuller(void)
{
    struct table *most = tables;

    EACH(live) most = live->held > most->held ? live : most;
    return most;
}

static bool live_thin(void)
{
    if (!held_in_all() || fuller()->period >= LONGEST)
        return false;
    thin_table(fuller());
    return true;
}

static void live_moved(const struct ep_tree *tree)
{
    struct ep_live_place *place;

    EACH(live)
    {
        for (unsigned at = 0; (place = next_held(live, &at)) != NULL;)
            place->node = tree->node[place->node].entry;
    }
}

int ep_live_attach(const struct ep_live_table *table)
{
    static const struct ep_feature feature = {.name = "live",
                                              .start = live_start,
                                              .added = live_added,
                                              .lost = live_lost,
                                              .gauges = live_gauges,
                                              .tree_mark = live_mark,
                                              .tree_thin = live_thin,
                                              .tree_moved = live_moved,
                                              .tree_clear = release_all};
    unsigned which = 0;

    if (table->places == 0 || (table->places & (table->places - 1)) != 0 || table->places > EP_LIVE_PLACES_MOST)
        return -EINVAL;
    while (which < EP_LIVE_TABLES && tables[which].place && tables[which].place != table->place)
        which++;
    if (which == EP_LIVE_TABLES)
        return -ENOSPC;
    struct table *live = &tables[which];
    live->place = table->place;
    live->collections = table->collections;
    live->left = table->left;
    live->allocated = table->allocated;
    live->in_use = table->in_use;
    atomic_store(&live->places, table->places);
    begin_table(live);
    const int error = ep_feature_add(&feature);
    return error ? error : (int)which;
}
