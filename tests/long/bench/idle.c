/*
 * Wake-ups of a service that does nothing: the profiler's own two threads, counted over half a minute with default
 * settings, and a transport that takes everything.
 */
#include <stdio.h>
#include <time.h>

#include <edgeprof/edgeprof.h>

#define SECONDS 30

static uint8_t memory[EP_MEMORY_DEFAULT];

int main(void)
{
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .service = "idle", .endpoint = "null:"};
    struct timespec pause = {.tv_sec = SECONDS};
    struct ep_stats before, after;

    if (ep_start(&config) != 0) {
        fprintf(stderr, "idle: %s\n", ep_start_error());
        return 1;
    }
    (void)ep_stats_get(&before);
    (void)nanosleep(&pause, NULL);
    (void)ep_stats_get(&after);
    (void)ep_stop(1000);
    printf("figure idle_wakeups_per_min %.0f count\n", (double)(after.wakeups - before.wakeups) * 60 / SECONDS);
    printf("figure memory_bytes %u bytes\n", after.memory_used);
    return 0;
}
