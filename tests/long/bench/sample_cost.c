/*
 * What a sample costs: the same signal, sent in the same way to the same place 32 frames deep, once to an empty handler
 * and once to the profiler's. Rounds alternate, the median of the rounds' ratios counts: noise hits both.
 *
 * The signals are queued by the program itself (rt_tgsigqueueinfo) with the value that the main thread's timer has, so
 * that the handler takes them for ticks; the program fails if they were not all taken as samples.
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>
#include "port/linux/own_signal.h"

#define DEPTH   32
#define ROUNDS  31
#define SIGNALS 1600
#define BATCH   16 /* what the ring holds for sure */

static uint8_t memory[EP_MEMORY_DEFAULT];
static volatile sig_atomic_t empty_runs;
static double cost[2][ROUNDS];

static void empty_handler(int signal)
{
    (void)signal;
    empty_runs++;
}

static void queue(int signal)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = signal;
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr =
        (void *)ep_linux_tick_value(0, 1); /* slot 0, its first owner: the main thread, found first */
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, &info) != 0) {
        perror("rt_tgsigqueueinfo");
        exit(1);
    }
}

static double measure(int signal)
{
    double spent = 0;
    for (int i = 0; i < SIGNALS; i += BATCH) {
        double start = (double)clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int j = 0; j < BATCH; j++)
            queue(signal);
        spent += (double)clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        (void)ep_collect();
    }
    return spent / SIGNALS;
}

static void rounds(void)
{
    (void)measure(ep_linux_signal());
    for (int i = 0; i < ROUNDS; i++) {
        cost[0][i] = measure(SIGUSR2);
        cost[1][i] = measure(ep_linux_signal());
    }
}

static __attribute__((noinline, noipa)) void deeper(int depth)
{
    if (depth == 0)
        rounds();
    else
        deeper(depth - 1);
    __asm__ volatile("" ::: "memory"); /* a frame each: no tail call */
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof values[0], by_value);
    return values[ROUNDS / 2];
}

int main(void)
{
    struct ep_config config = {
        .memory = memory, .memory_size = sizeof memory, .service = "sample_cost", .rate_hz = 1, .flags = EP_MANUAL};
    double ratio[ROUNDS];
    struct ep_stats stats;

    (void)signal(SIGUSR2, empty_handler);
    if (ep_start(&config) != 0) {
        fprintf(stderr, "sample_cost: %s\n", ep_start_error());
        return 1;
    }
    deeper(DEPTH - 9); /* syscall, queue, measure, rounds, main and what starts main are the others */
    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = cost[1][i] / cost[0][i];
    (void)ep_stop(0);
    (void)ep_stats_get(&stats);
    uint64_t sent = (uint64_t)SIGNALS * (ROUNDS + 1), got = stats.samples;
    if (got < sent || empty_runs != SIGNALS * ROUNDS) {
        fprintf(stderr, "sample_cost: %llu of %llu signals became samples\n", (unsigned long long)got,
                (unsigned long long)sent);
        return 1;
    }
    fprintf(stderr, "bare signal %.0f ns, sample %.0f ns, %.1f frames a stack, %.2f %% exact\n", median(cost[0]),
            median(cost[1]), (double)(stats.rule_hits + stats.rule_misses) / (double)got,
            100.0 * (double)stats.exact / (double)(stats.samples ? stats.samples : 1));
    printf("figure sample_cost_ratio_x86_64 %.3f ratio\n", median(ratio));
    return 0;
}
