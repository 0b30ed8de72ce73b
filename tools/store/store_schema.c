/*
 * The database schema, and migration of older schemas in place.
 */
#include "tools/lib/kinds.h"
#include "tools/store/store_internal.h"
#include "tools/store/store_rows.h"

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
 * Profile ids are never reused, so a later profile has a greater id. at_ns is the start of a received profile (in
 * rows of earlier versions its middle), or the middle of a merged row's bucket. value_sum and count_sum are in units,
 * modulo 2^64.
 */
enum { VERSION = 7, READABLE = 3 };

static const char VERSION_1[] =
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
    " PRIMARY KEY (segment, sequence)) WITHOUT ROWID;";

static const char VERSION_2[] =
    "ALTER TABLE profile ADD COLUMN columns INTEGER NOT NULL DEFAULT 1;"
    "ALTER TABLE profile ADD COLUMN contexts BLOB;"
    "ALTER TABLE origin ADD COLUMN skipped INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE labels (id INTEGER PRIMARY KEY, lines TEXT NOT NULL UNIQUE);"
    "CREATE TABLE labelset (segment INTEGER NOT NULL, number INTEGER NOT NULL, labels INTEGER NOT NULL,"
    " PRIMARY KEY (segment, number)) WITHOUT ROWID;"
    "PRAGMA user_version = 2;";

static const char VERSION_3[] =
    "DROP INDEX profile_time; DROP INDEX profile_origin;"
    "ALTER TABLE profile RENAME TO profile_2;"
    "CREATE TABLE series (id INTEGER PRIMARY KEY, origin INTEGER NOT NULL, kind TEXT NOT NULL, unit TEXT NOT NULL,"
    " first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, profiles INTEGER NOT NULL, UNIQUE (origin, kind, unit));"
    "CREATE TABLE profile (id INTEGER PRIMARY KEY AUTOINCREMENT, level INTEGER NOT NULL, series INTEGER NOT NULL,"
    " at_ns INTEGER NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, profiles INTEGER NOT NULL,"
    " period INTEGER NOT NULL, samples INTEGER NOT NULL, quantum INTEGER NOT NULL, columns INTEGER NOT NULL,"
    " packing INTEGER NOT NULL, value_sum INTEGER NOT NULL, count_sum INTEGER NOT NULL);"
    "CREATE INDEX profile_at ON profile (level, at_ns);"
    "CREATE TABLE stacks (profile INTEGER PRIMARY KEY, stacks BLOB NOT NULL, contexts BLOB);"
    "CREATE TABLE bucket (level INTEGER NOT NULL, start_ns INTEGER NOT NULL, dirty INTEGER NOT NULL,"
    " low INTEGER NOT NULL DEFAULT 0, high INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,"
    " gone INTEGER NOT NULL DEFAULT 0, swept INTEGER NOT NULL DEFAULT 0, bare INTEGER NOT NULL DEFAULT 0,"
    " seen_ns INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY (level, start_ns)) WITHOUT ROWID;"
    "CREATE TABLE series_labels (series INTEGER NOT NULL, labels INTEGER NOT NULL, PRIMARY KEY (series, labels))"
    " WITHOUT ROWID;"
    "CREATE TABLE relay (name TEXT PRIMARY KEY, cursor INTEGER NOT NULL DEFAULT 0, sent INTEGER NOT NULL DEFAULT 0,"
    " refused INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT '')"
    " WITHOUT ROWID;"
    "CREATE TABLE metric (service TEXT NOT NULL, version TEXT NOT NULL, device TEXT NOT NULL, kind TEXT NOT NULL,"
    " value INTEGER NOT NULL, count INTEGER NOT NULL, profiles INTEGER NOT NULL, last_ns INTEGER NOT NULL,"
    " PRIMARY KEY (service, version, device, kind)) WITHOUT ROWID;"
    "PRAGMA user_version = 3;";

