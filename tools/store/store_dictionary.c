/*
 * See store_dictionary.h. Rows that are not resident yet are read: ids close together with one statement, others one by
 * one, without the resident's lock.
 *
 *   et_dictionary_load   read_nodes -> want_ancestors -> get_node
 *                        read_frames -> put_frame
 *                        add_entries -> place_node -> place_frame -> place_module -> get_module
 */
#include "tools/store/store_dictionary.h"
#include "tools/store/resident.h"

#include <errno.h>
#include <stdlib.h>

/* Reading this many unused rows costs less than one statement per used row. */
enum { PASSED_OVER = 8 };

/* A node of this profile. */
struct node_place {
    uint32_t index, group; /* index in the profile + 1, below the frame of this group */
    bool wanted;
};

struct dictionary_loader {
    struct et_store *store;
    struct et_profile *profile;
    struct et_resident *resident; /* locked, except while rows are read */
    struct et_pages nodes;        /* struct node_place by id */
    struct et_pages frames;       /* uint32_t by id: index in the profile */
    struct et_pages modules;      /* uint32_t by id: index in the profile + 1 */
    struct id_list {
        uint64_t *ids;
        size_t count, capacity;
    } missing;    /* frames */
    size_t grown; /* bytes that this one has added to the resident */
    size_t held;  /* bytes counted in the database's budget; the profile's beyond `before` */
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
        size_t lists = l->missing.capacity * sizeof(uint64_t);
        note_error(l, et_store_hold(l->store, &l->held,
                                    l->nodes.bytes + l->frames.bytes + l->modules.bytes + lists + l->grown +
                                        et_profile_memory(l->profile) - l->before));
    }
}

static void lock(struct dictionary_loader *l)
{
    pthread_mutex_lock(&l->resident->lock);
}

static void unlock(struct dictionary_loader *l)
{
    pthread_mutex_unlock(&l->resident->lock);
}

static void add_id(struct id_list *list, uint64_t id)
{
    list->ids = et_reserve(list->ids, &list->capacity, list->count + 1, sizeof *list->ids);
    list->ids[list->count++] = id;
}

/* ---- nodes ---- */

static struct et_resident_node *resident_node(struct dictionary_loader *l, uint64_t id)
{
    struct et_resident_node *node = et_pages_find(&l->resident->nodes, id, sizeof *node);
    return node && node->frame ? node : NULL;
}

static void put_node(struct dictionary_loader *l, uint64_t id, sqlite3_stmt *row, int first)
{
    size_t before = l->resident->nodes.bytes;
    struct et_resident_node *node = et_pages_at(&l->resident->nodes, id, sizeof *node);
    node->parent = sqlite3_column_int64(row, first);
    node->frame = sqlite3_column_int64(row, first + 1);
    l->grown += l->resident->nodes.bytes - before;
    count_memory(l);
}

/* Returns NULL on failure. */
static const struct et_resident_node *get_node(struct dictionary_loader *l, uint64_t id)
{
    const struct et_resident_node *node = resident_node(l, id);
    if (node) {
        return node;
    }
    unlock(l);
    sqlite3_stmt *row = et_store_bind(l->store, "SELECT parent, frame FROM node WHERE id = ?", "u", id);
    int got = et_store_step(l->store, row);
    lock(l);
    if (got == 1) {
        put_node(l, id, row, 0);
    }
    sqlite3_reset(row);
    node = got == 1 ? resident_node(l, id) : NULL;
    note_error(l, node ? 0 : got < 0 ? got : -EIO);
    return node;
}

/* Wants the node and its ancestors, and their frames. Parents must have smaller ids, so that a damaged database causes
 * no endless loop. */
static void want_ancestors(struct dictionary_loader *l, int64_t id)
{
    while (id && !l->err) {
        struct node_place *place = et_pages_at(&l->nodes, (uint64_t)id, sizeof *place);
        const struct et_resident_node *node = place->wanted ? NULL : get_node(l, (uint64_t)id);
        if (!node) {
            return;
        }
        place->wanted = true;
        uint64_t frame_id = (uint64_t)node->frame;
        uint32_t *index = et_pages_at(&l->frames, frame_id, sizeof *index);
        const struct et_resident_frame *frame = et_pages_find(&l->resident->frames, frame_id, sizeof *frame);
        if (!*index && !(frame && frame->known)) {
            add_id(&l->missing, frame_id);
            *index = UINT32_MAX;
        }
        note_error(l, node->parent >= id ? -EIO : 0);
        id = node->parent;
        count_memory(l);
    }
}

