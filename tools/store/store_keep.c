/*
 * See store_keep.h. et_keep_step() does the first step that is due:
 *
 *   1 et_merge_step                              merge
 *   2 gone_step -> strip_oldest -> strip_hour    mark merged rows that are old enough as gone
 *   3 sweep_step                                 delete gone rows, some at a time
 *   4 age_step, size_step -> drop_hour           delete rows that are too old or beyond the size limit
 *   5 et_rollup_step                             make roll-ups of merged hours (store_rollup.c)
 *   6 segment_step                               delete dictionaries of devices that stay away
 *   7 et_collect_step                            delete what is unused in the dictionary (store_collect.c)
 *   8 vacuum_step                                return free pages to the file system
 */
#include "tools/store/store_keep.h"
#include "tools/store/store_collect.h"
#include "tools/store/store_rollup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const int64_t HOUR = 3600 * ET_NS_PER_S, DAY = 86400 * ET_NS_PER_S;

/* Rows deleted and stacks merged per step: about 10 ms. */
enum { DELETED_AT_ONCE = 300, MERGED_AT_ONCE = 100000, ROLLED_AT_ONCE = 50000, ROLLUP_ROWS = 4 };

/* A segment without messages for this long is removed; its device starts a new one. */
static const int64_t SEGMENT_NS = 14 * 86400 * ET_NS_PER_S;

const struct et_policy et_policy_default = {
    .fine_ns = 7200 * ET_NS_PER_S, .five_ns = 172800 * ET_NS_PER_S, .keep_ns = 14 * 86400 * ET_NS_PER_S};

/* Rows of level 0 with greater ids are kept for up to a day, because a relay destination still needs them. */
static int64_t relay_hold_id(struct et_store *store)
{
    return et_store_number(store, "SELECT ifnull(min(cursor), 9223372036854775807) FROM relay WHERE state <> 'off'",
                           "");
}

/* ---- marking finer rows ---- */

static void mark_finer_gone(struct et_bucket *bucket, int64_t last)
{
    bucket->gone = bucket->low;
    bucket->bare = last;
}

/* Marks all buckets of level 1 in the hour first: their sources may not outlive them. Returns 1; 0: a bucket has an
 * unfinished merge. */
static int strip_hour(struct et_store *store, struct et_bucket *hour, int64_t last)
{
    struct et_buckets fives = {0};
    int err = et_buckets_load(store, 1, hour->start_ns, hour->start_ns + HOUR, &fives);
    bool settled = true;
    for (size_t i = 0; i < fives.count; i++) {
        settled &= fives.buckets[i].low == fives.buckets[i].high;
    }
    for (size_t i = 0; i < fives.count && settled && !err; i++) {
        mark_finer_gone(&fives.buckets[i], last);
        err = et_bucket_put(store, &fives.buckets[i]);
    }
    free(fives.buckets);
    mark_finer_gone(hour, last);
    err = err || !settled ? err : et_bucket_put(store, hour);
    return err ? err : settled;
}

static const char BUCKET_FULL[] =
    "SELECT " ET_BUCKET_COLUMNS
    " FROM bucket WHERE level = ? AND start_ns <= ? AND seen_ns <= ? AND low = high AND gone < low"
    " ORDER BY start_ns LIMIT 1";

/* Marks the oldest bucket of the level that ended and was merged before before_ns and still has finer rows. Returns 1
 * if it marked one. */
static int strip_oldest(struct et_store *store, int level, int64_t before_ns)
{
    int64_t start = before_ns - et_level_ns[level];
    sqlite3_stmt *row = et_store_bind(store, BUCKET_FULL, "iii", (int64_t)level, start, before_ns);
    int got = et_store_step(store, row);
    if (got != 1) {
        return got;
    }
    struct et_bucket bucket = et_bucket_of(row, level);
    sqlite3_reset(row);
    int64_t last = et_store_last(store);
    if (last < 0) {
        return (int)last;
    }
    if (level == 2) {
        return strip_hour(store, &bucket, last);
    }
    mark_finer_gone(&bucket, last);
    int err = et_bucket_put(store, &bucket);
    return err ? err : 1;
}

static int gone_step(struct et_store *store, const struct et_policy *policy, int64_t now_ns)
{
    int got = policy->fine_ns ? strip_oldest(store, 1, now_ns - policy->fine_ns) : 0;
    return got || !policy->five_ns ? got : strip_oldest(store, 2, now_ns - policy->five_ns);
}

/* ---- deleting ---- */

struct row_range {
    int level;
    int64_t from, to, up_to; /* at_ns, and the greatest id */
};

static const char ROWS_OLD[] =
    "SELECT id FROM profile WHERE level = ?1 AND at_ns >= ?2 AND at_ns < ?3 AND id <= ?4 AND (id <= ?5"
    " OR at_ns < ?6) LIMIT ?7";

