/* See store.h: opening and closing, errors, budget, transactions. */
#include "tools/lib/time_text.h"
#include "tools/store/bounds.h"
#include "tools/store/store_internal.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- errors ---- */

static int to_errno(int sqlite_code)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_INTERRUPT:
        return -ETIME;
    default:
        return -EIO;
    }
}

/* What to do about the error, where SQLite's message does not say it. */
static const char *find_advice(struct et_store *store, int sqlite_code)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_READONLY:
        return "no permission to write to it or its folder";
    case SQLITE_CANTOPEN:
        return sqlite3_system_errno(store->db) ? strerror(sqlite3_system_errno(store->db)) : "";
    case SQLITE_IOERR: {
        const int error = sqlite3_system_errno(store->db);
        return error == EFBIG ? "the limit of the size of files is reached; raise it with \"ulimit -f\""
               : error        ? strerror(error)
                              : "";
    }
    case SQLITE_BUSY:
        return "another program is writing to it";
    case SQLITE_CORRUPT:
        return "restore a backup, or move it away and start with a new one";
    case SQLITE_NOTADB:
        return "expected a file that `edgeprof serve` has written";
    default:
        return "";
    }
}

static int note_late(struct et_store *store)
{
    et_budget_why(store->budget, store->why, sizeof store->why);
    return store->budget->failed;
}

int et_store_note(struct et_store *store, int sqlite_code)
{
    int err = to_errno(sqlite_code);
    const char *advice = find_advice(store, sqlite_code);
    if (err == -ETIME && et_budget_check(store->budget)) {
        return note_late(store);
    }
    bool said = sqlite3_errcode(store->db) != SQLITE_OK;
    if (!store->failed) {
        store->failed = err;
    }
    snprintf(store->why, sizeof store->why, "%s%s%s", said ? sqlite3_errmsg(store->db) : sqlite3_errstr(sqlite_code),
             *advice ? "; " : "", advice);
    return err;
}

const char *et_store_why(const struct et_store *store)
{
    return *store->why ? store->why : "the database is damaged; `edgeprof check` says where";
}

/* ---- budget ---- */

int et_store_late(struct et_store *store)
{
    return et_budget_check(store->budget) ? note_late(store) : 0;
}

int et_store_hold(struct et_store *store, size_t *held, size_t bytes)
{
    (void)et_budget_hold(store->budget, held, bytes);
    return et_store_late(store);
}

int et_store_counts(struct et_store *store, size_t bytes)
{
    size_t held = 0;
    return et_store_hold(store, &held, bytes);
}

/* For a statement that works long until its next row. */
static int on_progress(void *context)
{
    return et_budget_check(context) != 0;
}

struct et_budget *et_store_budget(const struct et_store *store)
{
    return store->budget;
}

void et_store_set_budget(struct et_store *store, struct et_budget *budget)
{
    enum { STEPS = 10000 }; /* of SQLite's machine, some 100 us */
    store->budget = budget;
    sqlite3_progress_handler(store->db, budget ? STEPS : 0, budget ? on_progress : NULL, budget);
    if (!budget) {
        et_statements_reset(store);
    }
    if (!budget && !sqlite3_get_autocommit(store->db)) {
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    }
}

/* ---- opening ---- */

/* A read-only database, such as a backup on a read-only disk, is opened without changing its log mode. Setting
 * auto_vacuum writes to the database, and only that of an empty one has an effect. */
static int configure_log(struct et_store *store, bool create, bool empty)
{
    bool readonly = sqlite3_db_readonly(store->db, "main") == 1;
    if (readonly) {
        return create ? SQLITE_READONLY : SQLITE_OK;
    }
    int code = empty ? sqlite3_exec(store->db, "PRAGMA auto_vacuum = INCREMENTAL", NULL, NULL, NULL) : SQLITE_OK;
    return code != SQLITE_OK
               ? code
               : sqlite3_exec(store->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", NULL, NULL, NULL);
}

/* Acknowledged data must survive a power cut while the next flash page is written. By default SQLite assumes that it
 * does (powersafe overwrite), and packs commits into the log without gaps. */
static int configure(struct et_store *store, bool create)
{
    int trusting = 0;
    sqlite3_file_control(store->db, "main", SQLITE_FCNTL_POWERSAFE_OVERWRITE, &trusting);
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, 5000);
    enum et_schema found;
    int code = et_schema_find(store->db, &found, store->why, sizeof store->why);
    if (code == SQLITE_OK && found == ET_SCHEMA_OTHER) {
        return -EIO;
    }
    code = code == SQLITE_OK ? configure_log(store, create, found == ET_SCHEMA_NONE) : code;
    if (code != SQLITE_OK) {
        return et_store_note(store, code);
    }
    return found == ET_SCHEMA_NONE ? et_schema_create(store) : 0;
}

