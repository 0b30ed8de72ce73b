/* See store_rollup.h. A member is a row of level 2: its id as difference to the one before, and its series. */
#include "tools/store/store_rollup.h"
#include "tools/lib/labels.h"
#include "tools/store/store_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The tag that roll-ups leave out, besides the host. */
static const char DEVICE[] = "device";

/* Most rows of a roll-up: what a step reads at once. */
enum { ROWS_MOST = 64 };

bool et_rollup_next(const uint8_t **at, const uint8_t *end, int64_t *row, int64_t *series)
{
    uint64_t step, number;
    bool ok = *at && et_varint_get(at, end, &step) && et_varint_get(at, end, &number);
    if (ok) {
        *row += (int64_t)step;
        *series = (int64_t)number;
    }
    return ok;
}

/* ---- using them ---- */

static bool names_device(const struct et_query *query, const char *key)
{
    bool found = et_group_has(query->group, key);
    for (size_t i = 0; i < query->matcher_count && !found; i++) {
        found = strcmp(query->matchers[i].name, key) == 0;
    }
    return found;
}

bool et_rollup_serves(const struct et_query *query, bool level)
{
    return !level && !query->id_count && !query->process_count && !names_device(query, DEVICE) &&
           !names_device(query, ET_HOST);
}

/* How many of the members the selection has; *all: of how many. *first: index of a selected one. */
static size_t count_selected(const struct et_selection *selection, struct et_blob members, size_t *all, int64_t *first)
{
    const uint8_t *at = members.bytes, *end = members.size ? at + members.size : at;
    int64_t row = 0, series;
    size_t selected = 0;
    *all = 0;
    while (et_rollup_next(&at, end, &row, &series)) {
        const uint64_t *index = et_map_find(&selection->index, (uint64_t)series);
        *first = index ? (int64_t)*index - 1 : *first;
        selected += index != NULL;
        ++*all;
    }
    return selected;
}

static void note_replaced(struct et_blob members, struct et_map *replaced)
{
    const uint8_t *at = members.bytes, *end = members.size ? at + members.size : at;
    int64_t row = 0, series;
    while (et_rollup_next(&at, end, &row, &series)) {
        *et_map_at(replaced, (uint64_t)row) = 1;
    }
}

static const char ROLLED_GET[] = "SELECT low, alone FROM rolled WHERE hour_ns = ?";

/* Whether all rows of the hour are in roll-ups. */
static int is_rolled(struct et_store *store, const struct et_bucket *hour, bool *rolled)
{
    sqlite3_stmt *row = et_store_bind(store, ROLLED_GET, "i", hour->start_ns);
    int got = et_store_step(store, row);
    *rolled = got == 1 && hour->low == hour->high && sqlite3_column_int64(row, 0) == hour->low &&
              sqlite3_column_int64(row, 1) == 0;
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

/* A row of ROLLUPS. */
static struct et_row rollup_of(sqlite3_stmt *row)
{
    return (struct et_row){
        .level = ET_ROLLUP,
        .id = sqlite3_column_int64(row, 0),
        .start_ns = sqlite3_column_int64(row, 2),
        .end_ns = sqlite3_column_int64(row, 3),
        .profiles = (uint64_t)sqlite3_column_int64(row, 4),
        .period = (uint64_t)sqlite3_column_int64(row, 5),
        .samples = (uint64_t)sqlite3_column_int64(row, 6),
        .quantum = (uint64_t)sqlite3_column_int64(row, 7),
        .columns = sqlite3_column_int(row, 8),
        .packing = (enum et_packing)sqlite3_column_int(row, 9),
    };
}

static const char ROLLUPS[] =
    "SELECT id, members, start_ns, end_ns, profiles, period, samples, quantum, columns, packing, service, kind,"
    " unit, tags FROM rollup WHERE hour_ns = ? ORDER BY id";

/* Adds the usable ones to *out. *partial: the selection has some members of another one. */
static int choose_usable(struct et_store *store, const struct et_selection *selection, int64_t hour_ns,
                         struct et_rows *out, struct et_map *replaced, bool *partial)
{
    sqlite3_stmt *row = et_store_bind(store, ROLLUPS, "i", hour_ns);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        struct et_blob members = et_column_blob(row, 1);
        size_t all;
        struct et_row rollup = rollup_of(row);
        size_t selected = count_selected(selection, members, &all, &rollup.series);
        *partial |= selected && selected < all;
        if (selected && selected == all) {
            out->rows = et_reserve(out->rows, &out->capacity, out->count + 1, sizeof *out->rows);
            out->rows[out->count++] = rollup;
            note_replaced(members, replaced);
        }
    }
    return got;
}

