/*
 * See store_dictionary.h. Ids that are close together are read in one go, others one by one.
 *
 *   et_dictionary_load -> read_nodes -> climb -> node_at
 *                      -> read_frames -> take_frame -> module_of
 *                      -> build -> place
 */
#include "tools/store/store_dictionary.h"

#include <errno.h>
#include <stdlib.h>

/* As many rows as this for one that is wanted are passed over rather than asked for one by one. */
enum { PASSED_OVER = 8 };

struct slot {
    int64_t parent, frame;
    bool wanted;
    uint32_t index, group; /* in the profile, + 1, under the group that was the last to want it */
};

struct loader {
    struct et_store *store;
    struct et_profile *profile;
    struct et_map modules; /* id -> index + 1 */
    struct et_map frames;  /* id of one that is wanted -> index, 0 not read yet */
    uint32_t *near;        /* id -> slot + 1 of those that were read in one go */
    size_t near_count;
    struct et_map nodes; /* the same of others */
    struct slot *slots;
    size_t slot_count, slot_capacity;
    int err;
};

static void fail(struct loader *l, int err)
{
    l->err = l->err ? l->err : err;
}

/* ---- nodes ---- */

/* The slot's number + 1. */
static size_t add_slot(struct loader *l, int64_t parent, int64_t frame)
{
    l->slots = et_reserve(l->slots, &l->slot_capacity, l->slot_count + 1, sizeof *l->slots);
    l->slots[l->slot_count] = (struct slot){.parent = parent, .frame = frame};
    return ++l->slot_count;
}

/* NULL: failed. Valid until the next call. */
static struct slot *node_at(struct loader *l, int64_t id)
{
    if (id > 0 && (uint64_t)id < l->near_count && l->near[id]) {
        return &l->slots[l->near[id] - 1];
    }
    uint64_t *known = et_map_at(&l->nodes, (uint64_t)id);
    if (!*known) {
        sqlite3_stmt *row = et_store_bind(l->store, S_NODE_GET, "i", id);
        int got = et_store_step(l->store, row);
        *known = got == 1 ? add_slot(l, sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1)) : 0;
        sqlite3_reset(row);
        fail(l, got == 1 ? 0 : got ? got : -EIO);
    }
    return *known ? &l->slots[*known - 1] : NULL;
}

/* Wants the node and all above it. Parents have smaller ids, so that this ends whatever the database holds. */
static void climb(struct loader *l, int64_t id)
{
    while (id && !l->err) {
        struct slot *slot = node_at(l, id);
        if (!slot || slot->wanted) {
            return;
        }
        slot->wanted = true;
        (void)et_map_at(&l->frames, (uint64_t)slot->frame);
        if (slot->parent >= id) {
            fail(l, -EIO);
        }
        id = slot->parent;
    }
}

static void read_nodes(struct loader *l, const struct et_sum *sums, size_t count)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        last = sums[i].node > last ? sums[i].node : last;
    }
    if (last / PASSED_OVER <= count) {
        l->near_count = (size_t)last + 1;
        l->near = et_alloc(l->near_count, sizeof *l->near);
        sqlite3_stmt *row = et_store_bind(l->store, S_NODES_TO, "u", last);
        int got;
        while ((got = et_store_step(l->store, row)) == 1) {
            int64_t id = sqlite3_column_int64(row, 0);
            size_t slot = add_slot(l, sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 2));
            if (id > 0) {
                l->near[id] = (uint32_t)slot;
            }
        }
        fail(l, got);
    }
    for (size_t i = 0; i < count && !l->err; i++) {
        climb(l, (int64_t)sums[i].node);
    }
}

/* ---- frames ---- */

static uint32_t module_of(struct loader *l, int64_t id)
{
    uint64_t *index = et_map_at(&l->modules, (uint64_t)id);
    if (id && !*index) {
        sqlite3_stmt *row = et_store_bind(l->store, S_MODULE_GET, "i", id);
        int got = et_store_step(l->store, row);
        if (got == 1) {
            *index = et_profile_module(l->profile, et_column_text(row, 0), et_column_text(row, 1));
        } else {
            fail(l, got ? got : -EIO);
        }
        sqlite3_reset(row);
    }
    return (uint32_t)*index;
}

