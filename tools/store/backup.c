/*
 * See backup.h. et_backup() has these steps:
 *
 *   check_target       refuse to overwrite a database in use
 *   open_snapshot      begin to read the source; refuse another schema
 *   lock_part          create and lock the unfinished file
 *   copy_all           copy the snapshot, page by page; check the copy
 *   publish            sync, rename, sync the folder
 */
#include "tools/store/backup.h"
#include "tools/lib/progress.h"
#include "tools/store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEP_PAGES = 1024, BUSY_MS = 5000 };

struct backup {
    const char *from, *to;
    sqlite3 *source;    /* in a read transaction, so concurrent writes do not change what it sees */
    struct et_buf part; /* name of the unfinished file */
    int hold;           /* file descriptor of that file, locked */
    mode_t mode;        /* of the source: who may read a copy is who may read that */
    struct et_buf *why;
};

/* ---- errors ---- */

static int fail_with(struct backup *b, int err, const char *path, const char *text)
{
    et_buf_printf(b->why, "%s: %s", path, text);
    return err;
}

static int fail_with_errno(struct backup *b, const char *path)
{
    int err = -errno;
    return fail_with(b, err, path, strerror(-err));
}

static int fail_with_sqlite(struct backup *b, sqlite3 *db, const char *path)
{
    return fail_with(b, sqlite3_errcode(db) == SQLITE_FULL ? -ENOSPC : -EIO, path, sqlite3_errmsg(db));
}

/* ---- copying ---- */

static int open_database(struct backup *b, const char *path, int flags, sqlite3 **db)
{
    int code = sqlite3_open_v2(path, db, flags, NULL);
    if (code != SQLITE_OK) {
        return fail_with_sqlite(b, *db, path);
    }
    sqlite3_busy_timeout(*db, BUSY_MS);
    return 0;
}

static int run_sql(struct backup *b, sqlite3 *db, const char *path, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail_with_sqlite(b, db, path);
}

static int open_snapshot(struct backup *b)
{
    char other[128];
    enum et_schema found = ET_SCHEMA_NONE;
    int err = open_database(b, b->from, SQLITE_OPEN_READWRITE, &b->source);
    err = err ? err : run_sql(b, b->source, b->from, "BEGIN");
    if (!err && et_schema_find(b->source, &found, other, sizeof other) != SQLITE_OK) {
        err = fail_with_sqlite(b, b->source, b->from);
    }
    if (!err && found == ET_SCHEMA_OTHER) {
        err = fail_with(b, -EINVAL, b->from, other);
    }
    return err ? err : run_sql(b, b->source, b->from, "SELECT count(*) FROM profile WHERE id < 0");
}

static int copy_pages(struct backup *b, sqlite3 *copy)
{
    sqlite3_backup *pages = sqlite3_backup_init(copy, "main", b->source, "main");
    if (!pages) {
        return fail_with_sqlite(b, copy, b->part.data);
    }
    int code;
    et_progress("copying %s", b->from);
    while ((code = sqlite3_backup_step(pages, STEP_PAGES)) == SQLITE_OK) {
        size_t total = (size_t)sqlite3_backup_pagecount(pages);
        et_progress_of(total - (size_t)sqlite3_backup_remaining(pages), total);
    }
    et_progress_end();
    sqlite3_backup_finish(pages);
    if (code == SQLITE_DONE) {
        return 0;
    }
    bool reading = (code & 0xff) == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_IOERR_READ ||
                   code == SQLITE_IOERR_SHORT_READ;
    return fail_with(b, code == SQLITE_FULL ? -ENOSPC : -EIO, reading ? b->from : b->part.data, sqlite3_errstr(code));
}

/* The copy has no write-ahead log, so the file alone is the whole database. */
static int copy_source(struct backup *b)
{
    sqlite3 *copy = NULL;
    int err = open_database(b, b->part.data, SQLITE_OPEN_READWRITE, &copy);
    err = err ? err : run_sql(b, copy, b->part.data, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF");
    err = err ? err : copy_pages(b, copy);
    err = err ? err : run_sql(b, copy, b->part.data, "PRAGMA journal_mode = DELETE");
    sqlite3_close(copy);
    return err;
}

/* SQLite's verdict without its heading, which is a line of its own: "*** in database main ***". */
static const char *finding_of(const char *verdict)
{
    const char *heading = verdict ? strchr(verdict, '\n') : NULL;
    return heading ? heading + 1 : verdict ? verdict : "";
}

static int check_copy(struct backup *b)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    et_progress("checking %s", b->part.data);
    int err = open_database(b, b->part.data, SQLITE_OPEN_READONLY, &db);
    if (!err && (sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &statement, NULL) != SQLITE_OK ||
                 sqlite3_step(statement) != SQLITE_ROW)) {
        err = fail_with_sqlite(b, db, b->from);
    }
    const char *verdict = err ? "ok" : (const char *)sqlite3_column_text(statement, 0);
    if (!verdict || strcmp(verdict, "ok") != 0) {
        et_buf_printf(b->why, "%s: the database is damaged: %s; no copy was kept", b->from, finding_of(verdict));
        err = -EIO;
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    et_progress_end();
    return err;
}

static int copy_all(struct backup *b)
{
    int err = copy_source(b);
    sqlite3_close(b->source);
    b->source = NULL;
    return err ? err : check_copy(b);
}

/* ---- target file ---- */