/* SQLite counts its memory under a lock that all connections share. Nobody asks for the count. */
static void configure_library(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

static bool is_in_sealed_folder(const char *path)
{
    char name[PATH_MAX];
    return (size_t)snprintf(name, sizeof name, "%s", path) < sizeof name && access(dirname(name), W_OK) != 0;
}

/* Of a server that was killed, or runs. */
static bool has_log(const char *path)
{
    char name[PATH_MAX];
    struct stat log;
    return (size_t)snprintf(name, sizeof name, "%s-wal", path) < sizeof name && stat(name, &log) == 0 &&
           log.st_size > 0;
}

/* Opens a database that cannot change, after the usual way has failed with err: without a log, without locks.
 * https://www.sqlite.org/uri.html, "immutable". */
static int open_sealed(struct et_store *store, const char *path, int err)
{
    struct et_buf uri = {0};
    if (has_log(path)) {
        snprintf(store->why, sizeof store->why,
                 "to read the log beside it (-wal), its folder must be writable; copy both");
        return err;
    }
    et_buf_printf(&uri, "file:");
    for (const char *at = path; *at; at++) {
        et_buf_printf(&uri, strchr("?#%", *at) ? "%%%02x" : "%c", *at);
    }
    et_buf_printf(&uri, "?immutable=1");
    store->failed = 0;
    sqlite3_close(store->db);
    int code =
        sqlite3_open_v2(uri.data, &store->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
    et_buf_free(&uri);
    return code == SQLITE_OK ? configure(store, false) : et_store_note(store, code);
}

struct et_store *et_store_open(const char *path, bool create, const char **why)
{
    static pthread_once_t configured = PTHREAD_ONCE_INIT;
    static _Thread_local char text[256];
    pthread_once(&configured, configure_library);
    et_began_prepare();
    struct et_store *store = et_alloc(1, sizeof *store);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(path, &store->db, flags, NULL);
    int err = code == SQLITE_OK ? configure(store, create) : et_store_note(store, code);
    if (err && !create && is_in_sealed_folder(path)) {
        err = open_sealed(store, path, err);
    }
    if (!err && create) { /* the one that writes: a large message changes pages all over the indexes */
        sqlite3_exec(store->db, "PRAGMA cache_size = -16384", NULL, NULL, NULL);
    }
    if (err) {
        snprintf(text, sizeof text, "%s", store->why);
        *why = text;
        et_store_close(store);
        return NULL;
    }
    store->failed = 0;
    return store;
}

void et_store_close(struct et_store *store)
{
    if (!store) {
        return;
    }
    et_statements_free(store);
    free(store->metric_labels);
    sqlite3_close(store->db);
    et_store_cache_free(store);
    et_known_clear(&store->known);
    et_map_free(&store->damaged);
    et_buf_free(&store->key);
    free(store);
}

void et_store_set_age(struct et_store *store, struct et_age *age)
{
    store->age = age;
}

void et_store_set_bounds(struct et_store *store, struct et_bounds *bounds)
{
    store->bounds = bounds;
}

void et_store_set_residents(struct et_store *store, struct et_residents *residents)
{
    store->residents = residents;
}

struct et_bounds *et_store_bounds(const struct et_store *store)
{
    return store->bounds;
}

/* ---- transactions ---- */

/* Runs the statement after a failure, and keeps that failure's message. */
static int undo_quietly(struct et_store *store, const char *sql)
{
    char why[sizeof store->why];
    memcpy(why, store->why, sizeof why);
    int err = et_store_run(store, sql, "");
    memcpy(store->why, why, sizeof why);
    return err;
}

/* Undoes what a rolled back transaction or part of a group changed in memory; all: the whole group. */
static void undo_memory(struct et_store *store, bool all)
{
    et_store_cache_undo(store, all);
    et_bounds_undo(store->bounds, all);
    et_known_undo(&store->known, all);
}

/* Commits, or rolls back if a step has failed or commit is false. */
static int end_transaction(struct et_store *store, bool commit)
{
    int err = store->failed;
    if (commit && !err) {
        err = et_store_run(store, "COMMIT", "");
    }
    if (!sqlite3_get_autocommit(store->db)) {
        undo_quietly(store, "ROLLBACK");
    }
    if (err || !commit) {
        undo_memory(store, false);
    } else {
        et_bounds_commit(store->bounds);
    }
    return err;
}

static const char PART_KEEP[] = "RELEASE part";

static int end_part(struct et_store *store, bool commit)
{
    int err = store->failed;
    if (commit && !err) {
        err = et_store_run(store, PART_KEEP, "");
    }
    if (sqlite3_get_autocommit(store->db)) {
        store->group_failed = err ? err : -EIO;
    } else if (err || !commit) {
        int undone = undo_quietly(store, "ROLLBACK TO part");
        store->group_failed = undone ? undone : undo_quietly(store, PART_KEEP);
        undo_memory(store, false);
    }
    return err;
}

bool et_store_reading(struct et_store *store)
{
    return sqlite3_get_autocommit(store->db) && sqlite3_exec(store->db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK;
}

void et_store_reading_done(struct et_store *store, bool began)
{
    if (began) {
        sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
    }
}

static int begin_writing(struct et_store *store)
{
    int err = et_store_run(store, "BEGIN IMMEDIATE", "");
    int64_t version = err ? err : et_store_number(store, "PRAGMA data_version", "");
    if (version >= 0) {
        et_known_begin(&store->known, version);
    }
    return version < 0 ? (int)version : 0;
}

int et_store_begin(struct et_store *store)
{
    if (store->group_failed) {
        return store->group_failed;
    }
    store->failed = 0;
    store->part++;
    et_bounds_begin(store->bounds);
    if (!store->grouped) {
        return begin_writing(store);
    }
    et_known_begin_part(&store->known);
    return et_store_run(store, "SAVEPOINT part", "");
}

int et_store_end(struct et_store *store, bool commit)
{
    if (store->group_failed) {
        return store->group_failed;
    }
    return store->grouped ? end_part(store, commit) : end_transaction(store, commit);
}

int et_store_group_begin(struct et_store *store)
{
    store->failed = 0;
    int err = begin_writing(store);
    store->grouped = err == 0;
    return err;
}

int et_store_group_end(struct et_store *store)
{
    store->failed = store->group_failed;
    store->group_failed = 0;
    store->grouped = false;
    int err = end_transaction(store, true);
    if (err) {
        undo_memory(store, true);
    }
    return err;
}
