/* See store.h: et_store_check(). */
#include "tools/store/store_damage.h"
#include "tools/store/store_rollup.h"

#include <string.h>

struct checking {
    struct et_damage_check damage;
    void (*found)(void *context, const struct et_damage *damage);
    void *context;
    uint64_t rows;
};

/* ---- the file ---- */

/* SQLite's findings about pages and indexes, a line each. */
static int check_file(struct checking *c)
{
    struct et_store *store = c->damage.store;
    sqlite3_stmt *row = et_store_bind(store, "PRAGMA integrity_check(100)", "");
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        const char *text = et_column_text(row, 0);
        const char *heading = strncmp(text, "***", 3) == 0 ? strchr(text, '\n') : NULL;
        if (strcmp(text, "ok") != 0) {
            c->found(c->context, &(struct et_damage){.reason = heading ? heading + 1 : text});
        }
    }
    sqlite3_reset(row);
    return got;
}

/* ---- rows ---- */

static const char SUM_NAMES[] = "SELECT service, kind FROM rollup WHERE id = ?";
static const char PROFILE_NAMES[] = "SELECT o.service, s.kind FROM profile p JOIN series s ON s.id = p.series"
                                    " JOIN origin o ON o.id = s.origin WHERE p.id = ?";

/* reason: NULL: only what names it may be missing. */
static int tell(struct checking *c, const struct et_row *row, const char *reason)
{
    bool sum = row->level == ET_ROLLUP;
    sqlite3_stmt *names = sum ? et_store_bind(c->damage.store, SUM_NAMES, "i", row->id)
                              : et_store_bind(c->damage.store, PROFILE_NAMES, "i", row->id);
    int got = et_store_step(c->damage.store, names);
    if (reason || got == 0) {
        c->found(c->context,
                 &(struct et_damage){.what = sum ? "sum" : "profile",
                                     .id = row->id,
                                     .service = got == 1 ? et_column_text(names, 0) : "?",
                                     .kind = got == 1 ? et_column_text(names, 1) : "?",
                                     .start_ns = row->start_ns,
                                     .reason = reason ? reason : "the process that it belongs to is missing"});
    }
    sqlite3_reset(names);
    return got < 0 ? got : 0;
}

static int check_row(struct checking *c, const struct et_row *row)
{
    char why[120];
    int got = et_damage_find(&c->damage, row, why);
    c->rows++;
    return got < 0 ? got : tell(c, row, got ? why : NULL);
}

static const char PROFILES[] = "SELECT " ET_ROW_COLUMNS ", level FROM profile WHERE id > ? ORDER BY id LIMIT 1";

static int check_profiles(struct checking *c)
{
    struct et_store *store = c->damage.store;
    int64_t after = 0;
    for (;;) {
        sqlite3_stmt *statement = et_store_bind(store, PROFILES, "i", after);
        int got = et_store_step(store, statement);
        struct et_row row = got == 1 ? et_row_of(statement, 0) : (struct et_row){0};
        row.level = got == 1 ? sqlite3_column_int(statement, 13) : 0;
        sqlite3_reset(statement);
        got = got == 1 ? check_row(c, &row) : got ? got : 1;
        if (got) {
            return got < 0 ? got : 0;
        }
        after = row.id;
    }
}

static int check_rollups(struct checking *c)
{
    struct et_row row = {0};
    int got;
    while ((got = et_rollup_after(c->damage.store, row.id, &row)) == 1 && (got = check_row(c, &row)) == 0) {
    }
    return got;
}

int et_store_check(struct et_store *store, void (*found)(void *context, const struct et_damage *damage), void *context,
                   uint64_t *rows)
{
    struct checking c = {.damage.store = store, .found = found, .context = context};
    bool began = et_store_reading(store);
    int err = check_file(&c), each = check_profiles(&c);
    err = err ? err : each;
    each = check_rollups(&c);
    err = err ? err : each;
    et_store_reading_done(store, began);
    et_damage_check_free(&c.damage);
    *rows = c.rows;
    return err;
}
