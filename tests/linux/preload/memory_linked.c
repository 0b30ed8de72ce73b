/*
 * Starts the profiler in tests/linux/preload/memory.c where that is linked with the library and its memory hooks, and
 * stops it at the program's end.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>

static uint64_t memory[4 * EP_MEMORY_DEFAULT / 8];

static pid_t started;

/* A forked child has no profiler. */
static void stop(void)
{
    if (getpid() == started && ep_stop(5000) != 0)
        fprintf(stderr, "memory_linked: the profile was not delivered\n");
}

__attribute__((constructor)) static void start(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory};
    int error = ep_config_from_env(&config);

    started = getpid();
    if (error > 0)
        error = ep_start(&config);
    if (error < 0)
        fprintf(stderr, "memory_linked: %d %s\n", error, ep_start_error());
    (void)atexit(stop);
}