/* Many new ones are read at once. */
static void read_nodes(struct dictionary_loader *l, const struct et_sum *sums, size_t count)
{
    uint64_t last = 0;
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        last = sums[i].node > last ? sums[i].node : last;
        missing += resident_node(l, sums[i].node) == NULL;
    }
    if (missing && last / PASSED_OVER <= missing) {
        unlock(l);
        sqlite3_stmt *row = et_store_bind(l->store, "SELECT id, parent, frame FROM node WHERE id <= ?", "u", last);
        int got;
        while ((got = et_store_step(l->store, row)) == 1 && !l->err) {
            uint64_t id = (uint64_t)sqlite3_column_int64(row, 0);
            lock(l);
            if (!resident_node(l, id)) {
                put_node(l, id, row, 1);
            }
            unlock(l);
        }
        sqlite3_reset(row);
        note_error(l, got < 0 ? got : 0);
        lock(l);
    }
    for (size_t i = 0; i < count && !l->err; i++) {
        want_ancestors(l, (int64_t)sums[i].node);
    }
}

/* ---- frames ---- */

static uint32_t put_text(struct dictionary_loader *l, sqlite3_stmt *row, int column)
{
    const char *text = et_column_text(row, column);
    return *text ? et_intern(&l->resident->strings, text) : 0;
}

/* A row of FRAMES_TO; ignores frames that are not needed. */
static void put_frame(struct dictionary_loader *l, sqlite3_stmt *row)
{
    uint64_t id = (uint64_t)sqlite3_column_int64(row, 0);
    const uint32_t *wanted = et_pages_find(&l->frames, id, sizeof *wanted);
    if (!wanted || *wanted != UINT32_MAX) {
        return;
    }
    lock(l);
    size_t before = l->resident->frames.bytes;
    struct et_resident_frame *frame = et_pages_at(&l->resident->frames, id, sizeof *frame);
    *frame = (struct et_resident_frame){
        .module = sqlite3_column_int64(row, 1),
        .address = (uint64_t)sqlite3_column_int64(row, 2),
        .name = put_text(l, row, 3),
        .file = put_text(l, row, 4),
        .line = (uint32_t)sqlite3_column_int64(row, 5),
        .known = true,
    };
    l->grown += l->resident->frames.bytes - before;
    count_memory(l);
    unlock(l);
}

/* Reads all missing frames with first <= id <= last. */
static void read_range(struct dictionary_loader *l, uint64_t first, uint64_t last)
{
    sqlite3_stmt *row =
        et_store_bind(l->store, "SELECT id, module, address, name, file, line FROM frame WHERE id >= ? AND id <= ?",
                      "uu", first, last);
    int got;
    while ((got = et_store_step(l->store, row)) == 1 && !l->err) {
        put_frame(l, row);
    }
    sqlite3_reset(row);
    note_error(l, got < 0 ? got : 0);
}

static void read_frames(struct dictionary_loader *l)
{
    const struct id_list *missing = &l->missing;
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t i = 0; i < missing->count; i++) {
        first = missing->ids[i] < first ? missing->ids[i] : first;
        last = missing->ids[i] > last ? missing->ids[i] : last;
    }
    bool dense = missing->count && (last - first) / PASSED_OVER <= missing->count;
    unlock(l);
    if (dense) {
        read_range(l, first, last);
    }
    for (size_t i = 0; i < missing->count && !dense && !l->err; i++) {
        read_range(l, missing->ids[i], missing->ids[i]);
    }
    lock(l);
    for (size_t i = 0; i < missing->count && !l->err; i++) {
        const struct et_resident_frame *frame = et_pages_find(&l->resident->frames, missing->ids[i], sizeof *frame);
        *(uint32_t *)et_pages_at(&l->frames, missing->ids[i], sizeof(uint32_t)) = 0;
        note_error(l, frame && frame->known ? 0 : -EIO);
    }
}

