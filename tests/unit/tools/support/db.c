/* See db.h. */
#include "db.h"
#include "tools/lib/util.h"
#include "tests/unit/test.h"

#include <sqlite3.h>
#include <unistd.h>

char *db_path(int argc, char **argv, const char *name)
{
    struct et_buf path = {0};
    et_buf_printf(&path, "%s/%s", argc > 1 ? argv[1] : ".", name);
    return path.data;
}

void db_remove(const char *path)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct et_buf name = {0};
        et_buf_printf(&name, "%s%s", path, endings[i]);
        unlink(name.data);
        et_buf_free(&name);
    }
}

int64_t db_number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}
