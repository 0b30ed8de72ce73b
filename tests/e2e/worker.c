/*
 * A program for server_gone.py: burns CPU for SECONDS of wall clock on two threads, profiled to the endpoint given, and
 * prints what the profiler says of itself when it has stopped.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "account.h"

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
    print_account(stopped);
    return 0;
}
