/*
 * CPU time of threads that come and go is accounted for: long ones, 200 short ones, more than there are slots, and when
 * the system has no timers left; and 200 starts and stops under that load, with the memory taken away in between.
 */
#include "linux_test.h"

#include <sys/utsname.h>

#define RATE 1000

struct crew {
    unsigned threads;
    uint64_t each_ns;
};

static void *worker(void *argument)
{
    burn(*(const uint64_t *)argument);
    return NULL;
}

/* At most 32 at once. */
static void work(struct crew crew)
{
    pthread_t threads[32];

    for (unsigned done = 0; done < crew.threads;) {
        unsigned now = crew.threads - done < 32 ? crew.threads - done : 32;
        for (unsigned i = 0; i < now; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, worker, &crew.each_ns), 0);
        for (unsigned i = 0; i < now; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        done += now;
    }
}

static double account_crew(struct crew crew)
{
    receiver_reset();
    uint64_t cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(begin_profile(RATE, 200), 0);
    work(crew);
    assert_int_equal(end_profile(5000), 0);
    return accounted(cpu);
}

static void test_long_threads(void **state)
{
    (void)state;
    ASSERT_RATIO(account_crew((struct crew){8, 150 * MS}), 0.95, 1.05);
}

static void test_200_short_threads(void **state)
{
    (void)state;
    ASSERT_RATIO(account_crew((struct crew){200, 5 * MS}), 0.95, 1.05);
}

/* ---- more threads than slots: all alive at once ---- */

static pthread_barrier_t barrier;

static void *together(void *argument)
{
    (void)pthread_barrier_wait(&barrier);
    burn(*(const uint64_t *)argument);
    return NULL;
}

#define MANY (EP_MAX_THREADS + 64)

static double account_many(void)
{
    static pthread_t threads[MANY];
    uint64_t each = 15 * MS;
    struct ep_stats s;

    receiver_reset();
    assert_int_equal(pthread_barrier_init(&barrier, NULL, MANY), 0);
    uint64_t cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    assert_int_equal(begin_profile(RATE, 200), 0);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, together, &each), 0);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(end_profile(5000), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.lost_count[EP_LOSS_NO_SLOT] >= MANY - EP_MAX_THREADS);
    return accounted(cpu);
}

/* Linux before 6.4 sends the process timer's signal to the main thread, whoever used the CPU time; that thread has a
 * timer of its own, and what the others have used is not seen. */
static double least_without_timers(void)
{
    unsigned major = 0, minor = 0;
    struct utsname name;

    assert_int_equal(uname(&name), 0);
    assert_int_equal(sscanf(name.release, "%u.%u", &major, &minor), 2);
    return major > 6 || (major == 6 && minor >= 4) ? 0.85 : 0.1;
}

static void test_more_threads_than_slots(void **state)
{
    (void)state;
    ASSERT_RATIO(account_many(), least_without_timers(), 1.15);
}

/* ---- no timers left ---- */

static unsigned long signals_queued(void)
{
    char line[128];
    unsigned long queued = 0;
    FILE *file = fopen("/proc/self/status", "r");

    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "SigQ: %lu/", &queued) == 1)
            break;
    (void)fclose(file);
    return queued;
}

static double account_without_timers(unsigned timers)
{
    struct rlimit before, few;
    struct ep_stats s;

    assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &before), 0);
    few = before;
    few.rlim_cur = signals_queued() + timers;
    assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &few), 0);
    double share = account_crew((struct crew){6, 120 * MS});
    assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &before), 0);
    assert_int_equal(ep_stats_get(&s), 0);
    assert_true(s.lost_count[EP_LOSS_NO_TIMER] > 0);
    return share;
}

static void test_few_timers(void **state)
{
    (void)state;
    ASSERT_RATIO(account_without_timers(1), least_without_timers(), 1.1);
    ASSERT_RATIO(account_without_timers(3), least_without_timers(), 1.1);
}

/* ---- start and stop under load ---- */

static atomic_bool enough;

static void *steady(void *argument)
{
    (void)argument;
    while (!atomic_load(&enough))
        burn(MS);
    return NULL;
}

static void *breeder(void *argument)
{
    static const uint64_t each = 200000;
    pthread_t thread;

    (void)argument;
    while (!atomic_load(&enough))
        if (pthread_create(&thread, NULL, worker, (void *)(uintptr_t)&each) == 0)
            (void)pthread_join(thread, NULL);
    return NULL;
}

static void test_start_stop_under_load(void **state)
{
    pthread_t threads[4];
    uint64_t samples = 0;
    struct ep_stats s;

    (void)state;
    atomic_store(&enough, false);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i < 2 ? steady : breeder, NULL), 0);
    for (unsigned i = 0; i < 200; i++) {
        receiver_reset();
        assert_int_equal(begin_profile(RATE, 100), 0);
        if (i % 4)
            burn(i % 4 * MS);
        int error = end_profile(i % 3 ? 1000 : 0);
        assert_true(error == 0 || (error == -ETIMEDOUT && i % 3 == 0));
        assert_int_equal(ep_stats_get(&s), 0);
        samples += s.samples;
        assert_null(receiver.broken);
    }
    atomic_store(&enough, true);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(samples > 20);
}

/* The collect thread runs before sampling begins, and when ep_start() takes long it looks for threads by then. */
static void test_scan_before_sampling(void **state)
{
    (void)state;
    assert_int_equal(ep_port_threads_scan(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_before_sampling), /* first: nothing has been started */
        cmocka_unit_test(test_long_threads),
        cmocka_unit_test(test_200_short_threads),
        cmocka_unit_test(test_more_threads_than_slots),
        cmocka_unit_test(test_few_timers),
        cmocka_unit_test(test_start_stop_under_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
