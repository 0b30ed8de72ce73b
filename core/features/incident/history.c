/*
 * The history: single samples, 8 bytes each, in two rings, with a tree of their stacks and a table of their threads.
 * The collect thread alone uses it.
 *
 * The tree is the history's own, so the profiler's may be emptied and renumbered at any time. When it is full, stacks
 * of samples that are gone are removed; if few are, the oldest samples go, too.
 *
 *   ep_past_add -> thread_of, leaf_of -> tree_make_room
 *               -> moment_push -> moment_drop
 */
#include "core/features/incident/incident.h"

#include <errno.h>
#include <string.h>

#define LONGEST_PATH (EP_MAX_DEPTH + 8u)

struct ep_history_memory ep_past;

void ep_past_clear(void)
{
    for (unsigned i = 0; i < EP_PAST_PARTS; i++)
        ep_past.part[i] = (struct ep_past){.at = ep_past.part[i].at, .capacity = ep_past.part[i].capacity};
    ep_past.tree.node[0] = (struct ep_node){0};
    ep_past.tree.nodes = 1;
    memset(ep_past.thread, 0, ep_past.threads * sizeof *ep_past.thread);
}

/* Of what the table of threads leaves, half is for the tree, and three quarters of the rest for CPU samples. */
int ep_past_init(void *memory, size_t size)
{
    uintptr_t start = ((uintptr_t)memory + 7) & ~(uintptr_t)7;
    uint8_t *at = (uint8_t *)start;

    if (size < EP_INCIDENT_MEMORY_MIN)
        return -ENOMEM;
    size -= start - (uintptr_t)memory;
    ep_past.threads = size / 256 < EP_PAST_THREADS_MOST ? (unsigned)(size / 256) : EP_PAST_THREADS_MOST;
    size_t left = size - ep_past.threads * sizeof *ep_past.thread, moments = left / 2 / sizeof(struct ep_moment);
    unsigned events = (unsigned)(moments / 4), cpu = (unsigned)(moments - events);
    ep_past.part[EP_PAST_CPU] = (struct ep_past){.at = (struct ep_moment *)(void *)at, .capacity = cpu};
    ep_past.part[EP_PAST_EVENTS] = (struct ep_past){.at = (struct ep_moment *)(void *)at + cpu, .capacity = events};
    at += moments * sizeof(struct ep_moment);
    left -= moments * sizeof(struct ep_moment);
    size_t groups = left / (32 * sizeof(struct ep_node) + sizeof(uint32_t)); /* 32 nodes and their marks */
    if (groups > UINT16_MAX / 32)
        groups = UINT16_MAX / 32;
    ep_past.tree = (struct ep_tree){.node = (struct ep_node *)(void *)at, .node_capacity = (unsigned)groups * 32};
    ep_past.tree.mark = (uint32_t *)(void *)(ep_past.tree.node + ep_past.tree.node_capacity);
    ep_past.thread = (struct ep_past_thread *)(void *)(ep_past.tree.mark + groups);
    ep_past_clear();
    return 0;
}

/* ---- the rings ---- */

static struct ep_moment *moment_at(const struct ep_past *part, unsigned i)
{
    unsigned at = part->first + i;

    return &part->at[at < part->capacity ? at : at - part->capacity];
}

static uint64_t time_of(const struct ep_moment *moment)
{
    return (uint64_t)moment->node << 32 | (uint64_t)moment->after << 16 | moment->value;
}

static struct ep_moment time_make(uint64_t tick)
{
    return (struct ep_moment){.kind = EP_MOMENT_TIME,
                              .node = (uint16_t)(tick >> 32),
                              .after = (uint16_t)(tick >> 16),
                              .value = (uint16_t)tick};
}

/* Drops the oldest. */
static void moment_drop(struct ep_past *part)
{
    part->first = part->first + 1 < part->capacity ? part->first + 1 : 0;
    part->count--;
    if (part->count) {
        const struct ep_moment *oldest = moment_at(part, 0);
        part->first_tick = oldest->kind == EP_MOMENT_TIME ? time_of(oldest) : part->first_tick + oldest->after;
    }
}

static void moment_put(struct ep_past *part, struct ep_moment moment)
{
    if (part->count == part->capacity)
        moment_drop(part);
    *moment_at(part, part->count++) = moment;
    part->total++;
}

/* A thread that was preempted while it wrote its record may be late by a little: times never run backwards. */
static void moment_push(struct ep_past *part, struct ep_moment moment, uint64_t tick)
{
    uint64_t gap = tick > part->last_tick ? tick - part->last_tick : 0;

    if (part->count == 0) {
        part->first_tick = tick;
        gap = 0;
    } else {
        tick = part->last_tick + gap;
        if (gap > UINT16_MAX) {
            moment_put(part, time_make(tick));
            gap = 0;
        }
    }
    moment.after = (uint16_t)gap;
    moment_put(part, moment);
    part->last_tick = tick;
}

/* The next moment of a part from *at on, and its time *when. *tick: the time of the one before. */
static const struct ep_moment *part_next(const struct ep_past *part, unsigned *at, uint64_t *tick, uint64_t *when)
{
    for (; *at < part->count; ++*at) {
        const struct ep_moment *moment = moment_at(part, *at);
        if (moment->kind != EP_MOMENT_TIME) {
            *when = *at ? *tick + moment->after : part->first_tick;
            return moment;
        }
        *tick = time_of(moment);
    }
    return NULL;
}

