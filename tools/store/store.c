/*
 * See store.h: opening, transactions, and writing dictionaries. store_schema.c has the schema, store_profile.c writes
 * profiles, store_load.c and others read them.
 */
#include "tools/lib/time_text.h"
#include "tools/store/bounds.h"
#include "tools/store/store_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Series whose profiles all ended before ?1 and are deleted. Those left have at_ns before ?1, too: a profile of the
 * last hour before the end is in the middle of that hour at most. All levels are named, because then the index counts.
 */
#define UNUSED_SERIES " last_ns < ?1 AND id NOT IN (SELECT series FROM profile WHERE level IN (0, 1, 2) AND at_ns < ?1)"

/* Of the newest rows so many and bytes, and of those of the newest row's sender: struct et_most. */
#define BEYOND(rows, most, most_bytes)                                                                                 \
    "SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS place, sum(length(message)) OVER"              \
    " (ORDER BY id DESC) AS bytes FROM " rows ") WHERE place > " most " OR bytes > " most_bytes
#define SENDER "(service, tags, host)"
#define DROP_BEYOND(table)                                                                                             \
    "DELETE FROM " table " WHERE id IN (" BEYOND(table, "?1", "?2") " UNION ALL " BEYOND(                              \
        table " WHERE " SENDER " = (SELECT service, tags, host FROM " table " ORDER BY id DESC LIMIT 1)", "?3",        \
        "?4") ")"

