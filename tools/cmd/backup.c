/* edgeprof backup: copies the database, even while `serve` writes to it. */
#include "tools/store/backup.h"
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/lib/kinds.h"
#include "tools/lib/progress.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const struct et_help et_help_backup = {
    .usage = "[--db FILE] -o COPY",
    .about =
        "Copies the database, even while `edgeprof serve` writes to it. The copy contains all that was committed "
        "when it began. An older copy at "
        "COPY is replaced only when the new one is complete, checked and synced; a file that is no database is not "
        "replaced. A database of a "
        "newer edgeprof is refused.",
    .end = "To restore: stop `serve`, remove FILE, FILE-wal and FILE-shm, copy COPY to FILE, start `serve`.\n"
           "\n"
           "exit codes: 0 done, 1 failed, 2 wrong usage",
    .words = "",
};

/* "copy.db: 1.50MiB, in place of the copy of 2026-01-31 12:00:00". before: of the file that was there; 0: none. */
static void print_done(const char *to, time_t before)
{
    struct stat info = {0};
    struct tm parts;
    char size[32], at[64] = "";
    if (before && gmtime_r(&before, &parts)) {
        strftime(at, sizeof at, ", in place of the copy of %Y-%m-%d %H:%M:%S", &parts);
    }
    (void)stat(to, &info);
    et_value_text((uint64_t)info.st_size, "bytes", size);
    et_printf("%s: %s%s\n", to, size, at);
    (void)fflush(stdout); /* the copy is there, whoever listens */
}

static int run_backup(const char *from, const char *to)
{
    struct stat info;
    time_t before = stat(to, &info) == 0 ? info.st_mtime : 0;
    struct et_buf why = {0};
    if (access(from, F_OK) != 0) {
        et_error("database %s does not exist; choose another with --db", from);
        return ET_FAILED;
    }
    int err = et_backup(from, to, &why);
    if (err) {
        et_error("backup: %s", why.data);
    } else {
        print_done(to, before);
    }
    et_buf_free(&why);
    return err ? ET_FAILED : ET_OK;
}

int et_cmd_backup(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.first < argc) {
        et_error("backup: unexpected argument %s", argv[options.first]);
        code = ET_USAGE;
    } else if (options.outputs.count != 1 || strcmp(options.outputs.items[0], "-") == 0 ||
               options.outputs.items[0][0] == '\0') {
        et_error("backup: expected one output file, -o COPY");
        code = ET_USAGE;
    } else {
        code = run_backup(options.db ? options.db : ET_DEFAULT_DB, options.outputs.items[0]);
    }
    et_options_free(&options);
    return code;
}
