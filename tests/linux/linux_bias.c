/*
 * Functions that take turns in short bursts, with sleeps between them, have the shares of CPU time that they use. The
 * kernel's ticks find a burst by chance, so the error of a share is about that of the number of ticks; the bounds are
 * six standard errors, and timers that count CPU time alone are off by eight.
 *
 *   linux_bias                  the test
 *   linux_bias SECONDS [PART]   also figures, each for so long; PART: `bursts` of other lengths and rates, of these by
 *                               `perf` only, or of a `loop` that no tick finds
 */
#include "linux_test.h"

#include <math.h>

#define THREADS 2u

/* Bursts of the two functions, in us. */
struct bursts {
    unsigned often, seldom;
};

struct turns {
    pthread_t thread;
    struct bursts bursts;
    uint64_t cycles, often_ns, seldom_ns;
    unsigned seed;
};

static uint64_t steps_per_ms;

__attribute__((noinline)) static void step(uint64_t steps)
{
    for (volatile uint64_t i = 0; i < steps; i++) {
    }
}

/* How much work a ms is: the most of some trials, since other programs only slow it down. */
static void calibrate(void)
{
    const uint64_t steps = 200000;

    for (int i = 0; i < 20; i++) {
        uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        step(steps);
        uint64_t found = steps * MS / (clock_ns(CLOCK_THREAD_CPUTIME_ID) - start + 1);
        steps_per_ms = found > steps_per_ms ? found : steps_per_ms;
    }
}

/* A piece of work, not of time: one that looked at the clock would end earlier because it was sampled, and would be
 * sampled more often the longer it was not. Returns the CPU time used. */
