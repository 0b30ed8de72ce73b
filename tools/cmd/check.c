/* edgeprof check: finds the damaged profiles of a database. */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/lib/progress.h"
#include "tools/lib/time_text.h"
#include "tools/store/store.h"

#include <time.h>
#include <unistd.h>

const struct et_help et_help_check = {
    .usage = "[FILE]",
    .about = "Checks a database (default: ./edgeprof.db) also while `edgeprof serve` writes to it: SQLite's pages and "
             "indexes, and whether each stored profile can be read with all that it refers to. Prints a line for each "
             "damaged one. Queries leave damaged profiles out; their count is `damaged_profiles` of /api/profile and "
             "edgeprof_damaged_profiles in /metrics.",
    .end = "exit codes: 0 nothing is damaged, 1 something is, or failed, 2 wrong usage",
};

static void print_damage(void *context, const struct et_damage *damage)
{
    uint64_t *count = context;
    time_t seconds = (time_t)(damage->start_ns / 1000000000);
    struct tm parts;
    char when[32] = "?";
    ++*count;
    if (!damage->what) {
        et_printf("file: %s\n", damage->reason);
        return;
    }
    if (gmtime_r(&seconds, &parts)) {
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
    }
    et_printf("%s %lld: service %s, kind %s, %s UTC: %s\n", damage->what, (long long)damage->id, damage->service,
              damage->kind, when, damage->reason);
}

static int check(const char *path)
{
    const char *why = "";
    uint64_t rows = 0, damaged = 0;
    if (access(path, F_OK) != 0) {
        et_error("database %s does not exist; name another", path);
        return ET_FAILED;
    }
    struct et_store *store = et_store_open(path, false, &why);
    if (!store) {
        et_error("database %s: %s", path, why);
        return ET_FAILED;
    }
    et_progress("checking %s", path);
    int err = et_store_check(store, print_damage, &damaged, &rows);
    et_progress_end();
    if (err) {
        et_error("%s: the check is not complete: %s", path, et_store_why(store));
    } else if (damaged) {
        et_error("%s: %llu damaged, of %llu profiles and sums; queries leave them out", path,
                 (unsigned long long)damaged, (unsigned long long)rows);
    } else {
        et_printf("%s: %llu profiles and sums, none is damaged\n", path, (unsigned long long)rows);
    }
    et_store_close(store);
    return err || damaged ? ET_FAILED : ET_OK;
}

int et_cmd_check(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.first + 1 < argc) {
        et_error("check: unexpected argument %s", argv[options.first + 1]);
        code = ET_USAGE;
    } else {
        code = check(options.first < argc ? argv[options.first] : "edgeprof.db");
    }
    et_options_free(&options);
    return code;
}
