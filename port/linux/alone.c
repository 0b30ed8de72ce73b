/*
 * Calls that the kernel grants only to a process with one thread: unshare() and setns() with a user namespace, and
 * others that need a view of the file system for themselves. Sandboxes and container tools make them. If the kernel
 * refuses one and only edgeprof's threads are in the way, the profiler stops, the call is made again, and a new run of
 * the profiler starts, whose threads are parked at first if they were.
 *
 * The linker puts these in front of the C library's (alone_wrap.c), or the preload library (preload_alone.c); so are
 * those by syscall() (filter_wrap.c, preload_filter.c).
 */
#include "alone.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "filter.h"
#include "own_threads.h"
#include "thread_start.h"

#include <edgeprof/edgeprof.h>
#include <edgeprof/port_calls.h>

#define STOP_MS 1000u
#define STARTS  20u
#define TRIALS  200u /* of a ms: a joined thread takes a moment to leave the kernel's list */

struct ep_linux_alone_more ep_linux_alone_more;

extern void ep_notice_line(const char *line) __attribute__((weak)); /* if the program has ep_notice_to() */

static struct ep_config again;
static char strings[EP_STRINGS_BYTES];

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

/* Endpoints that the program has started by itself cannot be started again here. */
static bool may_stop(void)
{
    return ep_linux_alone_more.stop ||
           (!ep_linux_role_is_alive(EP_ROLE_CONTROL) && !ep_linux_role_is_alive(EP_ROLE_PULL));
}

/* What the kernel answers to a process with more than one thread; EUSERS for a namespace of the clock. */
static bool is_refused(int error)
{
    return error == EINVAL || error == EUSERS;
}

static bool let_go(void)
{
    if (!is_refused(errno) || ep_linux_filter_met() || !may_stop() || !is_alone() || !ep_settings_copy(&again, strings))
        return false;
    ep_linux_here_set_own(true);
    if (ep_linux_alone_more.stop)
        ep_linux_alone_more.stop();
    const bool stopped = ep_stop(STOP_MS) != -EBUSY;
    ep_linux_here_set_own(false);
    return stopped;
}

/* Keeps errno. */
static void come_back(void)
{
    const int kept = errno;

    ep_linux_here_set_own(true);
    if (ep_start(&again) == 0) {
        if (ep_linux_alone_more.start)
            ep_linux_alone_more.start();
    } else if (ep_notice_line) {
        ep_notice_line("nothing is profiled any more: the profiler stopped for unshare() or setns(), and did not start "
                       "again");
    }
    ep_linux_here_set_own(false);
    errno = kept;
}

int ep_linux_alone(ep_linux_alone_call *call, long number, long a, long b)
{
    int result = (int)call(number, a, b, 0, 0, 0, 0);

    if (result == 0)
        return result;
    const int state = ep_linux_cancel_off();
    if (let_go()) {
        for (unsigned i = 0; i < TRIALS && (result = (int)call(number, a, b, 0, 0, 0, 0)) != 0 && is_refused(errno);
             i++)
            pause_ms();
        come_back();
    }
    ep_linux_cancel_back(state);
    return result;
}
