/*
 * See ingest_batch.h: stores the profiles of a batch. et_batch_store() calls keep_item() for each profile:
 * check_item() checks all its names, then store_profile() stores origin, nodes, label sets and stacks.
 */
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/store/bounds.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

/* Adds the profile's modules, frames and nodes to the database. nodes[]: their ids. Returns 0 or the database's error.
 */
static int store_nodes(struct et_store *store, const struct et_profile *p, int64_t *nodes)
{
    int64_t *frames = et_alloc(p->frame_count, sizeof *frames),
            *modules = et_alloc(p->module_count + 1, sizeof *modules);
    int64_t id = 0;
    for (size_t i = 0; i < p->module_count && id >= 0; i++) {
        id = modules[i + 1] = et_store_module(store, et_text(&p->strings, p->modules[i].build_id),
                                              et_text(&p->strings, p->modules[i].path));
    }
    for (size_t i = 1; i < p->frame_count && id >= 0; i++) {
        const struct et_frame *frame = &p->frames[i];
        id = frames[i] =
            et_store_frame(store, modules[frame->module], frame->address, et_text(&p->strings, frame->name),
                           et_text(&p->strings, frame->file), frame->line);
    }
    for (size_t i = 1; i < p->node_count && id >= 0; i++) {
        id = nodes[i] = et_store_node(store, nodes[p->nodes[i].parent], frames[p->nodes[i].frame]);
    }
    free(frames);
    free(modules);
    return id < 0 ? (int)id : 0;
}

/* Parses 16 hexadecimal digits, or half of 32. */
static bool read_hex(const char *text, size_t size, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < size; i++) {
        const char *digits = "0123456789abcdef", *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit) {
            return false;
        }
        *number = *number << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

struct split_labels {
    struct et_labels rest;
    struct et_stored_label_set label_set;
};

/* Stores span and trace ids as numbers, because there are many. */
static void split_label(void *data, const char *key, const char *value)
{
    struct split_labels *split = data;
    struct et_stored_label_set *set = &split->label_set;
    bool span = strcmp(key, ET_SPAN_ID) == 0 && strlen(value) == 16 && read_hex(value, 16, &set->span_id);
    bool trace = strcmp(key, ET_TRACE_ID) == 0 && strlen(value) == 32 && read_hex(value, 16, &set->trace_high) &&
                 read_hex(value + 16, 16, &set->trace_low);
    if (!span && !trace && !et_label_reserved(key)) {
        et_labels_add(&split->rest, key, value);
    }
}

/* The labels of a profile's stacks, each once. */
struct item_label_sets {
    struct et_map known; /* labels -> index + 1 */
    struct item_label_set {
        char *lines; /* labels without ids */
        struct et_stored_label_set stored;
    } * list;
    size_t count;
};

static void collect_label_sets(const struct et_profile *p, struct item_label_sets *label_sets)
{
    label_sets->list = et_alloc(p->strings.count, sizeof *label_sets->list);
    for (size_t i = 0; i < p->entry_count; i++) {
        uint64_t *seen = et_map_at(&label_sets->known, p->entries[i].labels);
        if (!*seen) {
            struct split_labels split = {0};
            et_labels_each(et_text(&p->strings, p->entries[i].labels), split_label, &split);
            label_sets->list[label_sets->count++] =
                (struct item_label_set){.lines = et_labels_join(&split.rest), .stored = split.label_set};
            *seen = label_sets->count;
        }
    }
}

static void free_label_sets(struct item_label_sets *label_sets)
{
    for (size_t i = 0; i < label_sets->count; i++) {
        free(label_sets->list[i].lines);
    }
    free(label_sets->list);
    et_map_free(&label_sets->known);
}

