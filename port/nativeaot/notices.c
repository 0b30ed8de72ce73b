/*
 * Lines about delivery (ep_notice_to()): written on standard error, or kept for the program's own log until a .NET
 * thread takes them. The deliver thread never runs managed code, so it cannot call a logger.
 *
 *   ep_dotnet_notice        deliver thread; while the profiler starts, the starting thread
 *   ep_dotnet_notice_take   .NET's thread
 */
#include "glue.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A start has up to seven lines at once, one for each kind that is off, and one about its token. The core says each
 * cause of a failed delivery once an hour at most. */
#define PLACES 12u

static struct {
    pthread_mutex_t lock;
    bool keep;
    unsigned first, count;
    char (*lines)[EP_DOTNET_NOTICE]; /* PLACES, from the moment on that somebody wants them */
} notices = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns false if the line has to go to standard error. */
static bool line_keep(const char *line)
{
    pthread_mutex_lock(&notices.lock);
    const bool kept = notices.keep && notices.lines != NULL && notices.count < PLACES;
    if (kept) {
        char *place = notices.lines[(notices.first + notices.count++) % PLACES];
        (void)snprintf(place, EP_DOTNET_NOTICE, "%s", line);
    }
    pthread_mutex_unlock(&notices.lock);
    return kept;
}

void ep_dotnet_notice(const char *line)
{
    char text[EP_DOTNET_NOTICE + 16];

    if (line_keep(line))
        return;
    const int size = snprintf(text, sizeof text, "edgeprof: %s\n", line);
    if (size > 0 && write(STDERR_FILENO, text, (size_t)size < sizeof text ? (size_t)size : sizeof text - 1) < 0)
        return;
}

void ep_dotnet_notices_keep(int32_t keep)
{
    pthread_mutex_lock(&notices.lock);
    notices.keep = keep != 0;
    if (keep && notices.lines == NULL)
        notices.lines = ep_dotnet_memory_map(PLACES * sizeof *notices.lines);
    pthread_mutex_unlock(&notices.lock);
}

int32_t ep_dotnet_notice_take(char *line, uint32_t room)
{
    int32_t size = 0;

    if (room < EP_DOTNET_NOTICE)
        return -EINVAL;
    pthread_mutex_lock(&notices.lock);
    if (notices.count > 0) {
        const char *first = notices.lines[notices.first];
        size = (int32_t)strlen(first);
        memcpy(line, first, (size_t)size);
        notices.first = (notices.first + 1) % PLACES;
        notices.count--;
    }
    pthread_mutex_unlock(&notices.lock);
    return size;
}
