/*
 * What the clocks of CPU samples cost a program, in units of a bare signal (an empty handler and the call that sends
 * it), measured in the same run, in CPU time. No clock and each clock take turns, and medians count.
 *
 *   sample   how much longer a piece of work takes with a signal of the clock, for all signals that a sample needs. The
 *            signals of timers and ticks come with a kernel tick, which is there anyway and is subtracted: of the
 *            pieces without a clock, as many of the longest as there were ticks.
 *   switch   a switch between two threads of one processor, beyond that without a clock
 */

#include "../../program.h"

#include <edgeprof/edgeprof.h>

#define ROUNDS     9
#define SIGNALS    20000
#define SWITCHES   20000
#define COMPUTE_NS 200000000.0
#define PIECE      4000
#define PIECES     (1u << 19)
#define RATES      3u

/* 0: none, for comparison. */
static const struct {
    const char *name;
    uint32_t flag;
} clocks[] = {{"none", 0}, {"timer", EP_CLOCK_TIMERS}, {"ticks", EP_CLOCK_TICKS}, {"perf", EP_CLOCK_PERF}};
#define CLOCKS (sizeof clocks / sizeof *clocks)

static const unsigned rates[RATES] = {19, 97, 251};

static uint8_t memory[EP_MEMORY_DEFAULT];
static double signal_ns[ROUNDS], switch_ns[CLOCKS][ROUNDS];
static volatile sig_atomic_t signals;

/* Pieces of a rate and a clock that a signal hit, or all pieces without a clock: their CPU time. */
static struct pieces {
    double ns[PIECES];
    unsigned count;
    uint64_t signals, samples;
} hit[RATES][CLOCKS], plain;

void __wrap_ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext);
void __real_ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext);

void __wrap_ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext)
{
    __real_ep_linux_on_signal(signal, info, ucontext);
    signals++;
}

static double clock_of(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void fail(const char *what)
{
    fprintf(stderr, "clocks: %s\n", what);
    exit(1);
}

static void begin(uint32_t flag, unsigned rate)
{
    struct ep_config config = {.memory = memory,
                               .memory_size = sizeof memory,
                               .service = "clocks",
                               .rate_hz = rate,
                               .kinds = EP_KIND_BIT(EP_KIND_CPU),
                               .flags = flag,
                               .endpoint = "null:"};
    struct ep_stats stats;

    if (flag && ep_start(&config) != 0)
        fail(ep_start_error());
    if (flag && (ep_stats_get(&stats) != 0 || stats.clock != flag))
        fail("the clock is not permitted here");
}

/* Returns the number of samples. */
static uint64_t end(uint32_t flag)
{
    struct ep_stats stats = {0};

    if (flag && (ep_stop(1000) != 0 || ep_stats_get(&stats) != 0))
        fail("ep_stop");
    return stats.samples;
}

static void empty_handler(int signal)
{
    (void)signal;
}

static double signals_send(void)
{
    pid_t process = getpid(), thread = (pid_t)syscall(SYS_gettid);
    double start = clock_of(CLOCK_THREAD_CPUTIME_ID);

    for (unsigned i = 0; i < SIGNALS; i++)
        (void)syscall(SYS_tgkill, process, thread, SIGUSR2);
    return (clock_of(CLOCK_THREAD_CPUTIME_ID) - start) / SIGNALS;
}

static void compute(struct pieces *to)
{
    double start = clock_of(CLOCK_THREAD_CPUTIME_ID), last = start, now = start;
    int seen = signals, before = seen;

    to->signals -= (uint64_t)seen;
    while (now - start < COMPUTE_NS) {
        for (volatile int i = 0; i < PIECE; i++) {
        }
        now = clock_of(CLOCK_THREAD_CPUTIME_ID);
        seen = signals;
        if ((seen != before || to == &plain) && to->count < PIECES)
            to->ns[to->count++] = now - last;
        last = now;
        before = seen;
    }
    to->signals += (uint64_t)seen;
}

/* ---- switches ---- */

static int there[2], back[2];

static void *echo(void *unused)
{
    char byte;

    while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1) {
    }
    return unused;
}

