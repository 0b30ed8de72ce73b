/*
 * A watchdog that is fed only while profiles are made (core/features/watchdog/README.md).
 */
#ifndef EDGEPROF_WATCHDOG_H
#define EDGEPROF_WATCHDOG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The samples and the CPU time of one interval, and the part of them that was lost for any reason. */
struct ep_watchdog_interval {
    uint64_t samples, cpu_ns;
    uint64_t lost_samples, lost_cpu_ns;
};

/* Calls `done` after each interval whose profile is complete. A profile is complete when it is on its way to delivery,
 * or, without an endpoint, when it can be pulled. An interval that cannot end, because messages wait for the link and
 * memory is used up, makes no call. The collect thread makes the calls, so `done` must not block; a write to a socket
 * such as systemd's is fine. NULL: no calls. Call it before ep_start(). A program that does not call it does not link
 * it.
 *
 * Returns
 *   0          it is set
 *   -EALREADY  the profiler runs
 *   -ENOSPC    there are too many features
 * Context: init. */
int ep_watchdog_start(void (*done)(const struct ep_watchdog_interval *interval));

#ifdef __cplusplus
}
#endif

#endif
