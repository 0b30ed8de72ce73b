/* See store.h: the progress of each relay destination. Rows of removed destinations stay, but only configured
 * destinations delay deletion. */
#include "tools/store/store_internal.h"

int et_store_relay_get(struct et_store *store, const char *name, struct et_relay_mark *out)
{
    sqlite3_stmt *row = et_store_bind(store, "SELECT cursor, sent, refused, lost FROM relay WHERE name = ?", "s", name);
    int got = et_store_step(store, row);
    if (got == 1) {
        out->cursor = sqlite3_column_int64(row, 0);
        out->sent = (uint64_t)sqlite3_column_int64(row, 1);
        out->refused = (uint64_t)sqlite3_column_int64(row, 2);
        out->lost = (uint64_t)sqlite3_column_int64(row, 3);
        sqlite3_reset(row);
    }
    return got;
}

static const char RELAY_ADD[] =
    "INSERT INTO relay (name, cursor, sent, refused, lost) VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
    " SET state = '', cursor = cursor + excluded.cursor, sent = sent + excluded.sent,"
    " refused = refused + excluded.refused, lost = lost + excluded.lost";

int et_store_relay_add(struct et_store *store, const char *name, const struct et_relay_mark *moved)
{
    return et_store_run(store, RELAY_ADD, "siuuu", name, moved->cursor, moved->sent, moved->refused, moved->lost);
}

int et_store_relay_none(struct et_store *store)
{
    return et_store_run(store, "UPDATE relay SET state = 'off' WHERE state <> 'off'", "");
}

int64_t et_store_last(struct et_store *store)
{
    return et_store_number(store, "SELECT seq FROM sqlite_sequence WHERE name = 'profile'", "");
}

int64_t et_store_behind(struct et_store *store, int64_t cursor, int64_t most)
{
    return et_store_number(store, "SELECT count(*) FROM (SELECT 1 FROM profile WHERE id > ? AND level = 0 LIMIT ?)",
                           "ii", cursor, most);
}