/* Deletes some rows of the range. Returns their number or an error. */
static int delete_rows(struct et_store *store, const struct row_range *range, const struct et_keep_time *now)
{
    int64_t now_ns = now->clock_ns < now->count_ns ? now->clock_ns : now->count_ns;
    int64_t hold = range->level == 0 ? relay_hold_id(store) : INT64_MAX, ids[DELETED_AT_ONCE];
    sqlite3_stmt *row = et_store_bind(store, ROWS_OLD, "iiiiiii", (int64_t)range->level, range->from, range->to,
                                      range->up_to, hold, now_ns - DAY, (int64_t)DELETED_AT_ONCE);
    int got = hold < 0 ? (int)hold : 0, count = 0;
    while (got >= 0 && (got = et_store_step(store, row)) == 1) {
        ids[count++] = sqlite3_column_int64(row, 0);
    }
    for (int i = 0; i < count && got >= 0; i++) {
        if (ids[i] > hold) {
            got = et_store_run(store, "UPDATE relay SET lost = lost + 1 WHERE cursor < ? AND state <> 'off'", "i",
                               ids[i]);
        }
        got = got ? got : et_store_run(store, "DELETE FROM stacks WHERE profile = ?", "i", ids[i]);
        got = got ? got : et_store_run(store, "DELETE FROM profile WHERE id = ?", "i", ids[i]);
    }
    return got < 0 ? got : count;
}

/* Deletes rows that are marked as gone. */
static int sweep_step(struct et_store *store, const struct et_keep_time *now)
{
    for (int level = 1; level < ET_LEVELS; level++) {
        struct et_buckets list = {0};
        int got = 0, err = et_buckets_load(store, level, INT64_MIN, INT64_MAX, &list);
        for (size_t i = 0; i < list.count && !got && !err; i++) {
            struct et_bucket *b = &list.buckets[i];
            struct row_range range = {level - 1, b->start_ns, b->start_ns + et_level_ns[level], b->gone};
            got = b->swept < b->gone ? delete_rows(store, &range, now) : 0;
            if (b->swept < b->gone && !got && relay_hold_id(store) >= b->gone) {
                b->swept = b->gone;
                got = et_bucket_put(store, b);
                got = got ? got : 1;
            }
        }
        free(list.buckets);
        if (err || got) {
            return err ? err : got > 0 ? 1 : got;
        }
    }
    return 0;
}

/* Series whose profiles all ended before ?1 and are deleted. Those left have at_ns before ?1, too: a profile of the
 * last hour before the end is in the middle of that hour at most. All levels are named, because then the index counts.
 */
#define UNUSED_SERIES " last_ns < ?1 AND id NOT IN (SELECT series FROM profile WHERE level IN (0, 1, 2) AND at_ns < ?1)"

static const char SERIES_LABELS_DROP[] =
    "DELETE FROM series_labels WHERE series IN (SELECT id FROM series WHERE" UNUSED_SERIES ")";
static const char SERIES_DROP[] = "DELETE FROM series WHERE" UNUSED_SERIES;
static const char SERIES_FIRST[] =
    "UPDATE series SET first_ns = ?1 WHERE first_ns < ?1 AND NOT EXISTS (SELECT 1 FROM bucket"
    " WHERE start_ns < ?1)";

/* Deletes some rows of the hour; after the last, what only they used, and counts the hour. */
static int drop_hour(struct et_store *store, int64_t hour_ns, const struct et_keep_time *now, enum et_deleted reason)
{
    int err = et_rollup_drop(store, hour_ns);
    store->dropping = true;
    store->dropping_ns = hour_ns;
    for (int level = 0; level < ET_LEVELS && !err; level++) {
        struct row_range range = {level, hour_ns, hour_ns + HOUR, INT64_MAX};
        int got = delete_rows(store, &range, now);
        if (got) {
            return got > 0 ? 1 : got;
        }
    }
    store->dropping = err != 0;
    int64_t left =
        err ? err
            : et_store_number(store, "SELECT count(*) FROM profile WHERE NOT level AND at_ns >= ?1 AND at_ns < ?2",
                              "ii", hour_ns, hour_ns + HOUR);
    if (left) {
        return left < 0 ? (int)left : 0; /* a relay destination needs them */
    }
    err =
        et_store_run(store, "DELETE FROM bucket WHERE start_ns >= ?1 AND start_ns < ?2", "ii", hour_ns, hour_ns + HOUR);
    err = err ? err : et_rollup_forget(store, hour_ns);
    /* its profiles started in the hour, and may end in the next */
    err = err ? err : et_store_run(store, SERIES_LABELS_DROP, "i", hour_ns + 2 * HOUR);
    err = err ? err : et_store_run(store, SERIES_DROP, "i", hour_ns + 2 * HOUR);
    err = err ? err : et_store_run(store, SERIES_FIRST, "i", hour_ns + HOUR);
    err = err ? err : et_collect_note_hour(store);
    err = err ? err : et_store_note_deleted(store, reason, 1);
    return err ? err : 1;
}