static const char ROLLUP_AFTER[] =
    "SELECT id, NULL, start_ns, end_ns, profiles, period, samples, quantum, columns, packing FROM rollup WHERE id > ?"
    " ORDER BY id LIMIT 1";

int et_rollup_after(struct et_store *store, int64_t after, struct et_row *out)
{
    sqlite3_stmt *row = et_store_bind(store, ROLLUP_AFTER, "i", after);
    int got = et_store_step(store, row);
    *out = got == 1 ? rollup_of(row) : (struct et_row){0};
    sqlite3_reset(row);
    return got;
}

sqlite3_stmt *et_rollup_bind(struct et_store *store, int64_t id)
{
    return et_store_bind(store, "SELECT stacks, contexts, members FROM rollup WHERE id = ?", "i", id);
}

int et_rollup_choose(struct et_store *store, const struct et_selection *selection, const struct et_bucket *hour,
                     struct et_rows *out, struct et_map *replaced, bool *complete)
{
    bool partial = false, rolled = false;
    int err = choose_usable(store, selection, hour->start_ns, out, replaced, &partial);
    err = err || partial ? err : is_rolled(store, hour, &rolled);
    *complete = rolled && !partial;
    return err;
}

/* ---- making them ---- */

/* A row that is in no roll-up. */
struct loose_row {
    struct et_row row;
    uint32_t group; /* string number of its key */
};

struct hour_roller {
    struct et_store *store;
    int64_t hour_ns;
    size_t least;
    struct et_map rolled;     /* rows in roll-ups */
    struct et_strings groups; /* service, kind, unit, tags: lines */
    struct et_map begun;      /* groups that have roll-ups */
    struct loose_row *rows;
    size_t count, capacity;
};

static void add_key(struct et_buf *key, const char *service, const char *kind, const char *unit, const char *tags)
{
    et_buf_printf(key, "%s\n%s\n%s\n", service, kind, unit);
    et_buf_text(key, tags);
}

/* The tags without the device. */
static char *common_tags(const char *tags)
{
    struct et_buf out = {0};
    et_buf_text(&out, "");
    for (const char *end; (end = strchr(tags, '\n')); tags = end + 1) {
        size_t size = sizeof DEVICE - 1;
        if (strncmp(tags, DEVICE, size) != 0 || tags[size] != '=') {
            et_buf_add(&out, tags, (size_t)(end - tags) + 1);
        }
    }
    return out.data;
}

static int load_rolled(struct hour_roller *r)
{
    sqlite3_stmt *row = et_store_bind(r->store, ROLLUPS, "i", r->hour_ns);
    int got;
    while ((got = et_store_step(r->store, row)) == 1) {
        struct et_buf key = {0};
        add_key(&key, et_column_text(row, 10), et_column_text(row, 11), et_column_text(row, 12),
                et_column_text(row, 13));
        *et_map_at(&r->begun, et_intern(&r->groups, key.data)) = 1;
        note_replaced(et_column_blob(row, 1), &r->rolled);
        et_buf_free(&key);
    }
    return got;
}

