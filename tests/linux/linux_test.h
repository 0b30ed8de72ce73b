/*
 * Included by all tests of the Linux port in real processes: cmocka, memory for the profiler that can be unmapped, CPU
 * work, and the check of accounted CPU time. No test depends on absolute times; they compare CPU times of one run.
 */
#ifndef LINUX_TEST_H
#define LINUX_TEST_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/port.h>
#include "receiver.h"

#define MS 1000000ull

static inline uint64_t clock_of(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Uses this much CPU time of the calling thread, and asks for the time after so many steps. */
__attribute__((always_inline)) static inline void burn_by(uint64_t ns, int steps)
{
    uint64_t end = clock_of(CLOCK_THREAD_CPUTIME_ID) + ns;

    while (clock_of(CLOCK_THREAD_CPUTIME_ID) < end) {
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

static inline uint32_t tid_of(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* The profiler's memory, mapped between begin_profile() and end_profile(). */
static void *profile_memory;

static inline int begin_profile_with(uint32_t rate, uint32_t interval_ms, uint32_t flags)
{
    if (!profile_memory)
        profile_memory = mmap(NULL, EP_MEMORY_DEFAULT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mprotect(profile_memory, EP_MEMORY_DEFAULT, PROT_READ | PROT_WRITE) != 0)
        return -errno;
    struct ep_config config = {.memory = profile_memory,
                               .memory_size = EP_MEMORY_DEFAULT,
                               .service = "linux",
                               .rate_hz = rate,
                               .interval_ms = interval_ms,
                               .flags = EP_ALL_EVENTS | flags,
                               .transport = &receiver_transport};
    return ep_start(&config);
}

static inline int begin_profile(uint32_t rate, uint32_t interval_ms)
{
    return begin_profile_with(rate, interval_ms, 0);
}

/* After this, every access to the profiler's memory crashes. */
static inline int end_profile(uint32_t deadline_ms)
{
    int error = ep_stop(deadline_ms);

    if (error != -EBUSY)
        (void)mprotect(profile_memory, EP_MEMORY_DEFAULT, PROT_NONE);
    return error;
}

/* Share of the CPU time since then, without edgeprof's threads, that the profile accounts for. */
static inline double accounted(uint64_t cpu_at_start)
{
    struct ep_stats s;
    uint64_t used = clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu_at_start;

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

/* Checks a ratio of two CPU times of one run. Other load affects both. */
#define ASSERT_RATIO(run, low, high)                                                                                   \
    do {                                                                                                               \
        double ratio_ = run;                                                                                           \
        print_message("             %s = %.4f\n", #run, ratio_);                                                       \
        assert_true(ratio_ >= (low)-RATIO_SLACK && ratio_ <= (high) + RATIO_SLACK);                                    \
    } while (0)

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
