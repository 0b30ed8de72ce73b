/* See fake_store.h. Ids are counted and never looked up again: what is given twice has two. */
#include "tools/lib/time_text.h"
#include "tools/store/age.h"
#include "tools/store/owner.h"
#include "fake_store.h"

#include <string.h>

void fake_store_reset(struct et_store *store)
{
    for (size_t i = 0; i < store->segment_count; i++) {
        et_segment_free(&store->segments[i].dictionary);
    }
    store->segment_count = store->profile_count = 0;
    store->modules = store->frames = store->nodes = store->labels = store->origins = 0;
    store->committed = false;
    REQUIRE(!store->open);
}

const char *et_store_why(const struct et_store *store)
{
    (void)store;
    return "the fake store never fails";
}

/* Without a keeper there is no count. */
int64_t et_age_now(struct et_age *age)
{
    REQUIRE(!age);
    return et_now();
}

static void copy_segment(struct et_segment *to, const struct et_segment *from)
{
    et_segment_init(to);
    for (size_t i = 0; i < from->span_count; i++) {
        et_segment_add_span(to, &from->spans[i]);
    }
    for (size_t i = 1; i < from->node_count; i++) {
        et_segment_add_node(to, from->depths[i], from->nodes[i]);
    }
    for (size_t i = 1; i < from->label_count; i++) {
        et_segment_add_labels(to, from->labels[i].id, from->labels[i].lines, from->labels[i].name);
    }
}

static struct fake_segment *find(struct et_store *store, uint64_t id)
{
    for (size_t i = 0; i < store->segment_count; i++) {
        if (store->segments[i].id == id) {
            return &store->segments[i];
        }
    }
    return NULL;
}

int et_store_begin(struct et_store *store)
{
    REQUIRE(!store->open);
    store->open = true;
    store->profile_count = 0;
    return 0;
}

int et_store_end(struct et_store *store, bool commit)
{
    REQUIRE(store->open);
    store->open = false;
    store->committed = commit;
    struct fake_segment *known = find(store, store->pending.id);
    if (commit && store->pending.id) {
        if (!known) {
            REQUIRE(store->segment_count < FAKE_SEGMENTS);
            known = &store->segments[store->segment_count++];
        } else {
            et_segment_free(&known->dictionary);
        }
        *known = store->pending;
    } else if (store->pending.id) {
        et_segment_free(&store->pending.dictionary);
    }
    store->pending = (struct fake_segment){0};
    if (store->lent) {
        et_segment_free(&store->dictionary);
        store->lent = false;
    }
    return 0;
}

/* ---- ids ---- */

int64_t et_store_module(struct et_store *store, const char *build_id, const char *path)
{
    REQUIRE(store->open && build_id && path);
    return ++store->modules;
}

int64_t et_store_frame(struct et_store *store, int64_t module, uint64_t address, const char *name, const char *file,
                       uint32_t line)
{
    (void)line;
    REQUIRE(store->open && name && file);
    REQUIRE(module >= 0 && module <= store->modules);
    REQUIRE(module > 0 || address < 256 || name[0]);
    return ++store->frames;
}

int64_t et_store_node(struct et_store *store, int64_t parent, int64_t frame)
{
    REQUIRE(store->open);
    REQUIRE(parent >= 0 && parent <= store->nodes && frame > 0 && frame <= store->frames);
    return ++store->nodes;
}

int64_t et_store_labels(struct et_store *store, const char *lines)
{
    size_t size = strlen(lines);
    REQUIRE(store->open);
    REQUIRE(size == 0 || (lines[size - 1] == '\n' && strchr(lines, '=')));
    return size ? ++store->labels : 0;
}

int64_t et_store_origin(struct et_store *store, const struct et_origin *origin)
{
    REQUIRE(store->open && origin->service[0]);
    return ++store->origins;
}

int64_t et_store_origin_undated(struct et_store *store, int64_t origin)
{
    REQUIRE(store->open && origin > 0 && origin <= store->origins);
    return ++store->origins;
}

int et_store_owner(struct et_store *store, int64_t origin, struct et_strings *strings, const char **service,
                   const char **tags)
{
    (void)store;
    (void)origin;
    (void)strings;
    *service = *tags = "";
    return 1;
}

int et_store_stats(struct et_store *store, int64_t origin, const void *stats, size_t size)
{
    REQUIRE(store->open && origin > 0 && origin <= store->origins && (stats || size == 0));
    return 0;
}

