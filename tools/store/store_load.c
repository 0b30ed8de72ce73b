/*
 * See store.h: loading a profile. First the chosen rows are summed by (node, labels); then each node, frame and module
 * that occurs is read once.
 *
 *   et_store_load   load_rows -> load_row -> read_contexts -> add_query_context
 *                                -> load_stacks -> add_sums
 *                   et_dictionary_load
 */
#include "tools/lib/hash.h"
#include "tools/store/store_dictionary.h"
#include "tools/store/store_rollup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sums of nodes below DIRECT_NODES are in pages of PAGE_NODES indexed by node id, up to DIRECT_MOST bytes. Stored
 * blocks are sorted by node id, too. */
enum { DIRECT_NODES = 1 << 19, PAGE_NODES = 512, PAGES = DIRECT_NODES / PAGE_NODES, DIRECT_MOST = 64 << 20 };

/* A stored context as the query sees it. */
struct query_context {
    uint32_t sum;  /* index into the profile's label_sums */
    uint32_t pair; /* index of its labels and group */
    bool wanted;
};

struct sum_pair {
    uint64_t value, count;
};

/* The labels of entries, and the group frame above them. */
struct label_group {
    uint32_t labels, group;
    struct sum_pair **pages; /* of PAGE_NODES each; NULL: none */
};

struct profile_loader {
    struct et_store *store;
    const struct et_query *query;
    struct et_profile *profile;
    const struct et_kind *kind; /* NULL: not in kinds.h */
    bool ids;                   /* the query distinguishes spans or traces */
    struct et_selection selection;
    const struct et_series *series; /* of the current row */
    struct et_buf inflated;
    struct label_group *pairs;
    size_t pair_count, pair_capacity, direct_bytes;
    struct et_map pair_index; /* labels << 32 | group -> pair + 1 */
    struct et_sum *sums;      /* outside the arrays, each (node, labels, group) once */
    size_t count, capacity;
    uint32_t *slots; /* hash table of the sums: index + 1 */
    size_t slot_count;
    struct et_map texts;   /* labels in the store -> string number + 1 */
    struct et_map by_text; /* string number -> index into label_sums + 1 */
    struct et_map latest;  /* series -> middle of its last interval */
    struct et_map origins; /* that have a row in the result */
    struct query_context *seen;
    size_t seen_count, seen_capacity;
    struct et_map known; /* series << 32 | labels -> seen + 1 */
    uint32_t *contexts;  /* of the current row: number -> seen */
    size_t context_count, context_capacity;
    size_t held;              /* bytes counted in the store's budget */
    bool began;               /* this query began the read transaction */
    bool one_row;             /* whose stacks need no table to be found again */
    struct sum_pair left_out; /* stacks that were excluded by their labels */
    int err;
};

/* ---- memory ---- */

static size_t map_memory(const struct et_map *map)
{
    return map->capacity * sizeof *map->entries;
}

static size_t loader_memory(const struct profile_loader *s)
{
    const struct et_map *const maps[] = {&s->pair_index, &s->texts, &s->by_text, &s->latest, &s->origins, &s->known};
    size_t bytes = et_profile_memory(s->profile) + s->pair_capacity * sizeof *s->pairs + s->capacity * sizeof *s->sums +
                   s->slot_count * sizeof *s->slots + s->seen_capacity * sizeof *s->seen +
                   s->context_capacity * sizeof *s->contexts;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        bytes += map_memory(maps[i]);
    }
    return bytes + s->direct_bytes;
}

/* ---- contexts ---- */

static uint32_t label_text(struct profile_loader *s, int64_t labels)
{
    uint64_t *known = et_map_at(&s->texts, (uint64_t)labels);
    if (!*known && !s->err) {
        struct et_buf lines = {0};
        s->err = et_store_labels_text(s->store, labels, &lines);
        *known = 1 + et_intern(&s->profile->strings, lines.data);
        et_buf_free(&lines);
    }
    return *known ? (uint32_t)*known - 1 : 0;
}

