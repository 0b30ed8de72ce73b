/*
 * Lines on standard error; see preload_lines.h.
 */
#include "preload_lines.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Address space of one of edgeprof's threads. */
#define STACK_BYTES (256 * 1024 + 4096)

/* EDGEPROF_RUN is the process id of `edgeprof run`. Only the parent is signalled, because its id cannot belong to
 * another process; and SIGURG has no effect on other processes. */
static void run_informed(void)
{
    const char *run = secure_getenv("EDGEPROF_RUN");
    pid_t parent = getppid();

    if (run && strtol(run, NULL, 10) == (long)parent)
        (void)kill(parent, SIGURG);
}

static void write_line(const char *line, int size, size_t room)
{
    run_informed();
    if (size > 0 && write(STDERR_FILENO, line, (size_t)size < room ? (size_t)size : room - 1) < 0)
        return;
}

void ep_preload_say(const char *what, const char *why)
{
    char line[384];

    write_line(line, snprintf(line, sizeof line, "edgeprof: %s: %s\n", what, why), sizeof line);
}

void ep_preload_say_line(const char *text)
{
    char line[544];

    write_line(line, snprintf(line, sizeof line, "edgeprof: %s\n", text), sizeof line);
}

/* Checks whether address space for a stack is missing: pthread_create() returns EAGAIN for that too. */
static bool stack_refused(void)
{
    void *stack = mmap(NULL, STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (stack == MAP_FAILED)
        return true;
    (void)munmap(stack, STACK_BYTES);
    return false;
}

static int limit_of(int error, const char **name, const char **option)
{
    if (error == -EMFILE) {
        *name = "open files (RLIMIT_NOFILE";
        *option = "-n";
        return RLIMIT_NOFILE;
    }
    if (error == -ENOMEM || (error == -EAGAIN && stack_refused())) {
        *name = "address space (RLIMIT_AS";
        *option = "-v";
        return RLIMIT_AS;
    }
    *name = "processes and threads (RLIMIT_NPROC";
    *option = "-u";
    return error == -EAGAIN ? (int)RLIMIT_NPROC : -1;
}

void ep_preload_say_error(const char *what, const char *why, int error)
{
    char text[256];
    const char *name, *option, *colon = why[0] ? ": " : "";
    struct rlimit limit;
    int which = limit_of(error, &name, &option);

    if (which >= 0 && getrlimit((__rlimit_resource_t)which, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        (void)snprintf(text, sizeof text, "%s%sthe limit of %s, %llu) is reached; raise it with \"ulimit %s\"", why,
                       colon, name, (unsigned long long)limit.rlim_cur, option);
    else
        (void)snprintf(text, sizeof text, "%s%s%s", why, colon, strerror(-error));
    ep_preload_say(what, text);
}