/* Adds a row, unless its kind is a level: the last value of each process counts there, not their sum. */
static int add_loose(struct hour_roller *r, const struct et_row *row)
{
    struct et_selection selection = {0};
    int err = et_selection_one(r->store, row->series, &selection);
    const struct et_series *series = selection.series;
    const struct et_kind *kind = series ? et_kind_named(series->kind) : NULL;
    if (!err && !(kind && kind->level)) {
        struct et_buf key = {0};
        char *tags = common_tags(series->tags);
        add_key(&key, series->service, series->kind, series->unit, tags);
        r->rows = et_reserve(r->rows, &r->capacity, r->count + 1, sizeof *r->rows);
        r->rows[r->count++] = (struct loose_row){.row = *row, .group = et_intern(&r->groups, key.data)};
        free(tags);
        et_buf_free(&key);
    }
    et_selection_free(&selection);
    return err;
}

static int by_group(const void *a, const void *b)
{
    const struct loose_row *x = a, *y = b;
    if (x->group != y->group) {
        return x->group < y->group ? -1 : 1;
    }
    return x->row.id < y->row.id ? -1 : x->row.id > y->row.id;
}

static int load_loose(struct hour_roller *r)
{
    sqlite3_stmt *statement = et_rows_bind(r->store, 2, r->hour_ns, r->hour_ns + et_level_ns[2]);
    int got, err = 0;
    while ((got = et_store_step(r->store, statement)) == 1 && !err) {
        struct et_row row = et_row_of(statement, 2);
        err = et_map_find(&r->rolled, (uint64_t)row.id) ? 0 : add_loose(r, &row);
    }
    sqlite3_reset(statement);
    if (r->count) {
        qsort(r->rows, r->count, sizeof *r->rows, by_group);
    }
    return err ? err : got;
}