/* ---- the profile ---- */

static uint32_t place_text(struct dictionary_loader *l, uint32_t number)
{
    return number ? et_intern(&l->profile->strings, et_text(&l->resident->strings, number)) : 0;
}

/* Returns NULL on failure. */
static const struct et_resident_module *get_module(struct dictionary_loader *l, uint64_t id)
{
    struct et_resident_module *module = et_pages_at(&l->resident->modules, id, sizeof *module);
    if (!module->known) {
        unlock(l);
        sqlite3_stmt *row = et_store_bind(l->store, "SELECT build_id, path FROM module WHERE id = ?", "u", id);
        int got = et_store_step(l->store, row);
        lock(l);
        if (got == 1) {
            *module = (struct et_resident_module){put_text(l, row, 0), put_text(l, row, 1), true};
        }
        note_error(l, got == 1 ? 0 : got ? got : -EIO);
        sqlite3_reset(row);
    }
    return module->known ? module : NULL;
}

static uint32_t place_module(struct dictionary_loader *l, int64_t id)
{
    uint32_t *index = id ? et_pages_at(&l->modules, (uint64_t)id, sizeof *index) : NULL;
    if (index && !*index) {
        const struct et_resident_module *module = get_module(l, (uint64_t)id);
        *index = module ? et_profile_module(l->profile, et_text(&l->resident->strings, module->build_id),
                                            et_text(&l->resident->strings, module->path))
                        : 0;
    }
    return index ? *index : 0;
}

static uint32_t place_frame(struct dictionary_loader *l, int64_t id)
{
    uint32_t *index = et_pages_at(&l->frames, (uint64_t)id, sizeof *index);
    if (!*index) {
        const struct et_resident_frame *from = et_pages_find(&l->resident->frames, (uint64_t)id, sizeof *from);
        struct et_frame frame = {
            .module = place_module(l, from->module),
            .address = from->address,
            .name = place_text(l, from->name),
            .file = place_text(l, from->file),
            .line = from->line,
        };
        *index = et_profile_frame(l->profile, frame);
    }
    return *index;
}

/* Index of the node below `top`, added if missing. Nodes of other groups are not reused. */
static uint32_t place_node(struct dictionary_loader *l, int64_t id, uint32_t top, uint32_t group)
{
    struct node_place *path[ET_MAX_DEPTH + 1], *place = NULL;
    int64_t frames[ET_MAX_DEPTH + 1];
    size_t count = 0;
    while (id && count <= ET_MAX_DEPTH) {
        place = et_pages_at(&l->nodes, (uint64_t)id, sizeof *place);
        if (place->index && place->group == group) {
            break;
        }
        const struct et_resident_node *node = resident_node(l, (uint64_t)id);
        path[count] = place;
        frames[count++] = node->frame;
        id = node->parent;
    }
    uint32_t node = id && place && place->index && place->group == group ? place->index - 1 : top;
    while (count-- > 0) {
        node = et_profile_node(l->profile, node, place_frame(l, frames[count]));
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

static void sort_sums(struct et_sum *sums, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (by_group(&sums[i - 1], &sums[i]) > 0) {
            qsort(sums, count, sizeof *sums, by_group);
            return;
        }
    }
}

/* Adds up sorted sums of the same stack. Returns how many are left. */
static size_t join_sums(struct et_sum *sums, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept && by_group(&sums[kept - 1], &sums[i]) == 0) {
            sums[kept - 1].value += sums[i].value;
            sums[kept - 1].count += sums[i].count;
        } else {
            sums[kept++] = sums[i];
        }
    }
    return kept;
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
    l.resident = et_resident_take(store->residents);
    sort_sums(sums, count);
    count = join_sums(sums, count);
    lock(&l);
    read_nodes(&l, sums, count);
    if (!l.err) {
        read_frames(&l);
    }
    add_entries(&l, sums, count);
    unlock(&l);
    et_resident_release(store->residents, l.resident);
    (void)et_budget_hold(store->budget, &l.held, 0);
    et_pages_free(&l.nodes);
    et_pages_free(&l.frames);
    et_pages_free(&l.modules);
    free(l.missing.ids);
    return l.err;
}
