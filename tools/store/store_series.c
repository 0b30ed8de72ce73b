/*
 * See store.h: sums over time. A row has its sums; its stacks are read only when the query depends on their labels.
 *
 *   et_store_series   sum_all_rows -> sum_row -> add_to_line, or sum_row_stacks
 *                     finish_lines
 */
#include "tools/lib/labels.h"
#include "tools/store/store_damage.h"
#include "tools/store/store_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char OTHERS[] = "[others]";

struct timeline_line {
    uint64_t *values, *counts, value, count;
};

struct timeline_builder {
    struct et_store *store;
    const struct et_query *query;
    struct et_timeline *out;
    const struct et_kind *kind;
    struct et_selection selection;
    int64_t end_ns; /* of the levels: the range's, or that of the last profile */
    bool labelled;  /* the query depends on labels of stacks */
    struct et_unpacked unpacked;
    struct et_strings names; /* of the lines, in order */
    struct timeline_line *lines;
    size_t capacity;
    struct et_map latest; /* series * steps + step -> middle of its last interval */
    struct et_map known;  /* series << 32 | labels -> line + 2; 1: excluded */
    size_t held, made;    /* bytes counted in the database's budget; lines with values */
};

/* ---- lines ---- */

/* The line of a name. The number of lines is limited; further names share one. */
static uint32_t find_line(struct timeline_builder *l, const char *name)
{
    enum { KEPT = 10 * ET_TIMELINE_LINES };
    uint32_t number = et_intern(&l->names, l->names.count < KEPT ? name : OTHERS);
    l->lines = et_reserve(l->lines, &l->capacity, (size_t)number + 1, sizeof *l->lines);
    if (!l->lines[number].values) {
        l->lines[number].values = et_alloc(l->out->steps, sizeof(uint64_t));
        l->lines[number].counts = et_alloc(l->out->steps, sizeof(uint64_t));
        l->made++;
    }
    return number;
}

static uint32_t group_line(struct timeline_builder *l, const struct et_series *series, const char *labels)
{
    struct et_buf key = {0}, name = {0};
    const char *rest = l->query->group;
    et_buf_text(&name, "");
    for (bool first = true; et_group_next(&rest, &key); first = false) {
        size_t size = 0;
        const char *value = et_process_value(labels, &series->process, key.data, &size);
        et_buf_text(&name, first ? "" : "\n");
        et_buf_add(&name, value ? value : "", size);
    }
    uint32_t number = find_line(l, name.data);
    et_buf_free(&name);
    et_buf_free(&key);
    return number;
}

/* A sum that would reach 2^63, by a sender's wrong figures, stays below it. */
static uint64_t add_bounded(uint64_t sum, uint64_t more)
{
    return more < INT64_MAX - sum ? sum + more : INT64_MAX;
}

static void add_to_line(struct timeline_builder *l, uint32_t line, size_t step, uint64_t value, uint64_t count)
{
    struct timeline_line *to = &l->lines[line];
    to->values[step] = add_bounded(to->values[step], value);
    to->counts[step] = add_bounded(to->counts[step], count);
    to->value = add_bounded(to->value, value);
    to->count = add_bounded(to->count, count);
}

/* ---- rows ---- */

static bool label_set_matches(const struct timeline_builder *l, const struct et_series *series, const char *labels)
{
    for (size_t i = 0; i < l->query->matcher_count; i++) {
        if (!et_process_matches(&l->query->matchers[i], labels, &series->process)) {
            return false;
        }
    }
    return true;
}

/* The line of a label set + 2; 1: excluded; or an error. */
static int64_t find_label_set_line(struct timeline_builder *l, const struct et_series *series, uint64_t labels,
                                   const uint64_t ids[3])
{
    struct et_buf lines = {0};
    int err = et_store_labels_text(l->store, (int64_t)labels, &lines);
    err = err ? err : et_store_late(l->store);
    char *full = et_label_set_text(lines.data, ids);
    int64_t line = label_set_matches(l, series, full) ? (int64_t)group_line(l, series, full) + 2 : 1;
    free(full);
    et_buf_free(&lines);
    return err ? err : line;
}

/* Writes the lines of a row's label sets to numbers[]. Returns their number or an error. */
static int64_t read_label_set_lines(struct timeline_builder *l, const struct et_row *row, struct et_blob label_sets,
                                    int64_t **numbers)
{
    const struct et_series *series = &l->selection.series[row->series];
    const uint8_t *at = label_sets.bytes, *end = label_sets.size ? at + label_sets.size : at;
    uint64_t labels = 0, ids[3] = {0};
    size_t count = 0, capacity = 0;
    do {
        uint64_t *known = NULL, own = 0;
        if (!ids[0] && !ids[1] && !ids[2]) {
            known = et_map_at(&l->known, (uint64_t)row->series << 32 | labels);
            own = *known;
        }
        int64_t line = own ? (int64_t)own : find_label_set_line(l, series, labels, ids);
        if (line < 0) {
            return line;
        }
        if (known) {
            *known = (uint64_t)line;
        }
        *numbers = et_reserve(*numbers, &capacity, count + 1, sizeof **numbers);
        (*numbers)[count++] = line;
    } while (at < end && et_label_set_next(&at, end, &labels, ids));
    return (int64_t)count;
}