static int drop_hour_of(struct et_store *store, sqlite3_stmt *row, const struct et_keep_time *now,
                        enum et_deleted reason)
{
    int got = et_store_step(store, row);
    int64_t hour = got == 1 ? sqlite3_column_int64(row, 0) : 0;
    sqlite3_reset(row);
    return got == 1 ? drop_hour(store, hour, now, reason) : got;
}

static const char HOUR_OLD[] =
    "SELECT start_ns - start_ns % 3600000000000 AS hour FROM bucket GROUP BY hour"
    " HAVING hour + 3600000000000 <= ?1 AND max(seen_ns) <= ?1 AND NOT max(dirty OR low <> high) ORDER BY hour"
    " LIMIT 1";

static int age_step(struct et_store *store, const struct et_policy *policy, const struct et_keep_time *now)
{
    sqlite3_stmt *row = policy->keep_ns ? et_store_bind(store, HOUR_OLD, "i", now->count_ns - policy->keep_ns) : NULL;
    return policy->keep_ns ? drop_hour_of(store, row, now, ET_DELETED_OLD_HOURS) : 0;
}

static const char PAGES[] = "PRAGMA page_count";
static const char PAGES_FREE[] = "PRAGMA freelist_count";

static int64_t used_bytes(struct et_store *store)
{
    int64_t pages = et_store_number(store, PAGES, "");
    int64_t free_pages = et_store_number(store, PAGES_FREE, "");
    int64_t size = et_store_number(store, "PRAGMA page_size", "");
    return pages < 0 ? pages : free_pages < 0 ? free_pages : size < 0 ? size : (pages - free_pages) * size;
}

/* ---- the size limit ---- */

static const char HOUR_BYTES[] =
    "SELECT CAST(count(*) * ifnull((SELECT avg(length(s.stacks) + ifnull(length(s.contexts), 0) + ?4) FROM"
    " (SELECT id FROM profile WHERE level = ?1 AND at_ns >= ?2 AND at_ns < ?3 LIMIT ?5) p JOIN stacks s"
    " ON s.profile = p.id), 0) AS INTEGER) FROM profile WHERE level = ?1 AND at_ns >= ?2 AND at_ns < ?3";

/* Estimates the bytes of an hour's profiles from some of its rows. */
static int64_t hour_bytes(struct et_store *store, int64_t hour_ns)
{
    enum { ROW_BYTES = 200, LOOKED_AT = 300 };
    int64_t sum = et_rollup_bytes(store, hour_ns);
    for (int level = 0; level < ET_LEVELS && sum >= 0; level++) {
        int64_t bytes = et_store_number(store, HOUR_BYTES, "iiiii", (int64_t)level, hour_ns, hour_ns + HOUR,
                                        (int64_t)ROW_BYTES, (int64_t)LOOKED_AT);
        if (bytes < 0) {
            return bytes;
        }
        sum += bytes;
    }
    return sum;
}

static const char HOUR_NEXT[] =
    "SELECT start_ns - start_ns % 3600000000000 FROM bucket WHERE start_ns >= ? ORDER BY start_ns LIMIT 1";

/* Counts the bytes of the hours that are left, one hour a call. Returns 1 until the count is complete. */
static int count_floor(struct et_store *store, int64_t hours, int64_t now_ns)
{
    static const int64_t VALID = 600 * ET_NS_PER_S;
    struct et_floor *floor = &store->floor;
    if (floor->hours == hours && floor->counted_ns && now_ns - floor->counted_ns < VALID) {
        return 0;
    }
    if (floor->hours != hours || floor->counted_ns) {
        *floor = (struct et_floor){.hours = hours, .next_ns = INT64_MIN, .used = floor->used};
    }
    sqlite3_stmt *row = et_store_bind(store, HOUR_NEXT, "i", floor->next_ns);
    int got = et_store_step(store, row);
    int64_t hour = got == 1 ? sqlite3_column_int64(row, 0) : 0;
    sqlite3_reset(row);
    if (got == 1) {
        int64_t bytes = hour_bytes(store, hour);
        floor->bytes += bytes;
        floor->next_ns = hour + HOUR;
        return bytes < 0 ? (int)bytes : 1;
    }
    floor->counted_ns = now_ns;
    return got;
}