int et_store_incident(struct et_store *store, const struct et_incident_row *row, int64_t origin)
{
    REQUIRE(store->open && origin > 0 && origin <= store->origins);
    REQUIRE(row->message && row->size > 0 && row->incident);
    return 0;
}

int et_store_crash(struct et_store *store, uint64_t segment, int64_t origin, int64_t now_ns, const void *message,
                   size_t size)
{
    (void)segment, (void)now_ns;
    REQUIRE(store->open && origin > 0 && origin <= store->origins);
    REQUIRE(message && size > 0);
    return 0;
}

int et_store_skipped(struct et_store *store, int64_t origin)
{
    REQUIRE(store->open && origin > 0 && origin <= store->origins);
    return 0;
}

/* ---- profiles ---- */

void et_stacks_add(struct et_stacks *stacks, const struct et_stack *stack)
{
    et_buf_add(&stacks->label_sets, stack, sizeof *stack);
}

void et_stacks_free(struct et_stacks *stacks)
{
    et_buf_free(&stacks->label_sets);
}

int et_store_profile(struct et_store *store, const struct et_stored *stored)
{
    REQUIRE(store->open && store->profile_count < FAKE_PROFILES);
    REQUIRE(stored->origin > 0 && stored->origin <= store->origins);
    REQUIRE(stored->end_ns >= stored->start_ns && stored->quantum > 0);
    struct fake_profile *sum = &store->profiles[store->profile_count++];
    *sum = (struct fake_profile){.stacks = stored->stacks.label_sets.size / sizeof(struct et_stack)};
    snprintf(sum->kind, sizeof sum->kind, "%s", stored->kind);
    for (size_t i = 0; i < sum->stacks; i++) {
        struct et_stack stack;
        memcpy(&stack, stored->stacks.label_sets.data + i * sizeof stack, sizeof stack);
        REQUIRE(stack.node >= 0 && stack.node <= store->nodes);
        sum->at_root += stack.node == 0;
        REQUIRE(stack.label_set.labels >= 0 && stack.label_set.labels <= store->labels);
        REQUIRE(!__builtin_add_overflow(sum->value, stack.value * stored->quantum, &sum->value));
        REQUIRE(!__builtin_add_overflow(sum->count, stack.count, &sum->count));
        REQUIRE(sum->value <= INT64_MAX && sum->count <= INT64_MAX);
    }
    return 0;
}

/* ---- segments ---- */

int et_store_segment(struct et_store *store, uint64_t segment, struct et_segment_row *row)
{
    const struct fake_segment *known = find(store, segment);
    REQUIRE(store->open && segment != 0);
    if (known) {
        *row = known->row;
    }
    return known != NULL;
}

struct et_segment *et_store_segment_open(struct et_store *store, uint64_t segment, uint32_t sequence)
{
    const struct fake_segment *known = find(store, segment);
    REQUIRE(store->open && !store->lent && sequence == (known ? known->row.next_sequence : 0));
    store->lent = true;
    if (known) {
        copy_segment(&store->dictionary, &known->dictionary);
    } else {
        et_segment_init(&store->dictionary);
    }
    return &store->dictionary;
}

int et_store_segment_add(struct et_store *store, uint64_t segment, uint32_t sequence,
                         const struct et_segment *segment_now, struct et_segment_mark before)
{
    (void)sequence;
    REQUIRE(store->open && store->pending.id == 0);
    REQUIRE(before.nodes <= segment_now->node_count && before.spans <= segment_now->span_count);
    store->pending.id = segment;
    copy_segment(&store->pending.dictionary, segment_now);
    return 0;
}

int et_store_segment_put(struct et_store *store, uint64_t segment, const struct et_segment_row *row, int64_t now_ns)
{
    (void)now_ns;
    REQUIRE(store->open && store->pending.id == segment && row->origin > 0);
    store->pending.row = *row;
    return 0;
}

int et_store_segment_drop(struct et_store *store, uint64_t segment)
{
    REQUIRE(store->open && store->pending.id == segment && store->pending.row.ended);
    et_segment_free(&store->pending.dictionary);
    et_segment_init(&store->pending.dictionary);
    return 0;
}

/* ---- no bounds ---- */

struct et_bounds *et_store_bounds(const struct et_store *store)
{
    (void)store;
    return NULL;
}

int et_store_all_tags(struct et_store *store, void (*row)(void *context, const char *service, const char *tags),
                      void *context)
{
    (void)store;
    (void)row;
    (void)context;
    return 0;
}

int et_store_all_labels(struct et_store *store, void (*row)(void *context, const char *lines), void *context)
{
    (void)store;
    (void)row;
    (void)context;
    return 0;
}
