/*
 * Preloaded into `edgeprof run` itself: notes what the kernel says of the program that it ran, and each line that it
 * wrote, and lets witness.py judge while the database is there. If it finds something wrong, `edgeprof run` ends
 * with 98. Neither the program nor its environment knows of it.
 *
 * Variables, set by witness.sh: WITNESS_THEN is the LD_PRELOAD of the caller, WITNESS is what witness.py is told.
 */
#include "../../program.h"

#include <spawn.h>

enum { WRONG = 98 };

static FILE *notes; /* NULL: nothing to judge, or it is judged; fields that end with NUL */
static char judge[PATH_MAX], told[64];
static int wrong;

/* The dynamic linker calls it with main()'s arguments. */
__attribute__((constructor)) static void begin(int argc, char **argv)
{
    const char *then = getenv("WITNESS_THEN"), *given = getenv("WITNESS"), *self = argv[0], *slash = strrchr(self, '/');

    (void)snprintf(judge, sizeof judge, "%.*s/witness.py", slash ? (int)(slash - self) : 1, slash ? self : ".");
    (void)snprintf(told, sizeof told, "%s", given ? given : "");
    (void)(then && *then ? setenv("LD_PRELOAD", then, 1) : unsetenv("LD_PRELOAD"));
    (void)unsetenv("WITNESS_THEN");
    (void)unsetenv("WITNESS");
    if (argc < 2 || strcmp(argv[1], "run") != 0)
        return;
    const int fd = memfd_create("witness", MFD_CLOEXEC); /* the program does not inherit it */
    notes = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (notes)
        (void)fprintf(notes, "from %" PRIu64 "%c", clock_ns(CLOCK_REALTIME) / 1000000000 - 1, 0);
    for (int i = 2; notes && i < argc; i++)
        (void)fprintf(notes, "argument %s%c", argv[i], 0);
}

static void look(const char *db)
{
    char path[32], *const arguments[] = {judge, path, told, NULL};
    FILE *const file = notes;
    int status;
    pid_t pid;

    notes = NULL;
    if (!file)
        return;
    if (db)
        (void)fprintf(file, "db %s%c", db, 0);
    (void)fflush(NULL);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", fileno(file));
    (void)fcntl(fileno(file), F_SETFD, 0);
    wrong =
        posix_spawn(&pid, judge, NULL, NULL, arguments, environ) != 0 || waitpid(pid, &status, 0) != pid || status != 0;
    (void)fclose(file);
}

__attribute__((destructor)) static void end(void)
{
    look(NULL);
    if (wrong) {
        (void)fflush(NULL);
        _exit(WRONG);
    }
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *used)
{
    const pid_t ended = (pid_t)syscall(SYS_wait4, pid, status, options, used);

    if (ended > 0 && notes)
        (void)fprintf(notes, "used %lld%cstatus %d%c",
                      (long long)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1000000000 +
                          (long long)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) * 1000,
                      0, *status, 0);
    return ended;
}

/* The database of a run that names none is about to go. */
int unlink(const char *path)
{
    const char *name = strrchr(path, '/');

    if (name && strcmp(name, "/edgeprof.db") == 0)
        look(path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static int print(FILE *out, const char *format, va_list arguments)
{
    va_list again;

    va_copy(again, arguments);
    if (out == stderr && notes && strncmp(format, "edgeprof: ", 10) == 0) {
        (void)fputs("line ", notes);
        (void)vfprintf(notes, format, again);
        (void)fputc(0, notes);
    }
    va_end(again);
    return vfprintf(out, format, arguments);
}

int fprintf(FILE *out, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int count = print(out, format, arguments);
    va_end(arguments);
    return count;
}

/* The same with _FORTIFY_SOURCE. */
int __fprintf_chk(FILE *out, int flag, const char *format, ...)
{
    va_list arguments;

    (void)flag;
    va_start(arguments, format);
    const int count = print(out, format, arguments);
    va_end(arguments);
    return count;
}
