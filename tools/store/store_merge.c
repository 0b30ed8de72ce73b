/*
 * See store_keep.h: merging. One call is one transaction of bounded size. The bucket's row (see store_rows.h) records
 * the progress in the same transaction, so an interrupted merge continues where it stopped.
 *
 *   et_merge_step   merge_bucket -> merge_series -> merge_row -> merge_label_sets, merge_stacks
 *                                                -> combine_stacks, store_merged
 */
#include "tools/store/store_damage.h"
#include "tools/store/store_keep.h"
#include "tools/store/store_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Expected maximum delay of messages. Later ones are merged into an additional block. */
static const int64_t GRACE_NS = 120 * ET_NS_PER_S;

/* Reading and writing the rows of a series costs as much as merging so many stacks. */
enum { STACKS_A_SERIES = 500 };

struct merged_stack {
    uint64_t node, value, count; /* value in units */
    uint32_t label_set;
};

/* A merge of one series' rows into one row. */
struct series_merge {
    struct et_store *store;
    int level; /* target level */
    const struct et_series *series;
    bool is_level;
    struct et_map latest;
    struct et_row out;
    struct merged_stack *items;
    size_t count, capacity;
    struct et_strings known; /* label sets */
    struct et_stored_label_set *label_sets;
    size_t label_set_capacity;
    uint32_t *numbers; /* index into label sets for each label set of the current row */
    size_t number_count, number_capacity;
    struct et_unpacked unpacked;
    bool counts_known; /* counts follow from values and the period */
    bool overflow;
    struct et_total total;
};

/* ---- reading rows ---- */

static uint32_t add_label_set(struct series_merge *m, uint64_t labels, const uint64_t ids[3])
{
    struct et_buf key = {0};
    et_buf_printf(&key, "%llx.%llx.%llx.%llx", (unsigned long long)labels, (unsigned long long)ids[0],
                  (unsigned long long)ids[1], (unsigned long long)ids[2]);
    uint32_t number = et_intern(&m->known, key.data);
    et_buf_free(&key);
    m->label_sets = et_reserve(m->label_sets, &m->label_set_capacity, m->known.count, sizeof *m->label_sets);
    m->label_sets[number] = (struct et_stored_label_set){
        .labels = (int64_t)labels, .span_id = ids[0], .trace_high = ids[1], .trace_low = ids[2]};
    return number;
}

static void merge_label_sets(struct series_merge *m, struct et_blob label_sets)
{
    static const uint64_t none[3];
    const uint8_t *at = label_sets.bytes, *end = label_sets.size ? at + label_sets.size : at;
    uint64_t labels = 0, ids[3] = {0};
    m->number_count = 0;
    do {
        uint32_t number = add_label_set(m, labels, m->level > 1 ? none : ids);
        m->numbers = et_reserve(m->numbers, &m->number_capacity, m->number_count + 1, sizeof *m->numbers);
        m->numbers[m->number_count++] = number;
    } while (at < end && et_label_set_next(&at, end, &labels, ids));
}