static bool file_exists(const char *path, const char *ending)
{
    struct et_buf name = {0};
    et_buf_printf(&name, "%s%s", path, ending);
    bool there = access(name.data, F_OK) == 0;
    et_buf_free(&name);
    return there;
}

/* Whether two names are of one file, or would be once it is there. */
static bool is_same_file(const char *x, const char *y)
{
    struct stat at_x, at_y;
    if (stat(x, &at_x) == 0 && stat(y, &at_y) == 0) {
        return at_x.st_dev == at_y.st_dev && at_x.st_ino == at_y.st_ino;
    }
    const char *const names[] = {x, y};
    const char *base[2];
    struct stat folder[2];
    for (size_t i = 0; i < 2; i++) {
        char *copy = et_strdup(names[i]);
        bool found = stat(dirname(copy), &folder[i]) == 0;
        const char *slash = strrchr(names[i], '/');
        base[i] = slash ? slash + 1 : names[i];
        free(copy);
        if (!found) {
            return false;
        }
    }
    return folder[0].st_dev == folder[1].st_dev && folder[0].st_ino == folder[1].st_ino &&
           strcmp(base[0], base[1]) == 0;
}

/* The database, or a file that SQLite keeps beside it: replaced, what is only in the log would be lost. */
static bool is_of_database(const struct backup *b)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    char *real = realpath(b->from, NULL);
    bool same = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !same; i++) {
        struct et_buf name = {0};
        et_buf_printf(&name, "%s%s", real ? real : b->from, endings[i]);
        same = is_same_file(name.data, b->to);
        et_buf_free(&name);
    }
    free(real);
    return same;
}

/* An older copy may be replaced, and nothing else. */
static bool is_database(const char *path, const struct stat *info)
{
    char head[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = info->st_size == 0 || (fd >= 0 && read(fd, head, sizeof head) == sizeof head &&
                                     memcmp(head, "SQLite format 3", sizeof head) == 0);
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* Refuses a target that is in use: its process would apply its log to another file. */
static int check_target(struct backup *b)
{
    struct stat from, to;
    if (stat(b->from, &from) != 0) {
        return fail_with_errno(b, b->from);
    }
    if (stat(b->to, &to) == 0 && !S_ISREG(to.st_mode)) {
        return fail_with(b, -EINVAL, b->to, "not a regular file; choose another name");
    }
    if (stat(b->to, &to) == 0 && !is_of_database(b) && !is_database(b->to, &to)) {
        return fail_with(b, -EEXIST, b->to, "is there and is no database; choose another name");
    }
    if (is_of_database(b)) {
        return fail_with(b, -EINVAL, b->to, "is the database itself, or its log; choose another name");
    }
    b->mode = (from.st_mode & 0666) | 0600;
    if (file_exists(b->to, "-wal") || file_exists(b->to, "-journal")) {
        return fail_with(b, -EBUSY, b->to, "is a database in use (it has a log); choose another name");
    }
    return 0;
}

/* Creates and locks the unfinished file. Overwrites what a killed backup left. */
static int lock_part(struct backup *b)
{
    struct stat held, there;
    b->hold = open(b->part.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (b->hold < 0) {
        return fail_with_errno(b, b->part.data);
    }
    if (flock(b->hold, LOCK_EX | LOCK_NB) != 0 || fstat(b->hold, &held) != 0 || stat(b->part.data, &there) != 0 ||
        held.st_ino != there.st_ino) {
        close(b->hold);
        b->hold = -1;
        return fail_with(b, -EBUSY, b->part.data, "another backup is in progress; wait for it");
    }
    if (held.st_uid != geteuid() || held.st_nlink != 1 || !S_ISREG(held.st_mode)) {
        close(b->hold);
        b->hold = -1;
        return fail_with(b, -EPERM, b->part.data, "is another user's, or has a second name; remove it");
    }
    return ftruncate(b->hold, 0) == 0 && fchmod(b->hold, b->mode) == 0 ? 0 : fail_with_errno(b, b->part.data);
}

static void remove_leftovers(const struct backup *b)
{
    static const char *const endings[] = {"-journal", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct et_buf name = {0};
        et_buf_printf(&name, "%s%s", b->part.data, endings[i]);
        unlink(name.data);
        et_buf_free(&name);
    }
}

static int sync_folder(struct backup *b)
{
    char *copy = et_strdup(b->to);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int err = fd < 0 || fsync(fd) != 0 ? fail_with_errno(b, b->to) : 0;
    if (fd >= 0) {
        close(fd);
    }
    free(copy);
    return err;
}

static int publish(struct backup *b)
{
    if (fsync(b->hold) != 0) {
        return fail_with_errno(b, b->part.data);
    }
    if (rename(b->part.data, b->to) != 0) {
        return fail_with_errno(b, b->to);
    }
    return sync_folder(b);
}

int et_backup(const char *from, const char *to, struct et_buf *why)
{
    struct backup b = {.from = from, .to = to, .hold = -1, .why = why};
    et_buf_printf(&b.part, "%s.part", to);
    int err = check_target(&b);
    err = err ? err : open_snapshot(&b);
    err = err ? err : lock_part(&b);
    if (!err) {
        remove_leftovers(&b);
        err = copy_all(&b);
        err = err ? err : publish(&b);
    }
    if (b.hold >= 0) {
        if (err) {
            remove_leftovers(&b);
            unlink(b.part.data);
        }
        close(b.hold);
    }
    sqlite3_close(b.source);
    et_buf_free(&b.part);
    return err;
}
