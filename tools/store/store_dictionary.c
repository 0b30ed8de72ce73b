/*
 * See store_dictionary.h. Ids close together are read with one statement, others one by one.
 *
 *   et_dictionary_load   read_nodes -> mark_ancestors -> read_node
 *                        read_frames -> load_frame -> load_module
 *                        add_entries -> place_node
 */
#include "tools/store/store_dictionary.h"

#include <errno.h>
#include <stdlib.h>

/* Reading this many unused rows costs less than one statement per used row. */
enum { PASSED_OVER = 8 };

struct node_slot {
    int64_t parent, frame;
    bool wanted;
    uint32_t index, group; /* index in the profile + 1, below the frame of this group */
};

struct dictionary_loader {
    struct et_store *store;
    struct et_profile *profile;
    struct et_map modules; /* id -> index + 1 */
    struct et_map frames;  /* id of a needed frame -> index; 0: not read yet */
    uint32_t *near;        /* id -> slot + 1 of nodes read with one statement */
    size_t near_count;
    struct et_map nodes; /* id -> slot + 1 of other nodes */
    struct node_slot *slots;
    size_t slot_count, slot_capacity;
    size_t held; /* bytes counted in the store's budget; the profile's beyond `before` */
    size_t before;
    unsigned steps; /* since the bytes were counted */
    int err;
};

static void note_error(struct dictionary_loader *l, int err)
{
    l->err = l->err ? l->err : err;
}

static void count_memory(struct dictionary_loader *l)
{
    enum { PAUSE = 1024 };
    if (l->steps++ % PAUSE == 0) {
        size_t maps = l->modules.capacity + l->frames.capacity + l->nodes.capacity;
        note_error(l,
                   et_store_hold(l->store, &l->held,
                                 maps * sizeof(struct et_map_entry) + l->near_count * sizeof *l->near +
                                     l->slot_capacity * sizeof *l->slots + et_profile_memory(l->profile) - l->before));
    }
}

/* ---- nodes ---- */

/* Returns the slot's number + 1. */
static size_t add_slot(struct dictionary_loader *l, int64_t parent, int64_t frame)
{
    l->slots = et_reserve(l->slots, &l->slot_capacity, l->slot_count + 1, sizeof *l->slots);
    l->slots[l->slot_count] = (struct node_slot){.parent = parent, .frame = frame};
    count_memory(l);
    return ++l->slot_count;
}

/* Returns NULL on failure. The pointer is valid until the next call. */
static struct node_slot *read_node(struct dictionary_loader *l, int64_t id)
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
        note_error(l, got == 1 ? 0 : got ? got : -EIO);
    }
    return *known ? &l->slots[*known - 1] : NULL;
}

/* Marks the node and its ancestors as needed. Parents must have smaller ids, so that a damaged database causes no
 * endless loop. */
static void mark_ancestors(struct dictionary_loader *l, int64_t id)
{
    while (id && !l->err) {
        struct node_slot *slot = read_node(l, id);
        if (!slot || slot->wanted) {
            return;
        }
        slot->wanted = true;
        (void)et_map_at(&l->frames, (uint64_t)slot->frame);
        if (slot->parent >= id) {
            note_error(l, -EIO);
        }
        id = slot->parent;
    }
}

static void read_nodes(struct dictionary_loader *l, const struct et_sum *sums, size_t count)
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
        while ((got = et_store_step(l->store, row)) == 1 && !l->err) {
            int64_t id = sqlite3_column_int64(row, 0);
            size_t slot = add_slot(l, sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 2));
            if (id > 0) {
                l->near[id] = (uint32_t)slot;
            }
        }
        sqlite3_reset(row);
        note_error(l, got < 0 ? got : 0);
    }
    for (size_t i = 0; i < count && !l->err; i++) {
        mark_ancestors(l, (int64_t)sums[i].node);
    }
}

/* ---- frames ---- */

static uint32_t load_module(struct dictionary_loader *l, int64_t id)
{
    uint64_t *index = et_map_at(&l->modules, (uint64_t)id);
    if (id && !*index) {
        sqlite3_stmt *row = et_store_bind(l->store, S_MODULE_GET, "i", id);
        int got = et_store_step(l->store, row);
        if (got == 1) {
            *index = et_profile_module(l->profile, et_column_text(row, 0), et_column_text(row, 1));
        } else {
            note_error(l, got ? got : -EIO);
        }
        sqlite3_reset(row);
    }
    return (uint32_t)*index;
}

