/*
 * Times every sample of a program that is linked with -Wl,--wrap=ep_capture: how long ep_capture() took, by the
 * time stamp counter's idea of a nanosecond (two clock reads are subtracted). Prints the figures at exit to the file
 * that EDGEPROF_MEASURE names.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/edgeprof.h"
#include "port/port.h"

void __real_ep_capture(struct ep *ep, const struct ep_context *context, uint32_t tid, uint64_t ns);
void __wrap_ep_capture(struct ep *ep, const struct ep_context *context, uint32_t tid, uint64_t ns);

static _Atomic uint64_t spent_ns, calls;

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void __wrap_ep_capture(struct ep *ep, const struct ep_context *context, uint32_t tid, uint64_t ns)
{
    uint64_t empty = now_ns(), start = now_ns();

    __real_ep_capture(ep, context, tid, ns);
    uint64_t took = now_ns() - start, clock = start - empty;
    (void)atomic_fetch_add(&spent_ns, took > clock ? took - clock : 0);
    (void)atomic_fetch_add(&calls, 1);
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("EDGEPROF_MEASURE");
    struct ep_stats stats;
    FILE *file = path ? fopen(path, "w") : NULL;

    if (!file || ep_stats_get(&stats) != 0 || calls == 0)
        return;
    (void)fprintf(file, "figure sample_cost_service_ns %.0f ns\n", (double)spent_ns / (double)calls);
    (void)fprintf(file, "figure rule_cache_hit_pct %.2f pct\n",
                  100.0 * (double)stats.rule_hits / (double)(stats.rule_hits + stats.rule_misses));
    (void)fprintf(file, "note samples %llu exact %llu gap %llu cut %llu\n", (unsigned long long)stats.samples,
                  (unsigned long long)stats.exact, (unsigned long long)stats.gap, (unsigned long long)stats.cut);
    (void)fclose(file);
}
