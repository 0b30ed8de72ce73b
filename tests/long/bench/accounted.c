/*
 * CPU time accounted for: what the profiler says (samples, thread ends, losses) against getrusage, for
 *   long    8 threads that burn CPU, alternately computing and sleeping
 *   short   threads that live for 20 ms of CPU time each
 *
 * with what the library chooses by itself, and with each clock.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>

#define LONG_THREADS  8
#define LONG_SECONDS  1.0
#define SHORT_THREADS 200
#define SHORT_SECONDS 0.020
#define AT_ONCE       4

static uint8_t memory[EP_MEMORY_DEFAULT];

static double clock_s(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double process_s(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static __attribute__((noinline)) unsigned work(unsigned seed)
{
    for (int i = 0; i < 20000; i++)
        seed = seed * 1664525u + 1013904223u;
    return seed;
}

static void *burn(void *seconds)
{
    double end = *(const double *)seconds;
    unsigned seed = 0;
    for (unsigned i = 1; clock_s(CLOCK_THREAD_CPUTIME_ID) < end; i++) {
        seed = work(seed + i);
        if (i % 1000 == 0) {
            struct timespec pause = {.tv_nsec = 1000000};
            (void)nanosleep(&pause, NULL);
        }
    }
    return seed ? NULL : (void *)seconds; /* the work must not be optimized away */
}

static void run(int threads, int at_once, double seconds)
{
    pthread_t thread[LONG_THREADS];
    for (int i = 0; i < threads; i += at_once) {
        for (int j = 0; j < at_once; j++)
            if (pthread_create(&thread[j], NULL, burn, &seconds) != 0)
                exit(1);
        for (int j = 0; j < at_once; j++)
            (void)pthread_join(thread[j], NULL);
    }
}

static double accounted_pct(uint32_t clock, int threads, int at_once, double seconds)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "accounted",
                               .level = EP_LEVEL_MEDIUM,
                               .flags = clock,
                               .endpoint = "null:"};
    struct ep_stats stats;
    double before = process_s();

    if (ep_start(&config) != 0) {
        fprintf(stderr, "accounted: %s\n", ep_start_error());
        exit(1);
    }
    run(threads, at_once, seconds);
    if (ep_stop(1000) != 0)
        exit(1);
    double used = process_s() - before;
    (void)ep_stats_get(&stats);
    double told = (double)(stats.weight_ns + stats.thread_exit_ns) / 1e9;
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        if (stats.lost_ns[i])
            fprintf(stderr, "lost (%s): %.3f s\n", ep_loss_name(i), (double)stats.lost_ns[i] / 1e9);
    fprintf(stderr, "used %.3f s, samples %llu for %.3f s, thread ends %.3f s\n", used,
            (unsigned long long)stats.samples, (double)stats.weight_ns / 1e9, (double)stats.thread_exit_ns / 1e9);
    return 100 * told / used;
}

int main(void)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } clocks[] = {{"", 0}, {"timer_", EP_CLOCK_TIMERS}, {"ticks_", EP_CLOCK_TICKS}, {"perf_", EP_CLOCK_PERF}};

    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        printf("figure cpu_accounted_%spct %.2f pct\n", clocks[i].name,
               accounted_pct(clocks[i].flag, LONG_THREADS, LONG_THREADS, LONG_SECONDS));
        printf("figure cpu_accounted_%sshort_threads_pct %.2f pct\n", clocks[i].name,
               accounted_pct(clocks[i].flag, SHORT_THREADS, AT_ONCE, SHORT_SECONDS));
    }
    return 0;
}
