/* See store.h: messages that are kept as they came, with their own modules and nodes, because few are read. A row is a
 * crash, or a part of an incident. */
#include "tools/store/store_rows.h"

#include <errno.h>
#include <string.h>

/* Of the newest rows so many and bytes, and of those of the newest row's sender: struct et_most. */
#define BEYOND(rows, most, most_bytes)                                                                                 \
    "SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id DESC) AS place, sum(length(message)) OVER"              \
    " (ORDER BY id DESC) AS bytes FROM " rows ") WHERE place > " most " OR bytes > " most_bytes
#define SENDER "(service, tags, host)"
#define DROP_BEYOND(table)                                                                                             \
    "DELETE FROM " table " WHERE id IN (" BEYOND(table, "?1", "?2") " UNION ALL " BEYOND(                              \
        table " WHERE " SENDER " = (SELECT service, tags, host FROM " table " ORDER BY id DESC LIMIT 1)", "?3",        \
        "?4") ")"

static int drop_beyond(struct et_store *store, const char *sql, const struct et_most *most)
{
    return et_store_run(store, sql, "iiii", most->rows, most->bytes, most->rows_of_one, most->bytes_of_one);
}

/* ---- crashes ---- */

const struct et_most et_crashes_most = {.rows = 1000, .bytes = 16 << 20, .rows_of_one = 100, .bytes_of_one = 16 << 20};

static const char CRASH_ADD[] =
    "INSERT INTO crash (segment, received_ns, service, tags, host, message) SELECT ?, ?, service, tags, host, ?"
    " FROM origin WHERE id = ?";
static const char CRASH_DROP[] = DROP_BEYOND("crash");

int et_store_crash(struct et_store *store, uint64_t segment, int64_t origin, int64_t now_ns, const void *message,
                   size_t size)
{
    int err = et_store_run(store, CRASH_ADD, "iibi", (int64_t)segment, now_ns, message, size, origin);
    return err ? err : drop_beyond(store, CRASH_DROP, &et_crashes_most);
}

static const char CRASHES[] =
    "SELECT received_ns, service, tags, host, message FROM crash WHERE received_ns >= ? AND received_ns <= ?"
    " ORDER BY id DESC";

int et_store_crashes(struct et_store *store, const struct et_query *query,
                     bool (*call)(void *context, int64_t received_ns, const void *message, size_t size), void *context)
{
    sqlite3_stmt *row = et_store_bind(store, CRASHES, "ii", query->from_ns, query->to_ns);
    int got;
    bool more = true;
    while (more && (got = et_store_step(store, row)) == 1) {
        if (et_query_selects_row(query, row, 1)) {
            struct et_blob message = et_column_blob(row, 4);
            more = call(context, sqlite3_column_int64(row, 0), message.bytes, message.size);
        }
    }
    if (!more) {
        sqlite3_reset(row);
    }
    return more ? got : -ECANCELED;
}

/* ---- incidents ---- */

const struct et_most et_incidents_most = {
    .rows = 1000, .bytes = 64 << 20, .rows_of_one = 200, .bytes_of_one = 10 << 20};

static const char INCIDENT_ADD[] =
    "INSERT INTO incident (incident, part, received_ns, service, tags, host, message) SELECT ?, ?, ?, service,"
    " tags, host, ? FROM origin WHERE id = ?";
static const char INCIDENT_DROP[] = DROP_BEYOND("incident");

int et_store_incident(struct et_store *store, const struct et_incident_row *row, int64_t origin)
{
    int err = et_store_run(store, INCIDENT_ADD, "uiibi", row->incident, (int64_t)row->part, row->received_ns,
                           row->message, row->size, origin);
    return err ? err : drop_beyond(store, INCIDENT_DROP, &et_incidents_most);
}

static struct et_incident_row row_of(sqlite3_stmt *row)
{
    struct et_blob message = et_column_blob(row, 6);
    return (struct et_incident_row){.incident = (uint64_t)sqlite3_column_int64(row, 0),
                                    .part = (uint32_t)sqlite3_column_int64(row, 1),
                                    .received_ns = sqlite3_column_int64(row, 2),
                                    .message = message.bytes,
                                    .size = message.size};
}

static int read_rows(struct et_store *store, sqlite3_stmt *row, const struct et_query *query,
                     bool (*call)(void *context, const struct et_incident_row *row), void *context)
{
    int got;
    bool more = true;
    while (more && (got = et_store_step(store, row)) == 1) {
        const struct et_incident_row found = row_of(row);
        more = !et_query_selects_row(query, row, 3) || call(context, &found);
    }
    if (!more) {
        sqlite3_reset(row);
    }
    return more ? got : -ECANCELED;
}

/* Of several senders with one id the first that the query selects. Returns the id of its first part; 0: there is none;
 * or an error. */
static int64_t first_part(struct et_store *store, const struct et_query *query, uint64_t incident)
{
    sqlite3_stmt *row = et_store_bind(
        store, "SELECT id, service, tags, host FROM incident WHERE incident = ? ORDER BY part, id", "u", incident);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        if (et_query_selects_row(query, row, 1)) {
            int64_t id = sqlite3_column_int64(row, 0);
            sqlite3_reset(row);
            return id;
        }
    }
    return got;
}

static const char INCIDENTS[] =
    "SELECT incident, part, received_ns, service, tags, host, message FROM incident WHERE received_ns >= ?"
    " AND received_ns <= ? ORDER BY id DESC";
static const char INCIDENT[] =
    "SELECT incident, part, received_ns, service, tags, host, message FROM incident WHERE id IN (SELECT min(id)"
    " FROM incident WHERE incident = ?1 AND (service, tags, host) = (SELECT service, tags, host FROM incident"
    " WHERE id = ?2) GROUP BY part) ORDER BY part";

int et_store_incidents(struct et_store *store, const struct et_query *query, uint64_t incident,
                       bool (*call)(void *context, const struct et_incident_row *row), void *context)
{
    if (!incident) {
        return read_rows(store, et_store_bind(store, INCIDENTS, "ii", query->from_ns, query->to_ns), query, call,
                         context);
    }
    int64_t first = first_part(store, query, incident);
    return first <= 0 ? (int)first
                      : read_rows(store, et_store_bind(store, INCIDENT, "ui", incident, first), query, call, context);
}

int64_t et_store_incident_last(struct et_store *store)
{
    return et_store_number(store, "SELECT max(id) FROM incident", "");
}

static const char INCIDENT_AFTER[] =
    "SELECT incident, part, received_ns, service, tags, host, message, id FROM incident WHERE id > ? AND part = 0"
    " ORDER BY id LIMIT 1";

int et_store_incident_after(struct et_store *store, int64_t id,
                            bool (*call)(void *context, const struct et_incident_row *row), void *context)
{
    sqlite3_stmt *row = et_store_bind(store, INCIDENT_AFTER, "i", id);
    int got = et_store_step(store, row);
    if (got == 1) {
        struct et_incident_row found = row_of(row);
        found.id = sqlite3_column_int64(row, 7);
        (void)call(context, &found);
        sqlite3_reset(row);
        got = 0;
    }
    return got;
}