static uint32_t find_group(struct profile_loader *s, const char *labels)
{
    struct et_buf name = {0};
    size_t size = 0;
    if (s->query->process_count) {
        et_buf_printf(&name, "%lld", (long long)s->series->origin);
        uint32_t process = et_intern(&s->profile->strings, name.data);
        et_buf_free(&name);
        return process;
    }
    if (!s->query->group) {
        return 0;
    }
    const char *value = et_process_value(labels, &s->series->process, s->query->group, &size);
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

static uint32_t find_label_sum(struct profile_loader *s, uint32_t lines)
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

static uint32_t find_pair(struct profile_loader *s, uint32_t labels, uint32_t group)
{
    uint64_t *known = et_map_at(&s->pair_index, (uint64_t)labels << 32 | group);
    if (!*known) {
        s->pairs = et_reserve(s->pairs, &s->pair_capacity, s->pair_count + 1, sizeof *s->pairs);
        s->pairs[s->pair_count] = (struct label_group){.labels = labels, .group = group};
        *known = ++s->pair_count;
    }
    return (uint32_t)*known - 1;
}

/* Returns the context's index in seen. */
static uint32_t add_query_context(struct profile_loader *s, int64_t labels, const uint64_t ids[3])
{
    s->err = s->err ? s->err : et_store_late(s->store);
    uint32_t text = label_text(s, labels);
    char *lines = et_context_text(et_text(&s->profile->strings, text), ids);
    struct query_context seen = {.sum = find_label_sum(s, text), .wanted = !s->err};
    for (size_t i = 0; i < s->query->matcher_count && seen.wanted; i++) {
        seen.wanted = et_process_matches(&s->query->matchers[i], lines, &s->series->process);
    }
    uint32_t carried = s->query->keep_labels ? et_intern(&s->profile->strings, lines) : 0;
    seen.pair = find_pair(s, carried, find_group(s, lines));
    s->seen = et_reserve(s->seen, &s->seen_capacity, s->seen_count + 1, sizeof *s->seen);
    s->seen[s->seen_count] = seen;
    free(lines);
    return (uint32_t)s->seen_count++;
}

static void add_context(struct profile_loader *s, uint64_t series, uint64_t labels, const uint64_t ids[3])
{
    static const uint64_t none[3];
    uint32_t number;
    if (s->ids && (ids[0] || ids[1] || ids[2])) {
        number = add_query_context(s, (int64_t)labels, ids);
    } else {
        uint64_t *known = et_map_at(&s->known, series << 32 | labels);
        *known = *known ? *known : 1u + add_query_context(s, (int64_t)labels, none);
        number = (uint32_t)*known - 1;
    }
    s->contexts = et_reserve(s->contexts, &s->context_capacity, s->context_count + 1, sizeof *s->contexts);
    s->contexts[s->context_count++] = number;
}

static void read_contexts(struct profile_loader *s, uint64_t series, struct et_blob contexts)
{
    const uint8_t *at = contexts.bytes, *end = contexts.size ? at + contexts.size : at;
    uint64_t labels, ids[3] = {0};
    s->context_count = 0;
    add_context(s, series, 0, ids);
    while (at < end && et_context_next(&at, end, &labels, ids)) {
        add_context(s, series, labels, ids);
    }
}

/* ---- sums ---- */

static uint32_t add_sum(struct profile_loader *s, uint64_t node, const struct label_group *pair)
{
    s->sums = et_reserve(s->sums, &s->capacity, s->count + 1, sizeof *s->sums);
    s->sums[s->count] = (struct et_sum){.node = node, .labels = pair->labels, .group = pair->group};
    return (uint32_t)++s->count;
}

/* The slot of the sum, or the free one for it. */
static uint32_t *find_slot(const struct profile_loader *s, uint64_t node, uint32_t labels, uint32_t group)
{
    size_t mask = s->slot_count - 1, i = (size_t)et_hash_pair(node, (uint64_t)labels << 32 | group) & mask;
    while (s->slots[i]) {
        const struct et_sum *sum = &s->sums[s->slots[i] - 1];
        if (sum->node == node && sum->labels == labels && sum->group == group) {
            break;
        }
        i = (i + 1) & mask;
    }
    return &s->slots[i];
}

static void grow_slots(struct profile_loader *s)
{
    free(s->slots);
    s->slot_count = s->slot_count ? s->slot_count * 2 : 128;
    s->slots = et_alloc(s->slot_count, sizeof *s->slots);
    for (size_t i = 0; i < s->count; i++) {
        *find_slot(s, s->sums[i].node, s->sums[i].labels, s->sums[i].group) = (uint32_t)i + 1;
    }
}

static struct et_sum *find_sum(struct profile_loader *s, uint64_t node, const struct label_group *pair)
{
    if (s->count * 2 >= s->slot_count) {
        grow_slots(s);
    }
    uint32_t *slot = find_slot(s, node, pair->labels, pair->group);
    *slot = *slot ? *slot : add_sum(s, node, pair);
    return &s->sums[*slot - 1];
}

/* The page of a pair with this node; NULL: its sums are not in pages. */
static struct sum_pair *find_page(struct profile_loader *s, struct label_group *pair, uint64_t node)
{
    enum { TABLE_BYTES = PAGES * sizeof(struct sum_pair *), PAGE_BYTES = PAGE_NODES * sizeof(struct sum_pair) };
    if (node >= DIRECT_NODES) {
        return NULL;
    }
    if (!pair->pages && s->direct_bytes + TABLE_BYTES <= DIRECT_MOST) {
        pair->pages = et_alloc(PAGES, sizeof *pair->pages);
        s->direct_bytes += TABLE_BYTES;
    }
    struct sum_pair **page = pair->pages ? &pair->pages[node / PAGE_NODES] : NULL;
    if (page && !*page && s->direct_bytes + PAGE_BYTES <= DIRECT_MOST) {
        *page = et_alloc(PAGE_NODES, sizeof **page);
        s->direct_bytes += PAGE_BYTES;
    }
    return page ? *page : NULL;
}

static inline void add_sums(struct profile_loader *s, uint64_t node, uint32_t number, struct sum_pair figures)
{
    struct label_group *pair = &s->pairs[number];
    if (s->one_row) {
        uint32_t sum = add_sum(s, node, pair) - 1;
        s->sums[sum].value = figures.value;
        s->sums[sum].count = figures.count;
        return;
    }
    struct sum_pair *page = pair->pages && node < DIRECT_NODES ? pair->pages[node / PAGE_NODES] : NULL;
    page = page ? page : find_page(s, pair, node);
    if (page) {
        page[node % PAGE_NODES].value += figures.value;
        page[node % PAGE_NODES].count += figures.count;
        return;
    }
    struct et_sum *sum = find_sum(s, node, pair);
    sum->value += figures.value;
    sum->count += figures.count;
}

/* Moves the sums of a page to the other sums. */
static void collect_page(struct profile_loader *s, const struct label_group *pair, size_t number)
{
    for (size_t i = 0; i < PAGE_NODES; i++) {
        const struct sum_pair *figures = &pair->pages[number][i];
        if (figures->value || figures->count) {
            uint32_t sum = add_sum(s, number * PAGE_NODES + i, pair) - 1;
            s->sums[sum].value = figures->value;
            s->sums[sum].count = figures->count;
        }
    }
}

static void collect_pages(struct profile_loader *s)
{
    for (size_t i = 0; i < s->pair_count; i++) {
        const struct label_group *pair = &s->pairs[i];
        for (size_t number = 0; pair->pages && number < PAGES; number++) {
            if (pair->pages[number]) {
                collect_page(s, pair, number);
            }
        }
    }
}

static void free_pages(struct label_group *pair)
{
    for (size_t i = 0; pair->pages && i < PAGES; i++) {
        free(pair->pages[i]);
    }
    free(pair->pages);
}

/* A difference may have left them, and they say nothing. */
static void remove_zeros(struct profile_loader *s)
{
    struct et_profile *p = s->profile;
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->sums[i].value || s->sums[i].count) {
            s->sums[kept++] = s->sums[i];
        }
    }
    s->count = kept;
    kept = 0;
    for (size_t i = 0; i < p->label_count; i++) {
        if (p->label_sums[i].value || p->label_sums[i].count) {
            p->label_sums[kept++] = p->label_sums[i];
        }
    }
    p->label_count = kept;
}

