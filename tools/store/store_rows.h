/*
 * Which stored profiles answer a query. What came is kept for a while and merged twice:
 *
 *   level 0   as it came, about 10 s
 *   level 1   5 minutes of a series
 *   level 2   1 hour of a series, without span and trace ids
 *
 * Merging takes nothing away, so that one measurement is there up to three times and a query has to see it once. Where
 * a whole hour is asked for that is its row of level 2, where five whole minutes are, that of level 1, else what came;
 * what is not merged that far yet stands for itself, and where the finer rows have gone the next coarser one is taken
 * when the middle of its bucket is in the range.
 *
 * A bucket's row says how far that is, so that no profile is ever written again. Ids grow with time. Of the rows of the
 * level below with their at_ns in the bucket
 *
 *   are merged    those with id <= low, and those with id <= high and series <= done: a pass that is under way
 *   are gone      those with id <= gone; they may still be there until swept is gone
 *
 * and the bucket's own rows with id <= bare stand for rows that have gone. dirty: rows have come that the last pass has
 * not seen. seen_ns: when the last pass began.
 */
#ifndef ET_STORE_ROWS_H
#define ET_STORE_ROWS_H

#include "tools/lib/kinds.h"
#include "tools/store/store_internal.h"
#include "tools/store/store_pack.h"

#define ET_NS_PER_S 1000000000LL

enum { ET_LEVELS = 3 };

/* Length of a level's buckets in ns; of level 0 there are none. */
extern const int64_t et_level_ns[ET_LEVELS];

/* Start of the bucket of that level which a time is in. */
int64_t et_bucket_start(int level, int64_t at_ns);

struct et_blob {
    const void *bytes;
    size_t size;
};

/* A column's bytes. Valid until the next step. */
struct et_blob et_column_blob(sqlite3_stmt *statement, int column);

/* A stored profile without its stacks. */
struct et_row {
    int64_t id, series, at_ns, start_ns, end_ns;
    int level, columns;
    enum et_packing packing;
    uint64_t profiles, period, samples, quantum; /* profiles: of those that came */
    uint64_t value_sum, count_sum;
};

/* Adds a profile that came, with its series and bucket. stored->stacks: only columns. Id or an error. */
int64_t et_store_add(struct et_store *store, const struct et_stored *stored, enum et_packing packing,
                     struct et_blob stacks, struct et_blob contexts);
/* Adds a row of any level, with its sums, which are put into it, and an id; marks the bucket that it is to be merged
 * into. */
int64_t et_store_add_row(struct et_store *store, struct et_row *row, bool cpu, struct et_blob stacks,
                         struct et_blob contexts);

/* A process' profiles of one kind. */
struct et_series {
    int64_t id, origin;
    char *kind, *unit, *tags, *service, *host;
    struct et_process process; /* of these */
    bool cpu;
};

/* The series that a query is about. Zeroed: none. */
struct et_selection {
    struct et_series *series;
    size_t count, capacity;
    struct et_map index; /* series -> index + 1 */
};

/* Those of a kind, NULL any, that may have stacks that match, with something in the range or within slack_ns of it; for
 * ET_WALL CPU and waits of who has no wall time. */
int et_selection_make(struct et_store *store, const struct et_query *query, const char *kind, int64_t slack_ns,
                      struct et_selection *out);

/* A merged row may stand for a time in which its series has nothing. */
#define ET_SLACK_NS (3600 * ET_NS_PER_S)
/* Whether what the query asks for may be in the labels of the series' stacks. 0 or an error. */
int et_series_asks_stacks(struct et_store *store, const struct et_query *query, const struct et_series *series,
                          bool *asks);

/* Whether a matcher or the group asks for spans or traces. */
bool et_query_asks_ids(const struct et_query *query);

/* That one alone. */
int et_selection_one(struct et_store *store, int64_t series, struct et_selection *out);
void et_selection_free(struct et_selection *selection);

struct et_rows {
    struct et_row *rows;
    size_t count, capacity;
};

/* The rows of the selection that stand for [from, to), as above but with level `coarsest` as the last; latest start
 * first. series in them is an index into the selection. free() the rows. */
int et_rows_choose(struct et_store *store, const struct et_selection *selection, int64_t from_ns, int64_t to_ns,
                   int coarsest, struct et_rows *out);

/* Of a level kind only a process' last interval counts, which may have come in several messages. Asked for each row,
 * latest first. Zeroed map: none asked yet. key: what the last is wanted of, such as the series. */
bool et_row_is_last(struct et_map *latest, uint64_t key, const struct et_row *row);

/* How far a bucket is merged. */
struct et_bucket {
    int64_t start_ns, low, high, done, gone, swept, bare, seen_ns;
    int level;
    bool dirty;
};

struct et_buckets {
    struct et_bucket *buckets;
    size_t count, capacity;
};

/* Buckets of a level with from <= start < to, by start. */
int et_buckets_load(struct et_store *store, int level, int64_t from_ns, int64_t to_ns, struct et_buckets *out);

/* A row of S_BUCKETS and others. */
struct et_bucket et_bucket_of(sqlite3_stmt *statement, int level);

/* Writes a bucket that is there. 0 or an error. */
int et_bucket_put(struct et_store *store, const struct et_bucket *bucket);

bool et_bucket_merged(const struct et_bucket *bucket, int64_t id, int64_t series);

/* A row of the statement S_ROWS. */
struct et_row et_row_of(sqlite3_stmt *statement, int level);

#endif