static const char VERSION_4[] =
    "CREATE TABLE collect (id INTEGER PRIMARY KEY CHECK (id = 0), phase INTEGER NOT NULL DEFAULT 0,"
    " cursor INTEGER NOT NULL DEFAULT 0, sequence INTEGER NOT NULL DEFAULT 0, seen INTEGER NOT NULL DEFAULT 0,"
    " number INTEGER NOT NULL DEFAULT 0, started_ns INTEGER NOT NULL DEFAULT 0, hours INTEGER NOT NULL);"
    /* earlier versions deleted hours without a collection */
    "INSERT INTO collect (id, hours) SELECT 0, count(*) > 0 FROM origin;"
    "CREATE TABLE mark (part INTEGER PRIMARY KEY, bits BLOB NOT NULL);"
    "CREATE TABLE deleted (what TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;"
    "ALTER TABLE series_labels ADD COLUMN pass INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX series_labels_labels ON series_labels (labels);"
    "CREATE INDEX labelset_labels ON labelset (labels);"
    "CREATE INDEX segment_origin ON segment (origin);"
    "CREATE INDEX span_module ON span (module);"
    "PRAGMA user_version = 4;";

/* The key's columns come first: SQLite 3.40's integrity_check mistakes them in a table without row ids otherwise. */
static const char VERSION_5[] =
    "ALTER TABLE metric RENAME TO metric_4;"
    "CREATE TABLE metric (service TEXT NOT NULL, version TEXT NOT NULL, device TEXT NOT NULL,"
    " labels TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL, value INTEGER NOT NULL, count INTEGER NOT NULL,"
    " profiles INTEGER NOT NULL, last_ns INTEGER NOT NULL,"
    " PRIMARY KEY (service, version, device, labels, kind)) WITHOUT ROWID;"
    "INSERT INTO metric (service, version, device, kind, value, count, profiles, last_ns)"
    " SELECT service, version, device, kind, value, count, profiles, last_ns FROM metric_4;"
    "DROP TABLE metric_4;"
    "PRAGMA user_version = 5;";

static const char VERSION_6[] =
    "CREATE TABLE IF NOT EXISTS crash (id INTEGER PRIMARY KEY AUTOINCREMENT, segment INTEGER NOT NULL,"
    " received_ns INTEGER NOT NULL, service TEXT NOT NULL, tags TEXT NOT NULL, host TEXT NOT NULL,"
    " message BLOB NOT NULL);"
    "PRAGMA user_version = 6;";

static const char VERSION_7[] =
    "CREATE TABLE rollup (id INTEGER PRIMARY KEY, hour_ns INTEGER NOT NULL, service TEXT NOT NULL, kind TEXT NOT NULL,"
    " unit TEXT NOT NULL, tags TEXT NOT NULL, start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"
    " profiles INTEGER NOT NULL, period INTEGER NOT NULL, samples INTEGER NOT NULL, quantum INTEGER NOT NULL,"
    " columns INTEGER NOT NULL, packing INTEGER NOT NULL, members BLOB NOT NULL, stacks BLOB NOT NULL,"
    " contexts BLOB NOT NULL);"
    "CREATE INDEX rollup_hour ON rollup (hour_ns);"
    "CREATE TABLE rolled (hour_ns INTEGER PRIMARY KEY, low INTEGER NOT NULL, alone INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS incident (id INTEGER PRIMARY KEY AUTOINCREMENT, incident INTEGER NOT NULL,"
    " part INTEGER NOT NULL, received_ns INTEGER NOT NULL, service TEXT NOT NULL, tags TEXT NOT NULL,"
    " host TEXT NOT NULL, message BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS incident_parts ON incident (incident, part);"
    "PRAGMA user_version = 7;";

int et_schema_version(sqlite3 *db, int *version)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL);
    code = code == SQLITE_OK ? sqlite3_step(statement) : code;
    *version = code == SQLITE_ROW ? sqlite3_column_int(statement, 0) : 0;
    sqlite3_finalize(statement);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

bool et_schema_newer(int version, char *why, size_t size)
{
    if (version > VERSION) {
        snprintf(why, size, "written by a newer edgeprof (schema %d); use that version or a later one", version);
    }
    return version > VERSION;
}

