/*
 * Included by all tests of the Linux port in real processes: cmocka, memory for the profiler that can be unmapped, CPU
 * work, and the check of accounted CPU time. No test depends on absolute times; they compare CPU times of one run.
 */
#ifndef LINUX_TEST_H
#define LINUX_TEST_H

#include "tests/program.h"

#include <edgeprof/edgeprof.h>
#include <edgeprof/port.h>
#include "tests/unit/test.h"
#include "receiver.h"

#define MS 1000000ull

/* Uses this much CPU time of the calling thread, and asks for the time after so many steps. */
__attribute__((always_inline)) static inline void burn_by(uint64_t ns, int steps)
{
    uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
        for (volatile int i = 0; i < steps; i++) {
        }
    }
}

__attribute__((noinline, unused)) static void burn(uint64_t ns)
{
    burn_by(ns, 2000);
}

/* CPU time that the receiver was told with a tag, and with one value of it: "key=", "key=value". */
static struct {
    const char *tag, *value;
    uint64_t all_ns, value_ns;
} tagged;

static inline void tagged_on_entry(const struct receiver_stack *stack)
{
    if (stack->kind != EP_KIND_CPU || !strstr(stack->with.tags, tagged.tag))
        return;
    tagged.all_ns += stack->value;
    if (strstr(stack->with.tags, tagged.value))
        tagged.value_ns += stack->value;
}

/* Begins to look; receiver_reset() ends it. */
static inline void tagged_begin(const char *tag, const char *value)
{
    memset(&tagged, 0, sizeof tagged);
    tagged.tag = tag;
    tagged.value = value;
    receiver.on_entry = tagged_on_entry;
}

/* Returns the share of the value. */
static inline double tagged_share(void)
{
    return (double)tagged.value_ns / (double)tagged.all_ns;
}

static inline void sleep_ms(unsigned ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * MS)};

    while (nanosleep(&t, &t) != 0) {
    }
}

