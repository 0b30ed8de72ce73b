/* See store_keep.h: totals of what the keeper deleted. */
#include "tools/store/store_internal.h"
#include "tools/store/store_keep.h"

#include <string.h>

const char *et_deleted_name(enum et_deleted what)
{
    static const char *const names[ET_DELETED_COUNT] = {
        [ET_DELETED_OLD_HOURS] = "old_hours",
        [ET_DELETED_BIG_HOURS] = "big_hours",
        [ET_DELETED_NODES] = "nodes",
        [ET_DELETED_FRAMES] = "frames",
        [ET_DELETED_MODULES] = "modules",
        [ET_DELETED_LABELS] = "labels",
        [ET_DELETED_ORIGINS] = "origins",
        [ET_DELETED_PASSES] = "passes",
        [ET_DELETED_NOTHING] = "stopped_passes",
    };
    return names[what];
}

int et_store_deleted(struct et_store *store, uint64_t counts[ET_DELETED_COUNT])
{
    memset(counts, 0, ET_DELETED_COUNT * sizeof *counts);
    sqlite3_stmt *row = et_store_bind(store, "SELECT what, count FROM deleted", "");
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        for (enum et_deleted i = 0; i < ET_DELETED_COUNT; i++) {
            if (strcmp(et_column_text(row, 0), et_deleted_name(i)) == 0) {
                counts[i] = (uint64_t)sqlite3_column_int64(row, 1);
            }
        }
    }
    return got;
}

static const char DELETED_ADD[] = "INSERT INTO deleted (what, count) VALUES (?1, ?2) ON CONFLICT (what) DO UPDATE"
                                  " SET count = count + excluded.count";

int et_store_note_deleted(struct et_store *store, enum et_deleted what, int64_t count)
{
    return et_store_run(store, DELETED_ADD, "si", et_deleted_name(what), count);
}
