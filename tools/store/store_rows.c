/*
 * See store_rows.h.
 *
 *   et_rows_choose -> choose_hour -> choose_part_hour -> choose_five_minutes -> scan
 *                                    use_complement
 */
#include "tools/store/store_rollup.h"
#include "tools/lib/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct et_blob et_column_blob(sqlite3_stmt *statement, int column)
{
    const void *bytes = sqlite3_column_blob(statement, column);
    return (struct et_blob){bytes, (size_t)sqlite3_column_bytes(statement, column)};
}

sqlite3_stmt *et_stacks_bind(struct et_store *store, int64_t row)
{
    return et_store_bind(store, "SELECT stacks, contexts FROM stacks WHERE profile = ?", "i", row);
}

static const char ROWS[] = "SELECT " ET_ROW_COLUMNS " FROM profile WHERE level = ? AND at_ns >= ? AND at_ns < ?";

sqlite3_stmt *et_rows_bind(struct et_store *store, int level, int64_t from_ns, int64_t to_ns)
{
    return et_store_bind(store, ROWS, "iii", (int64_t)level, from_ns, to_ns);
}

/* Whether rows of the level below may be there that are not merged. */
static bool unsettled(const struct et_bucket *bucket)
{
    return bucket->dirty || bucket->low != bucket->high;
}

/* ---- choosing ---- */

struct choice {
    struct et_store *store;
    const struct et_selection *selection;
    int64_t from, to;
    int coarsest;
    bool sums; /* only sums of stacks are wanted */
    struct et_rows *out;
    int err;
};

/* What is taken of the rows of one level in a stretch of time. */
struct scan {
    int level;
    int64_t from, to;
    const struct et_bucket *above; /* their bucket of the next level; NULL: there is none */
    int64_t bare;                  /* only those with ids up to this */
    bool unmerged;                 /* only those that are not merged into the next level */
    const struct et_map *replaced; /* not those with these ids; NULL: none */
    bool beyond;                   /* those outside of the query's range, which are subtracted */
};

struct et_row et_row_of(sqlite3_stmt *statement, int level)
{
    return (struct et_row){
        .level = level,
        .id = sqlite3_column_int64(statement, 0),
        .series = sqlite3_column_int64(statement, 1),
        .at_ns = sqlite3_column_int64(statement, 2),
        .start_ns = sqlite3_column_int64(statement, 3),
        .end_ns = sqlite3_column_int64(statement, 4),
        .profiles = (uint64_t)sqlite3_column_int64(statement, 5),
        .period = (uint64_t)sqlite3_column_int64(statement, 6),
        .samples = (uint64_t)sqlite3_column_int64(statement, 7),
        .quantum = (uint64_t)sqlite3_column_int64(statement, 8),
        .columns = sqlite3_column_int(statement, 9),
        .packing = (enum et_packing)sqlite3_column_int(statement, 10),
        .value_sum = (uint64_t)sqlite3_column_int64(statement, 11),
        .count_sum = (uint64_t)sqlite3_column_int64(statement, 12),
    };
}

static bool stands(const struct scan *scan, const struct et_row *row)
{
    if (row->id > scan->bare || (scan->above && row->id <= scan->above->gone) ||
        (scan->replaced && et_map_find(scan->replaced, (uint64_t)row->id))) {
        return false;
    }
    return !scan->unmerged || !et_bucket_merged(scan->above, row->id, row->series);
}

static void scan(struct choice *c, const struct scan *scan)
{
    int64_t from = scan->beyond || scan->from > c->from ? scan->from : c->from;
    int64_t to = scan->beyond || scan->to < c->to ? scan->to : c->to;
    sqlite3_stmt *statement = c->err || from >= to ? NULL : et_rows_bind(c->store, scan->level, from, to);
    int got = 0;
    while (!c->err && from < to && (got = et_store_step(c->store, statement)) == 1) {
        struct et_row row = et_row_of(statement, scan->level);
        const uint64_t *index = et_map_find(&c->selection->index, (uint64_t)row.series);
        bool inside = row.at_ns >= c->from && row.at_ns < c->to;
        if (index && inside != scan->beyond && stands(scan, &row)) {
            row.use = scan->beyond ? ET_USE_MINUS : ET_USE_ALL;
            row.series = (int64_t)*index - 1;
            c->out->rows = et_reserve(c->out->rows, &c->out->capacity, c->out->count + 1, sizeof *c->out->rows);
            c->out->rows[c->out->count++] = row;
        }
    }
    c->err = got < 0 ? got : c->err;
}