/* Deletes the oldest hour, but none of those that the limit must leave. */
static int drop_oldest(struct et_store *store, const struct et_policy *policy, int64_t used,
                       const struct et_keep_time *now)
{
    int64_t hours =
        et_store_number(store, "SELECT count(DISTINCT start_ns - start_ns % 3600000000000) FROM bucket", "");
    int got = hours < 0 ? (int)hours : hours > ET_KEPT_HOURS ? 0 : count_floor(store, hours, now->count_ns);
    if (got) {
        return got;
    }
    if (hours > ET_KEPT_HOURS || (hours > 1 && store->floor.bytes > policy->max_bytes)) {
        return drop_hour_of(
            store,
            et_store_bind(store, "SELECT start_ns - start_ns % 3600000000000 FROM bucket ORDER BY start_ns LIMIT 1",
                          ""),
            now, ET_DELETED_BIG_HOURS);
    }
    got = et_collect_step(store, now->count_ns, true);
    store->floor.used = got ? store->floor.used : used;
    return got;
}

/* Oldest first: unmerged rows, then blocks of 5 minutes, then whole hours. A due garbage collection comes before hours,
 * because it may free enough. An hour that was begun goes entirely, even if less would do: part of it would look like
 * a quiet hour. */
static int size_step(struct et_store *store, const struct et_policy *policy, const struct et_keep_time *now)
{
    if (store->dropping) {
        return drop_hour(store, store->dropping_ns, now, ET_DELETED_BIG_HOURS);
    }
    int64_t used = policy->max_bytes ? used_bytes(store) : 0;
    if (used <= policy->max_bytes) {
        store->floor.used = 0;
        return used < 0 ? (int)used : 0;
    }
    int got = strip_oldest(store, 1, INT64_MAX);
    got = got ? got : strip_oldest(store, 2, INT64_MAX);
    got = got ? got : et_collect_step(store, now->count_ns, false);
    return got ? got : drop_oldest(store, policy, used, now);
}

struct et_keep_limit et_keep_limit(const struct et_store *store)
{
    const struct et_floor *floor = &store->floor;
    return (struct et_keep_limit){
        .exceeded = floor->used != 0, .used = floor->used, .profiles = floor->bytes, .hours = floor->hours};
}

/* ---- other steps ---- */

static int segment_step(struct et_store *store, int64_t now_ns)
{
    sqlite3_stmt *row =
        et_store_bind(store, "SELECT id FROM segment WHERE seen_ns < ? LIMIT 1", "i", now_ns - SEGMENT_NS);
    int got = et_store_step(store, row);
    uint64_t id = got == 1 ? (uint64_t)sqlite3_column_int64(row, 0) : 0;
    sqlite3_reset(row);
    if (got == 1) {
        int err = et_store_segment_drop(store, id);
        err = err ? err : et_store_run(store, "DELETE FROM segment WHERE id = ?", "u", id);
        return err ? err : 1;
    }
    return got;
}

/* SQLite reuses free pages. Many free pages are returned, if the file was created with incremental vacuum. */
static int vacuum_step(struct et_store *store)
{
    enum { FEW = 1024, AT_ONCE = 128 };
    int64_t pages = et_store_number(store, PAGES, "");
    int64_t spare = et_store_number(store, PAGES_FREE, "");
    if (pages < 0 || spare < 0 || spare < FEW || spare < pages / 4) {
        return pages < 0 ? (int)pages : spare < 0 ? (int)spare : 0;
    }
    sqlite3_stmt *row = et_store_bind(store, "PRAGMA incremental_vacuum(128)", "");
    int got, steps = 0;
    while ((got = et_store_step(store, row)) == 1 && steps++ < AT_ONCE) {
    }
    sqlite3_reset(row);
    int64_t left = et_store_number(store, PAGES_FREE, "");
    return got < 0 ? got : left < spare;
}

static int run_due_step(struct et_store *store, const struct et_policy *policy, const struct et_keep_time *now)
{
    int got = et_merge_step(store, now, MERGED_AT_ONCE);
    got = got ? got : gone_step(store, policy, now->count_ns);
    got = got ? got : sweep_step(store, now);
    got = got ? got : age_step(store, policy, now);
    got = got ? got : size_step(store, policy, now);
    got = got ? got : et_rollup_step(store, ROLLED_AT_ONCE, policy->rollup_rows ? policy->rollup_rows : ROLLUP_ROWS);
    got = got ? got : segment_step(store, now->count_ns);
    got = got ? got : et_collect_step(store, now->count_ns, false);
    return got ? got : vacuum_step(store);
}

int et_keep_step(struct et_store *store, const struct et_policy *policy, const struct et_keep_time *now)
{
    int err = et_store_begin(store);
    int got = err ? err : run_due_step(store, policy, now);
    err = et_store_end(store, got >= 0);
    return got < 0 ? got : err ? err : got;
}
