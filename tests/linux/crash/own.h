/*
 * edgeprof with crash records in a program that ends: with -DLINKED it is linked in, else nothing is done, and it may
 * be preloaded. C and C++. CRASH_LIMIT: limit_ms of the crash records.
 */
#ifndef OWN_H
#define OWN_H

#ifdef LINKED
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <edgeprof/edgeprof.h>

static inline void begin(void)
{
    static uint64_t memory[EP_MEMORY_DEFAULT / 8];
    static struct ep_config config;
    static struct ep_crash_config crash;

    config.memory = memory;
    config.memory_size = sizeof memory;
    int error = ep_config_from_env(&config);
    if (error <= 0)
        return;
    if (getenv("CRASH_LIMIT"))
        crash.limit_ms = (uint32_t)atoi(getenv("CRASH_LIMIT"));
    error = ep_crash_from_env(&crash);
    if (error > 0)
        error = ep_crash_start(&crash);
    if (error < 0)
        fprintf(stderr, "crash: %d %s\n", error, ep_start_error());
    error = ep_start(&config);
    if (error < 0)
        fprintf(stderr, "start: %d %s\n", error, ep_start_error());
}

/* expected: handlers that come behind edgeprof's. */
static inline void in_front(int expected)
{
    int count = getenv("EDGEPROF_CRASH") ? ep_crash_in_front() : expected;

    if (count != expected)
        fprintf(stderr, "in front of %d handlers\n", count);
}

static inline void end(void)
{
    (void)ep_stop(2000);
    ep_crash_stop();
}
#else
static inline void begin(void) {}

static inline void in_front(int expected)
{
    (void)expected;
}

static inline void end(void) {}
#endif

#endif