/* A row of S_FRAMES_TO; ignores frames that are not needed. */
static void load_frame(struct dictionary_loader *l, sqlite3_stmt *row)
{
    uint64_t *index = et_map_find(&l->frames, (uint64_t)sqlite3_column_int64(row, 0));
    if (!index) {
        return;
    }
    struct et_strings *strings = &l->profile->strings;
    struct et_frame frame = {
        .module = load_module(l, sqlite3_column_int64(row, 1)),
        .address = (uint64_t)sqlite3_column_int64(row, 2),
        .name = et_intern(strings, et_column_text(row, 3)),
        .file = et_intern(strings, et_column_text(row, 4)),
        .line = (uint32_t)sqlite3_column_int64(row, 5),
    };
    *index = et_profile_frame(l->profile, frame);
    count_memory(l);
}

/* Loads all needed frames with first <= id <= last. */
static void load_frames(struct dictionary_loader *l, uint64_t first, uint64_t last)
{
    sqlite3_stmt *row = et_store_bind(l->store, S_FRAMES_TO, "uu", first, last);
    int got;
    while ((got = et_store_step(l->store, row)) == 1 && !l->err) {
        load_frame(l, row);
    }
    sqlite3_reset(row);
    note_error(l, got < 0 ? got : 0);
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The ids of the needed frames, sorted: the map's order differs from run to run. free() the result. */
static uint64_t *sort_frames(const struct dictionary_loader *l)
{
    uint64_t *ids = et_alloc(l->frames.count, sizeof *ids);
    size_t count = 0;
    for (size_t i = 0; i < l->frames.capacity; i++) {
        const struct et_map_entry *entry = &l->frames.entries[i];
        if (entry->used) {
            ids[count++] = entry->key;
        }
    }
    qsort(ids, count, sizeof *ids, compare_ids);
    return ids;
}

static void read_frames(struct dictionary_loader *l)
{
    size_t count = l->frames.count;
    uint64_t *ids = sort_frames(l), first = ids[0], last = count ? ids[count - 1] : 0;
    bool dense = count && (last - first) / PASSED_OVER <= count;
    if (dense) {
        load_frames(l, first, last);
    }
    for (size_t i = 0; i < count && !l->err; i++) {
        if (!dense) {
            load_frames(l, ids[i], ids[i]);
        }
        if (!*et_map_find(&l->frames, ids[i])) {
            note_error(l, -EIO);
        }
    }
    free(ids);
}

/* ---- nodes of the profile ---- */

/* Index of the node below `top`, added if missing. Nodes of other groups are not reused. */
static uint32_t place_node(struct dictionary_loader *l, int64_t id, uint32_t top, uint32_t group)
{
    struct node_slot *path[ET_MAX_DEPTH + 1];
    size_t count = 0;
    struct node_slot *slot = NULL;
    while (id && count <= ET_MAX_DEPTH && (slot = read_node(l, id)) && !(slot->index && slot->group == group)) {
        path[count++] = slot;
        id = slot->parent;
    }
    uint32_t node = id && slot && slot->index && slot->group == group ? slot->index - 1 : top;
    while (count-- > 0 && !l->err) {
        node = et_profile_node(l->profile, node, (uint32_t)*et_map_find(&l->frames, (uint64_t)path[count]->frame));
        path[count]->index = node + 1;
        path[count]->group = group;
        count_memory(l);
    }
    return node;
}

static int by_group(const void *a, const void *b)
{
    const struct et_sum *x = a, *y = b;
    uint64_t first = (uint64_t)x->group << 32 | x->labels, second = (uint64_t)y->group << 32 | y->labels;
    return first != second ? (first < second ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

static void add_entries(struct dictionary_loader *l, const struct et_sum *sums, size_t count)
{
    uint32_t top = 0;
    for (size_t i = 0; i < count && !l->err; i++) {
        const struct et_sum *sum = &sums[i];
        if (i == 0 || sum->group != sums[i - 1].group) {
            struct et_frame name = {.name = sum->group};
            top = sum->group ? et_profile_node(l->profile, 0, et_profile_frame(l->profile, name)) : 0;
        }
        struct et_entry entry = {.labels = sum->labels, .count = sum->count, .value = sum->value};
        entry.node = place_node(l, (int64_t)sum->node, top, sum->group);
        et_profile_entry(l->profile, &entry);
    }
}

int et_dictionary_load(struct et_store *store, struct et_profile *profile, struct et_sum *sums, size_t count)
{
    struct dictionary_loader l = {.store = store, .profile = profile, .before = et_profile_memory(profile)};
    if (count) {
        qsort(sums, count, sizeof *sums, by_group);
        read_nodes(&l, sums, count);
    }
    if (!l.err) {
        read_frames(&l);
    }
    if (!l.err) {
        add_entries(&l, sums, count);
    }
    (void)et_budget_hold(store->budget, &l.held, 0);
    et_map_free(&l.modules);
    et_map_free(&l.frames);
    et_map_free(&l.nodes);
    free(l.near);
    free(l.slots);
    return l.err;
}
