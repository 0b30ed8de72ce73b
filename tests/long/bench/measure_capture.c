/*
 * Measures a program that is linked with -Wl,--wrap=... (measure.targets), and prints the figures at exit to the file
 * that EDGEPROF_MEASURE names:
 *
 *   ep_capture           how long each sample took, by the monotonic clock (two clock reads are subtracted): the mean,
 *                        which has the time in which another thread ran, the median, and the mean without the hundredth
 *                        that took longest
 *   ep_governor_drained  the number of records that the collect thread took from the ring, and its CPU time for that
 *   ep_encode_compact   the collect thread's CPU time for encoding
 *
 * The collect thread's cost of an event is all its CPU time divided by the number of records.
 */

#include "../../program.h"
#include "core/collect/collect.h"
#include "core/encode/encode.h"

int __real_ep_capture(struct ep *ep, const struct ep_registers *registers, uint32_t tid, uint64_t ns);
int __wrap_ep_capture(struct ep *ep, const struct ep_registers *registers, uint32_t tid, uint64_t ns);

#define KEPT 65536u

static _Atomic uint64_t spent_ns, calls, records, drain_ns, encode_ns, encodings;
static uint32_t kept[KEPT]; /* the first samples' times in ns */

int __wrap_ep_capture(struct ep *ep, const struct ep_registers *registers, uint32_t tid, uint64_t ns)
{
    uint64_t empty = clock_ns(CLOCK_MONOTONIC), start = clock_ns(CLOCK_MONOTONIC);

    const int result = __real_ep_capture(ep, registers, tid, ns);
    uint64_t took = clock_ns(CLOCK_MONOTONIC) - start, clock = start - empty;
    took = took > clock ? took - clock : 0;
    (void)atomic_fetch_add(&spent_ns, took);
    uint64_t at = atomic_fetch_add(&calls, 1);
    if (at < KEPT)
        kept[at] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
    return result;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void tell_shares(FILE *file)
{
    size_t count = calls < KEPT ? (size_t)calls : KEPT, most = count - count / 100;
    double sum = 0;

    qsort(kept, count, sizeof kept[0], by_value);
    for (size_t i = 0; i < most; i++)
        sum += kept[i];
    (void)fprintf(file, "figure sample_cost_service_median_ns %u ns\n", kept[count / 2]);
    (void)fprintf(file, "figure sample_cost_service_trimmed_ns %.0f ns\n", sum / (double)most);
}

void __real_ep_governor_drained(struct ep *ep, unsigned events);
void __wrap_ep_governor_drained(struct ep *ep, unsigned events);

/* The time of this drain comes with the next one. */
void __wrap_ep_governor_drained(struct ep *ep, unsigned events)
{
    __real_ep_governor_drained(ep, events);
    (void)atomic_fetch_add(&records, events);
    atomic_store(&drain_ns, ep->collect->governor.drain_ns);
}

int32_t __real_ep_encode_compact(struct ep *ep, const struct ep_encoding *encoding);
int32_t __wrap_ep_encode_compact(struct ep *ep, const struct ep_encoding *encoding);

int32_t __wrap_ep_encode_compact(struct ep *ep, const struct ep_encoding *encoding)
{
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int32_t size = __real_ep_encode_compact(ep, encoding);

    (void)atomic_fetch_add(&encode_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - start);
    (void)atomic_fetch_add(&encodings, 1);
    return size;
}

static double per_record(uint64_t ns)
{
    return (double)ns / (double)records;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("EDGEPROF_MEASURE");
    struct ep_stats stats;
    FILE *file = path ? fopen(path, "w") : NULL;

    if (!file || ep_stats_get(&stats) != 0 || calls == 0 || records == 0)
        return;
    (void)fprintf(file, "figure sample_cost_service_ns %.0f ns\n", (double)spent_ns / (double)calls);
    tell_shares(file);
    (void)fprintf(file, "figure rule_cache_hit_pct %.2f pct\n",
                  100.0 * (double)stats.rule_hits / (double)(stats.rule_hits + stats.rule_misses));
    (void)fprintf(file, "figure collect_cost_ns %.0f ns\n", per_record(stats.collect_cpu_ns));
    (void)fprintf(file, "figure collect_drain_ns %.0f ns\n", per_record(drain_ns));
    (void)fprintf(file, "figure collect_encode_ns %.0f ns\n", per_record(encode_ns));
    (void)fprintf(file, "note records %llu wakeups %llu encodings %llu early %llu\n", (unsigned long long)records,
                  (unsigned long long)stats.wakeups, (unsigned long long)encodings,
                  (unsigned long long)stats.intervals_early);
    (void)fprintf(file, "note samples %llu exact %llu gap %llu cut %llu\n", (unsigned long long)stats.samples,
                  (unsigned long long)stats.exact, (unsigned long long)stats.gap, (unsigned long long)stats.cut);
    (void)fclose(file);
}