static int latest_first(const void *a, const void *b)
{
    const struct et_row *x = a, *y = b;
    if (x->end_ns != y->end_ns) {
        return x->end_ns > y->end_ns ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

static const char ROLLUP_ADD[] =
    "INSERT INTO rollup (hour_ns, service, kind, unit, tags, start_ns, end_ns, profiles, period, samples,"
    " quantum, columns, packing, members, stacks, contexts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
    " ?)";

static int store_rollup(struct hour_roller *r, const struct et_series *series, const struct et_merged *merged,
                        const struct et_buf *members)
{
    const struct et_row *row = &merged->row;
    char *tags = common_tags(series->tags);
    int err = et_store_run(r->store, ROLLUP_ADD, "issssiiuuuuiibbb", r->hour_ns, series->service, series->kind,
                           series->unit, tags, row->start_ns, row->end_ns, row->profiles, row->period, row->samples,
                           row->quantum, (int64_t)row->columns, (int64_t)row->packing, (const void *)members->data,
                           members->size, (const void *)merged->stacks.data, merged->stacks.size,
                           (const void *)merged->label_sets.data, merged->label_sets.size);
    free(tags);
    return err;
}

/* Makes a roll-up of rows of one group. */
static int roll_rows(struct hour_roller *r, const struct loose_row *loose, size_t count, size_t *stacks)
{
    struct et_row rows[ROWS_MOST];
    struct et_buf members = {0};
    struct et_selection selection = {0};
    struct et_merged merged = {0};
    int64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        rows[i] = loose[i].row;
        et_varint_put(&members, (uint64_t)(loose[i].row.id - last));
        et_varint_put(&members, (uint64_t)loose[i].row.series);
        last = loose[i].row.id;
    }
    qsort(rows, count, sizeof *rows, latest_first);
    int err = et_selection_one(r->store, rows[0].series, &selection);
    err = err ? err : et_merge_rows(r->store, selection.series, rows, count, &merged);
    err = err ? err : store_rollup(r, selection.series, &merged, &members);
    *stacks += merged.read;
    et_merged_free(&merged);
    et_buf_free(&members);
    et_selection_free(&selection);
    return err;
}

/* Returns 1: there may be more; 0: all groups are done; or an error. *alone: rows that stay without a roll-up. */
static int roll_groups(struct hour_roller *r, size_t most, int64_t *alone)
{
    size_t stacks = 0;
    *alone = 0;
    for (size_t at = 0, count; at < r->count; at += count) {
        const struct loose_row *first = &r->rows[at];
        for (count = 1; at + count < r->count && count < ROWS_MOST && first[count].group == first->group;) {
            count++;
        }
        if (count < r->least && !et_map_find(&r->begun, first->group)) {
            *alone += (int64_t)count;
            continue;
        }
        int err = stacks < most ? roll_rows(r, first, count, &stacks) : 1;
        if (err) {
            return err;
        }
        *et_map_at(&r->begun, first->group) = 1;
    }
    return 0;
}

static const char ROLLED_PUT[] = "INSERT OR REPLACE INTO rolled (hour_ns, low, alone) VALUES (?, ?, ?)";

static int roll_hour(struct et_store *store, int64_t hour_ns, int64_t low, size_t stacks, size_t least)
{
    struct hour_roller r = {.store = store, .hour_ns = hour_ns, .least = least};
    int64_t alone = 0;
    int err = load_rolled(&r);
    err = err ? err : load_loose(&r);
    err = err ? err : roll_groups(&r, stacks, &alone);
    err = err ? err : et_store_run(store, ROLLED_PUT, "iii", hour_ns, low, alone);
    et_map_free(&r.rolled);
    et_map_free(&r.begun);
    et_strings_free(&r.groups);
    free(r.rows);
    return err < 0 ? err : 1;
}

static const char ROLL_DUE[] =
    "SELECT b.start_ns, b.low FROM bucket b LEFT JOIN rolled r ON r.hour_ns = b.start_ns WHERE b.level = 2"
    " AND b.low = b.high AND b.low > ifnull(r.low, 0) ORDER BY b.start_ns LIMIT 1";

int et_rollup_step(struct et_store *store, size_t stacks, size_t least)
{
    sqlite3_stmt *row = et_store_bind(store, ROLL_DUE, "");
    int got = et_store_step(store, row);
    int64_t hour = got == 1 ? sqlite3_column_int64(row, 0) : 0, low = got == 1 ? sqlite3_column_int64(row, 1) : 0;
    sqlite3_reset(row);
    return got == 1 ? roll_hour(store, hour, low, stacks, least) : got;
}

/* ---- deleting them ---- */

int et_rollup_dropped(struct et_store *store, int64_t hour_ns, bool *dropped)
{
    int64_t low = et_store_number(store, ROLLED_GET, "i", hour_ns);
    *dropped = low == INT64_MAX;
    return low < 0 ? (int)low : 0;
}

int et_rollup_drop(struct et_store *store, int64_t hour_ns)
{
    bool done;
    int err = et_rollup_dropped(store, hour_ns, &done);
    if (err || done) { /* a step that only waits writes nothing */
        return err;
    }
    err = et_store_run(store, "DELETE FROM rollup WHERE hour_ns = ?", "i", hour_ns);
    return err ? err : et_store_run(store, ROLLED_PUT, "iii", hour_ns, INT64_MAX, (int64_t)0);
}

int et_rollup_forget(struct et_store *store, int64_t hour_ns)
{
    return et_store_run(store, "DELETE FROM rolled WHERE hour_ns = ?", "i", hour_ns);
}

static const char ROLLUP_BYTES[] =
    "SELECT ifnull(sum(length(members) + length(stacks) + length(contexts) + 100), 0) FROM rollup"
    " WHERE hour_ns = ?";

int64_t et_rollup_bytes(struct et_store *store, int64_t hour_ns)
{
    return et_store_number(store, ROLLUP_BYTES, "i", hour_ns);
}
