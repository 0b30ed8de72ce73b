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

/* Returns whether the kernel refuses memory for a stack. pthread_create() returns EAGAIN for that too. */
static bool stack_refused(int access)
{
    void *stack = mmap(NULL, STACK_BYTES, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (stack == MAP_FAILED)
        return true;
    (void)munmap(stack, STACK_BYTES);
    return false;
}

struct named_limit {
    int number; /* -1: none */
    const char *name, *option;
};

/* RLIMIT_AS limits all mappings, RLIMIT_DATA those that can be written. */
static struct named_limit limit_of(int error)
{
    const bool memory = error == -ENOMEM || error == -EAGAIN;

    if (error == -EMFILE)
        return (struct named_limit){RLIMIT_NOFILE, "open files (RLIMIT_NOFILE", "-n"};
    if (memory && stack_refused(PROT_NONE))
        return (struct named_limit){RLIMIT_AS, "address space (RLIMIT_AS", "-v"};
    if (memory && stack_refused(PROT_READ | PROT_WRITE))
        return (struct named_limit){RLIMIT_DATA, "data (RLIMIT_DATA", "-d"};
    if (error == -EAGAIN)
        return (struct named_limit){RLIMIT_NPROC, "processes and threads (RLIMIT_NPROC", "-u"};
    return (struct named_limit){-1, "", ""};
}

void ep_preload_say_error(const char *what, const char *why, int error)
{
    char text[256];
    const char *colon = why[0] ? ": " : "";
    const struct named_limit reached = limit_of(error);
    struct rlimit limit;

    if (reached.number >= 0 && getrlimit((__rlimit_resource_t)reached.number, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY)
        (void)snprintf(text, sizeof text, "%s%sthe limit of %s, %llu) is reached; raise it with \"ulimit %s\"", why,
                       colon, reached.name, (unsigned long long)limit.rlim_cur, reached.option);
    else
        (void)snprintf(text, sizeof text, "%s%s%s", why, colon, strerror(-error));
    ep_preload_say(what, text);
}