/* A row of S_FRAMES_TO; most of them may be of nobody's interest. */
static void take_frame(struct loader *l, sqlite3_stmt *row)
{
    uint64_t *index = et_map_find(&l->frames, (uint64_t)sqlite3_column_int64(row, 0));
    if (!index) {
        return;
    }
    struct et_strings *strings = &l->profile->strings;
    struct et_frame frame = {
        .module = module_of(l, sqlite3_column_int64(row, 1)),
        .address = (uint64_t)sqlite3_column_int64(row, 2),
        .name = et_intern(strings, et_column_text(row, 3)),
        .file = et_intern(strings, et_column_text(row, 4)),
        .line = (uint32_t)sqlite3_column_int64(row, 5),
    };
    *index = et_profile_frame(l->profile, frame);
}

/* All wanted frames with first <= id <= last. */
static void take_frames(struct loader *l, uint64_t first, uint64_t last)
{
    sqlite3_stmt *row = et_store_bind(l->store, S_FRAMES_TO, "uu", first, last);
    int got;
    while ((got = et_store_step(l->store, row)) == 1 && !l->err) {
        take_frame(l, row);
    }
    sqlite3_reset(row);
    fail(l, got < 0 ? got : 0);
}

static void read_frames(struct loader *l)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < l->frames.capacity; i++) {
        const struct et_map_entry *entry = &l->frames.entries[i];
        first = entry->used && entry->key < first ? entry->key : first;
        last = entry->used && entry->key > last ? entry->key : last;
    }
    bool dense = l->frames.count && (last - first) / PASSED_OVER <= l->frames.count;
    if (dense) {
        take_frames(l, first, last);
    }
    for (size_t i = 0; i < l->frames.capacity && !l->err; i++) {
        const struct et_map_entry *entry = &l->frames.entries[i];
        if (!dense && entry->used) {
            take_frames(l, entry->key, entry->key);
        }
        if (entry->used && !entry->value) {
            fail(l, -EIO);
        }
    }
}

/* ---- the profile's own nodes ---- */

/* Index of the node, under top. A node of another group is of no use here. */
static uint32_t place(struct loader *l, int64_t id, uint32_t top, uint32_t group)
{
    struct slot *path[ET_MAX_DEPTH + 1];
    size_t count = 0;
    struct slot *slot = NULL;
    while (id && count <= ET_MAX_DEPTH && (slot = node_at(l, id)) && !(slot->index && slot->group == group)) {
        path[count++] = slot;
        id = slot->parent;
    }
    uint32_t node = id && slot && slot->index && slot->group == group ? slot->index - 1 : top;
    while (count-- > 0 && !l->err) {
        node = et_profile_node(l->profile, node, (uint32_t)*et_map_find(&l->frames, (uint64_t)path[count]->frame));
        path[count]->index = node + 1;
        path[count]->group = group;
    }
    return node;
}

static int by_group(const void *a, const void *b)
{
    const struct et_sum *x = a, *y = b;
    uint64_t first = (uint64_t)x->group << 32 | x->labels, second = (uint64_t)y->group << 32 | y->labels;
    return first != second ? (first < second ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

static void build(struct loader *l, const struct et_sum *sums, size_t count)
{
    uint32_t top = 0;
    for (size_t i = 0; i < count && !l->err; i++) {
        const struct et_sum *sum = &sums[i];
        if (i == 0 || sum->group != sums[i - 1].group) {
            struct et_frame name = {.name = sum->group};
            top = sum->group ? et_profile_node(l->profile, 0, et_profile_frame(l->profile, name)) : 0;
        }
        struct et_entry entry = {.labels = sum->labels, .count = sum->count, .value = sum->value};
        entry.node = place(l, (int64_t)sum->node, top, sum->group);
        et_profile_entry(l->profile, &entry);
    }
}

int et_dictionary_load(struct et_store *store, struct et_profile *profile, struct et_sum *sums, size_t count)
{
    struct loader l = {.store = store, .profile = profile};
    if (count) {
        qsort(sums, count, sizeof *sums, by_group);
        read_nodes(&l, sums, count);
    }
    if (!l.err) {
        read_frames(&l);
    }
    if (!l.err) {
        build(&l, sums, count);
    }
    et_map_free(&l.modules);
    et_map_free(&l.frames);
    et_map_free(&l.nodes);
    free(l.near);
    free(l.slots);
    return l.err;
}
