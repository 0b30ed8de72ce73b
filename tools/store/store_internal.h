/* The handle of a database and its statements, shared by this folder's files. */
#ifndef ET_STORE_INTERNAL_H
#define ET_STORE_INTERNAL_H

#include "tools/store/known.h"
#include "tools/store/store.h"

#include <sqlite3.h>

/* The cache of segment dictionaries (store_segment.c). */
struct et_cached {
    uint64_t id;
    uint32_t sequence; /* of the next message */
    uint64_t part;     /* number of the last transaction that changed it */
    uint64_t used;
    struct et_segment segment;
};

struct et_cache {
    struct et_cached **segments;
    size_t count, capacity;
    uint64_t clock;
};

/* What the size limit must leave, counted an hour at a time (store_keep.c). */
struct et_floor {
    int64_t hours, bytes; /* bytes: estimate for the profiles of all hours */
    int64_t next_ns;      /* hours from here on are not counted yet */
    int64_t counted_ns;   /* when the count was complete; 0: it is not */
    int64_t used;         /* bytes in use when the limit could not be held; 0: it is held */
};

struct et_store {
    sqlite3 *db;
    struct et_map statements; /* address of the SQL -> sqlite3_stmt pointer */
    struct et_bounds *bounds;
    struct et_age *age;                   /* NULL: the system's clock */
    struct et_residents *residents;       /* NULL: none */
    int64_t metric_sets, metric_swept_ns; /* store_metrics.c */
    char *metric_labels;                  /* NULL: none */
    bool metric_full;                     /* reported */
    int failed;                           /* first error since begin */
    bool grouped;                         /* between group_begin and group_end */
    int group_failed;                     /* error with which SQLite aborted the whole group */
    struct et_budget *budget;             /* NULL: none */
    uint64_t part;                        /* number of the current transaction or part of a group */
    struct et_floor floor;
    bool dropping;
    int64_t dropping_ns; /* start of an hour of which some rows are deleted (store_keep.c) */
    struct et_cache cache;
    struct et_known known; /* rows of the dictionary, labels and origins */
    struct et_buf key;     /* a name for `known` */
    /* The last row that was not `known` was added. New rows come in runs, and so do those of a restarted server that
     * the database has: what the last one needed is tried first, which saves a search of the index. */
    bool new_frames, new_nodes;
    struct et_map damaged; /* rows that cannot be read (store_damage.h) */
    bool doubts_rows;      /* et_store_load() checks each row that it reads */
    char why[256];
};

/* Removes the dictionaries that the rolled back transaction changed, or all, from the cache. */
void et_store_cache_undo(struct et_store *store, bool all);
void et_store_cache_free(struct et_store *store);

/* Returns 0, or an error when the budget is exceeded; the database has the message. et_store_step() asks this, too. */
int et_store_late(struct et_store *store);
/* The same, after et_budget_hold(). */
int et_store_hold(struct et_store *store, size_t *held, size_t bytes);

/* Keeps SQLite's message. Returns the errno value for it. */
int et_store_note(struct et_store *store, int sqlite_code);

/* What a database is by its schema. */
enum et_schema {
    ET_SCHEMA_NONE, /* empty */
    ET_SCHEMA_OURS,
    ET_SCHEMA_OTHER /* of another version of edgeprof, or another program: neither read nor write it */
};

/* Returns SQLite's code. *why is set for ET_SCHEMA_OTHER: what the database is, and what to do. */
int et_schema_find(sqlite3 *db, enum et_schema *found, char *why, size_t size);
/* Creates the tables of an empty database. Returns 0 or an error; the database keeps the message. */
int et_schema_create(struct et_store *store);

/*
 * Statements are prepared at their first use and kept by the address of `sql`, which must be a string literal or a
 * static constant. Only one user at a time may step a statement. format has a letter for each value: i int64_t,
 * u uint64_t (stored as its bits), s text, b void pointer and size_t.
 */

/* Returns the statement, ready to step; NULL: failed, see et_store_why(). */
sqlite3_stmt *et_store_bind(struct et_store *store, const char *sql, const char *format, ...);
/* Returns 1: a row; 0: done; or a negative errno value. statement NULL: the error of et_store_bind(). */
int et_store_step(struct et_store *store, sqlite3_stmt *statement);
/* Runs a statement that has no rows. Returns 0 or an error. */
int et_store_run(struct et_store *store, const char *sql, const char *format, ...);
/* Returns the new row's id; 0: it was not added, because it is there; or an error. */
int64_t et_store_insert(struct et_store *store, const char *sql, const char *format, ...);
/* Returns the first column of the first row; 0: there is no row; or an error. */
int64_t et_store_number(struct et_store *store, const char *sql, const char *format, ...);
/* Ends reading that a failed call has left open. */
void et_statements_reset(struct et_store *store);
void et_statements_free(struct et_store *store);

/* The tags and names of a profile's process. */
struct et_process {
    const char *tags, *service, *host; /* tags as in et_origin */
};

/* The value of `key` for matchers and groups: from labels (lines), else from the process. NULL: none. */
const char *et_process_value(const char *labels, const struct et_process *process, const char *key, size_t *size);

/* Whether the matcher accepts a stack with these labels of that process. */
bool et_process_matches(const struct et_matcher *matcher, const char *labels, const struct et_process *process);

/* Returns 1: *out is filled, with strings copied to *strings; 0: unknown id; or an error. */
int et_store_origin_get(struct et_store *store, int64_t id, struct et_strings *strings, struct et_origin *out);

/* Appends the label lines of an id; "" for 0. Returns 0 or an error. */
int et_store_labels_text(struct et_store *store, int64_t labels, struct et_buf *out);

/* Appends the query's kind to *kind. */
int et_store_choose_kind(struct et_store *store, const struct et_query *query, struct et_buf *kind);

/* If the profile has a module without build id: sets its began_ns, from the processes with these ids. */
int et_store_began(struct et_store *store, const struct et_map *origins, struct et_profile *profile);
/* Reads what it needs of /proc, before a sandbox begins. */
void et_began_prepare(void);

/* Begins a read transaction, so that all reads see one state. Returns false when one has already begun. */
bool et_store_reading(struct et_store *store);
void et_store_reading_done(struct et_store *store, bool began);

/* A column's text, "" for NULL. Valid until the next step. */
const char *et_column_text(sqlite3_stmt *statement, int column);

#endif
