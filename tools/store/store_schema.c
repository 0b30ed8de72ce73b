/* The schema of the database. A database of another schema is refused. */
#include "tools/store/store_internal.h"

#include <errno.h>
#include <stdio.h>

/*
 * Tables:
 *
 *   module  (build id, path)                 origin  (service, tags, process, running totals)
 *   frame   (module, address | name ...)     series  (origin, kind, unit): one process's profiles of one kind
 *   node    (parent, frame)                  labels  (label lines); series_labels: label sets of each series
 *   profile (level, series, time, sums)      stacks  (of a profile, packed, see store_pack.h)
 *   bucket  (level, time): merge progress, see store_rows.h
 *   relay   (destination, cursor): the last profile sent to a destination
 *   metric  (service, version, device, labels, kind): counters; labels: of metric-labels, as lines
 *   segment, span, chunk, labelset: a device's dictionary, kept for a restart of the server
 *   rollup  (hour, service, kind, tags without the device, packed stacks): sums of rows of level 2; rolled: hours that
 *           have them, see store_rollup.h
 *   crash   (service, tags, host, message): an end of a program, with the message that told it
 *   incident (service, tags, host, message): a part of an incident, likewise
 *   collect, mark: progress and marks of the garbage collection (store_collect.c); deleted: what the keeper deleted
 *
 * Profile ids are never reused, so a later profile has a greater id. at_ns is the start of a received profile, or the
 * middle of a merged row's bucket. value_sum and count_sum are in units, modulo 2^64.
 */
enum { SCHEMA = 8 };

/* The columns of a key come first: else SQLite 3.40's integrity_check finds errors in a table without row ids. */
static const char *const TABLES[] = {
    "CREATE TABLE module (id INTEGER PRIMARY KEY, build_id TEXT NOT NULL, path TEXT NOT NULL, UNIQUE (build_id, path))",
    "CREATE TABLE frame (id INTEGER PRIMARY KEY, module INTEGER NOT NULL, address INTEGER NOT NULL,"
    " name TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, UNIQUE (module, address, name, file, line))",
    "CREATE TABLE node (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, frame INTEGER NOT NULL,"
    " UNIQUE (parent, frame))",
    "CREATE TABLE origin (id INTEGER PRIMARY KEY, service TEXT NOT NULL, tags TEXT NOT NULL, host TEXT NOT NULL,"
    " boot_id TEXT NOT NULL, pid INTEGER NOT NULL, executable TEXT NOT NULL, arch TEXT NOT NULL,"
    " agent TEXT NOT NULL, process_start INTEGER NOT NULL, stats BLOB, skipped INTEGER NOT NULL DEFAULT 0,"
    " UNIQUE (service, tags, host, boot_id, pid, executable, arch, agent, process_start))",
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, lines TEXT NOT NULL UNIQUE)",
    "CREATE TABLE series (id INTEGER PRIMARY KEY, origin INTEGER NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL,"
    " first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, profiles INTEGER NOT NULL, UNIQUE (origin, kind, unit))",
    "CREATE TABLE series_labels (series INTEGER NOT NULL, labels INTEGER NOT NULL, pass INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY (series, labels)) WITHOUT ROWID",
    "CREATE INDEX series_labels_labels ON series_labels (labels)",
    "CREATE TABLE profile (id INTEGER PRIMARY KEY AUTOINCREMENT, level INTEGER NOT NULL, series INTEGER NOT NULL,"
    " at_ns INTEGER NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, profiles INTEGER NOT NULL,"
    " period INTEGER NOT NULL, samples INTEGER NOT NULL, quantum INTEGER NOT NULL, columns INTEGER NOT NULL,"
    " packing INTEGER NOT NULL, value_sum INTEGER NOT NULL, count_sum INTEGER NOT NULL)",
    "CREATE INDEX profile_at ON profile (level, at_ns)",
    "CREATE TABLE stacks (profile INTEGER PRIMARY KEY, stacks BLOB NOT NULL, contexts BLOB)",
    "CREATE TABLE bucket (level INTEGER NOT NULL, start_ns INTEGER NOT NULL, dirty INTEGER NOT NULL,"
    " low INTEGER NOT NULL DEFAULT 0, high INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,"
    " gone INTEGER NOT NULL DEFAULT 0, swept INTEGER NOT NULL DEFAULT 0, bare INTEGER NOT NULL DEFAULT 0,"
    " seen_ns INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (level, start_ns)) WITHOUT ROWID",
    "CREATE TABLE rollup (id INTEGER PRIMARY KEY, hour_ns INTEGER NOT NULL, service TEXT NOT NULL, kind TEXT NOT NULL,"
    " unit TEXT NOT NULL, tags TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"
    " profiles INTEGER NOT NULL, period INTEGER NOT NULL, samples INTEGER NOT NULL, quantum INTEGER NOT NULL,"
    " columns INTEGER NOT NULL, packing INTEGER NOT NULL, members BLOB NOT NULL, stacks BLOB NOT NULL,"
    " contexts BLOB NOT NULL)",
    "CREATE INDEX rollup_hour ON rollup (hour_ns)",
    "CREATE TABLE rolled (hour_ns INTEGER PRIMARY KEY, low INTEGER NOT NULL, alone INTEGER NOT NULL)",
    "CREATE TABLE segment (id INTEGER PRIMARY KEY, origin INTEGER NOT NULL, next_sequence INTEGER NOT NULL,"
    " ended INTEGER NOT NULL, seen_ns INTEGER NOT NULL)",
    "CREATE INDEX segment_origin ON segment (origin)",
    "CREATE TABLE span (segment INTEGER NOT NULL, number INTEGER NOT NULL, base INTEGER NOT NULL,"
    " size INTEGER NOT NULL, address INTEGER NOT NULL, module INTEGER NOT NULL, PRIMARY KEY (segment, number))"
    " WITHOUT ROWID",
    "CREATE INDEX span_module ON span (module)",
    "CREATE TABLE chunk (segment INTEGER NOT NULL, sequence INTEGER NOT NULL, nodes BLOB NOT NULL,"
    " PRIMARY KEY (segment, sequence)) WITHOUT ROWID",
    "CREATE TABLE labelset (segment INTEGER NOT NULL, number INTEGER NOT NULL, labels INTEGER NOT NULL,"
    " PRIMARY KEY (segment, number)) WITHOUT ROWID",
    "CREATE INDEX labelset_labels ON labelset (labels)",
    "CREATE TABLE crash (id INTEGER PRIMARY KEY AUTOINCREMENT, segment INTEGER NOT NULL,"
    " received_ns INTEGER NOT NULL, service TEXT NOT NULL, tags TEXT NOT NULL, host TEXT NOT NULL,"
    " message BLOB NOT NULL)",
    "CREATE TABLE incident (id INTEGER PRIMARY KEY AUTOINCREMENT, incident INTEGER NOT NULL, part INTEGER NOT NULL,"
    " received_ns INTEGER NOT NULL, service TEXT NOT NULL, tags TEXT NOT NULL, host TEXT NOT NULL,"
    " message BLOB NOT NULL)",
    "CREATE INDEX incident_parts ON incident (incident, part)",
    "CREATE TABLE relay (name TEXT PRIMARY KEY, cursor INTEGER NOT NULL DEFAULT 0, sent INTEGER NOT NULL DEFAULT 0,"
    " refused INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT '')"
    " WITHOUT ROWID",
    "CREATE TABLE metric (service TEXT NOT NULL, version TEXT NOT NULL, device TEXT NOT NULL,"
    " labels TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL, value INTEGER NOT NULL, count INTEGER NOT NULL,"
    " profiles INTEGER NOT NULL, last_ns INTEGER NOT NULL,"
    " PRIMARY KEY (service, version, device, labels, kind)) WITHOUT ROWID",
    "CREATE TABLE collect (id INTEGER PRIMARY KEY CHECK (id = 0), phase INTEGER NOT NULL DEFAULT 0,"
    " cursor INTEGER NOT NULL DEFAULT 0, sequence INTEGER NOT NULL DEFAULT 0, seen INTEGER NOT NULL DEFAULT 0,"
    " number INTEGER NOT NULL DEFAULT 0, started_ns INTEGER NOT NULL DEFAULT 0, hours INTEGER NOT NULL DEFAULT 0)",
    "INSERT INTO collect (id) VALUES (0)",
    "CREATE TABLE mark (part INTEGER PRIMARY KEY, bits BLOB NOT NULL)",
    "CREATE TABLE deleted (what TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID",
    "PRAGMA user_version = 8",
};

