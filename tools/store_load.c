/*
 * See store.h: loading a profile. All matching profiles are added up by (node, labels) first; then each node, frame and
 * module that occurs once is fetched.
 *
 *   et_store_load -> sum_profiles -> add_profile -> read_contexts, add_stacks
 *                 -> load_dictionary -> load_node -> load_frame -> load_module
 */
#include "kinds.h"
#include "labels.h"
#include "store_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sums ---- */

/* One of a stored profile's contexts, as the query sees it. */
struct seen {
    uint32_t sum;    /* index into the profile's label_sums */
    uint32_t labels; /* string numbers: what entries carry */
    uint32_t group;  /* name of the frame that its stacks stand under, "" none */
    bool wanted;
};

/* Stacks of one node with the same labels and group. */
struct sum {
    uint64_t node; /* in the store */
    uint32_t labels, group;
    uint64_t count, value;
};

struct sums {
    struct et_store *store;
    const struct et_query *query;
    struct et_profile *profile;
    const struct et_kind *kind; /* NULL: none of ours */
    struct et_map nodes;        /* node in the store -> dense index + 1 */
    struct et_map index;        /* dense node << 32 | pair -> sum + 1 */
    struct et_map pairs;        /* labels << 32 | group -> pair + 1 */
    struct sum *sums;
    size_t count, capacity;
    struct et_map texts;   /* labels in the store -> string number + 1 */
    struct et_map by_text; /* string number -> index into label_sums + 1 */
    struct et_map latest;  /* origin -> middle of its last interval */
    struct et_map origins; /* that have something to show */
    struct seen *seen;
    size_t seen_count, seen_capacity;
    struct et_process process; /* of the row that is being read */
    bool left_out;             /* some stacks of a profile, by their labels */
    int err;
};

static uint32_t text_of(struct sums *s, int64_t labels)
{
    uint64_t *known = et_map_at(&s->texts, (uint64_t)labels);
    if (!*known && !s->err) {
        sqlite3_stmt *row = labels ? et_store_bind(s->store, S_LABELS_GET, "i", labels) : NULL;
        int got = labels ? et_store_step(s->store, row) : 1;
        s->err = got < 0 ? got : 0;
        *known = 1 + et_intern(&s->profile->strings, labels && got == 1 ? et_column_text(row, 0) : "");
        sqlite3_reset(row);
    }
    return *known ? (uint32_t)*known - 1 : 0;
}

/* With the span and the trace as labels like others. free() the result. */
static char *full_labels(const char *lines, const uint64_t ids[3])
{
    struct et_labels all = {0};
    char hex[40];
    et_labels_add_lines(&all, lines);
    if (ids[0]) {
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)ids[0]);
        et_labels_add(&all, ET_SPAN_ID, hex);
    }
    if (ids[1] || ids[2]) {
        snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)ids[1], (unsigned long long)ids[2]);
        et_labels_add(&all, ET_TRACE_ID, hex);
    }
    return et_labels_join(&all);
}

static uint32_t group_of(struct sums *s, const char *labels)
{
    struct et_buf name = {0};
    size_t size = 0;
    if (!s->query->group) {
        return 0;
    }
    const char *value = et_process_value(labels, &s->process, s->query->group, &size);
    if (value) {
        et_buf_printf(&name, "%s=", s->query->group);
        et_buf_add(&name, value, size);
    } else {
        et_buf_printf(&name, "[no %s]", s->query->group);
    }
    uint32_t number = et_intern(&s->profile->strings, name.data);
    et_buf_free(&name);
    return number;
}

static uint32_t label_sum(struct sums *s, uint32_t lines)
{
    struct et_profile *p = s->profile;
    uint64_t *known = et_map_at(&s->by_text, lines);
    if (!*known) {
        p->label_sums = et_reserve(p->label_sums, &p->label_capacity, p->label_count + 1, sizeof *p->label_sums);
        p->label_sums[p->label_count] = (struct et_entry){.labels = lines};
        *known = ++p->label_count;
    }
    return (uint32_t)*known - 1;
}

static void see(struct sums *s, int64_t labels, const uint64_t ids[3])
{
    uint32_t text = text_of(s, labels);
    char *lines = full_labels(et_text(&s->profile->strings, text), ids);
    struct seen seen = {.sum = label_sum(s, text), .wanted = true, .group = group_of(s, lines)};
    for (size_t i = 0; i < s->query->matcher_count && seen.wanted; i++) {
        seen.wanted = et_process_matches(&s->query->matchers[i], lines, &s->process);
    }
    if (s->query->keep_labels) {
        seen.labels = et_intern(&s->profile->strings, lines);
    }
    s->seen = et_reserve(s->seen, &s->seen_capacity, s->seen_count + 1, sizeof *s->seen);
    s->seen[s->seen_count++] = seen;
    free(lines);
}