/* Properties of a row that its stacks share. */
struct row_reader {
    const struct et_row *row;
    bool cpu, counted;
    bool whole; /* each value equals its count times the period: saves a division per stack */
};

static inline uint64_t stack_count(const struct row_reader *reading, const struct et_packed *stack, uint64_t value)
{
    if (reading->whole && stack->value <= UINT32_MAX) {
        return stack->value;
    }
    const struct et_row *row = reading->row;
    return reading->counted ? et_packed_count(reading->cpu, row->columns, value, stack->count, row->period) : 0;
}

/* Returns what follows, NULL: malformed. */
static const uint8_t *long_number(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    return et_varint_get(&at, end, value) ? at : NULL;
}

static inline const uint8_t *next_number(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    if (end - at >= 2 && at[0] >= 0x80 && at[1] < 0x80) {
        *value = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        return at + 2;
    }
    if (at < end && *at < 0x80) {
        *value = *at;
        return at + 1;
    }
    return long_number(at, end, value);
}

/* Most rows have no labels and no counts of their own, so all stacks go to one pair. */
static int load_plain(struct profile_loader *s, const struct row_reader *reading, const struct et_stack_reader *blob)
{
    const struct et_row *row = reading->row;
    const struct query_context *seen = &s->seen[s->contexts[0]];
    struct label_group *pair = &s->pairs[seen->pair];
    struct sum_pair all = {0}, *page = NULL;
    struct et_packed stack = {0};
    const uint8_t *nodes = blob->at[0], *values = blob->at[1];
    const uint64_t sign = row->use == ET_USE_MINUS ? UINT64_MAX : 1; /* modulo 2^64, as all sums */
    uint64_t step, now = UINT64_MAX;
    while (nodes != blob->end[0]) {
        nodes = next_number(nodes, blob->end[0], &step);
        values = nodes ? next_number(values, blob->end[1], &stack.value) : NULL;
        if (!values) {
            return -EIO;
        }
        stack.node += step >> 1 ^ (0 - (step & 1));
        uint64_t value = stack.value * row->quantum, count = stack_count(reading, &stack, value);
        struct sum_pair figures = {value * sign, count * sign};
        all.value += figures.value;
        all.count += figures.count;
        if (!seen->wanted) {
            continue;
        }
        if (stack.node / PAGE_NODES != now) {
            now = stack.node / PAGE_NODES;
            page = find_page(s, pair, stack.node);
        }
        if (page) {
            page[stack.node % PAGE_NODES].value += figures.value;
            page[stack.node % PAGE_NODES].count += figures.count;
        } else {
            add_sums(s, stack.node, seen->pair, figures);
        }
    }
    s->profile->label_sums[seen->sum].value += all.value;
    s->profile->label_sums[seen->sum].count += all.count;
    s->left_out.value += seen->wanted ? 0 : all.value;
    s->left_out.count += seen->wanted ? 0 : all.count;
    return values == blob->end[1] ? 0 : -EIO;
}