/* Version 1 used pprof's sample types as names of kinds. */
static int rename_kind(struct et_store *store, const char *type, const char *unit)
{
    bool count = false;
    const struct et_kind *kind = et_kind_of_pprof("", type, unit, &count);
    if (!kind) {
        return SQLITE_OK;
    }
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(store->db,
                                  "UPDATE profile SET kind = ?1, unit = ?2, columns = ?3 WHERE kind = ?4 AND unit = ?5",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, kind->name, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 2, kind->unit, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 3, count ? ET_COLUMN_COUNT : ET_COLUMN_VALUE);
        sqlite3_bind_text(statement, 4, type, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 5, unit, -1, SQLITE_STATIC);
        code = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int rename_kinds(struct et_store *store)
{
    sqlite3_stmt *pairs = NULL;
    int code =
        sqlite3_prepare_v2(store->db, "SELECT DISTINCT kind, unit FROM profile ORDER BY kind, unit", -1, &pairs, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(pairs)) == SQLITE_ROW) {
        code = rename_kind(store, et_column_text(pairs, 0), et_column_text(pairs, 1));
    }
    sqlite3_finalize(pairs);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Stores profiles of version 2 like received ones, which adds sums and times. */
static int move_profiles(struct et_store *store)
{
    sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(store->db,
                                  "SELECT origin, kind, unit, start_ns, end_ns, period, samples, quantum, columns,"
                                  " stacks, contexts FROM profile_2 ORDER BY id",
                                  -1, &row, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(row)) == SQLITE_ROW) {
        struct et_stored stored = {
            .origin = sqlite3_column_int64(row, 0),
            .kind = et_column_text(row, 1),
            .unit = et_column_text(row, 2),
            .start_ns = sqlite3_column_int64(row, 3),
            .end_ns = sqlite3_column_int64(row, 4),
            .period = (uint64_t)sqlite3_column_int64(row, 5),
            .samples = (uint64_t)sqlite3_column_int64(row, 6),
            .quantum = (uint64_t)sqlite3_column_int64(row, 7),
            .stacks.columns = (uint8_t)sqlite3_column_int(row, 8),
        };
        struct et_blob blob = et_column_blob(row, 9), contexts = et_column_blob(row, 10);
        code = et_store_add(store, &stored, ET_PACK_ROWS, blob, contexts) < 0 ? SQLITE_ERROR : SQLITE_OK;
    }
    sqlite3_finalize(row);
    return code == SQLITE_DONE ? sqlite3_exec(store->db, "DROP TABLE profile_2", NULL, NULL, NULL) : code;
}

static int migrate(struct et_store *store, int version)
{
    int code = version < 1 ? sqlite3_exec(store->db, VERSION_1, NULL, NULL, NULL) : SQLITE_OK;
    if (code == SQLITE_OK && version < 2) {
        code = sqlite3_exec(store->db, VERSION_2, NULL, NULL, NULL);
        code = code == SQLITE_OK && version == 1 ? rename_kinds(store) : code;
    }
    if (code == SQLITE_OK && version < 3) {
        code = sqlite3_exec(store->db, VERSION_3, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && version < 4) {
        code = sqlite3_exec(store->db, VERSION_4, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && version < 5) {
        code = sqlite3_exec(store->db, VERSION_5, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && version < 6) {
        code = sqlite3_exec(store->db, VERSION_6, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && version < 7) {
        code = sqlite3_exec(store->db, VERSION_7, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK && version < 3) {
        code = move_profiles(store); /* adds to the tables as they are now */
    }
    return code;
}

int et_store_schema(struct et_store *store)
{
    int version, code = et_schema_version(store->db, &version);
    bool readable = version >= READABLE && sqlite3_db_readonly(store->db, "main") == 1; /* such as a backup */
    if (code == SQLITE_OK && version < VERSION && !readable) {
        code = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        /* another process may have migrated it */
        code = code == SQLITE_OK ? et_schema_version(store->db, &version) : code;
        code = code == SQLITE_OK ? migrate(store, version) : code;
        code = code == SQLITE_OK ? sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL) : code;
    }
    if (code != SQLITE_OK) {
        int err = et_store_note(store, code);
        if (!sqlite3_get_autocommit(store->db)) {
            sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        }
        return err;
    }
    return et_schema_newer(version, store->why, sizeof store->why) ? -EIO : 0;
}
