/* See store_rows.h: buckets, whose rows have the progress of merging. */
#include "tools/store/store_rows.h"

const int64_t et_level_ns[ET_LEVELS] = {0, 300 * ET_NS_PER_S, 3600 * ET_NS_PER_S};

int64_t et_bucket_start(int level, int64_t at_ns)
{
    int64_t size = et_level_ns[level], rest = at_ns % size;
    return at_ns - rest - (rest < 0 ? size : 0);
}

struct et_bucket et_bucket_of(sqlite3_stmt *statement, int level)
{
    return (struct et_bucket){
        .level = level,
        .start_ns = sqlite3_column_int64(statement, 0),
        .dirty = sqlite3_column_int(statement, 1) != 0,
        .low = sqlite3_column_int64(statement, 2),
        .high = sqlite3_column_int64(statement, 3),
        .done = sqlite3_column_int64(statement, 4),
        .gone = sqlite3_column_int64(statement, 5),
        .swept = sqlite3_column_int64(statement, 6),
        .bare = sqlite3_column_int64(statement, 7),
        .seen_ns = sqlite3_column_int64(statement, 8),
    };
}

static const char BUCKETS[] =
    "SELECT " ET_BUCKET_COLUMNS " FROM bucket WHERE level = ? AND start_ns >= ? AND start_ns < ? ORDER BY start_ns";

int et_buckets_load(struct et_store *store, int level, int64_t from_ns, int64_t to_ns, struct et_buckets *out)
{
    sqlite3_stmt *row = et_store_bind(store, BUCKETS, "iii", (int64_t)level, from_ns, to_ns);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        out->buckets = et_reserve(out->buckets, &out->capacity, out->count + 1, sizeof *out->buckets);
        out->buckets[out->count++] = et_bucket_of(row, level);
    }
    return got;
}

bool et_bucket_merged(const struct et_bucket *bucket, int64_t id, int64_t series)
{
    return id <= bucket->low || (id <= bucket->high && series <= bucket->done);
}

static const char BUCKET_PUT[] =
    "UPDATE bucket SET dirty = ?3, low = ?4, high = ?5, done = ?6, gone = ?7, swept = ?8, bare = ?9,"
    " seen_ns = ?10 WHERE level = ?1 AND start_ns = ?2";

int et_bucket_put(struct et_store *store, const struct et_bucket *b)
{
    return et_store_run(store, BUCKET_PUT, "iiiiiiiiii", (int64_t)b->level, b->start_ns, (int64_t)b->dirty, b->low,
                        b->high, b->done, b->gone, b->swept, b->bare, b->seen_ns);
}