/* Returns 0, or -EIO for malformed bytes, of which some are added then. */
static int load_stacks(struct profile_loader *s, const struct et_row *row, struct et_blob stacks)
{
    struct row_reader reading = {.row = row, .counted = !s->kind || s->kind->counts[0]};
    reading.cpu = s->kind && strcmp(s->kind->name, ET_CPU) == 0;
    reading.whole = reading.cpu && !(row->columns & ET_COLUMN_COUNT) && row->quantum == row->period && row->period &&
                    row->period <= INT32_MAX;
    struct et_stack_reader blob;
    struct et_packed stack;
    int got = et_stacks_read(&blob, &s->inflated, row->packing, row->columns, stacks.bytes, stacks.size);
    if (got == 0 && row->columns == ET_COLUMN_VALUE && !s->one_row && blob.at[2] == blob.end[3]) {
        return load_plain(s, &reading, &blob);
    }
    while (got >= 0 && (got = et_stack_next(&blob, &stack)) == 1) {
        const struct query_context *seen = &s->seen[s->contexts[stack.context < s->context_count ? stack.context : 0]];
        uint64_t value = stack.value * row->quantum, count = stack_count(&reading, &stack, value);
        struct et_entry *all = &s->profile->label_sums[seen->sum];
        if (row->use == ET_USE_MINUS) { /* modulo 2^64, as all sums */
            value = 0 - value;
            count = 0 - count;
        }
        all->value += value;
        all->count += count;
        if (seen->wanted) {
            add_sums(s, stack.node, seen->pair, (struct sum_pair){value, count});
        } else {
            s->left_out.value += value;
            s->left_out.count += count;
        }
    }
    return got;
}

