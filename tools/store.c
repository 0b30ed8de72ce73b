/*
 * See store.h: the schema, opening, transactions, and everything that writes.
 *
 *   module  (build id, path)                 profile (origin, kind, time, stacks)   stacks: varints node, value, ...
 *   frame   (module, address | name ...)     origin  (service, tags, process, running totals)
 *   node    (parent, frame)                  segment, span, chunk: a device's dictionary, so that a restart of the
 *                                            server costs nothing
 *
 * Reading is in store_query.c.
 */
#include "store_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SCHEMA[] =
    "CREATE TABLE IF NOT EXISTS module (id INTEGER PRIMARY KEY, build_id TEXT NOT NULL, path TEXT NOT NULL,"
    " UNIQUE (build_id, path));"
    "CREATE TABLE IF NOT EXISTS frame (id INTEGER PRIMARY KEY, module INTEGER NOT NULL, address INTEGER NOT NULL,"
    " name TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, UNIQUE (module, address, name, file, line));"
    "CREATE TABLE IF NOT EXISTS node (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, frame INTEGER NOT NULL,"
    " UNIQUE (parent, frame));"
    "CREATE TABLE IF NOT EXISTS origin (id INTEGER PRIMARY KEY, service TEXT NOT NULL, tags TEXT NOT NULL,"
    " host TEXT NOT NULL, boot_id TEXT NOT NULL, pid INTEGER NOT NULL, executable TEXT NOT NULL, arch TEXT NOT NULL,"
    " agent TEXT NOT NULL, process_start INTEGER NOT NULL, stats BLOB,"
    " UNIQUE (service, tags, host, boot_id, pid, executable, arch, agent, process_start));"
    "CREATE TABLE IF NOT EXISTS profile (id INTEGER PRIMARY KEY, origin INTEGER NOT NULL, kind TEXT NOT NULL,"
    " unit TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, period INTEGER NOT NULL,"
    " samples INTEGER NOT NULL, quantum INTEGER NOT NULL, stacks BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS profile_time ON profile (end_ns);"
    "CREATE INDEX IF NOT EXISTS profile_origin ON profile (origin, kind, unit, start_ns, end_ns);"
    "CREATE TABLE IF NOT EXISTS segment (id INTEGER PRIMARY KEY, origin INTEGER NOT NULL,"
    " next_sequence INTEGER NOT NULL, ended INTEGER NOT NULL, seen_ns INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS span (segment INTEGER NOT NULL, number INTEGER NOT NULL, base INTEGER NOT NULL,"
    " size INTEGER NOT NULL, address INTEGER NOT NULL, module INTEGER NOT NULL, PRIMARY KEY (segment, number))"
    " WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS chunk (segment INTEGER NOT NULL, sequence INTEGER NOT NULL, nodes BLOB NOT NULL,"
    " PRIMARY KEY (segment, sequence)) WITHOUT ROWID;"
    "PRAGMA user_version = 1;";