/* Runs a function in a thread of its own, and waits for its end. */
static inline void run_thread(void *(*run)(void *))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static inline uint32_t tid_of(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

#define PROFILE_MEMORY EP_MEMORY_FOR_THREADS(1024)
/* The profiler's memory, mapped between begin_profile() and end_profile(). */
static void *profile_memory;

/* end_profile() checks of each profile that its CPU time is the process's own. A test that leaves CPU time out, or has
 * bounds of its own, clears one of these and says why. */
enum { CPU_LEAST = 1, CPU_MOST = 2 };
static unsigned cpu_checks;
static uint64_t cpu_before, cpu_period_ns, cpu_waited_ns;
#define BEHIND_NS 16e6 /* four ticks, which the calling thread may be behind */
#define AHEAD_NS                                                                                                       \
    64e6 /* one that ticks find too often: eight in kernel_tick() of tick_handler.c, and as many beside it */

/* How long this thread has waited for a processor that other programs had. */
static inline uint64_t waited_ns(void)
{
    char text[96] = "";
    const int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    const ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    const char *space = size > 0 ? strchr(text, ' ') : NULL;

    if (fd >= 0)
        (void)close(fd);
    return space ? strtoull(space, NULL, 10) : 0;
}

static inline int begin_profile_of(size_t memory_size, uint32_t rate, uint32_t interval_ms, uint32_t flags)
{
    if (!profile_memory)
        profile_memory = mmap(NULL, PROFILE_MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mprotect(profile_memory, memory_size, PROT_READ | PROT_WRITE) != 0)
        return -errno;
    struct ep_config config = {.memory = profile_memory,
                               .memory_size = memory_size,
                               .service = "linux",
                               .rate_hz = rate,
                               .interval_ms = interval_ms,
                               .flags = EP_ALL_EVENTS | flags,
                               .transport = &receiver_transport};
    int error = ep_start(&config);
    cpu_checks = error == 0 ? CPU_LEAST | CPU_MOST : 0;
    cpu_period_ns = 1000000000u / rate;
    cpu_waited_ns = waited_ns();
    cpu_before = flags & EP_SINCE_FORK ? 0 : clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    return error;
}

static inline int begin_profile_with(uint32_t rate, uint32_t interval_ms, uint32_t flags)
{
    return begin_profile_of(EP_MEMORY_DEFAULT, rate, interval_ms, flags);
}

static inline int begin_profile(uint32_t rate, uint32_t interval_ms)
{
    return begin_profile_with(rate, interval_ms, 0);
}

/* Share of the CPU time since then, without edgeprof's threads, that the profile accounts for. */
static inline double accounted(uint64_t cpu_at_start)
{
    struct ep_stats s;
    uint64_t used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_at_start;

    assert_int_equal(ep_stats_get(&s), 0);
    assert_null(receiver.broken);
    assert_int_equal(receiver.ns + s.lost_ns[EP_LOSS_STOPPED],
                     s.weight_ns + s.thread_exit_ns + s.lost_ns[EP_LOSS_RING_FULL]);
    return (double)(s.weight_ns + s.thread_exit_ns) / (double)(used - s.collect_cpu_ns - s.deliver_cpu_ns);
}

/* Samples by tick come by chance: their sum is right to some ticks a thread. */
#define RATIO_CHANCE 0.03

/* The bounds are wider with sanitizers and emulators: sanitizers use CPU time at a thread's end that no profile has,
 * and in an emulator a tick takes milliseconds. TSan delays signals and has a thread of its own: with it only races
 * count. */
#if defined __SANITIZE_THREAD__
#define RATIO_SLACK 100.0
#elif defined __SANITIZE_ADDRESS__
#define RATIO_SLACK (RATIO_CHANCE + 0.08)
#elif !defined __x86_64__
#define RATIO_SLACK (RATIO_CHANCE + 0.05)
#else
#define RATIO_SLACK RATIO_CHANCE
#endif

/* Checks a figure that depends on ticks that come in time; not with TSan. */
#ifdef __SANITIZE_THREAD__
#define ASSERT_FIGURE(value, low, high) (void)(value)
#else
#define ASSERT_FIGURE(value, low, high) assert_in_range(value, low, high)
#endif

/* Checks a ratio of two CPU times of one run. Other load affects both. */
#define ASSERT_RATIO(run, low, high)                                                                                   \
    do {                                                                                                               \
        double ratio_ = run;                                                                                           \
        print_message("             %s = %.4f\n", #run, ratio_);                                                       \
        assert_true(ratio_ >= (low)-RATIO_SLACK && ratio_ <= (high) + RATIO_SLACK);                                    \
    } while (0)

/* A balance of less than a period is in no profile, nor are the last ticks of the thread that ends it. Where other
 * programs have the processors, ticks find this one by chance. Tests with sanitizers and in emulators have their own
 * bounds. */
static inline void check_cpu(void)
{
    struct ep_stats s;
    const uint64_t now = clock_ns(CLOCK_PROCESS_CPUTIME_ID), used = now - cpu_before;

    assert_int_equal(ep_stats_get(&s), 0);
    if (now < cpu_before) /* a forked child, with its parent's profile */
        return;
    /* The threads' clocks are read after the process's: the rest may be below zero. */
    const double own = (double)used - (double)s.collect_cpu_ns - (double)s.deliver_cpu_ns;
    const double seen = (double)(s.weight_ns + s.thread_exit_ns), lost = (double)s.lost_ns[EP_LOSS_RING_FULL];
    const double slack = own * 0.01 + (double)cpu_period_ns + (double)(waited_ns() - cpu_waited_ns);
    if (RATIO_SLACK > RATIO_CHANCE || ((!(cpu_checks & CPU_MOST) || seen <= own + slack + AHEAD_NS) &&
                                       (!(cpu_checks & CPU_LEAST) || seen + lost >= own - slack - BEHIND_NS)))
        return;
    fail_msg("the profile has %.1f ms of CPU time, %.1f of it residual, the process has used %.1f ms", seen / 1e6,
             (double)s.thread_exit_ns / 1e6, own / 1e6);
}

/* After this, every access to the profiler's memory crashes. */
static inline int end_profile(uint32_t deadline_ms)
{
    int error = ep_stop(deadline_ms);

    if (error == 0)
        check_cpu();
    if (error != -EBUSY)
        (void)mprotect(profile_memory, PROFILE_MEMORY, PROT_NONE);
    return error;
}

/* Takes the best of three runs, for values that other load changes. Each use explains why. */
#define ASSERT_RATIO_WHEN_QUIET(run, low, high)                                                                        \
    do {                                                                                                               \
        double best_ = run;                                                                                            \
        for (int try_ = 1; try_ < 3 && (best_ < (low)-RATIO_SLACK || best_ > (high) + RATIO_SLACK); try_++)            \
            best_ = run;                                                                                               \
        print_message("             %s = %.4f\n", #run, best_);                                                        \
        assert_true(best_ >= (low)-RATIO_SLACK && best_ <= (high) + RATIO_SLACK);                                      \
    } while (0)

#endif
