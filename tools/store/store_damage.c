/* See store_damage.h, and store.h for et_store_check(). */
#include "tools/store/store_damage.h"
#include "tools/store/store_rollup.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- rows that were found ---- */

/* Lines of one program: of a ruined database, the command lists the others. */
enum { NAMED_MOST = 20 };

static struct {
    pthread_mutex_t lock;
    struct et_map rows; /* row_key() */
} named = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t row_key(const struct et_row *row)
{
    return (uint64_t)row->id * 2 + (row->level == ET_ROLLUP);
}

bool et_damage_known(const struct et_store *store, const struct et_row *row)
{
    return store->damaged.count && et_map_find(&store->damaged, row_key(row));
}

static void name_row(const struct et_row *row, const struct et_series *series, const char *how, const char *reason)
{
    pthread_mutex_lock(&named.lock);
    uint64_t *before = et_map_at(&named.rows, row_key(row));
    bool first = !*before;
    size_t count = named.rows.count;
    *before = 1;
    pthread_mutex_unlock(&named.lock);
    if (first && count <= NAMED_MOST) {
        et_error("database: %s %lld %s: service %s, kind %s, Unix time %lld: %s%s",
                 row->level == ET_ROLLUP ? "sum" : "profile", (long long)row->id, how, series ? series->service : "?",
                 series ? series->kind : "?", (long long)(row->start_ns / ET_NS_PER_S), reason,
                 count == NAMED_MOST ? "; `edgeprof check` lists all others" : "");
    }
}

uint64_t et_store_damaged(void)
{
    pthread_mutex_lock(&named.lock);
    size_t count = named.rows.count;
    pthread_mutex_unlock(&named.lock);
    return count;
}

int et_damage_note(struct et_store *store, const struct et_row *row, const struct et_series *series, const char *reason)
{
    *et_map_at(&store->damaged, row_key(row)) = 1;
    name_row(row, series, "is damaged and left out", reason);
    return -EBADMSG;
}

bool et_total_add(struct et_total *total, const struct et_row *row, uint64_t value, uint64_t count)
{
    bool minus = row->use == ET_USE_MINUS, fits = value <= INT64_MAX && count <= INT64_MAX;
    int64_t more = minus ? -(int64_t)value : (int64_t)value, counted = minus ? -(int64_t)count : (int64_t)count;
    struct et_total sum = *total;
    fits = fits && !__builtin_add_overflow(sum.value, more, &sum.value) &&
           !__builtin_add_overflow(sum.count, counted, &sum.count);
    *total = fits ? sum : *total;
    return fits;
}

int et_total_note(struct et_map *beyond, const struct et_row *row, const struct et_series *series)
{
    *et_map_at(beyond, row_key(row)) = 1;
    name_row(row, series, "is left out", "with it, the sum would reach 2^63");
    return -EBADMSG;
}

bool et_total_beyond(const struct et_map *beyond, const struct et_row *row)
{
    return beyond->count && et_map_find(beyond, row_key(row));
}

/* ---- stacks ---- */

int et_row_sum_check(const struct et_row *row, uint64_t value)
{
    return row->level == ET_ROLLUP || value == row->value_sum ? 0 : -EIO;
}

int et_row_unpack(struct et_unpacked *out, const struct et_row *row, struct et_blob stacks)
{
    int err = et_unpack(out, row->packing, row->columns, stacks.bytes, stacks.size);
    uint64_t sum = 0;
    for (size_t i = 0; i < out->count && !err; i++) {
        sum += out->stacks[i].value * row->quantum;
    }
    return err ? err : et_row_sum_check(row, sum);
}

/* ---- what stacks refer to ---- */

static const char NODE[] = "SELECT n.parent, f.id IS NOT NULL AND (f.module = 0 OR m.id IS NOT NULL) FROM node n"
                           " LEFT JOIN frame f ON f.id = n.frame LEFT JOIN module m ON m.id = f.module WHERE n.id = ?";

/* Returns 1: the node and all its ancestors are there; 0: one is missing; or an error. Parents have smaller ids. */
static int find_node(struct et_damage_check *check, uint64_t id)
{
    while (id && !et_map_find(&check->nodes, id)) {
        sqlite3_stmt *row = et_store_bind(check->store, NODE, "u", id);
        int got = et_store_step(check->store, row);
        uint64_t parent = got == 1 ? (uint64_t)sqlite3_column_int64(row, 0) : id;
        bool whole = got == 1 && sqlite3_column_int(row, 1) && parent < id;
        sqlite3_reset(row);
        if (!whole) {
            return got < 0 ? got : 0;
        }
        *et_map_at(&check->nodes, id) = 1;
        id = parent;
    }
    return 1;
}

static int find_labels(struct et_damage_check *check, uint64_t labels)
{
    if (!labels || et_map_find(&check->labels, labels)) {
        return 1;
    }
    int64_t got = et_store_number(check->store, "SELECT count(*) FROM labels WHERE id = ?", "u", labels);
    if (got == 1) {
        *et_map_at(&check->labels, labels) = 1;
    }
    return (int)got;
}

static int check_labels(struct et_damage_check *check, struct et_blob label_sets, char why[120])
{
    const uint8_t *at = label_sets.bytes, *end = label_sets.size ? at + label_sets.size : at;
    uint64_t labels, ids[3], count = 0;
    int got = 1;
    while (got == 1 && at < end && et_label_set_next(&at, end, &labels, ids)) {
        got = find_labels(check, labels);
        count++;
    }
    if (got == 0) {
        snprintf(why, 120, "its labels %llu are missing", (unsigned long long)labels);
    } else if (got == 1 && at != end) {
        snprintf(why, 120, "its label sets cannot be read");
    }
    for (size_t i = 0; got == 1 && !*why && i < check->unpacked.count; i++) {
        if (check->unpacked.stacks[i].label_set > count) {
            snprintf(why, 120, "a stack refers to a label set that is missing");
        }
    }
    return got < 0 ? got : *why != '\0';
}

static int check_stacks(struct et_damage_check *check, const struct et_row *row, struct et_blob stacks, char why[120])
{
    if (et_unpack(&check->unpacked, row->packing, row->columns, stacks.bytes, stacks.size)) {
        snprintf(why, 120, "its stacks cannot be read");
    } else if (et_row_unpack(&check->unpacked, row, stacks)) {
        snprintf(why, 120, "its stacks do not add up to its sum");
    }
    for (size_t i = 0; !*why && i < check->unpacked.count; i++) {
        uint64_t node = check->unpacked.stacks[i].node;
        int got = find_node(check, node);
        if (got < 0) {
            return got;
        }
        if (!got) {
            snprintf(why, 120, "a stack refers to node %llu, which is missing", (unsigned long long)node);
        }
    }
    return *why != '\0';
}

int et_damage_find(struct et_damage_check *check, const struct et_row *row, char why[120])
{
    struct et_store *store = check->store;
    sqlite3_stmt *statement = row->level == ET_ROLLUP ? et_rollup_bind(store, row->id) : et_stacks_bind(store, row->id);
    int got = et_store_step(store, statement);
    why[0] = '\0';
    if (got == 1) {
        got = check_stacks(check, row, et_column_blob(statement, 0), why);
        got = got ? got : check_labels(check, et_column_blob(statement, 1), why);
    } else if (got == 0) {
        snprintf(why, 120, "its stacks are missing");
        got = 1;
    }
    sqlite3_reset(statement);
    return got;
}

void et_damage_check_free(struct et_damage_check *check)
{
    et_map_free(&check->nodes);
    et_map_free(&check->labels);
    et_unpacked_free(&check->unpacked);
}