static const char *const SQL[S_COUNT] = {
    [S_BEGIN] = "BEGIN IMMEDIATE",
    [S_COMMIT] = "COMMIT",
    [S_ROLLBACK] = "ROLLBACK",
    [S_MODULE_FIND] = "SELECT id FROM module WHERE build_id = ? AND path = ?",
    [S_MODULE_ADD] = "INSERT INTO module (build_id, path) VALUES (?, ?)",
    [S_FRAME_FIND] = "SELECT id FROM frame WHERE module = ? AND address = ? AND name = ? AND file = ? AND line = ?",
    [S_FRAME_ADD] = "INSERT INTO frame (module, address, name, file, line) VALUES (?, ?, ?, ?, ?)",
    [S_NODE_FIND] = "SELECT id FROM node WHERE parent = ? AND frame = ?",
    [S_NODE_ADD] = "INSERT INTO node (parent, frame) VALUES (?, ?)",
    [S_ORIGIN_FIND] = "SELECT id FROM origin WHERE service = ? AND tags = ? AND host = ? AND boot_id = ? AND pid = ?"
                      " AND executable = ? AND arch = ? AND agent = ? AND process_start = ?",
    [S_ORIGIN_ADD] = "INSERT INTO origin (service, tags, host, boot_id, pid, executable, arch, agent, process_start)"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [S_STATS_PUT] = "UPDATE origin SET stats = ?2 WHERE id = ?1",
    [S_PROFILE_ADD] = "INSERT INTO profile (origin, kind, unit, start_ns, end_ns, period, samples, quantum, stacks)"
                      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [S_SEGMENT_GET] = "SELECT origin, next_sequence, ended FROM segment WHERE id = ?",
    [S_SEGMENT_PUT] = "INSERT OR REPLACE INTO segment (id, origin, next_sequence, ended, seen_ns)"
                      " VALUES (?, ?, ?, ?, ?)",
    [S_SPAN_ADD] = "INSERT INTO span (segment, number, base, size, address, module) VALUES (?, ?, ?, ?, ?, ?)",
    [S_SPAN_GET] = "SELECT base, size, address, module FROM span WHERE segment = ? ORDER BY number",
    [S_CHUNK_ADD] = "INSERT INTO chunk (segment, sequence, nodes) VALUES (?, ?, ?)",
    [S_CHUNK_GET] = "SELECT nodes FROM chunk WHERE segment = ? ORDER BY sequence",
    [S_SPAN_DROP] = "DELETE FROM span WHERE segment = ?",
    [S_CHUNK_DROP] = "DELETE FROM chunk WHERE segment = ?",
    [S_MODULE_GET] = "SELECT build_id, path FROM module WHERE id = ?",
    [S_FRAME_GET] = "SELECT module, address, name, file, line FROM frame WHERE id = ?",
    [S_NODE_GET] = "SELECT parent, frame FROM node WHERE id = ?",
    [S_SERVICES] = "SELECT o.service, p.kind, p.unit, min(p.start_ns), max(p.end_ns), count(*) FROM profile p"
                   " JOIN origin o ON o.id = p.origin GROUP BY o.service, p.kind ORDER BY 5 DESC, 1, 2",
    [S_TAGSETS] = "SELECT DISTINCT tags FROM origin WHERE service = ? ORDER BY tags",
    [S_PROFILES] = "SELECT o.tags, p.unit, p.start_ns, p.end_ns, p.period, p.samples, p.quantum, p.stacks"
                   " FROM profile p JOIN origin o ON o.id = p.origin"
                   " WHERE p.end_ns > ?1 AND p.start_ns < ?2 AND (?3 = '' OR o.service = ?3) AND p.kind = ?4"
                   " ORDER BY p.start_ns",
    [S_ORIGINS] = "SELECT o.service, o.tags, o.host, o.boot_id, o.executable, o.arch, o.agent, o.pid, o.process_start,"
                  " o.stats, min(p.start_ns), max(p.end_ns), count(*), sum(p.samples) FROM profile p"
                  " JOIN origin o ON o.id = p.origin WHERE p.end_ns > ?1 AND p.start_ns < ?2"
                  " AND (?3 = '' OR o.service = ?3) GROUP BY o.id ORDER BY 12 DESC, o.id DESC",
    [S_KIND] = "SELECT p.kind FROM profile p JOIN origin o ON o.id = p.origin WHERE (?1 = '' OR o.service = ?1)"
               " ORDER BY p.kind = 'cpu' DESC, p.end_ns DESC LIMIT 1",
};

/* ---- errors ---- */

static int error_of(int sqlite_code)
{
    switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    default:
        return -EIO;
    }
}

static int note(struct et_store *store, int sqlite_code)
{
    int err = error_of(sqlite_code);
    if (!store->failed) {
        store->failed = err;
    }
    snprintf(store->why, sizeof store->why, "%s", sqlite3_errmsg(store->db));
    return err;
}

const char *et_store_why(const struct et_store *store)
{
    return store->why;
}

/* ---- statements ---- */

static int bind_one(sqlite3_stmt *statement, int position, char type, va_list *args)
{
    const char *text;
    const void *bytes;
    switch (type) {
    case 'i':
        return sqlite3_bind_int64(statement, position, va_arg(*args, int64_t));
    case 'u':
        return sqlite3_bind_int64(statement, position, (int64_t)va_arg(*args, uint64_t));
    case 's':
        text = va_arg(*args, const char *);
        return sqlite3_bind_text(statement, position, text, -1, SQLITE_TRANSIENT);
    default:
        bytes = va_arg(*args, const void *);
        return sqlite3_bind_blob64(statement, position, bytes ? bytes : "", va_arg(*args, size_t), SQLITE_TRANSIENT);
    }
}