static void note_row_header(struct profile_loader *s, const struct et_row *row)
{
    struct et_profile *p = s->profile;
    if (p->profiles == 0 || row->end_ns > p->end_ns) { /* of the latest row */
        p->value_unit = et_intern(&p->strings, s->series->unit);
        p->period = row->period;
    }
    p->start_ns = p->profiles == 0 || row->start_ns < p->start_ns ? row->start_ns : p->start_ns;
    p->end_ns = p->profiles == 0 || row->end_ns > p->end_ns ? row->end_ns : p->end_ns;
    p->profiles += row->profiles;
    p->samples += row->samples;
}

static void note_process(struct profile_loader *s, const struct et_series *series)
{
    (void)et_map_at(&s->origins, (uint64_t)series->origin);
    s->profile->processes = s->origins.count;
}

/* The processes of a roll-up, all of which are selected. */
static void note_members(struct profile_loader *s, struct et_blob members)
{
    const uint8_t *at = members.bytes, *end = members.size ? at + members.size : at;
    int64_t row = 0, series;
    while (et_rollup_next(&at, end, &row, &series)) {
        const uint64_t *index = et_map_find(&s->selection.index, (uint64_t)series);
        if (index) {
            note_process(s, &s->selection.series[*index - 1]);
        }
    }
}

static int load_row(struct profile_loader *s, const struct et_row *row)
{
    bool rollup = row->level == ET_ROLLUP, header = row->use == ET_USE_ALL || row->use == ET_USE_HEADER;
    s->series = &s->selection.series[row->series];
    if (header) {
        note_row_header(s, row);
        note_process(s, s->series);
    }
    if (row->use == ET_USE_HEADER) {
        return 0;
    }
    sqlite3_stmt *statement = rollup ? et_rollup_bind(s->store, row->id) : et_stacks_bind(s->store, row->id);
    int got = et_store_step(s->store, statement);
    if (got == 1) {
        note_members(s, rollup && header ? et_column_blob(statement, 2) : (struct et_blob){0});
        struct et_blob stacks = et_column_blob(statement, 0);
        read_contexts(s, (uint64_t)row->series, et_column_blob(statement, 1));
        got = load_stacks(s, row, stacks);
    } else {
        got = got ? got : -EIO;
    }
    sqlite3_reset(statement);
    return got;
}

static bool is_wanted_id(const struct et_query *query, const struct et_row *row)
{
    for (size_t i = 0; i < query->id_count; i++) {
        if (row->level == 0 && row->id == query->ids[i]) {
            return true;
        }
    }
    return query->id_count == 0;
}

/* In file order, so that the system reads ahead. */
static int compare_row_ids(const void *a, const void *b)
{
    const struct et_row *x = a, *y = b;
    bool first = x->level == ET_ROLLUP, second = y->level == ET_ROLLUP; /* another table */
    return first != second ? first - second : x->id < y->id ? -1 : x->id > y->id;
}

static int choose_rows(struct profile_loader *s, bool level, struct et_rows *rows)
{
    const struct et_query *query = s->query;
    const struct et_selection *selection = &s->selection;
    if (query->id_count || s->ids || level) {
        int coarsest = query->id_count ? 0 : s->ids ? 1 : 2;
        return et_rows_choose(s->store, selection, query->from_ns, query->to_ns, coarsest, rows);
    }
    bool rollups = et_rollup_serves(query, level);
    return et_rows_choose_sums(s->store, selection, query->from_ns, query->to_ns, rollups, rows);
}

static int load_rows(struct profile_loader *s, const char *kind)
{
    struct et_rows rows = {0};
    const struct et_query *query = s->query;
    s->ids = query->keep_labels || et_query_asks_ids(query);
    bool level = s->kind && s->kind->level;
    int err = et_selection_make(s->store, query, kind, ET_SLACK_NS, &s->selection);
    err = err ? err : choose_rows(s, level, &rows);
    size_t own = rows.capacity * sizeof *rows.rows;
    err = err ? err : et_store_hold(s->store, &s->held, own);
    if (!level && rows.count) {
        qsort(rows.rows, rows.count, sizeof *rows.rows, compare_row_ids);
    }
    for (size_t i = 0; i < rows.count && !err; i++) {
        if (!is_wanted_id(query, &rows.rows[i])) {
            continue;
        }
        if (!level || et_row_is_last(&s->latest, (uint64_t)rows.rows[i].series, &rows.rows[i])) {
            err = load_row(s, &rows.rows[i]);
            err = err ? err : s->err;
            err = err ? err : et_store_hold(s->store, &s->held, own + loader_memory(s));
        }
    }
    if (s->left_out.value || s->left_out.count) {
        s->profile->samples = 0; /* the number of samples is unknown for a subset of labels */
    }
    free(rows.rows);
    return err;
}

