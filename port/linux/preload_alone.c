/*
 * Interposes unshare() and setns(); see alone.c.
 */
#include <sys/syscall.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/hooks.h>

#include "alone.h"
#include "preload.h"

/* syscall() itself: preload_filter.c. Context: any thread. */
ep_linux_alone_call ep_preload_call __attribute__((visibility("hidden")));

static void stop_endpoints(void)
{
    (void)ep_pull_stop();
    (void)ep_control_stop();
}

void ep_preload_alone_begin(void)
{
    ep_linux_alone_more.stop = stop_endpoints;
    ep_linux_alone_more.start = ep_preload_endpoints;
}

FUNCTION(int, unshare, (int flags))
{
    return ep_linux_alone(ep_preload_call, SYS_unshare, flags, 0);
}

FUNCTION(int, setns, (int fd, int type))
{
    return ep_linux_alone(ep_preload_call, SYS_setns, fd, type);
}

/* The same by syscall(). Context: any thread. */
long ep_preload_call_alone(long number, long a, long b) __attribute__((visibility("hidden"), used));

long ep_preload_call_alone(long number, long a, long b)
{
    return ep_linux_alone(ep_preload_call, number, a, b);
}