sqlite3_stmt *et_store_bind(struct et_store *store, enum et_statement which, const char *format, ...)
{
    sqlite3_stmt **statement = &store->statements[which];
    if (!*statement) {
        int code = sqlite3_prepare_v3(store->db, SQL[which], -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
        if (code != SQLITE_OK) {
            note(store, code);
            return NULL;
        }
    }
    sqlite3_reset(*statement);
    va_list args;
    va_start(args, format);
    int code = SQLITE_OK;
    for (int i = 0; format[i] && code == SQLITE_OK; i++) {
        code = bind_one(*statement, i + 1, format[i], &args);
    }
    va_end(args);
    if (code != SQLITE_OK) {
        note(store, code);
        return NULL;
    }
    return *statement;
}

int et_store_step(struct et_store *store, sqlite3_stmt *statement)
{
    if (!statement) {
        return store->failed ? store->failed : -EIO;
    }
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        return 1;
    }
    int err = code == SQLITE_DONE ? 0 : note(store, code);
    sqlite3_reset(statement);
    return err;
}

const char *et_column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}

/* First column of the first row, 0 when there is none. */
static int64_t first(struct et_store *store, sqlite3_stmt *statement)
{
    int got = et_store_step(store, statement);
    if (got <= 0) {
        return got;
    }
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return value;
}

static int64_t added(struct et_store *store, sqlite3_stmt *statement)
{
    int err = et_store_step(store, statement);
    return err < 0 ? err : sqlite3_last_insert_rowid(store->db);
}

/* ---- opening ---- */

static int configure(struct et_store *store)
{
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, 5000);
    int code = sqlite3_exec(store->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL", NULL, NULL, NULL);
    if (code != SQLITE_OK) {
        return note(store, code);
    }
    sqlite3_stmt *version = NULL;
    code = sqlite3_prepare_v2(store->db, "PRAGMA user_version", -1, &version, NULL);
    int64_t number = code == SQLITE_OK ? first(store, version) : 0;
    sqlite3_finalize(version);
    if (number > 1) {
        snprintf(store->why, sizeof store->why, "it was written by a newer edgeprof (schema %d)", (int)number);
        return -EIO;
    }
    code = number == 1 ? SQLITE_OK : sqlite3_exec(store->db, SCHEMA, NULL, NULL, NULL);
    return code == SQLITE_OK && number >= 0 ? 0 : note(store, code);
}

struct et_store *et_store_open(const char *path, bool create, const char **why)
{
    static _Thread_local char text[256];
    struct et_store *store = et_alloc(1, sizeof *store);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(path, &store->db, flags, NULL);
    int err = code == SQLITE_OK ? configure(store) : note(store, code);
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
    for (int i = 0; i < S_COUNT; i++) {
        sqlite3_finalize(store->statements[i]);
    }
    sqlite3_close(store->db);
    free(store);
}

int et_store_begin(struct et_store *store)
{
    store->failed = 0;
    return et_store_step(store, et_store_bind(store, S_BEGIN, ""));
}

int et_store_end(struct et_store *store, bool commit)
{
    int err = store->failed;
    if (commit && !err) {
        err = et_store_step(store, et_store_bind(store, S_COMMIT, ""));
    }
    if (!sqlite3_get_autocommit(store->db)) {
        char why[sizeof store->why];
        memcpy(why, store->why, sizeof why);
        et_store_step(store, et_store_bind(store, S_ROLLBACK, ""));
        memcpy(store->why, why, sizeof why);
    }
    return err;
}

/* ---- dictionary ---- */

int64_t et_store_module(struct et_store *store, const char *build_id, const char *path)
{
    int64_t id = first(store, et_store_bind(store, S_MODULE_FIND, "ss", build_id, path));
    return id ? id : added(store, et_store_bind(store, S_MODULE_ADD, "ss", build_id, path));
}

int64_t et_store_frame(struct et_store *store, int64_t module, uint64_t address, const char *name, const char *file,
                       uint32_t line)
{
    int64_t at = (int64_t)line;
    int64_t id = first(store, et_store_bind(store, S_FRAME_FIND, "iussi", module, address, name, file, at));
    return id ? id : added(store, et_store_bind(store, S_FRAME_ADD, "iussi", module, address, name, file, at));
}

int64_t et_store_node(struct et_store *store, int64_t parent, int64_t frame)
{
    int64_t id = first(store, et_store_bind(store, S_NODE_FIND, "ii", parent, frame));
    return id ? id : added(store, et_store_bind(store, S_NODE_ADD, "ii", parent, frame));
}

/* ---- origins and profiles ---- */

static sqlite3_stmt *bind_origin(struct et_store *store, enum et_statement which, const struct et_origin *o)
{
    return et_store_bind(store, which, "ssssisssu", o->service, o->tags, o->host, o->boot_id, (int64_t)o->pid,
                         o->executable, o->arch, o->agent, o->process_start_ns);
}