static const char *const SQL[S_COUNT] = {
    [S_BEGIN] = "BEGIN IMMEDIATE",
    [S_COMMIT] = "COMMIT",
    [S_ROLLBACK] = "ROLLBACK",
    [S_PART] = "SAVEPOINT part",
    [S_PART_KEEP] = "RELEASE part",
    [S_PART_UNDO] = "ROLLBACK TO part",
    [S_VERSION] = "PRAGMA data_version",
    [S_MODULE_FIND] = "SELECT id FROM module WHERE build_id = ? AND path = ?",
    [S_MODULE_ADD] = "INSERT INTO module (build_id, path) VALUES (?, ?)",
    [S_FRAME_FIND] = "SELECT id FROM frame WHERE module = ? AND address = ? AND name = ? AND file = ? AND line = ?",
    [S_FRAME_ADD] = "INSERT OR IGNORE INTO frame (module, address, name, file, line) VALUES (?, ?, ?, ?, ?)",
    [S_NODE_FIND] = "SELECT id FROM node WHERE parent = ? AND frame = ?",
    [S_NODE_ADD] = "INSERT OR IGNORE INTO node (parent, frame) VALUES (?, ?)",
    [S_ORIGIN_FIND] = "SELECT id FROM origin WHERE service = ? AND tags = ? AND host = ? AND boot_id = ? AND pid = ?"
                      " AND executable = ? AND arch = ? AND agent = ? AND process_start = ?",
    [S_ORIGIN_ADD] = "INSERT INTO origin (service, tags, host, boot_id, pid, executable, arch, agent, process_start)"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [S_UNDATED_FIND] =
        "SELECT u.id FROM origin o JOIN origin u USING (service, host, boot_id, pid, executable, arch, agent,"
        " process_start) WHERE o.id = ? AND u.tags = o.tags || 'undated=true' || char(10)",
    [S_UNDATED_ADD] =
        "INSERT INTO origin (service, tags, host, boot_id, pid, executable, arch, agent, process_start)"
        " SELECT service, tags || 'undated=true' || char(10), host, boot_id, pid, executable, arch, agent,"
        " process_start FROM origin WHERE id = ?",
    [S_STATS_PUT] = "UPDATE origin SET stats = ?2 WHERE id = ?1",
    [S_SKIPPED] = "UPDATE origin SET skipped = skipped + 1 WHERE id = ?",
    [S_CRASH_ADD] = "INSERT INTO crash (segment, received_ns, service, tags, host, message)"
                    " SELECT ?, ?, service, tags, host, ? FROM origin WHERE id = ?",
    [S_CRASH_DROP] = DROP_BEYOND("crash"),
    [S_CRASHES] = "SELECT received_ns, service, tags, host, message FROM crash"
                  " WHERE received_ns >= ? AND received_ns <= ? ORDER BY id DESC",
    [S_INCIDENT_ADD] = "INSERT INTO incident (incident, part, received_ns, service, tags, host, message)"
                       " SELECT ?, ?, ?, service, tags, host, ? FROM origin WHERE id = ?",
    [S_INCIDENT_DROP] = DROP_BEYOND("incident"),
    [S_INCIDENTS] = "SELECT incident, part, received_ns, service, tags, host, message FROM incident"
                    " WHERE received_ns >= ? AND received_ns <= ? ORDER BY id DESC",
    [S_INCIDENT_AFTER] = "SELECT incident, part, received_ns, service, tags, host, message, id FROM incident"
                         " WHERE id > ? AND part = 0 ORDER BY id LIMIT 1",
    [S_INCIDENT_LAST] = "SELECT max(id) FROM incident",
    [S_INCIDENT_SENDERS] = "SELECT id, service, tags, host FROM incident WHERE incident = ? ORDER BY part, id",
    [S_INCIDENT] = "SELECT incident, part, received_ns, service, tags, host, message FROM incident WHERE id IN"
                   " (SELECT min(id) FROM incident WHERE incident = ?1 AND (service, tags, host) ="
                   " (SELECT service, tags, host FROM incident WHERE id = ?2) GROUP BY part) ORDER BY part",
    [S_ROLLUP_ADD] =
        "INSERT INTO rollup (hour_ns, service, kind, unit, tags, start_ns, end_ns, profiles, period, samples,"
        " quantum, columns, packing, members, stacks, contexts)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [S_ROLLUP_GET] = "SELECT stacks, contexts, members FROM rollup WHERE id = ?",
    [S_ROLLUPS] = "SELECT id, members, start_ns, end_ns, profiles, period, samples, quantum, columns, packing, service,"
                  " kind, unit, tags FROM rollup WHERE hour_ns = ? ORDER BY id",
    [S_ROLLUPS_DROP] = "DELETE FROM rollup WHERE hour_ns = ?",
    [S_ROLLUP_BYTES] = "SELECT ifnull(sum(length(members) + length(stacks) + length(contexts) + 100), 0) FROM rollup"
                       " WHERE hour_ns = ?",
    [S_ROLL_DUE] = "SELECT b.start_ns, b.low FROM bucket b LEFT JOIN rolled r ON r.hour_ns = b.start_ns"
                   " WHERE b.level = 2 AND b.low = b.high AND b.low > ifnull(r.low, 0) ORDER BY b.start_ns LIMIT 1",
    [S_ROLLED_GET] = "SELECT low, alone FROM rolled WHERE hour_ns = ?",
    [S_ROLLED_PUT] = "INSERT OR REPLACE INTO rolled (hour_ns, low, alone) VALUES (?, ?, ?)",
    [S_ROLLED_DROP] = "DELETE FROM rolled WHERE hour_ns = ?",
    [S_RELAY_GET] = "SELECT cursor, sent, refused, lost FROM relay WHERE name = ?",
    [S_RELAY_ADD] =
        "INSERT INTO relay (name, cursor, sent, refused, lost) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
        " state = '', cursor = cursor + excluded.cursor, sent = sent + excluded.sent, refused = refused + "
        "excluded.refused,"
        " lost = lost + excluded.lost",
    [S_RELAY_OFF] = "UPDATE relay SET state = 'off' WHERE state <> 'off'",
    [S_METRIC_MORE] = "UPDATE metric SET value = value + ?, count = count + ?, profiles = profiles + ?,"
                      " last_ns = max(last_ns, ?) WHERE service = ? AND version = ? AND device = ? AND labels = ?"
                      " AND kind = ?",
    [S_METRIC_NEW] = "INSERT INTO metric (service, version, device, labels, kind, value, count, profiles, last_ns)"
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [S_METRIC_KNOWN] = "SELECT 1 FROM metric WHERE service = ? AND version = ? AND device = ? AND labels = ? LIMIT 1",
    [S_METRIC_SETS] = "SELECT count(*) FROM (SELECT DISTINCT service, version, device, labels FROM metric)",
    [S_METRIC_DROP] =
        "DELETE FROM metric WHERE (service, version, device, labels) IN (SELECT service, version, device, labels"
        " FROM metric WHERE service <> ? GROUP BY 1, 2, 3, 4 HAVING max(last_ns) < ?)",
    [S_METRICS] = "SELECT service, version, device, kind, value, count, profiles, last_ns, labels FROM metric"
                  " ORDER BY service, version, device, labels, kind",
    [S_PROFILES_BEHIND] = "SELECT count(*) FROM (SELECT 1 FROM profile WHERE id > ? AND level = 0 LIMIT ?)",
    [S_LABELS_FIND] = "SELECT id FROM labels WHERE lines = ?",
    [S_LABELS_ADD] = "INSERT INTO labels (lines) VALUES (?)",
    [S_LABELS_GET] = "SELECT lines FROM labels WHERE id = ?",
    [S_LABELSET_ADD] = "INSERT INTO labelset (segment, number, labels) VALUES (?, ?, ?)",
    [S_LABELSET_GET] =
        "SELECT s.number, ifnull(l.lines, ''), s.labels FROM labelset s LEFT JOIN labels l ON l.id = s.labels"
        " WHERE s.segment = ?",
    [S_LABELSET_DROP] = "DELETE FROM labelset WHERE segment = ?",
    [S_SERIES_ADD] = "INSERT INTO series (origin, kind, unit, first_ns, last_ns, profiles) VALUES (?, ?, ?, ?, ?, 1)"
                     " ON CONFLICT (origin, kind, unit) DO UPDATE SET first_ns = min(first_ns, excluded.first_ns),"
                     " last_ns = max(last_ns, excluded.last_ns), profiles = profiles + 1 RETURNING id",
    [S_SERIES_LABELS_ADD] = "INSERT OR IGNORE INTO series_labels (series, labels) VALUES (?, ?)",
    [S_SERIES_LABELS] = "SELECT l.lines FROM series_labels s JOIN labels l ON l.id = s.labels WHERE s.series = ?",
    [S_SERIES_WANTED] =
        "SELECT s.id, s.origin, s.kind, s.unit, o.tags, o.service, o.host FROM series s JOIN origin o ON"
        " o.id = s.origin WHERE s.last_ns > ?1 AND s.first_ns < ?2 AND (?3 = '' OR o.service = ?3) AND (?4 = ''"
        " OR s.kind = ?4 OR (?4 = 'wall' AND s.kind IN ('cpu', 'wait') AND NOT EXISTS (SELECT 1 FROM series w"
        " WHERE w.origin = s.origin AND w.kind = 'wall'))) ORDER BY s.id",
    [S_SERIES_GET] = "SELECT s.id, s.origin, s.kind, s.unit, o.tags, o.service, o.host FROM series s JOIN origin o ON"
                     " o.id = s.origin WHERE s.id = ?",
    [S_PROFILE_ADD] = "INSERT INTO profile (level, series, at_ns, start_ns, end_ns, profiles, period, samples, quantum,"
                      " columns, packing, value_sum, count_sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [S_STACKS_ADD] = "INSERT INTO stacks (profile, stacks, contexts) VALUES (?, ?, ?)",
    [S_STACKS_GET] = "SELECT stacks, contexts FROM stacks WHERE profile = ?",
    [S_BUCKET_DIRTY] = "INSERT INTO bucket (level, start_ns, dirty) VALUES (?, ?, 1)"
                       " ON CONFLICT (level, start_ns) DO UPDATE SET dirty = 1 WHERE NOT dirty",
    [S_BUCKETS] = "SELECT start_ns, dirty, low, high, done, gone, swept, bare, seen_ns FROM bucket"
                  " WHERE level = ? AND start_ns >= ? AND start_ns < ? ORDER BY start_ns",
    [S_BUCKET_PUT] = "UPDATE bucket SET dirty = ?3, low = ?4, high = ?5, done = ?6, gone = ?7, swept = ?8, bare = ?9,"
                     " seen_ns = ?10"
                     " WHERE level = ?1 AND start_ns = ?2",
    [S_BUCKET_DUE] =
        "SELECT start_ns, dirty, low, high, done, gone, swept, bare, seen_ns, level FROM bucket WHERE (dirty OR"
        " low <> high) AND start_ns <= CASE level WHEN 1 THEN ?1 ELSE ?2 END ORDER BY level, start_ns"
        " LIMIT 1",
    [S_BUCKET_FULL] =
        "SELECT start_ns, dirty, low, high, done, gone, swept, bare, seen_ns FROM bucket WHERE level = ? AND"
        " start_ns <= ? AND seen_ns <= ? AND low = high AND gone < low ORDER BY start_ns LIMIT 1",
    [S_HOUR_OLD] = "SELECT start_ns - start_ns % 3600000000000 AS hour FROM bucket GROUP BY hour HAVING"
                   " hour + 3600000000000 <= ?1 AND max(seen_ns) <= ?1 AND NOT max(dirty OR low <> high)"
                   " ORDER BY hour LIMIT 1",
    [S_HOUR_FIRST] = "SELECT start_ns - start_ns % 3600000000000 FROM bucket ORDER BY start_ns LIMIT 1",
    [S_SEEN_LAST] = "SELECT ifnull(max(seen_ns), 0) FROM bucket",
    [S_HOURS_SINCE] = "SELECT count(*) FROM bucket WHERE level = 2 AND start_ns > ?1 AND start_ns <= ?2 AND high > ?3",
    [S_BUCKET_DROP] = "DELETE FROM bucket WHERE start_ns >= ?1 AND start_ns < ?2",
    [S_LAST_ID] = "SELECT seq FROM sqlite_sequence WHERE name = 'profile'",
    [S_LAST_AT] = "SELECT coalesce((SELECT at_ns FROM profile WHERE level = 0 ORDER BY at_ns DESC LIMIT 1),"
                  " (SELECT at_ns FROM profile WHERE level = 1 ORDER BY at_ns DESC LIMIT 1),"
                  " (SELECT at_ns FROM profile WHERE level = 2 ORDER BY at_ns DESC LIMIT 1), 0)",
    [S_RELAY_LEAST] = "SELECT ifnull(min(cursor), 9223372036854775807) FROM relay WHERE state <> 'off'",
    [S_RELAY_LOST] = "UPDATE relay SET lost = lost + 1 WHERE cursor < ? AND state <> 'off'",
    [S_ROWS_OLD] = "SELECT id FROM profile WHERE level = ?1 AND at_ns >= ?2 AND at_ns < ?3 AND id <= ?4"
                   " AND (id <= ?5 OR at_ns < ?6) LIMIT ?7",
    [S_PROFILE_DROP] = "DELETE FROM profile WHERE id = ?",
    [S_STACKS_DROP] = "DELETE FROM stacks WHERE profile = ?",
    [S_ROWS_LEFT] = "SELECT count(*) FROM profile WHERE NOT level AND at_ns >= ?1 AND at_ns < ?2",
    [S_SERIES_DROP] = "DELETE FROM series WHERE" UNUSED_SERIES,
    [S_SERIES_LABELS_DROP] = "DELETE FROM series_labels WHERE series IN (SELECT id FROM series WHERE" UNUSED_SERIES ")",
    [S_SERIES_FIRST] = "UPDATE series SET first_ns = ?1 WHERE first_ns < ?1 AND NOT EXISTS"
                       " (SELECT 1 FROM bucket WHERE start_ns < ?1)",
    [S_PAGES] = "PRAGMA page_count",
    [S_PAGES_FREE] = "PRAGMA freelist_count",
    [S_PAGE_SIZE] = "PRAGMA page_size",
    [S_BUCKETS_RENEW] = "UPDATE bucket SET seen_ns = ?1 WHERE high > ?2",
    [S_SEGMENTS_RENEW] = "UPDATE segment SET seen_ns = ?1",
    [S_SEGMENT_OLD] = "SELECT id FROM segment WHERE seen_ns < ? LIMIT 1",
    [S_SEGMENT_DROP] = "DELETE FROM segment WHERE id = ?",
    [S_VACUUM] = "PRAGMA incremental_vacuum(128)",
    [S_ROWS] = "SELECT id, series, at_ns, start_ns, end_ns, profiles, period, samples, quantum, columns, packing,"
               " value_sum, count_sum FROM profile WHERE level = ? AND at_ns >= ? AND at_ns < ?",
    [S_ROW_NEXT] = "SELECT id, series, at_ns, start_ns, end_ns, profiles, period, samples, quantum, columns, packing,"
                   " value_sum, count_sum FROM profile WHERE id > ? AND NOT level ORDER BY id LIMIT 1",
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
    [S_FRAMES_TO] = "SELECT id, module, address, name, file, line FROM frame WHERE id >= ? AND id <= ?",
    [S_NODE_GET] = "SELECT parent, frame FROM node WHERE id = ?",
    [S_NODES_TO] = "SELECT id, parent, frame FROM node WHERE id <= ?",
    [S_SERVICES] = "SELECT o.service, s.kind, s.unit, min(s.first_ns), max(s.last_ns), sum(s.profiles) FROM series s"
                   " JOIN origin o ON o.id = s.origin GROUP BY o.service, s.kind UNION ALL"
                   " SELECT o.service, 'wall', 'nanoseconds', min(s.first_ns), max(s.last_ns), sum(s.profiles)"
                   " FROM series s JOIN origin o ON o.id = s.origin WHERE s.kind IN ('cpu', 'wait', 'wall')"
                   " GROUP BY o.service HAVING max(s.kind = 'wait') AND NOT max(s.kind = 'wall') ORDER BY 5 DESC, 1, 2",
    [S_TAGSETS] = "SELECT DISTINCT tags FROM origin WHERE service = ? ORDER BY tags",
    [S_TAGS_ALL] = "SELECT service, tags FROM origin",
    [S_LABELS_ALL] = "SELECT lines FROM labels",
    [S_ORIGIN_GET] = "SELECT service, tags, host, boot_id, executable, arch, agent, pid, process_start, stats, skipped"
                     " FROM origin WHERE id = ?",
    [S_KIND] = "SELECT s.kind FROM series s JOIN origin o ON o.id = s.origin WHERE (?1 = '' OR o.service = ?1)"
               " ORDER BY s.kind = 'cpu' DESC, s.last_ns DESC LIMIT 1",
    [S_HOURS_LEFT] = "SELECT count(DISTINCT start_ns - start_ns % 3600000000000) FROM bucket",
    [S_HOUR_NEXT] =
        "SELECT start_ns - start_ns % 3600000000000 FROM bucket WHERE start_ns >= ? ORDER BY start_ns LIMIT 1",
    [S_HOUR_BYTES] =
        "SELECT CAST(count(*) * ifnull((SELECT avg(length(s.stacks) + ifnull(length(s.contexts), 0) + ?4) FROM (SELECT"
        " id FROM profile WHERE level = ?1 AND at_ns >= ?2 AND at_ns < ?3 LIMIT ?5) p JOIN stacks s"
        " ON s.profile = p.id), 0) AS INTEGER) FROM profile WHERE level = ?1 AND at_ns >= ?2 AND at_ns < ?3",
    [S_DELETED_ADD] = "INSERT INTO deleted (what, count) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE SET"
                      " count = count + excluded.count",
    [S_DELETED] = "SELECT what, count FROM deleted",
    [S_PASS_GET] = "SELECT phase, cursor, sequence, seen, number, started_ns, hours FROM collect",
    [S_PASS_PUT] = "UPDATE collect SET phase = ?, cursor = ?, sequence = ?, seen = ?, number = ?, started_ns = ?,"
                   " hours = ?",
    [S_PASS_HOUR] = "UPDATE collect SET hours = hours + 1",
    [S_MARK_GET] = "SELECT bits FROM mark WHERE part = ?",
    [S_MARK_PUT] = "INSERT OR REPLACE INTO mark (part, bits) VALUES (?, ?)",
    [S_MARKS_DROP] = "DELETE FROM mark",
    [S_PASS_PROFILES] = "SELECT p.id, p.series, p.columns, p.packing, s.stacks, s.contexts FROM profile p LEFT JOIN"
                        " stacks s ON s.profile = p.id WHERE p.id > ? ORDER BY p.id LIMIT ?",
    [S_PASS_CHUNKS] = "SELECT segment, sequence, nodes FROM chunk WHERE (segment, sequence) > (?, ?)"
                      " ORDER BY segment, sequence LIMIT ?",
    [S_PASS_PARENTS] = "SELECT id, parent FROM node WHERE id < ? ORDER BY id DESC LIMIT ?",
    [S_PASS_FRAMES] = "SELECT id, frame FROM node WHERE id > ? ORDER BY id LIMIT ?",
    [S_PAIR_MARK] = "INSERT INTO series_labels (series, labels, pass) VALUES (?1, ?2, ?3)"
                    " ON CONFLICT (series, labels) DO UPDATE SET pass = ?3 WHERE pass <> ?3",
    [S_PAIRS_END] =
        "SELECT max(series) FROM (SELECT series FROM series_labels WHERE series > ? ORDER BY series LIMIT 300)",
    [S_PAIRS_UNUSED] = "DELETE FROM series_labels WHERE series > ?1 AND series <= ?2 AND pass <> ?3",
    [S_NODE_LAST] = "SELECT max(id) FROM node",
    [S_NODES_AFTER] = "SELECT id FROM node WHERE id > ? ORDER BY id LIMIT ?",
    [S_NODE_DROP] = "DELETE FROM node WHERE id = ?",
    [S_FRAME_LAST] = "SELECT max(id) FROM frame",
    [S_FRAMES_AFTER] = "SELECT id FROM frame WHERE id > ? ORDER BY id LIMIT ?",
    [S_FRAME_DROP] = "DELETE FROM frame WHERE id = ?",
    [S_MODULES_END] = "SELECT max(id) FROM (SELECT id FROM module WHERE id > ? ORDER BY id LIMIT 100)",
    [S_MODULES_UNUSED] =
        "DELETE FROM module WHERE id > ?1 AND id <= ?2 AND id < (SELECT max(id) FROM module) AND NOT EXISTS (SELECT 1"
        " FROM frame f WHERE f.module = module.id) AND NOT EXISTS (SELECT 1 FROM span s WHERE s.module = module.id)"
        " RETURNING id",
    [S_LABELS_END] = "SELECT max(id) FROM (SELECT id FROM labels WHERE id > ? ORDER BY id LIMIT 100)",
    [S_LABELS_UNUSED] =
        "DELETE FROM labels WHERE id > ?1 AND id <= ?2 AND id < (SELECT max(id) FROM labels) AND NOT EXISTS (SELECT 1"
        " FROM series_labels s WHERE s.labels = labels.id) AND NOT EXISTS (SELECT 1 FROM labelset l"
        " WHERE l.labels = labels.id) RETURNING lines",
    [S_ORIGINS_END] = "SELECT max(id) FROM (SELECT id FROM origin WHERE id > ? ORDER BY id LIMIT 100)",
    [S_ORIGINS_UNUSED] =
        "DELETE FROM origin WHERE id > ?1 AND id <= ?2 AND id < (SELECT max(id) FROM origin) AND NOT EXISTS (SELECT 1"
        " FROM series s WHERE s.origin = origin.id) AND NOT EXISTS (SELECT 1 FROM segment g WHERE"
        " g.origin = origin.id AND NOT g.ended) RETURNING service, tags",
};

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
    case SQLITE_BUSY:
        return "another program is writing to it";
    case SQLITE_CORRUPT:
        return "restore a backup, or move it away and start with a new one";
    case SQLITE_NOTADB:
        return "choose another with --db";
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
    return store->why;
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
    for (int i = 0; i < S_COUNT && !budget; i++) {
        sqlite3_reset(store->statements[i]);
    }
    if (!budget && !sqlite3_get_autocommit(store->db)) {
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    }
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
            et_store_note(store, code);
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
        et_store_note(store, code);
        return NULL;
    }
    return *statement;
}