static uint64_t burst(const char *name, unsigned us)
{
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    assert_int_equal(ep_tag_push("burst", name), 0);
    step(steps_per_ms * us / 1000);
    ep_tag_pop();
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

/* So that no phase of the tick is preferred. */
static void sleep_some(unsigned *seed)
{
    struct timespec t = {.tv_nsec = 300000 + (long)(rand_r(seed) % 4000) * 1000};

    (void)nanosleep(&t, NULL);
}

static void *take_turns(void *argument)
{
    struct turns *turns = argument;

    for (uint64_t i = 0; i < turns->cycles; i++) {
        turns->often_ns += burst("often", turns->bursts.often);
        sleep_some(&turns->seed);
        turns->seldom_ns += burst("seldom", turns->bursts.seldom);
        sleep_some(&turns->seed);
    }
    return NULL;
}

/* What one measurement says of the burst that is seldom: its share as told relative to its true share. */
struct found {
    double ratio, truth, standard_error;
    double told_ns, told_all_ns;
};

static struct found measure(struct bursts bursts, unsigned rate, uint32_t clock, uint64_t cycles)
{
    static struct turns turns[THREADS];
    static unsigned seed;
    uint64_t often = 0, seldom = 0;

    receiver_reset();
    tagged_begin("burst=", "burst=seldom");
    assert_int_equal(begin_profile_with(rate, 1000, clock), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        turns[i] = (struct turns){.bursts = bursts, .cycles = cycles, .seed = ++seed};
        assert_int_equal(pthread_create(&turns[i].thread, NULL, take_turns, &turns[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(turns[i].thread, NULL), 0);
        often += turns[i].often_ns;
        seldom += turns[i].seldom_ns;
    }
    assert_int_equal(end_profile(5000), 0);
    double all = (double)often + (double)seldom, truth = (double)seldom / all;
    /* of the ticks that became samples, so many should have found the burst; perf needs no tick */
    double hz = clock == EP_CLOCK_PERF ? rate : fmin(rate, ep_port_tick_hz());
    double samples = all / 1e9 * hz * truth;
    return (struct found){tagged_share() / truth, truth, 1 / sqrt(samples), (double)tagged.value_ns,
                          (double)tagged.all_ns};
}

TEST(test_short_bursts)
{
    /* 8 ms and 1 ms: timers that count CPU time alone tell 63 % of the truth */
    struct found found = measure((struct bursts){8000, 1000}, 251, EP_CLOCK_TICKS, 500);
    print_message("             1 ms of 9: %.3f of the truth, standard error %.3f\n", found.ratio,
                  found.standard_error);
    assert_true(fabs(found.ratio - 1) < 4.5 * found.standard_error + RATIO_SLACK);
}

static const struct {
    const char *name;
    uint32_t clock;
} clocks[] = {{"timer", EP_CLOCK_TIMERS}, {"ticks", EP_CLOCK_TICKS}, {"perf", EP_CLOCK_PERF}};

/* A figure is of so many pieces, and its interval (95 %) comes from what they differ by: samples of a program that
 * repeats itself are not independent. */
#define PIECES  10u
#define STUDENT 2.262 /* for PIECES - 1 degrees of freedom */

static void bias(struct bursts b, unsigned rate, unsigned clock, unsigned seconds)
{
    struct found found[PIECES];
    double told = 0, all = 0, truth = 0, squares = 0;

    for (unsigned i = 0; i < PIECES; i++) {
        uint64_t cycles = (uint64_t)seconds * 1000000 / PIECES / (b.often + b.seldom + 4600);
        found[i] = measure(b, rate, clocks[clock].clock, cycles);
        told += found[i].told_ns;
        all += found[i].told_all_ns;
        truth += found[i].truth / PIECES;
    }
    for (unsigned i = 0; i < PIECES; i++) {
        double off = found[i].told_ns - told / all * found[i].told_all_ns;
        squares += off * off;
    }
    printf("figure tick_bias_%s_%u_%u_us_%u_hz_pct %.2f +- %.2f (true share %.2f %%, told %.2f %%)\n",
           clocks[clock].name, b.often, b.seldom, rate, 100 * (told / all / truth - 1),
           100 * STUDENT * sqrt(squares * PIECES / (PIECES - 1)) / all / truth, 100 * truth, 100 * told / all);
}

/* ---- a control loop in step with the ticks ---- */

#define LOOP_NS         (10 * MS)
#define WORK_US         1000
#define AFTER_NS        200000 /* of a tick */
#define FRAME_UNSAMPLED 29
#define FRAME_KERNEL    30

static struct {
    pthread_barrier_t named, measured;
    uint64_t cycles, used_ns; /* truth */
    uint64_t told_ns, unsampled_ns, kernel_ns;
} loop;

static void on_loop_entry(const struct receiver_stack *stack)
{
    if (stack->kind != EP_KIND_CPU)
        return;
    if (strstr(stack->with.tags, "burst=loop"))
        loop.told_ns += stack->value;
    else if (strcmp(stack->with.thread, "loop") == 0 && stack->frame[0] == FRAME_UNSAMPLED)
        loop.unsampled_ns += stack->value;
    else if (strcmp(stack->with.thread, "loop") == 0 && stack->frame[0] == FRAME_KERNEL)
        loop.kernel_ns += stack->value;
}

/* The coarse clock is the time of the last tick. */
static void *run_loop(void *unused)
{
    uint64_t tick = 1000000000u / ep_port_tick_hz();

    (void)prctl(PR_SET_NAME, "loop");
    (void)pthread_barrier_wait(&loop.named);
    (void)pthread_barrier_wait(&loop.measured);
    uint64_t next = clock_ns(CLOCK_MONOTONIC_COARSE) + 5 * LOOP_NS;
    for (uint64_t i = 0; i < loop.cycles; i++) {
        uint64_t phase = clock_ns(CLOCK_MONOTONIC_COARSE) % tick;
        uint64_t at = (next += LOOP_NS) / tick * tick + phase + AFTER_NS;
        struct timespec t = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
        }
        loop.used_ns += burst("loop", WORK_US);
    }
    return unused;
}

static void loop_figure(unsigned rate, unsigned clock, unsigned seconds)
{
    struct turns other = {.bursts = {8000, 1000}, .cycles = (uint64_t)seconds * 1000000 / 13600, .seed = 1};
    pthread_t thread;

    receiver_reset();
    receiver.on_entry = on_loop_entry;
    memset(&loop, 0, sizeof loop);
    loop.cycles = (uint64_t)seconds * 1000000000u / LOOP_NS;
    (void)pthread_barrier_init(&loop.named, NULL, 2);
    (void)pthread_barrier_init(&loop.measured, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, run_loop, NULL), 0);
    (void)pthread_barrier_wait(&loop.named);
    assert_int_equal(begin_profile_with(rate, 1000, clocks[clock].clock), 0);
    (void)pthread_barrier_wait(&loop.measured);
    assert_int_equal(pthread_create(&other.thread, NULL, take_turns, &other), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_int_equal(end_profile(5000), 0);
    double used = (double)loop.used_ns;
    printf("figure tick_bias_%s_loop_%u_hz_pct %.2f +- %.2f (told %.2f s of %.2f s, [unsampled] %.2f s, [kernel] %.2f "
           "s)\n",
           clocks[clock].name, rate, 100 * ((double)loop.told_ns / used - 1), 196 / sqrt(used / 1e9 * rate),
           (double)loop.told_ns / 1e9, used / 1e9, (double)loop.unsampled_ns / 1e9, (double)loop.kernel_ns / 1e9);
}

static void bursts_figures(unsigned seconds, bool perf_only)
{
    static const struct bursts bursts[] = {{8000, 1000}, {2000, 500}};
    static const unsigned rates[] = {19, 97, 251};

    for (unsigned i = 0; i < 18; i++) {
        if (!perf_only || clocks[i % 3].clock == EP_CLOCK_PERF)
            bias(bursts[i / 9], rates[i / 3 % 3], i % 3, seconds);
    }
    for (unsigned i = 0; i < 2; i++)
        bias(bursts[i], 997, 2, seconds);
}

/* Each part or, if NULL, bursts and loop. */
static void figures(unsigned seconds, const char *part)
{
    static const unsigned rates[] = {19, 97, 251};

    if (!part || strcmp(part, "loop") != 0)
        bursts_figures(seconds, part && strcmp(part, "perf") == 0);
    for (unsigned i = 0; i < 9 && (!part || strcmp(part, "loop") == 0); i++)
        loop_figure(rates[i / 3], i % 3, seconds);
}

int main(int argc, char **argv)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    calibrate();
    if (argc > 1)
        figures((unsigned)atoi(argv[1]), argv[2]);
    return test_run();
}