static bool whole(const struct choice *c, int level, int64_t start)
{
    return c->coarsest >= level && start >= c->from && start <= c->to - et_level_ns[level];
}

/* A bucket of level 1 in an hour that is not whole. */
static void choose_five_minutes(struct choice *c, const struct et_bucket *bucket, const struct et_bucket *hour)
{
    int64_t from = bucket->start_ns, to = from + et_level_ns[1];
    if (whole(c, 1, from)) {
        scan(c, &(struct scan){.level = 1, .from = from, .to = to, .above = hour, .bare = INT64_MAX});
        if (unsettled(bucket)) {
            scan(c, &(struct scan){.from = from, .to = to, .above = bucket, .bare = INT64_MAX, .unmerged = true});
        }
    } else {
        scan(c, &(struct scan){.level = 1, .from = from, .to = to, .above = hour, .bare = bucket->bare});
        scan(c, &(struct scan){.from = from, .to = to, .above = bucket, .bare = INT64_MAX});
    }
}

/* Rows of level 2 of a whole hour, or the roll-ups that replace them. */
static void choose_whole_hour(struct choice *c, const struct et_bucket *hour)
{
    struct et_map replaced = {0};
    bool complete = false;
    if (c->coarsest >= ET_ROLLUP && !c->err) {
        c->err = et_rollup_choose(c->store, c->selection, hour, c->out, &replaced, &complete);
    }
    if (!complete) {
        scan(c, &(struct scan){.level = 2,
                               .from = hour->start_ns,
                               .to = hour->start_ns + et_level_ns[2],
                               .bare = INT64_MAX,
                               .replaced = &replaced});
    }
    et_map_free(&replaced);
}

/* buckets: those of level 1 in the hour. */
static void choose_part_hour(struct choice *c, const struct et_bucket *hour, const struct et_bucket *buckets,
                             size_t count)
{
    int64_t from = hour->start_ns, to = from + et_level_ns[2];
    if (hour->bare) {
        scan(c, &(struct scan){.level = 2, .from = from, .to = to, .bare = hour->bare});
    }
    for (size_t i = 0; i < count; i++) {
        choose_five_minutes(c, &buckets[i], hour);
    }
}

static void choose_all_of_hour(struct choice *c, const struct et_bucket *hour, const struct et_bucket *buckets,
                               size_t count)
{
    int64_t from = hour->start_ns, to = from + et_level_ns[2];
    choose_whole_hour(c, hour);
    if (unsettled(hour)) {
        scan(c, &(struct scan){.level = 1, .from = from, .to = to, .above = hour, .bare = INT64_MAX, .unmerged = true});
    }
    for (size_t i = 0; i < count; i++) {
        const struct et_bucket *bucket = &buckets[i];
        if (unsettled(bucket)) {
            scan(c, &(struct scan){.from = bucket->start_ns,
                                   .to = bucket->start_ns + et_level_ns[1],
                                   .above = bucket,
                                   .bare = INT64_MAX,
                                   .unmerged = true});
        }
    }
}

/* ---- the whole hour less what is beyond the range ---- */

/* An end of the range is in the bucket. */
static bool is_cut(const struct choice *c, const struct et_bucket *bucket)
{
    int64_t from = bucket->start_ns, to = from + et_level_ns[1];
    return (c->from > from && c->from < to) || (c->to > from && c->to < to);
}

/* The same, and its rows of level 0 are there. */
static bool is_cut_finely(const struct choice *c, const struct et_bucket *bucket)
{
    return bucket->gone == 0 && is_cut(c, bucket);
}

