/* See store.h: the values of single profiles. add_row() sums a row's stacks by their labels, and by their spans if
 * asked for. */
#include "tools/lib/labels.h"
#include "tools/store/store_damage.h"
#include "tools/store/store_rows.h"

#include <errno.h>
#include <stdlib.h>

/* What the query knows of a label set: the labels of its stacks, and the part of the row that they belong to. */
struct part_label_set {
    uint32_t text; /* string number of all labels + 1; 0: excluded */
    uint64_t ids[3];
    size_t part; /* index + 1; 0: none yet */
};

struct part_sum {
    uint32_t text;
    uint64_t ids[3], value, count;
};

struct part_reader {
    struct et_store *store;
    const struct et_query *query;
    bool spans;
    const struct et_kind *kind;
    struct et_selection selection;
    struct et_unpacked unpacked;
    struct et_strings texts; /* label lines */
    struct et_map known;     /* series << 32 | labels -> string number + 2; 1: excluded */
    struct part_label_set *label_sets;
    size_t label_set_count, label_set_capacity;
    struct part_sum *sums; /* of the row */
    size_t sum_count, sum_capacity;
    void (*part)(void *context, const struct et_part *part);
    void *context;
};

static bool matches(const struct part_reader *r, const struct et_series *series, const char *labels)
{
    for (size_t i = 0; i < r->query->matcher_count; i++) {
        if (!et_process_matches(&r->query->matchers[i], labels, &series->process)) {
            return false;
        }
    }
    return true;
}

/* Returns the string number of the stacks' labels and their process's + 1; 0: excluded. */
static uint32_t all_labels(struct part_reader *r, const struct et_series *series, const char *lines,
                           const uint64_t ids[3])
{
    char *full = et_label_set_text(lines, ids);
    uint32_t number = 0;
    if (matches(r, series, full)) {
        struct et_labels labels = {0};
        if (series->host[0]) {
            et_labels_add(&labels, ET_HOST, series->host);
        }
        et_labels_add_lines(&labels, series->tags);
        et_labels_add_lines(&labels, lines);
        et_labels_add(&labels, ET_SERVICE_NAME, series->service); /* the last of a name counts */
        char *text = et_labels_join(&labels);
        number = et_intern(&r->texts, text) + 1;
        free(text);
    }
    free(full);
    return number;
}

static int add_label_set(struct part_reader *r, int64_t series, uint64_t labels, const uint64_t ids[3])
{
    bool own = ids[0] || ids[1] || ids[2];
    uint64_t none = 0, *known = own ? &none : et_map_at(&r->known, (uint64_t)series << 32 | labels);
    int err = 0;
    if (!*known) {
        struct et_buf lines = {0};
        err = et_store_labels_text(r->store, (int64_t)labels, &lines);
        err = err ? err : et_store_late(r->store);
        *known = all_labels(r, &r->selection.series[series], lines.data, ids) + 1u;
        et_buf_free(&lines);
    }
    struct part_label_set set = {.text = (uint32_t)*known - 1, .ids = {ids[0], ids[1], ids[2]}};
    r->label_sets = et_reserve(r->label_sets, &r->label_set_capacity, r->label_set_count + 1, sizeof *r->label_sets);
    r->label_sets[r->label_set_count++] = set;
    return err;
}

static int read_label_sets(struct part_reader *r, int64_t series, struct et_blob label_sets)
{
    const uint8_t *at = label_sets.bytes, *end = label_sets.size ? at + label_sets.size : at;
    uint64_t labels = 0, ids[3] = {0};
    int err = 0;
    r->label_set_count = 0;
    do {
        err = add_label_set(r, series, labels, ids);
    } while (!err && at < end && et_label_set_next(&at, end, &labels, ids));
    return err;
}

/* The sum of the label set's part of the row. No other set has the same labels and ids. */
static struct part_sum *find_sum(struct part_reader *r, struct part_label_set *set)
{
    for (size_t i = 0; i < r->sum_count && !set->part && !r->spans; i++) {
        set->part = r->sums[i].text == set->text ? i + 1 : 0;
    }
    if (!set->part) {
        r->sums = et_reserve(r->sums, &r->sum_capacity, r->sum_count + 1, sizeof *r->sums);
        r->sums[r->sum_count] = (struct part_sum){.text = set->text, .ids = {set->ids[0], set->ids[1], set->ids[2]}};
        set->part = ++r->sum_count;
    }
    return &r->sums[set->part - 1];
}

static void sum_stacks(struct part_reader *r, const struct et_row *row)
{
    bool cpu = r->selection.series[row->series].cpu;
    r->sum_count = 0;
    for (size_t i = 0; i < r->unpacked.count; i++) {
        const struct et_packed *stack = &r->unpacked.stacks[i];
        struct part_label_set *set = &r->label_sets[stack->label_set < r->label_set_count ? stack->label_set : 0];
        if (set->text && (!r->spans || set->ids[0])) {
            struct part_sum *sum = find_sum(r, set);
            uint64_t value = stack->value * row->quantum;
            sum->value += value;
            sum->count += et_packed_count(cpu, row->columns, value, stack->count, row->period);
        }
    }
}

static int add_row(struct part_reader *r, const struct et_row *row)
{
    sqlite3_stmt *statement = et_stacks_bind(r->store, row->id);
    int got = et_store_step(r->store, statement);
    if (got < 0) {
        return got;
    }
    int err = got ? et_row_unpack(&r->unpacked, row, et_column_blob(statement, 0)) : -EIO;
    if (err) {
        et_damage_note(r->store, row, &r->selection.series[row->series], "its stacks cannot be read");
    }
    int read = err ? 0 : read_label_sets(r, row->series, et_column_blob(statement, 1));
    sqlite3_reset(statement);
    if (err || read) {
        return read;
    }
    sum_stacks(r, row);
    for (size_t i = 0; i < r->sum_count; i++) {
        const struct part_sum *sum = &r->sums[i];
        bool count = et_measure_counts(r->kind, r->query->measure, sum->value, sum->count);
        const struct et_part part = {.at_ns = row->at_ns,
                                     .profile = row->level == 0 ? row->id : 0,
                                     .labels = et_text(&r->texts, sum->text - 1),
                                     .ids = {sum->ids[0], sum->ids[1], sum->ids[2]},
                                     .value = count ? sum->count : sum->value};
        r->part(r->context, &part);
    }
    return 0;
}

int et_store_parts(struct et_store *store, const struct et_query *query, bool spans,
                   void (*part)(void *context, const struct et_part *part), void *context)
{
    struct part_reader r = {.store = store, .query = query, .spans = spans, .part = part, .context = context};
    struct et_rows rows = {0};
    struct et_buf kind = {0};
    bool began = et_store_reading(store);
    et_buf_text(&kind, "");
    int err = et_store_choose_kind(store, query, &kind);
    r.kind = et_kind_named(kind.data);
    err = err ? err : et_selection_make(store, query, kind.data, ET_SLACK_NS, &r.selection);
    err = err ? err : et_rows_choose(store, &r.selection, query->from_ns, query->to_ns, 0, &rows);
    for (size_t i = 0; i < rows.count && !err; i++) {
        err = add_row(&r, &rows.rows[i]);
    }
    err = err ? err : et_store_late(store); /* by what part() counted */
    et_store_reading_done(store, began);
    free(rows.rows);
    free(r.label_sets);
    free(r.sums);
    et_buf_free(&kind);
    et_strings_free(&r.texts);
    et_map_free(&r.known);
    et_unpacked_free(&r.unpacked);
    et_selection_free(&r.selection);
    return err;
}
