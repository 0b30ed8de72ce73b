/* See store.h: incidents. A row is a part of an incident, the message as it came: with its own modules and nodes. */
#include "tools/store/store_rows.h"

#include <errno.h>
#include <string.h>

const struct et_most et_incidents_most = {
    .rows = 1000, .bytes = 64 << 20, .rows_of_one = 200, .bytes_of_one = 10 << 20};

int et_store_incident(struct et_store *store, const struct et_incident_row *row, int64_t origin)
{
    int err = et_store_step(store, et_store_bind(store, S_INCIDENT_ADD, "uiibi", row->incident, (int64_t)row->part,
                                                 row->received_ns, row->message, row->size, origin));
    return err ? err : et_store_drop_beyond(store, S_INCIDENT_DROP, &et_incidents_most);
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
    sqlite3_stmt *row = et_store_bind(store, S_INCIDENT_SENDERS, "u", incident);
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

int et_store_incidents(struct et_store *store, const struct et_query *query, uint64_t incident,
                       bool (*call)(void *context, const struct et_incident_row *row), void *context)
{
    if (!incident) {
        return read_rows(store, et_store_bind(store, S_INCIDENTS, "ii", query->from_ns, query->to_ns), query, call,
                         context);
    }
    int64_t first = first_part(store, query, incident);
    return first <= 0 ? (int)first
                      : read_rows(store, et_store_bind(store, S_INCIDENT, "ui", incident, first), query, call, context);
}

int64_t et_store_incident_last(struct et_store *store)
{
    return et_store_number(store, et_store_bind(store, S_INCIDENT_LAST, ""));
}

int et_store_incident_after(struct et_store *store, int64_t id,
                            bool (*call)(void *context, const struct et_incident_row *row), void *context)
{
    sqlite3_stmt *row = et_store_bind(store, S_INCIDENT_AFTER, "i", id);
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
