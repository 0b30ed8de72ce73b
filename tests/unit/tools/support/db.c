/* See db.h. */
#include "db.h"
#include "tools/lib/util.h"

#include <unistd.h>

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