const struct ep_moment *ep_past_next(struct ep_past_walk *walk, uint64_t *tick)
{
    const struct ep_moment *next[EP_PAST_PARTS];
    uint64_t when[EP_PAST_PARTS] = {0};
    unsigned chosen = 0;

    for (unsigned i = 0; i < EP_PAST_PARTS; i++) {
        next[i] = part_next(&ep_past.part[i], &walk->at[i], &walk->tick[i], &when[i]);
        if (next[i] && (!next[chosen] || when[i] < when[chosen]))
            chosen = i;
    }
    if (!next[chosen])
        return NULL;
    walk->tick[chosen] = when[chosen];
    walk->at[chosen]++;
    *tick = when[chosen];
    return next[chosen];
}

/* ---- the tree ---- */

/* Marks the stacks of all samples. Returns the number of nodes. */
static unsigned tree_mark_all(void)
{
    unsigned marked = 0;

    ep_tree_unmark(&ep_past.tree);
    for (unsigned i = 0; i < EP_PAST_PARTS; i++)
        for (unsigned k = 0; k < ep_past.part[i].count; k++) {
            const struct ep_moment *moment = moment_at(&ep_past.part[i], k);
            if (moment->kind != EP_MOMENT_TIME)
                marked += ep_tree_mark(&ep_past.tree, moment->node);
        }
    return marked;
}

static void tree_renumber(void)
{
    for (unsigned i = 0; i < EP_PAST_PARTS; i++)
        for (unsigned k = 0; k < ep_past.part[i].count; k++) {
            struct ep_moment *moment = moment_at(&ep_past.part[i], k);
            if (moment->kind != EP_MOMENT_TIME)
                moment->node = ep_past.tree.node[moment->node].entry;
        }
}

/* Frees a quarter of the nodes at least, and the room for the deepest stack. */
static void tree_make_room(void)
{
    struct ep_tree *tree = &ep_past.tree;
    unsigned old = tree->nodes;

    while (tree_mark_all() > tree->node_capacity / 4 * 3)
        for (unsigned i = 0; i < EP_PAST_PARTS; i++)
            for (unsigned drops = ep_past.part[i].count / 8 + 1; drops && ep_past.part[i].count; drops--)
                moment_drop(&ep_past.part[i]);
    ep_tree_keep(tree);
    tree_renumber();
    for (unsigned id = 0; id < old; id++)
        tree->node[id].entry = 0;
}

/* The same stack in the history's tree. */
static unsigned leaf_of(const struct ep_tree *from, unsigned node)
{
    struct ep_tree *tree = &ep_past.tree;
    uint32_t path[LONGEST_PATH];
    unsigned depth = 0, leaf = 0;

    for (; node && depth < LONGEST_PATH; node = from->node[node].parent)
        path[depth++] = from->node[node].frame;
    if (tree->nodes + depth > tree->node_capacity)
        tree_make_room();
    while (depth) {
        unsigned child = ep_tree_child_of(tree, leaf, path[--depth]);
        if (!child)
            break;
        leaf = child;
    }
    return leaf;
}

/* ---- threads ---- */

static unsigned thread_find(uint32_t tid)
{
    for (unsigned i = 0; i < ep_past.threads; i++)
        if (ep_past.thread[i].tid == tid)
            return i;
    return EP_PAST_NOBODY;
}

/* Frees the places of threads without samples. */
static void threads_sweep(void)
{
    bool used[EP_PAST_NOBODY + 1] = {false};

    for (unsigned i = 0; i < EP_PAST_PARTS; i++)
        for (unsigned k = 0; k < ep_past.part[i].count; k++)
            used[moment_at(&ep_past.part[i], k)->thread] = true;
    for (unsigned i = 0; i < ep_past.threads; i++)
        if (!used[i])
            ep_past.thread[i].tid = 0;
}

static unsigned thread_of(uint32_t tid)
{
    unsigned place = thread_find(tid);

    if (place != EP_PAST_NOBODY)
        return place;
    place = thread_find(0);
    if (place == EP_PAST_NOBODY) {
        threads_sweep();
        place = thread_find(0);
    }
    if (place == EP_PAST_NOBODY)
        return place;
    ep_past.thread[place].tid = tid;
    ep_port_thread_name(tid, ep_past.thread[place].name, sizeof ep_past.thread[place].name);
    return place;
}

void ep_past_names(void)
{
    char name[sizeof ep_past.thread->name];

    for (unsigned i = 0; i < ep_past.threads; i++) {
        if (!ep_past.thread[i].tid)
            continue;
        name[0] = 0;
        ep_port_thread_name(ep_past.thread[i].tid, name, sizeof name);
        if (name[0])
            memcpy(ep_past.thread[i].name, name, sizeof name);
    }
}

/* ---- adding ---- */

static void value_set(struct ep_moment *moment, uint64_t value_ns)
{
    uint64_t value = value_ns >> EP_PAST_VALUE_SHIFT;

    moment->wide = value > UINT16_MAX;
    value >>= moment->wide ? 8 : 0;
    moment->value = value < UINT16_MAX ? (uint16_t)value : UINT16_MAX;
}

void ep_past_add(const struct ep_tree *tree, const struct ep_past_sample *sample)
{
    const unsigned part = sample->kind == EP_KIND_CPU ? EP_PAST_CPU : EP_PAST_EVENTS;
    struct ep_moment moment = {.kind = sample->kind & 0xf, .thread = (uint8_t)thread_of(sample->tid)};

    value_set(&moment, sample->value_ns);
    moment.node = (uint16_t)leaf_of(tree, sample->node);
    moment_push(&ep_past.part[part], moment, sample->tick);
}
