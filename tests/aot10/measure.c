/*
 * Calls the library's function under the profiler and says how the stacks ended.
 *
 *   measure LIBRARY CALLS [LEVEL]     EDGEPROF_ENDPOINT and so on say where profiles go
 *
 * One line of JSON: samples, and how many of them are exact, have a gap or are cut; measured and CPU time.
 */
#include "host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "edgeprof.h"

static uint8_t memory[EP_MEMORY_DEFAULT];

static uint64_t cpu_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    struct ep_stats stats;

    if (argc < 3) {
        fprintf(stderr, "usage: measure LIBRARY CALLS\n");
        return 2;
    }
    long calls = atol(argv[2]);
    if (host_load(argv[1]) != 0)
        return 1;
    int error = ep_config_from_env(&config);
    if (error >= 0)
        error = ep_start(&config);
    if (error < 0) {
        fprintf(stderr, "measure: the profiler does not start: %s %s\n", strerror(-error), ep_start_error());
        return 1;
    }
    uint64_t start = cpu_ns();
    for (long i = 0; i < calls; i++)
        host_call();
    uint64_t used = cpu_ns() - start;
    (void)ep_flush();
    (void)ep_stats_get(&stats);
    (void)ep_stop(5000);
    printf("{\"calls\":%ld,\"throws\":%lu,\"exact\":%" PRIu64 ",\"gap\":%" PRIu64 ",\"cut\":%" PRIu64
           ",\"cpuNs\":%" PRIu64 "}\n",
           calls, host_throws(), stats.exact, stats.gap, stats.cut, used);
    return 0;
}