/* Whether all of the bucket's rows of level 1 have ids up to `last`. */
static bool all_before(struct choice *c, const struct et_bucket *bucket, int64_t last)
{
    struct choice any = *c;
    size_t before = c->out->count;
    int64_t from = bucket->start_ns;
    bool ok = true;
    any.from = any.to = from; /* all of it is beyond the range */
    scan(&any,
         &(struct scan){.level = 1, .from = from, .to = from + et_level_ns[1], .bare = INT64_MAX, .beyond = true});
    for (size_t i = before; i < c->out->count; i++) {
        ok &= c->out->rows[i].id <= last;
    }
    c->out->count = before;
    c->err = any.err;
    return ok && !c->err;
}

/* Whether the blocks of the hour are exactly its rows of level 1 with ids up to hour->low, and these, where an end of
 * the range cuts them, exactly the rows of level 0 with ids up to bucket->low. */
static bool is_divisible(struct choice *c, const struct et_bucket *hour, const struct et_bucket *buckets, size_t count)
{
    bool dropped = false, ok = hour->low && hour->low == hour->high && !hour->gone && !hour->bare;
    for (size_t i = 0; i < count && ok; i++) {
        const struct et_bucket *bucket = &buckets[i];
        if (is_cut_finely(c, bucket)) {
            ok = bucket->low == bucket->high && all_before(c, bucket, hour->low);
        } else if (is_cut(c, bucket)) {
            ok = bucket->gone == bucket->low;
        }
    }
    c->err = ok && !c->err ? et_rollup_dropped(c->store, hour->start_ns, &dropped) : c->err;
    return ok && !dropped && !c->err;
}

/* Adds what the whole hour has and the range has not. */
static void choose_beyond(struct choice *c, const struct et_bucket *hour, const struct et_bucket *buckets, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct et_bucket *bucket = &buckets[i];
        bool fine = is_cut_finely(c, bucket);
        scan(c, &(struct scan){.level = fine ? 0 : 1,
                               .from = bucket->start_ns,
                               .to = bucket->start_ns + et_level_ns[1],
                               .bare = fine ? bucket->low : hour->low,
                               .beyond = true});
    }
}

/* Whether the row of the hour's chosen ones is in its block. */
static bool in_block(const struct choice *c, const struct et_row *row, const struct et_bucket *hour,
                     const struct et_bucket *buckets, size_t count)
{
    if (row->level == 1) {
        return row->id <= hour->low;
    }
    for (size_t i = 0; i < count; i++) {
        const struct et_bucket *bucket = &buckets[i];
        if (row->at_ns >= bucket->start_ns && row->at_ns - bucket->start_ns < et_level_ns[1]) {
            return is_cut_finely(c, bucket) && row->id <= bucket->low;
        }
    }
    return false;
}

/* About how long it takes to read rows, by their bytes in databases of fleets. */
static size_t cost_of(const struct et_row *rows, size_t count)
{
    static const size_t costs[] = {1, 2, 3, 5};
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += costs[rows[i].level];
    }
    return sum;
}

/* Of the hour's chosen rows, from `first` on, those that its block has give only their headers, if the block and what
 * is beyond the range are read faster. */
static void use_complement(struct choice *c, size_t first, const struct et_bucket *hour,
                           const struct et_bucket *buckets, size_t count)
{
    struct et_rows *out = c->out;
    size_t replaced = 0, end = out->count;
    if (!is_divisible(c, hour, buckets, count)) {
        return;
    }
    for (size_t i = first; i < end; i++) {
        if (in_block(c, &out->rows[i], hour, buckets, count)) {
            out->rows[i].use = ET_USE_HEADER;
            replaced += cost_of(&out->rows[i], 1);
        }
    }
    struct choice all = *c;
    all.from = hour->start_ns;
    all.to = hour->start_ns + et_level_ns[2];
    choose_whole_hour(&all, hour);
    c->err = all.err;
    for (size_t i = end; i < out->count; i++) {
        out->rows[i].use = ET_USE_STACKS;
    }
    choose_beyond(c, hour, buckets, count);
    if (cost_of(out->rows + end, out->count - end) >= replaced) {
        out->count = end;
        for (size_t i = first; i < end; i++) {
            out->rows[i].use = ET_USE_ALL;
        }
    }
}