/* CPU time of both threads for each switch. */
static double switches(void)
{
    pthread_t thread;
    clockid_t other;
    char byte = 0;

    if (pipe(there) != 0 || pipe(back) != 0 || pthread_create(&thread, NULL, echo, NULL) != 0 ||
        pthread_getcpuclockid(thread, &other) != 0)
        fail("a thread");
    struct timespec soon = {.tv_nsec = 300000000}; /* the profiler finds the thread meanwhile */
    (void)nanosleep(&soon, NULL);
    double start = clock_of(CLOCK_THREAD_CPUTIME_ID) + clock_of(other);
    for (unsigned i = 0; i < SWITCHES / 2; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            fail("a pipe");
    double used = clock_of(CLOCK_THREAD_CPUTIME_ID) + clock_of(other) - start;
    (void)close(there[1]);
    (void)pthread_join(thread, NULL);
    (void)close(there[0]);
    (void)close(back[0]);
    (void)close(back[1]);
    return used / SWITCHES;
}

/* ---- figures ---- */

static void round_take(unsigned round)
{
    signal_ns[round] = signals_send();
    for (unsigned rate = 0; rate < RATES; rate++)
        for (unsigned clock = 0; clock < CLOCKS; clock++) {
            struct pieces *to = clock ? &hit[rate][clock] : &plain;
            begin(clocks[clock].flag, rates[rate]);
            compute(to);
            to->samples += end(clocks[clock].flag);
        }
    for (unsigned clock = 0; clock < CLOCKS; clock++) {
        begin(clocks[clock].flag, 97);
        switch_ns[clock][round] = switches();
        (void)end(clocks[clock].flag);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return count ? values[count / 2] : 0;
}

/* Of the longest pieces, in a sorted list. */
static double tick_ns(void)
{
    struct timespec tick;
    double all = 0;

    (void)clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    for (unsigned i = 0; i < plain.count; i++)
        all += plain.ns[i];
    return plain.ns[plain.count - (unsigned)(all / (double)tick.tv_nsec / 2)];
}

static void sample_figures(double bare)
{
    double piece = median(plain.ns, plain.count), tick = tick_ns() - piece;

    for (unsigned rate = 0; rate < RATES; rate++) {
        for (unsigned clock = 1; clock < CLOCKS; clock++) {
            struct pieces *of = &hit[rate][clock];
            double more = median(of->ns, of->count) - piece - (clocks[clock].flag == EP_CLOCK_PERF ? 0 : tick);
            if (!of->samples)
                fail("no samples");
            double each = (double)of->signals / (double)of->samples;
            fprintf(stderr, "%s at %u Hz: %.2f signals of %.0f ns a sample, and a tick takes %.0f ns\n",
                    clocks[clock].name, rates[rate], each, more, tick);
            printf("figure clock_%s_sample_%u_hz_signals %.2f ratio\n", clocks[clock].name, rates[rate],
                   more * each / bare);
        }
    }
}

/* Of the differences to the same round without a clock: noise that lasts longer affects both. */
static void switch_figures(double bare)
{
    for (unsigned clock = 1; clock < CLOCKS; clock++) {
        double more[ROUNDS], part[ROUNDS];
        for (unsigned i = 0; i < ROUNDS; i++) {
            more[i] = switch_ns[clock][i] - switch_ns[0][i];
            part[i] = 100 * more[i] / switch_ns[0][i];
        }
        double ns = median(more, ROUNDS);
        fprintf(stderr, "%s: a switch takes %.0f ns more\n", clocks[clock].name, ns);
        printf("figure clock_%s_switch_signals %.3f ratio\n", clocks[clock].name, ns / bare);
        printf("figure clock_%s_switch_pct %.1f pct\n", clocks[clock].name, median(part, ROUNDS));
    }
}

int main(void)
{
    cpu_set_t one;

    int processor = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET((unsigned)(processor < 0 ? 0 : processor), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail("sched_setaffinity");
    (void)signal(SIGUSR2, empty_handler);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned round = 0; round < ROUNDS; round++)
        round_take(round);
    double bare = median(signal_ns, ROUNDS);
    fprintf(stderr, "a bare signal takes %.0f ns\n", bare);
    sample_figures(bare);
    switch_figures(bare);
    return 0;
}