/* The next of a profile's contexts; false at the end. */
static bool next_context(const uint8_t **at, const uint8_t *end, uint64_t *labels, uint64_t ids[3])
{
    return *at && et_varint_get(at, end, labels) && et_varint_get(at, end, &ids[0]) &&
           et_varint_get(at, end, &ids[1]) && et_varint_get(at, end, &ids[2]);
}

static void read_contexts(struct sums *s, sqlite3_stmt *row)
{
    static const uint64_t none[3];
    const uint8_t *at = sqlite3_column_blob(row, 11), *end = at ? at + sqlite3_column_bytes(row, 11) : NULL;
    uint64_t labels, ids[3];
    s->seen_count = 0;
    see(s, 0, none);
    while (next_context(&at, end, &labels, ids)) {
        see(s, (int64_t)labels, ids);
    }
}

/* Whether a stack of the profile may have a label of that name. */
static bool labels_have(struct sums *s, sqlite3_stmt *row, const char *name)
{
    const uint8_t *at = sqlite3_column_blob(row, 11), *end = at ? at + sqlite3_column_bytes(row, 11) : NULL;
    uint64_t labels, ids[3];
    size_t size;
    bool found = false;
    while (!found && next_context(&at, end, &labels, ids)) {
        found = (strcmp(name, ET_SPAN_ID) == 0 && ids[0]) || (strcmp(name, ET_TRACE_ID) == 0 && (ids[1] || ids[2])) ||
                et_labels_value(et_text(&s->profile->strings, text_of(s, (int64_t)labels)), name, &size);
    }
    return found;
}

/* False: no stack of this profile can be wanted, its process is another. */
static bool process_wanted(struct sums *s, sqlite3_stmt *row)
{
    s->process = (struct et_process){
        .tags = et_column_text(row, 1), .service = et_column_text(row, 12), .host = et_column_text(row, 13)};
    for (size_t i = 0; i < s->query->matcher_count; i++) {
        const struct et_matcher *matcher = &s->query->matchers[i];
        if (!et_process_matches(matcher, "", &s->process) &&
            (matcher->process || !labels_have(s, row, matcher->name))) {
            return false;
        }
    }
    return true;
}

static struct sum *sum_of(struct sums *s, uint64_t node, const struct seen *seen)
{
    uint64_t *dense = et_map_at(&s->nodes, node);
    *dense = *dense ? *dense : s->nodes.count;
    uint64_t key = *dense << 32, *pair = et_map_at(&s->pairs, (uint64_t)seen->labels << 32 | seen->group);
    *pair = *pair ? *pair : s->pairs.count;
    uint64_t *index = et_map_at(&s->index, key | *pair);
    if (!*index) {
        s->sums = et_reserve(s->sums, &s->capacity, s->count + 1, sizeof *s->sums);
        s->sums[s->count] = (struct sum){.node = node, .labels = seen->labels, .group = seen->group};
        *index = ++s->count;
    }
    return &s->sums[*index - 1];
}

/* One stack; false at the end. */
static bool next_stack(const uint8_t **at, const uint8_t *end, int columns, uint64_t stack[4])
{
    static const int bits[] = {ET_COLUMN_VALUE, ET_COLUMN_COUNT, ET_COLUMN_CONTEXT};
    bool ok = *at && et_varint_get(at, end, &stack[0]);
    for (int i = 0; i < 3 && ok; i++) {
        stack[i + 1] = 0;
        ok = !(columns & bits[i]) || et_varint_get(at, end, &stack[i + 1]);
    }
    return ok;
}

/* CPU samples are not counted by their sender: as many as periods fit in. */
static uint64_t count_of(const struct sums *s, int columns, uint64_t value, uint64_t count, uint64_t period)
{
    bool unknown = !(columns & ET_COLUMN_COUNT) && s->kind && s->kind->number == 1 && period;
    return unknown ? (value + period / 2) / period : count;
}

