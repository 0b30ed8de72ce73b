/*
 * Calls that the kernel grants only to a process with one thread: unshare() and setns() with a user namespace, and
 * others that need a view of the file system for themselves. Sandboxes and container tools make them. If the kernel
 * refuses one and only edgeprof's threads are in the way, the profiler stops, the call is made again, and a new run of
 * the profiler starts, whose threads are parked at first.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "filter.h"
#include "preload.h"
#include "preload_lines.h"
#include "thread_start.h"

#include <edgeprof/edgeprof.h>

#define STOP_MS 1000u
#define STARTS  20u
#define TRIALS  200u /* of a ms: a joined thread takes a moment to leave the kernel's list */

static struct ep_config again;
static pid_t profiled; /* 0: no process */

void ep_preload_alone_follow(const struct ep_config *config)
{
    again = *config;
    profiled = getpid();
}

static void pause_ms(void)
{
    const int kept = errno;
    const struct timespec moment = {.tv_nsec = 1000000};

    (void)nanosleep(&moment, NULL);
    errno = kept;
}

/* A thread of edgeprof's that starts at this moment is not known as one yet. */
static bool is_alone(void)
{
    for (unsigned i = 0; i < STARTS; i++) {
        if (ep_linux_process_is_alone())
            return true;
        pause_ms();
    }
    return false;
}

static bool let_go(void)
{
    if (errno != EINVAL || ep_linux_filter_met() || profiled != getpid() || !is_alone())
        return false;
    ep_linux_here_set_own(true);
    (void)ep_pull_stop();
    (void)ep_control_stop();
    const bool stopped = ep_stop(STOP_MS) != -EBUSY;
    ep_linux_here_set_own(false);
    return stopped;
}

/* Keeps errno. */
static void come_back(void)
{
    const int kept = errno;

    ep_linux_here_set_own(true);
    const int error = ep_start(&again);
    if (error)
        ep_preload_say_error("not profiling any more", ep_start_error(), error);
    else
        ep_preload_endpoints();
    ep_linux_here_set_own(false);
    errno = kept;
}

/* clang-format off */
#define ALONE(call) \
    int result = call; \
    if (result == 0 || !let_go()) \
        return result; \
    for (unsigned i = 0; i < TRIALS && (result = call) != 0 && errno == EINVAL; i++) \
        pause_ms(); \
    come_back(); \
    return result;
/* clang-format on */

FUNCTION(int, unshare, (int flags)){ALONE(next_unshare()(flags))}

FUNCTION(int, setns, (int fd, int type))
{
    ALONE(next_setns()(fd, type))
}