int64_t et_store_origin(struct et_store *store, const struct et_origin *origin)
{
    int64_t id = first(store, bind_origin(store, S_ORIGIN_FIND, origin));
    return id ? id : added(store, bind_origin(store, S_ORIGIN_ADD, origin));
}

int et_store_stats(struct et_store *store, int64_t origin, const void *stats, size_t size)
{
    return et_store_step(store, et_store_bind(store, S_STATS_PUT, "ib", origin, stats, size));
}

int et_store_profile(struct et_store *store, const struct et_stored *p)
{
    return et_store_step(store, et_store_bind(store, S_PROFILE_ADD, "issiiuuub", p->origin, p->kind, p->unit,
                                              p->start_ns, p->end_ns, p->period, p->samples, p->quantum,
                                              (const void *)p->stacks->data, p->stacks->size));
}

/* ---- segments ---- */

int et_store_segment(struct et_store *store, uint64_t segment, struct et_segment_row *row)
{
    sqlite3_stmt *statement = et_store_bind(store, S_SEGMENT_GET, "u", segment);
    int got = et_store_step(store, statement);
    if (got == 1) {
        row->origin = sqlite3_column_int64(statement, 0);
        row->next_sequence = (uint32_t)sqlite3_column_int64(statement, 1);
        row->ended = sqlite3_column_int(statement, 2) != 0;
        sqlite3_reset(statement);
    }
    return got;
}

int et_store_segment_put(struct et_store *store, uint64_t segment, const struct et_segment_row *row, int64_t now_ns)
{
    return et_store_step(store, et_store_bind(store, S_SEGMENT_PUT, "uiiii", segment, row->origin,
                                              (int64_t)row->next_sequence, (int64_t)row->ended, now_ns));
}

static int load_spans(struct et_store *store, uint64_t segment, struct et_segment *out)
{
    sqlite3_stmt *statement = et_store_bind(store, S_SPAN_GET, "u", segment);
    int got;
    while ((got = et_store_step(store, statement)) == 1) {
        struct et_span span = {
            .base = (uint32_t)sqlite3_column_int64(statement, 0),
            .size = (uint32_t)sqlite3_column_int64(statement, 1),
            .address = (uint64_t)sqlite3_column_int64(statement, 2),
            .module = sqlite3_column_int64(statement, 3),
        };
        et_segment_add_span(out, &span);
    }
    return got;
}

static int load_nodes(struct et_store *store, uint64_t segment, struct et_segment *out)
{
    sqlite3_stmt *statement = et_store_bind(store, S_CHUNK_GET, "u", segment);
    int got;
    while ((got = et_store_step(store, statement)) == 1) {
        const uint8_t *at = sqlite3_column_blob(statement, 0);
        const uint8_t *end = at ? at + sqlite3_column_bytes(statement, 0) : NULL;
        uint64_t node, depth;
        while (at && et_varint_get(&at, end, &node) && et_varint_get(&at, end, &depth)) {
            et_segment_add_node(out, (uint32_t)depth, (int64_t)node);
        }
    }
    return got;
}

int et_store_segment_load(struct et_store *store, uint64_t segment, struct et_segment *out)
{
    int err = load_spans(store, segment, out);
    return err ? err : load_nodes(store, segment, out);
}

int et_store_segment_add(struct et_store *store, uint64_t segment, uint32_t sequence, const struct et_segment *now,
                         size_t first_span, size_t first_node)
{
    int err = 0;
    for (size_t i = first_span; i < now->span_count && !err; i++) {
        const struct et_span *span = &now->spans[i];
        err = et_store_step(store, et_store_bind(store, S_SPAN_ADD, "uiiiui", segment, (int64_t)i, (int64_t)span->base,
                                                 (int64_t)span->size, span->address, span->module));
    }
    if (err || first_node == now->node_count) {
        return err;
    }
    struct et_buf blob = {0};
    for (size_t i = first_node; i < now->node_count; i++) {
        et_varint_put(&blob, (uint64_t)now->nodes[i]);
        et_varint_put(&blob, now->depths[i]);
    }
    err = et_store_step(store, et_store_bind(store, S_CHUNK_ADD, "uib", segment, (int64_t)sequence,
                                             (const void *)blob.data, blob.size));
    et_buf_free(&blob);
    return err;
}

int et_store_segment_drop(struct et_store *store, uint64_t segment)
{
    int err = et_store_step(store, et_store_bind(store, S_SPAN_DROP, "u", segment));
    return err ? err : et_store_step(store, et_store_bind(store, S_CHUNK_DROP, "u", segment));
}