static void add_stacks(struct sums *s, sqlite3_stmt *row)
{
    const uint8_t *at = sqlite3_column_blob(row, 10), *end = at ? at + sqlite3_column_bytes(row, 10) : NULL;
    uint64_t period = (uint64_t)sqlite3_column_int64(row, 5), quantum = (uint64_t)sqlite3_column_int64(row, 7);
    int columns = sqlite3_column_int(row, 8);
    uint64_t stack[4];
    while (next_stack(&at, end, columns, stack)) {
        const struct seen *seen = &s->seen[stack[3] < s->seen_count ? stack[3] : 0];
        uint64_t value = stack[1] * quantum, count = count_of(s, columns, value, stack[2], period);
        struct et_entry *all = &s->profile->label_sums[seen->sum];
        all->value += value;
        all->count += count;
        if (seen->wanted) {
            struct sum *sum = sum_of(s, stack[0], seen);
            sum->value += value;
            sum->count += count;
        }
        s->left_out |= !seen->wanted;
    }
}

/* Rows come latest first; of a level only those of each process' last interval count, which may have come in several
 * messages. */
static bool counts(struct sums *s, sqlite3_stmt *row)
{
    int64_t start = sqlite3_column_int64(row, 3), end = sqlite3_column_int64(row, 4);
    size_t before = s->latest.count;
    uint64_t *middle = et_map_at(&s->latest, (uint64_t)sqlite3_column_int64(row, 0));
    if (s->latest.count != before) {
        *middle = (uint64_t)(start / 2 + end / 2);
    }
    return !s->kind || !s->kind->level || end > (int64_t)*middle;
}

static void add_profile(struct sums *s, sqlite3_stmt *row)
{
    struct et_profile *p = s->profile;
    int64_t start = sqlite3_column_int64(row, 3), end = sqlite3_column_int64(row, 4);
    if (p->profiles == 0) {
        p->value_unit = et_intern(&p->strings, et_column_text(row, 2));
        p->period = (uint64_t)sqlite3_column_int64(row, 5);
    }
    p->start_ns = p->profiles == 0 || start < p->start_ns ? start : p->start_ns;
    p->end_ns = p->profiles == 0 || end > p->end_ns ? end : p->end_ns;
    p->profiles++;
    (void)et_map_at(&s->origins, (uint64_t)sqlite3_column_int64(row, 0));
    p->processes = s->origins.count;
    p->samples += (uint64_t)sqlite3_column_int64(row, 6);
    read_contexts(s, row);
    add_stacks(s, row);
}

static int sum_profiles(struct sums *s, const char *kind)
{
    const char *service = s->query->service ? s->query->service : "";
    sqlite3_stmt *row = et_store_bind(s->store, S_PROFILES, "iiss", s->query->from_ns, s->query->to_ns, service, kind);
    int got;
    while ((got = et_store_step(s->store, row)) == 1 && !s->err) {
        if (counts(s, row) && process_wanted(s, row)) {
            add_profile(s, row);
        }
    }
    if (s->left_out) {
        s->profile->samples = 0; /* nobody has counted those with these labels */
    }
    sqlite3_reset(row);
    return s->err ? s->err : got;
}

/* ---- dictionary ---- */

struct loader {
    struct et_store *store;
    struct et_profile *profile;
    struct et_map modules, frames, nodes; /* id in the store -> index in the profile, modules + 1 */
    uint32_t top;                         /* node that stacks stand under: 0, or that of their group */
    int err;
};

/* Whoever gets a row resets its statement after use: an open one would hold on to the state of the database. */
static bool row_of(struct loader *loader, sqlite3_stmt *statement)
{
    int got = et_store_step(loader->store, statement);
    if (got != 1) {
        loader->err = got ? got : -EIO;
    }
    return got == 1;
}

static uint32_t load_module(struct loader *loader, int64_t id)
{
    uint64_t *index = et_map_at(&loader->modules, (uint64_t)id);
    if (id && !*index) {
        sqlite3_stmt *row = et_store_bind(loader->store, S_MODULE_GET, "i", id);
        if (row_of(loader, row)) {
            *index = et_profile_module(loader->profile, et_column_text(row, 0), et_column_text(row, 1));
        }
        sqlite3_reset(row);
    }
    return (uint32_t)*index;
}

static uint32_t load_frame(struct loader *loader, int64_t id)
{
    uint64_t *known = et_map_find(&loader->frames, (uint64_t)id);
    if (known) {
        return (uint32_t)*known;
    }
    sqlite3_stmt *row = et_store_bind(loader->store, S_FRAME_GET, "i", id);
    if (!row_of(loader, row)) {
        return 0;
    }
    struct et_strings *strings = &loader->profile->strings;
    int64_t module = sqlite3_column_int64(row, 0);
    struct et_frame frame = {
        .address = (uint64_t)sqlite3_column_int64(row, 1),
        .name = et_intern(strings, et_column_text(row, 2)),
        .file = et_intern(strings, et_column_text(row, 3)),
        .line = (uint32_t)sqlite3_column_int64(row, 4),
    };
    sqlite3_reset(row);
    frame.module = load_module(loader, module);
    uint32_t index = et_profile_frame(loader->profile, frame);
    *et_map_at(&loader->frames, (uint64_t)id) = index;
    return index;
}

