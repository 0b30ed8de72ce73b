/*
 * Calls the program after each interval, with what was measured and lost since the call before.
 *
 *   ep_start     -> watchdog_start         the counters begin
 *   an interval  -> watchdog_interval_end  the difference since the last one -> the program's function
 */
#include <edgeprof/watchdog.h>

#include "core/collect/collect.h"

#include <errno.h>

/* `told` and `done` belong to the collect thread while the profiler runs. */
static struct {
    void (*done)(const struct ep_watchdog_interval *interval);
    struct ep_watchdog_interval told; /* sums up to the last call */
} watchdog;

static struct ep_watchdog_interval sums_of(const struct ep *ep)
{
    struct ep_watchdog_interval sums = {.samples = atomic_load(&ep->counter[EP_COUNT_SAMPLES]),
                                        .cpu_ns = atomic_load(&ep->counter[EP_COUNT_WEIGHT_NS])};

    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++) {
        sums.lost_samples += atomic_load(&ep->lost_count[reason]);
        sums.lost_cpu_ns += atomic_load(&ep->lost_ns[reason]);
    }
    return sums;
}

static void watchdog_start(struct ep *ep)
{
    watchdog.told = sums_of(ep);
}

static void watchdog_interval_end(struct ep *ep)
{
    const struct ep_watchdog_interval now = sums_of(ep), *before = &watchdog.told;
    const struct ep_watchdog_interval interval = {.samples = now.samples - before->samples,
                                                  .cpu_ns = now.cpu_ns - before->cpu_ns,
                                                  .lost_samples = now.lost_samples - before->lost_samples,
                                                  .lost_cpu_ns = now.lost_cpu_ns - before->lost_cpu_ns};

    watchdog.told = now;
    watchdog.done(&interval);
}

int ep_watchdog_start(void (*done)(const struct ep_watchdog_interval *interval))
{
    static const struct ep_feature feature = {
        .name = "watchdog", .start = watchdog_start, .interval_end = watchdog_interval_end};

    if (ep_running())
        return ep_refuse(-EALREADY, "watchdog: the profiler is running; call ep_watchdog_start() before ep_start()");
    ep_feature_remove(&feature);
    watchdog.done = done;
    return done ? ep_feature_add(&feature) : 0;
}
