/* See store.h: crashes. A row has the message as it came: it has its own modules and nodes, and few are read. */
#include "tools/store/store_rows.h"

#include <errno.h>
#include <string.h>

const struct et_most et_crashes_most = {.rows = 1000, .bytes = 16 << 20, .rows_of_one = 100, .bytes_of_one = 16 << 20};

int et_store_crash(struct et_store *store, uint64_t segment, int64_t origin, int64_t now_ns, const void *message,
                   size_t size)
{
    int err = et_store_step(store,
                            et_store_bind(store, S_CRASH_ADD, "iibi", (int64_t)segment, now_ns, message, size, origin));
    return err ? err : et_store_drop_beyond(store, S_CRASH_DROP, &et_crashes_most);
}

int et_store_crashes(struct et_store *store, const struct et_query *query,
                     bool (*call)(void *context, int64_t received_ns, const void *message, size_t size), void *context)
{
    sqlite3_stmt *row = et_store_bind(store, S_CRASHES, "ii", query->from_ns, query->to_ns);
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
