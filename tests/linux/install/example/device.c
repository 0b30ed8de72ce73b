/*
 * A program for a device with the profiler in it: a thread that filters readings, and main that sums them up. Each uses
 * half of the CPU time.
 *
 *   device SECONDS [ENDPOINT]     SECONDS: of CPU time. ENDPOINT: http://host:4040 or file:///path; default:
 * $EDGEPROF_ENDPOINT
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
static double seconds_each;

/* Whether the calling thread has CPU time left. */
static int goes_on(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9 < seconds_each;
}

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
    while (goes_on())
        filter_readings(readings);
    return unused;
}

int main(int argc, char **argv)
{
    struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .service = "device", .tags = "version=1.0"};
    pthread_t thread;

    seconds_each = (argc > 1 ? atof(argv[1]) : 10) / 2;
    config.endpoint = argc > 2 ? argv[2] : NULL;
    config.level = EP_LEVEL_MEDIUM;
    if (ep_config_from_env(&config) < 0 || ep_start(&config) != 0) {
        fprintf(stderr, "device: no profiling: %s\n", ep_start_error());
        return 1;
    }
    if (pthread_create(&thread, NULL, filter, NULL) != 0)
        return 1;
    unsigned sum = 0;
    while (goes_on())
        sum = sum_up(sum);
    (void)pthread_join(thread, NULL);
    int err = ep_stop(2000);
    printf("%u %u\n", sum, atomic_load(&filtered));
    if (err != 0)
        fprintf(stderr, "device: not everything was delivered: %s\n", strerror(-err));
    return err == 0 ? 0 : 1;
}