static void merge_stacks(struct series_merge *m, const struct et_row *row)
{
    bool derived = m->series->cpu && !(row->columns & ET_COLUMN_COUNT);
    m->items = et_reserve(m->items, &m->capacity, m->count + m->unpacked.count, sizeof *m->items);
    for (size_t i = 0; i < m->unpacked.count; i++) {
        const struct et_packed *stack = &m->unpacked.stacks[i];
        uint64_t value;
        m->overflow |= __builtin_mul_overflow(stack->value, row->quantum, &value);
        m->counts_known &= derived && (!row->period || value % row->period == 0);
        m->items[m->count++] = (struct merged_stack){
            .node = stack->node,
            .value = value,
            .count = et_packed_count(m->series->cpu, row->columns, value, stack->count, row->period),
            .label_set = m->numbers[stack->label_set < m->number_count ? stack->label_set : 0],
        };
    }
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Rows come latest first. */
static void note_row_header(struct series_merge *m, const struct et_row *row)
{
    struct et_row *out = &m->out;
    bool first = out->profiles == 0;
    out->start_ns = first || row->start_ns < out->start_ns ? row->start_ns : out->start_ns;
    out->end_ns = first || row->end_ns > out->end_ns ? row->end_ns : out->end_ns;
    out->period = first ? row->period : out->period;
    m->counts_known &= row->period == out->period;
    out->profiles += row->profiles;
    out->samples += row->samples;
    out->quantum = common_divisor(out->quantum, row->quantum);
    out->columns |= row->columns & (ET_COLUMN_VALUE | ET_COLUMN_COUNT);
}

static int merge_row(struct series_merge *m, const struct et_row *row)
{
    if (m->is_level && !et_row_is_last(&m->latest, 0, row)) {
        return 0;
    }
    sqlite3_stmt *statement = et_stacks_bind(m->store, row->id);
    int got = et_store_step(m->store, statement);
    bool whole = got == 1 && et_row_unpack(&m->unpacked, row, et_column_blob(statement, 0)) == 0;
    if (whole && !et_total_add(&m->total, row, row->value_sum, row->count_sum)) {
        et_damage_note(m->store, row, m->series, "with it, the merged sum would reach 2^63");
        got = 0;
    } else if (whole) {
        note_row_header(m, row);
        merge_label_sets(m, et_column_blob(statement, 1));
        merge_stacks(m, row);
        got = 0;
    } else if (got >= 0) { /* the merged row is without it */
        et_damage_note(m->store, row, m->series, got ? "its stacks cannot be read" : "its stacks are missing");
        got = 0;
    }
    sqlite3_reset(statement);
    return got;
}

/* ---- writing the merged row ---- */

static int compare_nodes(const void *a, const void *b)
{
    const struct merged_stack *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    return x->label_set < y->label_set ? -1 : x->label_set > y->label_set;
}

static void combine_stacks(struct series_merge *m)
{
    size_t kept = 0;
    if (m->count) {
        qsort(m->items, m->count, sizeof *m->items, compare_nodes);
    }
    for (size_t i = 0; i < m->count; i++) {
        struct merged_stack *last = kept ? &m->items[kept - 1] : NULL;
        if (last && compare_nodes(last, &m->items[i]) == 0) {
            m->overflow |= __builtin_add_overflow(last->value, m->items[i].value, &last->value);
            last->count += m->items[i].count;
        } else {
            m->items[kept++] = m->items[i];
        }
    }
    m->count = kept;
}

/* Completes the merged row and packs its stacks. */
static void pack_merged(struct series_merge *m, struct et_stacks *stacks, struct et_buf *bytes)
{
    struct et_row *out = &m->out;
    out->quantum = m->overflow || !out->quantum ? 1 : out->quantum;
    if (m->overflow || (m->series->cpu && !m->counts_known)) {
        out->columns |= ET_COLUMN_COUNT;
    }
    out->columns |= m->known.count > 1 ? ET_COLUMN_LABEL_SET : 0;
    stacks->columns = (uint8_t)out->columns;
    for (size_t i = 0; i < m->count; i++) {
        const struct merged_stack *item = &m->items[i];
        struct et_stack stack = {.node = (int64_t)item->node,
                                 .value = item->value / out->quantum,
                                 .count = item->count,
                                 .label_set = m->label_sets[item->label_set]};
        et_stacks_add(stacks, &stack);
    }
    out->packing = et_pack(stacks, true, bytes);
}

static int store_merged(struct series_merge *m, int64_t bucket_ns)
{
    struct et_row *out = &m->out;
    struct et_stacks stacks = {0};
    struct et_buf bytes = {0};
    out->series = m->series->id;
    out->level = m->level;
    out->at_ns = bucket_ns + et_level_ns[m->level] / 2;
    pack_merged(m, &stacks, &bytes);
    int64_t id = et_store_add_row(m->store, out, m->series->cpu, (struct et_blob){bytes.data, bytes.size},
                                  (struct et_blob){stacks.label_sets.data, stacks.label_sets.size});
    et_buf_free(&bytes);
    et_stacks_free(&stacks);
    return id < 0 ? (int)id : 0;
}

static void free_merge(struct series_merge *m)
{
    et_map_free(&m->latest);
    et_strings_free(&m->known);
    et_unpacked_free(&m->unpacked);
    free(m->items);
    free(m->label_sets);
    free(m->numbers);
}

static int merge_series(struct et_store *store, const struct et_bucket *bucket, const struct et_row *rows, size_t count,
                        size_t *stacks)
{
    static const uint64_t none[3];
    struct et_selection selection = {0};
    int err = et_selection_one(store, rows[0].series, &selection);
    struct series_merge m = {.store = store, .level = bucket->level, .series = selection.series, .counts_known = true};
    add_label_set(&m, 0, none);
    for (size_t i = 0; i < count && !err; i++) {
        const struct et_kind *kind = et_kind_named(m.series->kind);
        m.is_level = kind && kind->level;
        err = merge_row(&m, &rows[i]);
    }
    *stacks += STACKS_A_SERIES + m.count;
    combine_stacks(&m);
    err = err ? err : store_merged(&m, bucket->start_ns);
    free_merge(&m);
    et_selection_free(&selection);
    return err;
}

int et_merge_rows(struct et_store *store, const struct et_series *series, const struct et_row *rows, size_t count,
                  struct et_merged *out)
{
    static const uint64_t none[3];
    struct series_merge m = {.store = store, .level = ET_ROLLUP, .series = series, .counts_known = true};
    struct et_stacks stacks = {0};
    int err = 0;
    add_label_set(&m, 0, none);
    for (size_t i = 0; i < count && !err; i++) {
        err = merge_row(&m, &rows[i]);
    }
    out->read = m.count;
    combine_stacks(&m);
    pack_merged(&m, &stacks, &out->stacks);
    out->row = m.out;
    et_buf_add(&out->label_sets, stacks.label_sets.data, stacks.label_sets.size);
    et_stacks_free(&stacks);
    free_merge(&m);
    return err;
}

void et_merged_free(struct et_merged *merged)
{
    et_buf_free(&merged->stacks);
    et_buf_free(&merged->label_sets);
}

/* ---- buckets ---- */

/* By series; within a series the latest first. */
static int compare_merge_rows(const void *a, const void *b)
{
    const struct et_row *x = a, *y = b;
    if (x->series != y->series) {
        return x->series < y->series ? -1 : 1;
    }
    if (x->start_ns != y->start_ns) {
        return x->start_ns > y->start_ns ? -1 : 1;
    }
    return x->id > y->id ? -1 : x->id < y->id;
}

/* Reads the rows that the bucket's merge pass has not merged yet. */
static int read_sources(struct et_store *store, const struct et_bucket *bucket, struct et_rows *out)
{
    int below = bucket->level - 1;
    sqlite3_stmt *statement =
        et_rows_bind(store, below, bucket->start_ns, bucket->start_ns + et_level_ns[bucket->level]);
    int got;
    while ((got = et_store_step(store, statement)) == 1) {
        struct et_row row = et_row_of(statement, below);
        if (row.id <= bucket->high && !et_bucket_merged(bucket, row.id, row.series)) {
            out->rows = et_reserve(out->rows, &out->capacity, out->count + 1, sizeof *out->rows);
            out->rows[out->count++] = row;
        }
    }
    if (out->count) {
        qsort(out->rows, out->count, sizeof *out->rows, compare_merge_rows);
    }
    return got;
}

/* Continues the bucket's merge pass, or starts one. */
static int merge_bucket(struct et_store *store, struct et_bucket *bucket, int64_t count_ns, size_t most)
{
    struct et_rows rows = {0};
    size_t at = 0, stacks = 0;
    if (bucket->low == bucket->high) {
        int64_t last = et_store_last(store);
        if (last < 0) {
            return (int)last;
        }
        bucket->high = last;
        bucket->done = 0;
        bucket->seen_ns = count_ns;
        bucket->dirty = false;
    }
    int err = read_sources(store, bucket, &rows);
    while (at < rows.count && !err && stacks < most) {
        size_t first = at;
        while (at < rows.count && rows.rows[at].series == rows.rows[first].series) {
            at++;
        }
        err = merge_series(store, bucket, &rows.rows[first], at - first, &stacks);
        bucket->done = rows.rows[first].series;
    }
    if (at == rows.count) {
        bucket->low = bucket->high;
    }
    free(rows.rows);
    return err ? err : et_bucket_put(store, bucket);
}

static const char BUCKET_DUE[] =
    "SELECT " ET_BUCKET_COLUMNS
    ", level FROM bucket WHERE (dirty OR low <> high) AND start_ns <= CASE level WHEN 1 THEN ?1 ELSE ?2 END"
    " ORDER BY level, start_ns LIMIT 1";

int et_merge_step(struct et_store *store, const struct et_keep_time *now, size_t stacks)
{
    struct et_bucket bucket;
    int64_t due = now->clock_ns - GRACE_NS;
    sqlite3_stmt *row = et_store_bind(store, BUCKET_DUE, "ii", due - et_level_ns[1], due - et_level_ns[2]);
    int got = et_store_step(store, row);
    if (got == 1) {
        bucket = et_bucket_of(row, sqlite3_column_int(row, 9));
        sqlite3_reset(row);
        got = merge_bucket(store, &bucket, now->count_ns, stacks);
        got = got ? got : 1;
    }
    return got;
}