static int sum_row_stacks(struct timeline_builder *l, const struct et_row *row, size_t step)
{
    sqlite3_stmt *statement = et_stacks_bind(l->store, row->id);
    int got = et_store_step(l->store, statement);
    if (got < 0) {
        return got;
    }
    if (!got || et_row_unpack(&l->unpacked, row, et_column_blob(statement, 0))) {
        sqlite3_reset(statement);
        et_damage_note(l->store, row, &l->selection.series[row->series], "its stacks cannot be read");
        return 0;
    }
    int64_t *numbers = NULL, count = read_label_set_lines(l, row, et_column_blob(statement, 1), &numbers);
    int err = count < 0 ? (int)count : 0;
    for (size_t i = 0; !err && i < l->unpacked.count; i++) {
        const struct et_packed *stack = &l->unpacked.stacks[i];
        int64_t line = numbers[stack->label_set < count ? stack->label_set : 0];
        uint64_t value = stack->value * row->quantum;
        bool cpu = l->kind && strcmp(l->kind->name, ET_CPU) == 0;
        if (line > 1) {
            add_to_line(l, (uint32_t)line - 2, step, value,
                        et_packed_count(cpu, row->columns, value, stack->count, row->period));
        }
    }
    free(numbers);
    sqlite3_reset(statement);
    return err;
}

/* Whether a row of a level counts: its process' last one in the step, if that lived at the step's end. */
static bool lives_last(struct timeline_builder *l, const struct et_row *row, size_t step)
{
    uint64_t key = (uint64_t)row->series * ET_TIMELINE_STEPS + step;
    int64_t end_ns = l->out->from_ns + (int64_t)(step + 1) * l->out->step_ns;
    return et_row_is_last(&l->latest, key, row) &&
           et_series_lives(&l->selection.series[row->series], row, end_ns < l->end_ns ? end_ns : l->end_ns);
}

static int sum_row(struct timeline_builder *l, const struct et_row *row)
{
    int64_t after = row->at_ns - l->out->from_ns;
    size_t step = after > 0 ? (size_t)(after / l->out->step_ns) : 0; /* a lead belongs to the first */
    bool level = l->kind && l->kind->level;
    if (step >= l->out->steps || (level && !lives_last(l, row, step))) {
        return 0;
    }
    if (l->labelled) {
        return sum_row_stacks(l, row, step);
    }
    const struct et_series *series = &l->selection.series[row->series];
    add_to_line(l, group_line(l, series, ""), step, row->value_sum, row->count_sum);
    return 0;
}

/* more: bytes besides the lines. */
static int hold_lines(struct timeline_builder *l, size_t more)
{
    return et_store_hold(l->store, &l->held,
                         more + l->made * l->out->steps * 2 * sizeof(uint64_t) + et_strings_memory(&l->names) +
                             l->capacity * sizeof *l->lines +
                             (l->latest.capacity + l->known.capacity) * sizeof(struct et_map_entry));
}

/* Sets `labelled` when the query uses a name that is not a tag of some selected process. */
static int find_labelled(struct timeline_builder *l)
{
    int err = 0;
    for (size_t i = 0; i < l->selection.count && !err && !l->labelled; i++) {
        err = et_series_asks_stacks(l->store, l->query, &l->selection.series[i], &l->labelled);
    }
    return err;
}

/* A merged row is in one step, its profiles may not be: they are read while they are few. */
static int coarsest_level(const struct timeline_builder *l)
{
    static const int64_t fine_ns = 6 * 3600 * ET_NS_PER_S;
    int level = 0;
    if (l->query->to_ns - l->query->from_ns <= fine_ns) {
        return 0;
    }
    while (level + 1 < ET_LEVELS && et_level_ns[level + 1] <= l->out->step_ns) {
        level++;
    }
    return level > 1 && l->labelled && et_query_asks_ids(l->query) ? 1 : level;
}

static int sum_all_rows(struct timeline_builder *l, const char *kind)
{
    struct et_rows rows = {0};
    int err = et_selection_make(l->store, l->query, kind, ET_SLACK_NS, &l->selection);
    err = err ? err : find_labelled(l);
    err = err || !l->kind || !l->kind->level ? err : et_selection_ends(l->store, &l->selection);
    l->end_ns = et_selection_end(&l->selection, l->query->to_ns);
    err = err ? err
              : et_rows_choose(l->store, &l->selection, l->query->from_ns - l->query->lead_ns, l->query->to_ns,
                               coarsest_level(l), &rows);
    size_t own = rows.capacity * sizeof *rows.rows;
    for (size_t i = 0; i < rows.count && !err; i++) {
        err = sum_row(l, &rows.rows[i]);
        err = err ? err : hold_lines(l, own);
    }
    free(rows.rows);
    return err;
}

