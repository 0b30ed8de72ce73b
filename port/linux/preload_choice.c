/*
 * Chooses the profiled processes: EDGEPROF_ONLY and EDGEPROF_SKIP are comma-separated lists of names of executables.
 *
 * A child that executes another program inherits the preload library and finds here whether it is meant. A process has
 * two names, of which either may match: that of its file and that of argv[0]. For instance python3 is the file
 * python3.11.
 */
#include "linux.h"
#include "preload.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* True if the name matches the pattern [at, end); `*` stands for any number of characters. */
static bool matches(const char *at, const char *end, const char *name)
{
    const char *star = NULL, *retry = name;

    while (*name) {
        if (at < end && *at == '*') {
            star = ++at;
            retry = name;
        } else if (at < end && *at == *name) {
            at++;
            name++;
        } else if (star) {
            at = star;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (at < end && *at == '*')
        at++;
    return at == end;
}

/* Matches a list item: only the last part of a path counts, without blanks at either end. */
static bool matches_item(const char *at, const char *end, const char *name)
{
    for (const char *c = at; c < end; c++)
        if (*c == '/' || (c == at && *c == ' '))
            at = c + 1;
    while (end > at && end[-1] == ' ')
        end--;
    return at < end && matches(at, end, name);
}

static bool in_list(const char *list, const char *file, const char *called)
{
    for (const char *at = list; *at;) {
        const char *end = at + strcspn(at, ",");
        if (matches_item(at, end, file) || matches_item(at, end, called))
            return true;
        at = end + (*end == ',');
    }
    return false;
}

static bool process_is_chosen(void)
{
    const char *only = secure_getenv("EDGEPROF_ONLY"), *skip = getenv("EDGEPROF_SKIP");
    char path[PATH_MAX];

    if ((!only || !*only) && (!skip || !*skip))
        return true;
    ep_linux_program_path(path, sizeof path);
    const char *file = base_of(path), *called = base_of(program_invocation_name);
    if (only && *only && !in_list(only, file, called))
        return false;
    return !skip || !in_list(skip, file, called);
}

bool ep_preload_chosen(void)
{
    enum { UNKNOWN, CHOSEN, LEFT_OUT };
    static atomic_int state;
    int now = atomic_load_explicit(&state, memory_order_relaxed);

    if (now == UNKNOWN) {
        int kept = errno;
        now = process_is_chosen() ? CHOSEN : LEFT_OUT;
        errno = kept;
        atomic_store_explicit(&state, now, memory_order_relaxed);
    }
    return now == CHOSEN;
}
