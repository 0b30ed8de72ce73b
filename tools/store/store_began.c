/* See store_internal.h: when the processes of a profile began. */
#include "tools/lib/time_text.h"
#include "tools/store/store_internal.h"

#include <pthread.h>
#include <string.h>

static char own_boot[64];

static void read_boot(void)
{
    struct et_buf text = {0};
    if (et_read_file("/proc/sys/kernel/random/boot_id", sizeof own_boot, &text) == 0 && text.size < sizeof own_boot) {
        memcpy(own_boot, text.data, text.size);
        own_boot[strcspn(own_boot, "\n")] = '\0';
    }
    et_buf_free(&text);
}

void et_began_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_boot);
}

static const char PROCESS[] = "SELECT boot_id, process_start, (SELECT min(first_ns) FROM series WHERE origin = ?1)"
                              " FROM origin WHERE id = ?1";

/* The first profile begins with the process, unless it was lost or deleted. Of this boot the clock knows it, too. */
static int process_began(struct et_store *store, int64_t origin, int64_t *began_ns)
{
    sqlite3_stmt *row = et_store_bind(store, PROCESS, "i", origin);
    int got = et_store_step(store, row);
    if (got == 1) {
        int64_t uptime = sqlite3_column_int64(row, 1), first = sqlite3_column_int64(row, 2);
        int64_t clock = et_now() - et_since_boot() + uptime;
        bool here = uptime > 0 && *own_boot && strcmp(et_column_text(row, 0), own_boot) == 0;
        int64_t began = here && clock < first ? clock : first;
        *began_ns = !*began_ns || began < *began_ns ? began : *began_ns;
    }
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

int et_store_began(struct et_store *store, const struct et_map *origins, struct et_profile *profile)
{
    bool asked = false;
    int err = 0;
    for (size_t i = 0; i < profile->module_count && !asked; i++) {
        asked = !*et_text(&profile->strings, profile->modules[i].build_id);
    }
    for (size_t i = 0; asked && i < origins->capacity && !err; i++) {
        if (origins->entries[i].used) {
            err = process_began(store, (int64_t)origins->entries[i].key, &profile->began_ns);
        }
    }
    return err;
}