static void free_sums(struct profile_loader *s)
{
    struct et_map *maps[] = {&s->pair_index, &s->texts, &s->by_text, &s->latest, &s->origins, &s->known};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        et_map_free(maps[i]);
    }
    for (size_t i = 0; i < s->pair_count; i++) {
        free_pages(&s->pairs[i]);
    }
    free(s->pairs);
    free(s->sums);
    free(s->slots);
    free(s->seen);
    free(s->contexts);
    et_buf_free(&s->inflated);
    et_selection_free(&s->selection);
}

/* Sets the profile's header before any row is added. */
static void begin_sums(struct profile_loader *s, const char *service, const char *kind)
{
    struct et_profile *p = s->profile = et_profile_new();
    s->kind = et_kind_named(kind);
    p->kind = et_intern(&p->strings, kind);
    p->service = et_intern(&p->strings, service);
    p->value_unit = et_intern(&p->strings, s->kind ? s->kind->unit : "");
}

/* Makes the profile from the sums, unless there was an error. */
static int finish_sums(struct profile_loader *s, int err, struct et_profile **out)
{
    collect_pages(s);
    remove_zeros(s);
    err = err ? err : et_store_hold(s->store, &s->held, loader_memory(s));
    err = err ? err : et_dictionary_load(s->store, s->profile, s->sums, s->count);
    et_store_reading_done(s->store, s->began);
    (void)et_budget_hold(s->store->budget, &s->held, err ? 0 : et_profile_memory(s->profile));
    if (err) {
        et_profile_free(s->profile);
    } else {
        et_profile_show(s->profile, s->query->measure);
        *out = s->profile;
    }
    free_sums(s);
    return err;
}

int et_store_load(struct et_store *store, const struct et_query *query, struct et_profile **out)
{
    struct profile_loader sums = {.store = store, .query = query};
    struct et_buf kind = {0};
    /* one read transaction, so that an arriving message is included entirely or not at all */
    sums.began = et_store_reading(store);
    et_buf_text(&kind, "");
    int err = et_store_choose_kind(store, query, &kind);
    begin_sums(&sums, query->service ? query->service : "", kind.data);
    err = err ? err : load_rows(&sums, kind.data);
    et_buf_free(&kind);
    return finish_sums(&sums, err, out);
}

static const char ROW_NEXT[] = "SELECT " ET_ROW_COLUMNS " FROM profile WHERE id > ? AND NOT level ORDER BY id LIMIT 1";

static int next_row(struct et_store *store, int64_t after, struct et_row *out)
{
    sqlite3_stmt *row = et_store_bind(store, ROW_NEXT, "i", after);
    int got = et_store_step(store, row);
    if (got == 1) {
        *out = et_row_of(row, 0);
        sqlite3_reset(row);
    }
    return got;
}

int et_store_next(struct et_store *store, int64_t after, struct et_arrival *out)
{
    static const struct et_query all = {.keep_labels = true};
    struct profile_loader sums = {.store = store, .query = &all, .ids = true, .one_row = true};
    struct et_row row;
    sums.began = et_store_reading(store);
    int got = next_row(store, after, &row);
    if (got != 1) {
        et_store_reading_done(store, sums.began);
        return got;
    }
    int err = et_selection_one(store, row.series, &sums.selection);
    const struct et_series *series = sums.selection.series;
    int64_t origin = series ? series->origin : 0;
    begin_sums(&sums, series ? series->service : "", series ? series->kind : "");
    row.series = 0;
    err = err ? err : load_row(&sums, &row);
    err = err ? err : sums.err; /* without their labels the stacks are not complete */
    got = err ? err : et_store_origin_get(store, origin, &sums.profile->strings, &out->origin);
    out->id = row.id;
    err = finish_sums(&sums, got == 1 ? 0 : got ? got : -EIO, &out->profile);
    return err ? err : 1;
}
