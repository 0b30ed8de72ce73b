/*
 * How long a process that ends may wait for its last profile to be delivered.
 *
 * A server that answers at once is never waited for longer than it takes. Of one that does not, a build or a shell
 * script starts thousands of short processes: each may wait a tenth of its own life. `edgeprof run` is at hand and
 * collects what the processes tell it, so there the wait is only a limit.
 */
#include "preload.h"

#include <errno.h>
#include <stdlib.h>

#include <edgeprof/port.h>

#define SHORTEST_MS 100u
#define LONGEST_MS  2000u
#define MOST_MS     600000u
#define NS_PER_MS   1000000u

static uint64_t begun_ns;
static unsigned given_ms;
static bool given;

int ep_preload_end_begins(void)
{
    const char *text = ep_port_env("EDGEPROF_EXIT_TIMEOUT");
    char *end = NULL;

    begun_ns = ep_port_uptime_ns();
    given = text && *text;
    if (!given)
        return 0;
    const unsigned long ms = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || ms > MOST_MS)
        return -EINVAL;
    given_ms = (unsigned)ms;
    return 0;
}

unsigned ep_preload_end_ms(void)
{
    const uint64_t tenth_ms = (ep_port_uptime_ns() - begun_ns) / 10 / NS_PER_MS;

    if (given)
        return given_ms;
    if (ep_port_env("EDGEPROF_RUN") || tenth_ms > LONGEST_MS)
        return LONGEST_MS;
    return tenth_ms < SHORTEST_MS ? SHORTEST_MS : (unsigned)tenth_ms;
}
