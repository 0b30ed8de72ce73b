/*
 * A program for a device with the profiler in it: a thread that filters readings, and main that sums them up.
 *
 *   device SECONDS [ENDPOINT]     ENDPOINT: http://host:4040 or file:///path; default: $EDGEPROF_ENDPOINT
 *
 *   cc -O2 -g device.c $(pkg-config --cflags --libs edgeprof) -o device
 *   cc -O2 -g device.c -static $(pkg-config --static --cflags --libs edgeprof) -o device
 */
#include <edgeprof/edgeprof.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"

static uint8_t memory[EP_MEMORY_DEFAULT]; /* all the memory that the profiler will ever have */
static atomic_uint filtered;
static atomic_int stopping;

__attribute__((noinline)) void filter_readings(unsigned *readings)
{
    for (int round = 0; round < 50; round++)
        for (int i = 1; i < DEVICE_READINGS; i++)
            readings[i] = (readings[i] * 3 + readings[i - 1]) / 4 + (unsigned)round;
    atomic_fetch_add(&filtered, readings[DEVICE_READINGS - 1] | 1);
}

__attribute__((noinline)) unsigned sum_up(unsigned seed)
{
    for (int i = 0; i < 200000; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static void *filter(void *unused)
{
    static unsigned readings[DEVICE_READINGS];
    while (!atomic_load(&stopping))
        filter_readings(readings);
    return unused;
}

int main(int argc, char **argv)
{
    struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .service = "device", .tags = "version=1.0"};
    double seconds = argc > 1 ? atof(argv[1]) : 10;
    pthread_t thread;

    config.endpoint = argc > 2 ? argv[2] : NULL;
    config.level = EP_LEVEL_MEDIUM;
    if (ep_config_from_env(&config) < 0 || ep_start(&config) != 0) {
        fprintf(stderr, "device: no profiling: %s\n", ep_start_error());
        return 1;
    }
    if (pthread_create(&thread, NULL, filter, NULL) != 0)
        return 1;
    unsigned sum = 0;
    for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;)
        sum = sum_up(sum);
    atomic_store(&stopping, 1);
    (void)pthread_join(thread, NULL);
    int err = ep_stop(2000);
    printf("%u %u\n", sum, atomic_load(&filtered));
    if (err != 0)
        fprintf(stderr, "device: not everything was delivered: %s\n", strerror(-err));
    return err == 0 ? 0 : 1;
}