static void choose_hour(struct choice *c, const struct et_bucket *hour, const struct et_bucket *buckets, size_t count)
{
    size_t first = c->out->count;
    if (whole(c, 2, hour->start_ns)) {
        choose_all_of_hour(c, hour, buckets, count);
    } else {
        choose_part_hour(c, hour, buckets, count);
        if (c->sums && c->out->count > first && !c->err) {
            use_complement(c, first, hour, buckets, count);
        }
    }
}

static int latest_first(const void *a, const void *b)
{
    const struct et_row *x = a, *y = b;
    if (x->start_ns != y->start_ns) {
        return x->start_ns > y->start_ns ? -1 : 1;
    }
    return x->id > y->id ? -1 : x->id < y->id;
}

static void choose(struct choice *c, const struct et_buckets *fives, const struct et_buckets *hours)
{
    size_t five = 0, hour = 0;
    while (five < fives->count) {
        int64_t start = et_bucket_start(2, fives->buckets[five].start_ns);
        struct et_bucket none = {.level = 2, .start_ns = start};
        size_t first = five;
        while (five < fives->count && fives->buckets[five].start_ns - start < et_level_ns[2]) {
            five++;
        }
        while (hour < hours->count && hours->buckets[hour].start_ns < start) {
            hour++;
        }
        bool known = hour < hours->count && hours->buckets[hour].start_ns == start;
        choose_hour(c, known ? &hours->buckets[hour] : &none, &fives->buckets[first], five - first);
    }
}

static int choose_rows(struct choice *c, int64_t from_ns, int64_t to_ns)
{
    /* times that nobody has, so that differences stay in range */
    int64_t from = from_ns > INT64_MIN / 4 ? from_ns : INT64_MIN / 4;
    int64_t to = to_ns > INT64_MIN / 4 ? to_ns : INT64_MIN / 4;
    c->from = from;
    c->to = to;
    struct et_buckets fives = {0}, hours = {0};
    struct et_rows *out = c->out;
    size_t series = c->selection->count;
    int64_t first = et_bucket_start(2, from);
    int64_t last = to < INT64_MAX / 2 ? et_bucket_start(2, to) + et_level_ns[2] : to; /* the whole hour that it is in */
    c->err = series ? et_buckets_load(c->store, 1, first, last, &fives) : 0;
    c->err = c->err || !series ? c->err : et_buckets_load(c->store, 2, first, last, &hours);
    choose(c, &fives, &hours);
    free(fives.buckets);
    free(hours.buckets);
    if (out->count) {
        qsort(out->rows, out->count, sizeof *out->rows, latest_first);
    }
    return c->err;
}

int et_rows_choose(struct et_store *store, const struct et_selection *selection, int64_t from_ns, int64_t to_ns,
                   int coarsest, struct et_rows *out)
{
    struct choice c = {.store = store, .selection = selection, .coarsest = coarsest, .out = out};
    return choose_rows(&c, from_ns, to_ns);
}

int et_rows_choose_sums(struct et_store *store, const struct et_selection *selection, int64_t from_ns, int64_t to_ns,
                        bool rollups, struct et_rows *out)
{
    struct choice c = {
        .store = store, .selection = selection, .coarsest = rollups ? ET_ROLLUP : 2, .sums = true, .out = out};
    return choose_rows(&c, from_ns, to_ns);
}

bool et_row_is_last(struct et_map *latest, uint64_t key, const struct et_row *row)
{
    size_t before = latest->count;
    uint64_t *middle = et_map_at(latest, key);
    if (latest->count != before) {
        *middle = (uint64_t)(row->start_ns / 2 + row->end_ns / 2);
    }
    return row->end_ns > (int64_t)*middle;
}
