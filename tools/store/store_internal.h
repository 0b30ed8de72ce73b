/* Shared by store.c (opening, writing), store_segment.c, store_schema.c, store_load.c and origins.c (reading): the
 * handle and its statements. */
#ifndef ET_STORE_INTERNAL_H
#define ET_STORE_INTERNAL_H

#include "tools/store/store.h"

#include <sqlite3.h>

enum et_statement {
    S_BEGIN,
    S_COMMIT,
    S_ROLLBACK,
    S_PART,
    S_PART_KEEP,
    S_PART_UNDO,
    S_MODULE_FIND,
    S_MODULE_ADD,
    S_FRAME_FIND,
    S_FRAME_ADD,
    S_NODE_FIND,
    S_NODE_ADD,
    S_ORIGIN_FIND,
    S_ORIGIN_ADD,
    S_UNDATED_FIND,
    S_UNDATED_ADD,
    S_STATS_PUT,
    S_PROFILE_ADD,
    S_STACKS_ADD,
    S_STACKS_GET,
    S_SERIES_ADD,
    S_SERIES_WANTED,
    S_SERIES_GET,
    S_SERIES_LABELS_ADD,
    S_SERIES_LABELS,
    S_BUCKET_DIRTY,
    S_BUCKETS,
    S_ROWS,
    S_ROW_NEXT,
    S_BUCKET_PUT,
    S_BUCKET_DUE,
    S_BUCKET_FULL,
    S_HOUR_OLD,
    S_HOUR_FIRST,
    S_ROWS_LEFT,
    S_BUCKET_DROP,
    S_LAST_ID,
    S_RELAY_LEAST,
    S_RELAY_LOST,
    S_ROWS_OLD,
    S_PROFILE_DROP,
    S_STACKS_DROP,
    S_SERIES_DROP,
    S_SERIES_LABELS_DROP,
    S_SERIES_FIRST,
    S_PAGES,
    S_PAGES_FREE,
    S_PAGE_SIZE,
    S_SEGMENT_OLD,
    S_SEGMENT_DROP,
    S_VACUUM,
    S_SKIPPED,
    S_METRIC_MORE,
    S_METRIC_NEW,
    S_METRIC_KNOWN,
    S_METRIC_SETS,
    S_METRIC_DROP,
    S_METRICS,
    S_RELAY_GET,
    S_RELAY_ADD,
    S_RELAY_OFF,
    S_PROFILES_BEHIND,
    S_LABELS_FIND,
    S_LABELS_ADD,
    S_LABELS_GET,
    S_SEGMENT_GET,
    S_SEGMENT_PUT,
    S_SPAN_ADD,
    S_SPAN_GET,
    S_LABELSET_ADD,
    S_LABELSET_GET,
    S_CHUNK_ADD,
    S_CHUNK_GET,
    S_SPAN_DROP,
    S_CHUNK_DROP,
    S_LABELSET_DROP,
    S_MODULE_GET,
    S_FRAMES_TO,
    S_NODE_GET,
    S_NODES_TO,
    S_SERVICES,
    S_TAGSETS,
    S_TAGS_ALL,
    S_LABELS_ALL,
    S_ORIGIN_GET,
    S_KIND,
    S_COUNT
};

/* Dictionaries of segments in memory, store_segment.c's. */
struct et_cached {
    uint64_t id;
    uint32_t sequence; /* of the message that comes next */
    uint64_t part;     /* the transaction that has touched it last */
    uint64_t used;
    struct et_segment segment;
};

struct et_cache {
    struct et_cached **segments;
    size_t count, capacity;
    uint64_t clock;
};

struct et_store {
    sqlite3 *db;
    sqlite3_stmt *statements[S_COUNT];
    struct et_bounds *bounds;
    int64_t metric_sets, metric_swept_ns; /* store_metrics.c */
    int failed;                           /* first error since begin */
    bool grouped;                         /* between group_begin and group_end */
    int group_failed;                     /* why SQLite has given up the whole group */
    uint64_t part;                        /* number of the transaction, of the group's part */
    struct et_cache cache;
    char why[256];
};

/* Binds by format: i int64_t, u uint64_t (kept as its bits), s text, b void pointer and size_t.
 * Returns the statement, ready to step; NULL: failed, the store says why. */
sqlite3_stmt *et_store_bind(struct et_store *store, enum et_statement which, const char *format, ...);

/* Forgets the dictionaries that the transaction has touched, for it is taken back; or all. */
void et_store_cache_undo(struct et_store *store, bool all);
void et_store_cache_free(struct et_store *store);

/* Notes SQLite's error; the store's own code for it. */
int et_store_note(struct et_store *store, int sqlite_code);

/* Makes the schema, or brings an older one up to date. 0 or an error, which is noted. */
int et_store_schema(struct et_store *store);

/* Steps: 1 a row, 0 done, negative errno. */
int et_store_step(struct et_store *store, sqlite3_stmt *statement);

/* First column of the first row, 0 when there is none, or an error. */
int64_t et_store_number(struct et_store *store, sqlite3_stmt *statement);

/* What is known of a profile's process. */
struct et_process {
    const char *tags, *service, *host; /* tags as in et_origin */
};

/* What matchers and groups call key, in labels (lines) or else of the process; NULL: nothing. */
const char *et_process_value(const char *labels, const struct et_process *process, const char *key, size_t *size);

/* Whether the matcher accepts a stack with these labels of that process. */
bool et_process_matches(const struct et_matcher *matcher, const char *labels, const struct et_process *process);

/* 1: *out is filled, its strings are copies in *strings; 0: there is none; or an error. */
int et_store_origin_get(struct et_store *store, int64_t id, struct et_strings *strings, struct et_origin *out);

/* Appends the labels (lines) of that id, "" for 0. 0 or an error. */
int et_store_labels_text(struct et_store *store, int64_t labels, struct et_buf *out);

/* Appends the kind that a query means to *kind. */
int et_store_choose_kind(struct et_store *store, const struct et_query *query, struct et_buf *kind);

/* Begins to read one state of the database, unless that has begun already: true. */
bool et_store_reading(struct et_store *store);
void et_store_reading_done(struct et_store *store, bool began);

/* A column's text, "" for NULL. Valid until the next step. */
const char *et_column_text(sqlite3_stmt *statement, int column);

#endif