/* ---- the answer ---- */

static int largest_first(const void *a, const void *b)
{
    const struct et_timeline_line *x = a, *y = b;
    return x->total != y->total ? (x->total > y->total ? -1 : 1) : strcmp(x->name, y->name);
}

static bool shows_counts(const struct timeline_builder *l)
{
    uint64_t values = 0, counts = 0;
    for (size_t i = 0; i < l->names.count; i++) {
        values += l->lines[i].value;
        counts += l->lines[i].count;
    }
    return et_measure_counts(l->kind, l->query->measure, values, counts);
}

/* Adds lines beyond the maximum to the last line. */
static void fold_lines(struct et_timeline *out)
{
    struct et_timeline_line *rest = &out->lines[ET_TIMELINE_LINES - 1];
    for (size_t i = ET_TIMELINE_LINES; i < out->line_count; i++) {
        for (size_t k = 0; k < out->steps; k++) {
            rest->sums[k] += out->lines[i].sums[k];
        }
        rest->total += out->lines[i].total;
        free(out->lines[i].sums);
        free(out->lines[i].name);
    }
    if (out->line_count > ET_TIMELINE_LINES) {
        free(rest->name);
        rest->name = et_strdup(OTHERS);
        out->line_count = ET_TIMELINE_LINES;
    }
}

static void finish_lines(struct timeline_builder *l)
{
    struct et_timeline *out = l->out;
    bool counts = shows_counts(l);
    const char *unit = l->selection.count ? l->selection.series[0].unit : l->kind ? l->kind->unit : "";
    out->measure = counts ? ET_MEASURE_COUNT : ET_MEASURE_VALUE;
    out->unit = et_strdup(counts ? "count" : unit);
    out->lines = et_alloc(l->names.count, sizeof *out->lines);
    for (size_t i = 0; i < l->names.count; i++) {
        struct timeline_line *line = &l->lines[i];
        if (line->values && (line->value || line->count)) {
            out->lines[out->line_count++] = (struct et_timeline_line){
                .name = et_strdup(et_text(&l->names, (uint32_t)i)),
                .total = counts ? line->count : line->value,
                .sums = counts ? line->counts : line->values,
            };
            *(counts ? &line->counts : &line->values) = NULL;
        }
    }
    if (out->line_count) {
        qsort(out->lines, out->line_count, sizeof *out->lines, largest_first);
    }
    fold_lines(out);
}

int et_store_series(struct et_store *store, const struct et_query *query, int64_t step_ns, struct et_timeline *out)
{
    *out = (struct et_timeline){.from_ns = query->from_ns, .step_ns = step_ns};
    uint64_t span = (uint64_t)query->to_ns - (uint64_t)query->from_ns;
    if (step_ns < 1 || query->to_ns < query->from_ns || span / (uint64_t)step_ns >= ET_TIMELINE_STEPS) {
        return -EINVAL;
    }
    out->steps = (size_t)(span / (uint64_t)step_ns + (span % (uint64_t)step_ns != 0));
    struct timeline_builder l = {.store = store, .query = query, .out = out};
    struct et_buf kind = {0};
    bool began = et_store_reading(store);
    et_buf_text(&kind, "");
    et_intern(&l.names, "");
    l.lines = et_reserve(l.lines, &l.capacity, 1, sizeof *l.lines);
    int err = et_store_choose_kind(store, query, &kind);
    l.kind = et_kind_named(kind.data);
    out->kind = et_strdup(kind.data);
    err = err ? err : sum_all_rows(&l, kind.data);
    et_store_reading_done(store, began);
    finish_lines(&l);
    for (size_t i = 0; i < l.names.count; i++) {
        free(l.lines[i].values);
        free(l.lines[i].counts);
    }
    free(l.lines);
    et_strings_free(&l.names);
    et_map_free(&l.latest);
    et_map_free(&l.known);
    et_unpacked_free(&l.unpacked);
    et_selection_free(&l.selection);
    et_buf_free(&kind);
    if (err) {
        et_timeline_free(out);
    }
    (void)et_budget_hold(store->budget, &l.held, err ? 0 : et_timeline_memory(out));
    return err;
}

size_t et_timeline_memory(const struct et_timeline *timeline)
{
    return timeline->line_count * (sizeof *timeline->lines + timeline->steps * sizeof(uint64_t));
}

void et_timeline_free(struct et_timeline *timeline)
{
    for (size_t i = 0; i < timeline->line_count; i++) {
        free(timeline->lines[i].name);
        free(timeline->lines[i].sums);
    }
    free(timeline->lines);
    free(timeline->kind);
    free(timeline->unit);
    *timeline = (struct et_timeline){0};
}