/* Returns NULL when the item, as a whole, is within bounds. */
static const char *check_item(struct et_bounds *bounds, const struct et_batch_item *item,
                              const struct item_label_sets *label_sets)
{
    size_t mark = et_bounds_mark(bounds);
    const char *refused = et_bounds_time(bounds, item->from_ns, item->until_ns);
    refused = refused ? refused : et_bounds_series(bounds, item->service, item->tags);
    if (!refused) {
        et_bounds_note_series(bounds, item->service, item->tags, true);
    }
    for (size_t i = 0; i < label_sets->count && !refused; i++) {
        refused = et_bounds_labels(bounds, label_sets->list[i].lines);
        if (!refused) {
            et_bounds_note_labels(bounds, label_sets->list[i].lines, true);
        }
    }
    et_bounds_undo_to(bounds, mark);
    return refused;
}

static int store_label_sets(struct et_store *store, struct item_label_sets *label_sets)
{
    int64_t id = 0;
    for (size_t i = 0; i < label_sets->count && id >= 0; i++) {
        id = label_sets->list[i].stored.labels = et_store_labels(store, label_sets->list[i].lines);
    }
    return id < 0 ? (int)id : 0;
}

static void add_stacks(const struct et_profile *p, const int64_t *nodes, const struct item_label_sets *label_sets,
                       struct et_stacks *stacks)
{
    for (size_t i = 0; i < p->entry_count; i++) {
        const struct et_entry *entry = &p->entries[i];
        const uint64_t *number = et_map_find(&label_sets->known, entry->labels);
        et_stacks_add(stacks, &(struct et_stack){.node = nodes[entry->node],
                                                 .value = entry->value,
                                                 .count = entry->count,
                                                 .label_set = label_sets->list[*number - 1].stored});
    }
}

static int64_t store_origin(struct et_store *store, const struct et_batch_item *item)
{
    struct et_origin origin = {.service = item->service,
                               .tags = item->tags,
                               .host = "",
                               .boot_id = "",
                               .executable = "",
                               .arch = "",
                               .agent = "pprof"};
    return et_store_origin(store, &origin);
}

/* Returns 0 or the database's error. */
static int store_profile(struct et_store *store, const struct et_batch_item *item, struct item_label_sets *label_sets)
{
    const struct et_profile *p = item->profile;
    struct et_stored stored = {
        .origin = store_origin(store, item),
        .kind = et_text(&p->strings, p->kind),
        .unit = et_text(&p->strings, p->value_unit),
        .start_ns = item->from_ns,
        .end_ns = item->until_ns,
        .period = p->period,
        .samples = p->samples,
        .quantum = 1,
        .stacks.columns = (uint8_t)((p->values || !p->counts ? ET_COLUMN_VALUE : 0) |
                                    (p->counts ? ET_COLUMN_COUNT : 0) | ET_COLUMN_LABEL_SET),
    };
    int64_t *nodes = et_alloc(p->node_count, sizeof *nodes);
    int err = stored.origin < 0 ? (int)stored.origin : store_nodes(store, p, nodes);
    err = err ? err : store_label_sets(store, label_sets);
    if (!err) {
        add_stacks(p, nodes, label_sets, &stored.stacks);
        err = et_store_profile(store, &stored);
    }
    et_stacks_free(&stored.stacks);
    free(nodes);
    return err;
}

/* Returns 0 or the database's error. A refused item leaves nothing in the database. */
static int keep_item(struct et_store *store, struct et_batch_item *item)
{
    struct item_label_sets label_sets = {0};
    collect_label_sets(item->profile, &label_sets);
    item->refused = check_item(et_store_bounds(store), item, &label_sets);
    int err = item->refused ? 0 : store_profile(store, item, &label_sets);
    free_label_sets(&label_sets);
    return err;
}

enum et_outcome et_batch_store(struct et_store *store, struct et_batch *batch, const char **why)
{
    int err = et_store_begin(store);
    size_t refused = 0;
    for (size_t i = 0; i < batch->count && !err; i++) {
        err = keep_item(store, &batch->items[i]);
        *why = batch->items[i].refused ? batch->items[i].refused : *why;
        refused += batch->items[i].refused != NULL;
    }
    int ended = et_store_end(store, !err && refused < batch->count);
    if (err || ended) {
        *why = et_store_why(store);
        return ET_UNAVAILABLE;
    }
    return refused == 0 || refused < batch->count ? ET_ACCEPTED : et_bounds_outcome(*why);
}
