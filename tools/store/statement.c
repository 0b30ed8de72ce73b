/* See store_internal.h: prepared statements, each kept for as long as the database is open. */
#include "tools/store/store_internal.h"

#include <errno.h>
#include <stdarg.h>

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

/* Returns the statement, prepared at its first use, or NULL. */
static sqlite3_stmt *find_statement(struct et_store *store, const char *sql)
{
    uint64_t *known = et_map_at(&store->statements, (uintptr_t)sql);
    if (!*known) {
        sqlite3_stmt *statement = NULL;
        int code = sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
        if (code != SQLITE_OK) {
            et_store_note(store, code);
        }
        *known = (uintptr_t)statement;
    }
    return (sqlite3_stmt *)(uintptr_t)*known;
}

static sqlite3_stmt *bind_all(struct et_store *store, const char *sql, const char *format, va_list *args)
{
    sqlite3_stmt *statement = find_statement(store, sql);
    int code = SQLITE_OK;
    sqlite3_reset(statement);
    for (int i = 0; statement && format[i] && code == SQLITE_OK; i++) {
        code = bind_one(statement, i + 1, format[i], args);
    }
    if (code != SQLITE_OK) {
        et_store_note(store, code);
    }
    return code == SQLITE_OK ? statement : NULL;
}

sqlite3_stmt *et_store_bind(struct et_store *store, const char *sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sqlite3_stmt *statement = bind_all(store, sql, format, &args);
    va_end(args);
    return statement;
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

int et_store_run(struct et_store *store, const char *sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int err = et_store_step(store, bind_all(store, sql, format, &args));
    va_end(args);
    return err;
}

int64_t et_store_insert(struct et_store *store, const char *sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int err = et_store_step(store, bind_all(store, sql, format, &args));
    va_end(args);
    return err < 0 ? err : sqlite3_changes(store->db) ? sqlite3_last_insert_rowid(store->db) : 0;
}

int64_t et_store_number(struct et_store *store, const char *sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sqlite3_stmt *statement = bind_all(store, sql, format, &args);
    va_end(args);
    int got = et_store_step(store, statement);
    int64_t value = got == 1 ? sqlite3_column_int64(statement, 0) : got;
    sqlite3_reset(statement);
    return value;
}

void et_statements_reset(struct et_store *store)
{
    for (sqlite3_stmt *one = NULL; (one = sqlite3_next_stmt(store->db, one));) {
        sqlite3_reset(one);
    }
}

void et_statements_free(struct et_store *store)
{
    for (sqlite3_stmt *one; store->db && (one = sqlite3_next_stmt(store->db, NULL));) {
        sqlite3_finalize(one);
    }
    et_map_free(&store->statements);
}