/* One statement, because another process may create the tables at the same time. */
static const char FIND_SCHEMA[] = "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version";

int et_schema_find(sqlite3 *db, enum et_schema *found, char *why, size_t size)
{
    sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(db, FIND_SCHEMA, -1, &row, NULL);
    code = code == SQLITE_OK ? sqlite3_step(row) : code;
    int schema = code == SQLITE_ROW ? sqlite3_column_int(row, 0) : 0;
    bool tables = code == SQLITE_ROW && sqlite3_column_int(row, 1) > 0;
    sqlite3_finalize(row);
    *found = schema == SCHEMA ? ET_SCHEMA_OURS : schema || tables ? ET_SCHEMA_OTHER : ET_SCHEMA_NONE;
    if (*found == ET_SCHEMA_OTHER && schema) {
        snprintf(
            why, size,
            "written by another version of edgeprof (schema %d, this one has %d); use that version, or choose another"
            " database with --db",
            schema, SCHEMA);
    } else if (*found == ET_SCHEMA_OTHER) {
        snprintf(why, size, "a database of another program; choose another database with --db");
    }
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

static int create_tables(sqlite3 *db, enum et_schema *found, char *why, size_t size)
{
    int code = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    code = code == SQLITE_OK ? et_schema_find(db, found, why, size) : code;
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES && code == SQLITE_OK && *found == ET_SCHEMA_NONE; i++) {
        code = sqlite3_exec(db, TABLES[i], NULL, NULL, NULL);
    }
    return code == SQLITE_OK ? sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) : code;
}

int et_schema_create(struct et_store *store)
{
    enum et_schema found = ET_SCHEMA_NONE;
    int code = create_tables(store->db, &found, store->why, sizeof store->why);
    if (code != SQLITE_OK) {
        int err = et_store_note(store, code);
        if (!sqlite3_get_autocommit(store->db)) {
            sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        }
        return err;
    }
    return found == ET_SCHEMA_OTHER ? -EIO : 0;
}