/* Parents first, so that indices only ever point back. A stack has at most ET_MAX_DEPTH nodes. */
static uint32_t load_node(struct loader *loader, int64_t id)
{
    int64_t ids[ET_MAX_DEPTH + 1], frames[ET_MAX_DEPTH + 1];
    size_t count = 0;
    while (id && !et_map_find(&loader->nodes, (uint64_t)id) && count <= ET_MAX_DEPTH) {
        sqlite3_stmt *row = et_store_bind(loader->store, S_NODE_GET, "i", id);
        if (!row_of(loader, row)) {
            return 0;
        }
        ids[count] = id;
        id = sqlite3_column_int64(row, 0);
        frames[count++] = sqlite3_column_int64(row, 1);
        sqlite3_reset(row);
    }
    uint64_t *known = et_map_find(&loader->nodes, (uint64_t)id);
    uint32_t node = id && known ? (uint32_t)*known : loader->top;
    while (count-- > 0 && !loader->err) {
        node = et_profile_node(loader->profile, node, load_frame(loader, frames[count]));
        *et_map_at(&loader->nodes, (uint64_t)ids[count]) = node;
    }
    return node;
}

/* A frame of that name under the root; nodes of the group before are of no use under it. */
static void begin_group(struct loader *loader, uint32_t group)
{
    et_map_free(&loader->nodes);
    loader->top =
        group ? et_profile_node(loader->profile, 0, et_profile_frame(loader->profile, (struct et_frame){.name = group}))
              : 0;
}

static int by_group(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    uint64_t first = (uint64_t)x->group << 32 | x->labels, second = (uint64_t)y->group << 32 | y->labels;
    return first != second ? (first < second ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

static int load_dictionary(struct et_store *store, struct sums *s)
{
    struct loader loader = {.store = store, .profile = s->profile};
    if (s->count) {
        qsort(s->sums, s->count, sizeof *s->sums, by_group);
    }
    for (size_t i = 0; i < s->count && !loader.err; i++) {
        const struct sum *sum = &s->sums[i];
        if (i == 0 || sum->group != s->sums[i - 1].group) {
            begin_group(&loader, sum->group);
        }
        uint32_t node = load_node(&loader, (int64_t)sum->node);
        et_profile_entry(
            s->profile,
            &(struct et_entry){.node = node, .labels = sum->labels, .count = sum->count, .value = sum->value});
    }
    et_map_free(&loader.modules);
    et_map_free(&loader.frames);
    et_map_free(&loader.nodes);
    return loader.err;
}

static int choose_kind(struct et_store *store, const struct et_query *query, struct et_buf *kind)
{
    if (query->kind && query->kind[0]) {
        et_buf_text(kind, query->kind);
        return 0;
    }
    sqlite3_stmt *row = et_store_bind(store, S_KIND, "s", query->service ? query->service : "");
    int got = et_store_step(store, row);
    et_buf_text(kind, got == 1 ? et_column_text(row, 0) : "cpu");
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

static void free_sums(struct sums *s)
{
    struct et_map *maps[] = {&s->nodes, &s->index, &s->pairs, &s->texts, &s->by_text, &s->latest, &s->origins};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        et_map_free(maps[i]);
    }
    free(s->sums);
    free(s->seen);
}

int et_store_load(struct et_store *store, const struct et_query *query, struct et_profile **out)
{
    struct et_profile *p = et_profile_new();
    struct sums sums = {.store = store, .query = query, .profile = p};
    struct et_buf kind = {0};
    /* one reading transaction: a message that arrives meanwhile is seen whole or not at all */
    sqlite3_exec(store->db, "BEGIN", NULL, NULL, NULL);
    int err = choose_kind(store, query, &kind);
    sums.kind = kind.data ? et_kind_named(kind.data) : NULL;
    p->kind = et_intern(&p->strings, kind.data ? kind.data : "");
    p->service = et_intern(&p->strings, query->service ? query->service : "");
    p->value_unit = et_intern(&p->strings, sums.kind ? sums.kind->unit : "");
    err = err ? err : sum_profiles(&sums, kind.data);
    err = err ? err : load_dictionary(store, &sums);
    sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
    et_buf_free(&kind);
    free_sums(&sums);
    if (err) {
        et_profile_free(p);
        return err;
    }
    et_profile_show(p, query->measure);
    *out = p;
    return 0;
}
