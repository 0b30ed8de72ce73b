/*
 * A program for server_gone.py: burns CPU for SECONDS of wall clock on two threads, profiled to the endpoint given, and
 * prints what the profiler says of itself when it has stopped.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/edgeprof.h"

static uint8_t memory[EP_MEMORY_DEFAULT];
static time_t end;

static void *burn(void *unused)
{
    static __thread volatile unsigned sink;

    while (time(NULL) < end)
        for (int i = 0; i < 100000; i++)
            sink = sink * 1664525u + 1013904223u;
    return unused;
}

int main(int argc, char **argv)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "worker",
                               .level = EP_LEVEL_HIGH,
                               .interval_ms = 300,
                               .endpoint = argc > 1 ? argv[1] : NULL};
    struct ep_stats stats;
    pthread_t thread;

    if (argc != 3 || ep_start(&config) != 0) {
        fprintf(stderr, "worker: %s\n", ep_start_error());
        return 2;
    }
    end = time(NULL) + atoi(argv[2]);
    if (pthread_create(&thread, NULL, burn, NULL) != 0)
        return 1;
    (void)burn(NULL);
    (void)pthread_join(thread, NULL);
    int stopped = ep_stop(20000);
    (void)ep_stats_get(&stats);
    uint64_t lost = 0;
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        lost += i == EP_LOSS_TREE_FULL || i == EP_LOSS_ENTRIES_FULL ? 0 : stats.lost_ns[i];
    printf("{\"stop\": %d, \"measured_ns\": %llu, \"lost_ns\": %llu, \"failures\": %llu, \"merged\": %llu}\n", stopped,
           (unsigned long long)(stats.weight_ns + stats.thread_exit_ns), (unsigned long long)lost,
           (unsigned long long)stats.delivery_failures, (unsigned long long)stats.intervals_merged);
    return 0;
}
