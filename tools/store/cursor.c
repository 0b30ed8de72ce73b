/* See store.h: the progress of each relay destination. Rows of removed destinations stay, but only configured
 * destinations delay deletion. */
#include "tools/store/store_internal.h"

int et_store_relay_get(struct et_store *store, const char *name, struct et_relay_mark *out)
{
    sqlite3_stmt *row = et_store_bind(store, S_RELAY_GET, "s", name);
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

int et_store_relay_add(struct et_store *store, const char *name, const struct et_relay_mark *moved)
{
    return et_store_step(store, et_store_bind(store, S_RELAY_ADD, "siuuu", name, moved->cursor, moved->sent,
                                              moved->refused, moved->lost));
}

int et_store_relay_none(struct et_store *store)
{
    return et_store_step(store, et_store_bind(store, S_RELAY_OFF, ""));
}

int64_t et_store_last(struct et_store *store)
{
    return et_store_number(store, et_store_bind(store, S_LAST_ID, ""));
}

int64_t et_store_behind(struct et_store *store, int64_t cursor, int64_t most)
{
    return et_store_number(store, et_store_bind(store, S_PROFILES_BEHIND, "ii", cursor, most));
}
