/*
 * See ingest_batch.h: stores the profiles of a batch. et_batch_store() calls keep_item() for each profile:
 * store_profile() stores nodes, then stacks with their contexts.
 */
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/store/bounds.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

/* Adds the profile's modules, frames and nodes to the store. nodes[]: their ids. Returns 0 or the store's error. */
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
    struct et_stored_context context;
};

/* Stores span and trace ids as numbers, because there are many. */
static void split_label(void *data, const char *key, const char *value)
{
    struct split_labels *split = data;
    struct et_stored_context *context = &split->context;
    bool span = strcmp(key, ET_SPAN_ID) == 0 && strlen(value) == 16 && read_hex(value, 16, &context->span_id);
    bool trace = strcmp(key, ET_TRACE_ID) == 0 && strlen(value) == 32 && read_hex(value, 16, &context->trace_high) &&
                 read_hex(value + 16, 16, &context->trace_low);
    if (!span && !trace) {
        et_labels_add(&split->rest, key, value);
    }
}

/* *refused: the reason for labels out of bounds; otherwise unchanged. */
static int store_context(struct et_store *store, const char *lines, struct et_stored_context *context,
                         const char **refused)
{
    struct split_labels split = {0};
    et_labels_each(lines, split_label, &split);
    char *rest = et_labels_join(&split.rest);
    const char *out = et_bounds_labels(et_store_bounds(store), rest);
    *context = split.context;
    *refused = out ? out : *refused;
    context->labels = out ? 0 : et_store_labels(store, rest);
    free(rest);
    return context->labels < 0 ? (int)context->labels : 0;
}

static int store_stacks(struct et_store *store, const struct et_profile *p, const int64_t *nodes,
                        struct et_stacks *stacks, const char **refused)
{
    struct et_map known = {0}; /* labels -> context + 1 */
    struct et_stored_context *contexts = et_alloc(p->strings.count + 1, sizeof *contexts);
    int err = 0;
    for (size_t i = 0; i < p->entry_count && !err && !*refused; i++) {
        const struct et_entry *entry = &p->entries[i];
        uint64_t *seen = et_map_at(&known, entry->labels);
        if (!*seen) {
            *seen = known.count;
            err = store_context(store, et_text(&p->strings, entry->labels), &contexts[known.count], refused);
        }
        et_stacks_add(stacks, &(struct et_stack){.node = nodes[entry->node],
                                                 .value = entry->value,
                                                 .count = entry->count,
                                                 .context = contexts[*seen]});
    }
    et_map_free(&known);
    free(contexts);
    return err;
}

static int store_profile(struct et_store *store, struct et_batch_item *item, int64_t origin)
{
    const struct et_profile *p = item->profile;
    int64_t *nodes = et_alloc(p->node_count, sizeof *nodes);
    struct et_stored stored = {
        .origin = origin,
        .kind = et_text(&p->strings, p->kind),
        .unit = et_text(&p->strings, p->value_unit),
        .start_ns = item->from_ns,
        .end_ns = item->until_ns,
        .period = p->period,
        .samples = p->samples,
        .quantum = 1,
        .stacks.columns = (uint8_t)((p->values || !p->counts ? ET_COLUMN_VALUE : 0) |
                                    (p->counts ? ET_COLUMN_COUNT : 0) | ET_COLUMN_CONTEXT),
    };
    int err = store_nodes(store, p, nodes);
    err = err ? err : store_stacks(store, p, nodes, &stored.stacks, &item->refused);
    err = err || item->refused ? err : et_store_profile(store, &stored);
    et_stacks_free(&stored.stacks);
    free(nodes);
    return err;
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

/* Returns 0 or the store's error. A refused item may leave only nodes in the store. */
static int keep_item(struct et_store *store, struct et_batch_item *item)
{
    struct et_bounds *bounds = et_store_bounds(store);
    item->refused = et_bounds_time(bounds, item->from_ns, item->until_ns);
    item->refused = item->refused ? item->refused : et_bounds_series(bounds, item->service, item->tags);
    if (item->refused) {
        return 0;
    }
    int64_t origin = store_origin(store, item);
    return origin < 0 ? (int)origin : store_profile(store, item, origin);
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
