/*
 * Selects the stored rows that answer a query. Rows are stored at three levels:
 *
 *   level 0   as received, about 10 s
 *   level 1   5 minutes of a series
 *   level 2   1 hour of a series, without span and trace ids
 *
 * Merging keeps the finer rows for a while, so a sample may be in three rows, and a query must count it once. A query
 * uses a level 2 row for each whole hour, level 1 rows for each whole 5 minutes, and level 0 rows for the remainder.
 * Rows that are not merged yet are used directly. Where finer rows are gone, the next coarser row is used if its
 * bucket's middle is in the range.
 */
#ifndef ET_STORE_ROWS_H
#define ET_STORE_ROWS_H

#include "tools/lib/kinds.h"
#include "tools/store/store_internal.h"
#include "tools/store/store_pack.h"

#define ET_NS_PER_S 1000000000LL

/* ET_ROLLUP: a level only of chosen rows (store_rollup.h). */
enum { ET_LEVELS = 3, ET_ROLLUP = ET_LEVELS };

/* Bucket length of each level in ns; level 0 has no buckets. */
extern const int64_t et_level_ns[ET_LEVELS];

/* Start of the level's bucket that contains the time. */
int64_t et_bucket_start(int level, int64_t at_ns);

struct et_blob {
    const void *bytes;
    size_t size;
};

/* A column's bytes. Valid until the next step. */
struct et_blob et_column_blob(sqlite3_stmt *statement, int column);

/* What a chosen row counts for. */
enum et_row_use {
    ET_USE_ALL,
    ET_USE_HEADER, /* its stacks are in rows of ET_USE_STACKS */
    ET_USE_STACKS, /* its other fields are in rows of ET_USE_HEADER */
    ET_USE_MINUS   /* its stacks, subtracted */
};

/* A stored profile without its stacks. */
struct et_row {
    int64_t id, series, at_ns, start_ns, end_ns;
    int level, columns;
    enum et_packing packing;
    uint64_t profiles, period, samples, quantum; /* profiles: number of received profiles */
    uint64_t value_sum, count_sum;
    enum et_row_use use;
};

/* Adds a row of any level. Sets its sums and id, and marks the bucket it will be merged into. Returns the id or an
 * error. */
int64_t et_store_add_row(struct et_store *store, struct et_row *row, bool cpu, struct et_blob stacks,
                         struct et_blob label_sets);

/* A process's profiles of one kind. */
struct et_series {
    int64_t id, origin;
    char *kind, *unit, *tags, *service, *host;
    struct et_process process; /* points to these strings */
    int64_t last_ns;           /* end of its last profile, whatever the query's range */
    bool cpu;
    bool ended; /* its process said that it ends; only after et_selection_ends() */
};

/* The series that a query selects. Zeroed: none. */
struct et_selection {
    struct et_series *series;
    size_t count, capacity;
    struct et_map index; /* series -> index + 1 */
};

/* Selects series of a kind (NULL: any) that may have matching stacks and have data in the range, extended by slack_ns.
 * ET_WALL selects CPU and wait time of services without wall time. */
int et_selection_make(struct et_store *store, const struct et_query *query, const char *kind, int64_t slack_ns,
                      struct et_selection *out);

/* Finds which of the processes have ended. Returns 0 or an error. */
int et_selection_ends(struct et_store *store, struct et_selection *selection);
/* The moment whose levels a range asks for: its end, or that of the last profile. */
int64_t et_selection_end(const struct et_selection *selection, int64_t to_ns);
/* Whether the process of a level lived then. last: its last row until then. */
bool et_series_lives(const struct et_series *series, const struct et_row *last, int64_t at_ns);

/* A merged row may cover a time in which its series has no data. */
#define ET_SLACK_NS (3600 * ET_NS_PER_S)
/* Whether the query may depend on labels of the series' stacks. Returns 0 or an error. */
int et_series_asks_stacks(struct et_store *store, const struct et_query *query, const struct et_series *series,
                          bool *asks);

/* Whether the query selects the process of a row whose columns from `first` on are service, tags and host. */
bool et_query_selects_row(const struct et_query *query, sqlite3_stmt *row, int first);

/* Whether a matcher or the group uses span or trace ids. */
bool et_query_asks_ids(const struct et_query *query);

/* Selects only this series. */
int et_selection_one(struct et_store *store, int64_t series, struct et_selection *out);
void et_selection_free(struct et_selection *selection);

/* Statements, ready to step: stacks and label sets of a row; rows of a level with from <= at_ns < to, for et_row_of();
 * label lines of a series. NULL: failed. */
sqlite3_stmt *et_stacks_bind(struct et_store *store, int64_t row);
sqlite3_stmt *et_rows_bind(struct et_store *store, int level, int64_t from_ns, int64_t to_ns);
sqlite3_stmt *et_series_labels_bind(struct et_store *store, int64_t series);

struct et_rows {
    struct et_row *rows;
    size_t count, capacity;
};

/* Finds the rows of the selection for [from, to) as described above, up to level `coarsest`, latest start first.
 * Their `series` is an index into the selection. free() the rows. */
int et_rows_choose(struct et_store *store, const struct et_selection *selection, int64_t from_ns, int64_t to_ns,
                   int coarsest, struct et_rows *out);
/* The same up to level 2, for sums of stacks of a kind that is no level, with fewer rows: of an hour that is not whole,
 * its block less the rows beyond the range, if these are fewer (et_row.use). rollups: roll-ups in place of blocks, as
 * rows of ET_ROLLUP. */
int et_rows_choose_sums(struct et_store *store, const struct et_selection *selection, int64_t from_ns, int64_t to_ns,
                        bool rollups, struct et_rows *out);

/* For a level kind only a process's last interval counts, which may consist of several messages. Call it for each row,
 * latest first. Zeroed map: empty. key: identifies the last interval, such as the series. */
bool et_row_is_last(struct et_map *latest, uint64_t key, const struct et_row *row);

/*
 * A bucket's row stores the merge progress, so profile rows are never rewritten. Ids grow with time. Of the rows of the
 * level below with at_ns in the bucket
 *
 *   merged    id <= low, or id <= high and series <= done (a pass in progress)
 *   gone      id <= gone; rows up to `swept` are already deleted
 *
 * The bucket's own rows with id <= bare replace gone rows. dirty: rows arrived after the start of the last pass.
 * seen_ns: start of the last pass.
 */
struct et_bucket {
    int64_t start_ns, low, high, done, gone, swept, bare, seen_ns;
    int level;
    bool dirty;
};

struct et_buckets {
    struct et_bucket *buckets;
    size_t count, capacity;
};

/* Loads a level's buckets with from <= start < to, ordered by start. */
int et_buckets_load(struct et_store *store, int level, int64_t from_ns, int64_t to_ns, struct et_buckets *out);

/* Decodes a row that begins with ET_BUCKET_COLUMNS. */
#define ET_BUCKET_COLUMNS "start_ns, dirty, low, high, done, gone, swept, bare, seen_ns"
struct et_bucket et_bucket_of(sqlite3_stmt *statement, int level);

/* Updates an existing bucket. Returns 0 or an error. */
int et_bucket_put(struct et_store *store, const struct et_bucket *bucket);

bool et_bucket_merged(const struct et_bucket *bucket, int64_t id, int64_t series);

/* Decodes a row of ET_ROW_COLUMNS. */
#define ET_ROW_COLUMNS                                                                                                 \
    "id, series, at_ns, start_ns, end_ns, profiles, period, samples, quantum, columns, packing,"                       \
    " value_sum, count_sum"
struct et_row et_row_of(sqlite3_stmt *statement, int level);

#endif