int et_store_step(struct et_store *store, sqlite3_stmt *statement)
{
    if (!statement) {
        return store->failed ? store->failed : -EIO;
    }
    int late = et_store_late(store);
    if (late) {
        sqlite3_reset(statement);
        return late;
    }
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        return 1;
    }
    int err = code == SQLITE_DONE ? 0 : et_store_note(store, code);
    sqlite3_reset(statement);
    return err;
}

const char *et_column_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}

int64_t et_store_number(struct et_store *store, sqlite3_stmt *statement)
{
    int got = et_store_step(store, statement);
    if (got <= 0) {
        return got;
    }
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return value;
}

static int64_t insert_row(struct et_store *store, sqlite3_stmt *statement)
{
    int err = et_store_step(store, statement);
    return err < 0 ? err : sqlite3_last_insert_rowid(store->db);
}

/* 0: there is such a row already. */
static int64_t insert_new(struct et_store *store, sqlite3_stmt *statement)
{
    int err = et_store_step(store, statement);
    return err < 0 ? err : sqlite3_changes(store->db) ? sqlite3_last_insert_rowid(store->db) : 0;
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

struct et_store *et_store_open(const char *path, bool create, const char **why)
{
    static pthread_once_t configured = PTHREAD_ONCE_INIT;
    static _Thread_local char text[256];
    pthread_once(&configured, configure_library);
    struct et_store *store = et_alloc(1, sizeof *store);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(path, &store->db, flags, NULL);
    int err = code == SQLITE_OK ? configure(store, create) : et_store_note(store, code);
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
    for (int i = 0; i < S_COUNT; i++) {
        sqlite3_finalize(store->statements[i]);
    }
    free(store->metric_labels);
    sqlite3_close(store->db);
    et_store_cache_free(store);
    et_known_clear(&store->known);
    et_buf_free(&store->key);
    free(store);
}

int et_store_drop_beyond(struct et_store *store, enum et_statement which, const struct et_most *most)
{
    return et_store_step(
        store, et_store_bind(store, which, "iiii", most->rows, most->bytes, most->rows_of_one, most->bytes_of_one));
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

static int run_statement(struct et_store *store, enum et_statement which)
{
    return et_store_step(store, et_store_bind(store, which, ""));
}

/* Runs the statement after a failure, and keeps that failure's message. */
static int undo_quietly(struct et_store *store, enum et_statement which)
{
    char why[sizeof store->why];
    memcpy(why, store->why, sizeof why);
    int err = run_statement(store, which);
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
        err = run_statement(store, S_COMMIT);
    }
    if (!sqlite3_get_autocommit(store->db)) {
        undo_quietly(store, S_ROLLBACK);
    }
    if (err || !commit) {
        undo_memory(store, false);
    } else {
        et_bounds_commit(store->bounds);
    }
    return err;
}

static int end_part(struct et_store *store, bool commit)
{
    int err = store->failed;
    if (commit && !err) {
        err = run_statement(store, S_PART_KEEP);
    }
    if (sqlite3_get_autocommit(store->db)) {
        store->group_failed = err ? err : -EIO;
    } else if (err || !commit) {
        int undone = undo_quietly(store, S_PART_UNDO);
        store->group_failed = undone ? undone : undo_quietly(store, S_PART_KEEP);
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
    int err = run_statement(store, S_BEGIN);
    int64_t version = err ? err : et_store_number(store, et_store_bind(store, S_VERSION, ""));
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
    return run_statement(store, S_PART);
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

/* ---- dictionary ---- */

/* The name of a row with texts, in store->key: the table's letter, numbers, and texts with their ends. */
static struct et_known_name make_name(struct et_store *store, char table, const int64_t *numbers, size_t count,
                                      const char *const *texts)
{
    struct et_buf *key = &store->key;
    key->size = 0;
    et_buf_add(key, &table, 1);
    et_buf_add(key, numbers, count * sizeof *numbers);
    for (size_t i = 0; texts[i]; i++) {
        et_buf_add(key, texts[i], strlen(texts[i]) + 1);
    }
    return (struct et_known_name){.bytes = key->data, .size = key->size};
}

static int64_t note_id(struct et_store *store, const struct et_known_name *name, int64_t id)
{
    if (id > 0) {
        et_known_note(&store->known, name, id);
    }
    return id;
}

int64_t et_store_module(struct et_store *store, const char *build_id, const char *path)
{
    const char *const texts[] = {build_id, path, NULL};
    struct et_known_name name = make_name(store, 'm', NULL, 0, texts);
    int64_t id = et_known_find(&store->known, &name);
    if (!id) {
        id = et_store_number(store, et_store_bind(store, S_MODULE_FIND, "ss", build_id, path));
        id = id ? id : insert_row(store, et_store_bind(store, S_MODULE_ADD, "ss", build_id, path));
        note_id(store, &name, id);
    }
    return id;
}

int64_t et_store_frame(struct et_store *store, int64_t module, uint64_t address, const char *name, const char *file,
                       uint32_t line)
{
    const int64_t at = (int64_t)line, numbers[] = {module, (int64_t)address, at};
    const char *const texts[] = {name, file, NULL};
    struct et_known_name key = make_name(store, 'f', numbers, 3, texts);
    int64_t id = et_known_find(&store->known, &key);
    if (id) {
        return id;
    }
    for (int tries = 0; tries < 2 && !id; tries++) {
        id = store->new_frames
                 ? insert_new(store, et_store_bind(store, S_FRAME_ADD, "iussi", module, address, name, file, at))
                 : et_store_number(store, et_store_bind(store, S_FRAME_FIND, "iussi", module, address, name, file, at));
        store->new_frames = store->new_frames != (id == 0);
    }
    return note_id(store, &key, id);
}

int64_t et_store_node(struct et_store *store, int64_t parent, int64_t frame)
{
    const struct et_known_name name = {.first = parent, .second = frame};
    int64_t id = et_known_find(&store->known, &name);
    if (id) {
        return id;
    }
    for (int tries = 0; tries < 2 && !id; tries++) {
        id = store->new_nodes ? insert_new(store, et_store_bind(store, S_NODE_ADD, "ii", parent, frame))
                              : et_store_number(store, et_store_bind(store, S_NODE_FIND, "ii", parent, frame));
        store->new_nodes = store->new_nodes != (id == 0);
    }
    return note_id(store, &name, id);
}

/* ---- origins ---- */

static sqlite3_stmt *bind_origin(struct et_store *store, enum et_statement which, const struct et_origin *o)
{
    return et_store_bind(store, which, "ssssisssu", o->service, o->tags, o->host, o->boot_id, (int64_t)o->pid,
                         o->executable, o->arch, o->agent, o->process_start_ns);
}

int64_t et_store_origin(struct et_store *store, const struct et_origin *origin)
{
    const char *const texts[] = {origin->service,    origin->tags, origin->host,  origin->boot_id,
                                 origin->executable, origin->arch, origin->agent, NULL};
    const int64_t numbers[] = {(int64_t)origin->pid, (int64_t)origin->process_start_ns};
    struct et_known_name name = make_name(store, 'o', numbers, 2, texts);
    int64_t id = et_known_find(&store->known, &name);
    if (id) {
        return id;
    }
    id = et_store_number(store, bind_origin(store, S_ORIGIN_FIND, origin));
    if (!id) {
        id = insert_row(store, bind_origin(store, S_ORIGIN_ADD, origin));
        if (id > 0) {
            et_bounds_note_series(store->bounds, origin->service, origin->tags, true);
        }
    }
    return note_id(store, &name, id);
}

/* Tells the bounds of an origin that was added by its id. */
static int64_t note_origin(struct et_store *store, int64_t id)
{
    sqlite3_stmt *row = id > 0 ? et_store_bind(store, S_ORIGIN_GET, "i", id) : NULL;
    int got = id > 0 ? et_store_step(store, row) : 0;
    if (got == 1) {
        et_bounds_note_series(store->bounds, et_column_text(row, 0), et_column_text(row, 1), true);
        sqlite3_reset(row);
    }
    return got < 0 ? got : id;
}

int64_t et_store_origin_undated(struct et_store *store, int64_t origin)
{
    int64_t id = et_store_number(store, et_store_bind(store, S_UNDATED_FIND, "i", origin));
    return id ? id : note_origin(store, insert_row(store, et_store_bind(store, S_UNDATED_ADD, "i", origin)));
}

int et_store_stats(struct et_store *store, int64_t origin, const void *stats, size_t size)
{
    int err = et_store_count_losses(store, origin, stats, size);
    return err ? err : et_store_step(store, et_store_bind(store, S_STATS_PUT, "ib", origin, stats, size));
}

int et_store_skipped(struct et_store *store, int64_t origin)
{
    return et_store_step(store, et_store_bind(store, S_SKIPPED, "i", origin));
}

int64_t et_store_labels(struct et_store *store, const char *lines)
{
    const char *const texts[] = {lines, NULL};
    struct et_known_name name = make_name(store, 'l', NULL, 0, texts);
    int64_t id = *lines ? et_known_find(&store->known, &name) : 0;
    if (id || !*lines) {
        return id;
    }
    id = et_store_number(store, et_store_bind(store, S_LABELS_FIND, "s", lines));
    if (!id) {
        id = insert_row(store, et_store_bind(store, S_LABELS_ADD, "s", lines));
        if (id > 0) {
            et_bounds_note_labels(store->bounds, lines, true);
        }
    }
    return note_id(store, &name, id);
}
