/*
 * Waits of real threads, compared with a stopwatch around each: many short ones, long ones that are charged while open,
 * two threads that wait forever, and a thread that ends while it waits. Also the cost of an unsampled wait beyond its
 * two clock reads.
 */
#include "linux_test.h"

#include <edgeprof/hooks.h>

#define RATE       97
#define SHORT_ONES 600u
#define LONG_ONES  3u
#define STUCK      2u
#define PAIRS      2000u
#define TRIES      301u
#define STAYS      1000u

#define WAIT_FRAME 11u /* [wait]; the classes follow */
#define OWN_FRAME  28u /* [edgeprof] */

static struct {
    uint64_t count[EP_WAITS], value[EP_WAITS], lock_count, lock_value;
    unsigned deepest[EP_WAITS];
    uint64_t cpu_count, cpu_value, own_value;
    unsigned own_deepest;
} told;

static void on_entry(const struct receiver_stack *stack)
{
    unsigned wait = stack->depth ? stack->frame[0] - WAIT_FRAME : EP_WAITS;

    if (stack->kind == EP_KIND_CPU && stack->depth) {
        bool own = stack->frame[0] == OWN_FRAME;
        told.cpu_count += stack->count;
        told.cpu_value += stack->value;
        told.own_value += own ? stack->value : 0;
        if (own && stack->depth > told.own_deepest)
            told.own_deepest = stack->depth;
    }
    if (stack->kind == EP_KIND_LOCK) {
        told.lock_count += stack->count;
        told.lock_value += stack->value;
    }
    if (wait < EP_WAITS && stack->depth > told.deepest[wait])
        told.deepest[wait] = stack->depth;
    if (stack->kind != EP_KIND_WAIT || wait >= EP_WAITS)
        return;
    told.count[wait] += stack->count;
    told.value[wait] += stack->value;
}

static void begin(uint32_t kinds)
{
    receiver_reset();
    memset(&told, 0, sizeof told);
    receiver.on_entry = on_entry;
    assert_int_equal(begin_profile(RATE, 200), 0);
    assert_int_equal(ep_kinds_set(kinds), 0);
    cpu_checks = kinds & EP_KIND_BIT(EP_KIND_CPU) ? cpu_checks : CPU_MOST;
}

static double off_by(uint64_t is, uint64_t should)
{
    return 100.0 * (is > should ? (double)(is - should) : (double)(should - is)) / (double)should;
}

static __attribute__((noinline)) uint64_t wait_us(enum ep_wait wait, unsigned us)
{
    uint64_t start = clock_ns(CLOCK_MONOTONIC);

    ep_wait_begin(wait);
    (void)usleep(us);
    ep_wait_end();
    return clock_ns(CLOCK_MONOTONIC) - start;
}

/* A class is accurate to two strata of 10 ms, one at each end: 1.5 % of the at least 1.3 s that each waits. */
TEST(test_known_waits)
{
    uint64_t truth[EP_WAITS] = {0};

    begin(EP_KIND_BIT(EP_KIND_WAIT) | EP_KIND_BIT(EP_KIND_LOCK));
    for (unsigned i = 0; i < SHORT_ONES; i++) {
        truth[EP_WAIT_SLEEP] += wait_us(EP_WAIT_SLEEP, 1000 + i * 4);
        truth[EP_WAIT_LOCK] += wait_us(EP_WAIT_LOCK, 4000 - i * 4);
    }
    for (unsigned i = 0; i < LONG_ONES; i++)
        truth[EP_WAIT_DISK] += wait_us(EP_WAIT_DISK, 450000);
    (void)wait_us(EP_WAIT_IDLE, 250000);
    assert_int_equal(end_profile(2000), 0);
    assert_null(receiver.broken);
    double worst = 0, off;
    for (unsigned wait = EP_WAIT_LOCK; wait < EP_WAIT_IDLE; wait++)
        if (truth[wait] && (off = off_by(told.value[wait], truth[wait])) > worst)
            worst = off;
    print_message("figure wait_error_pct %.2f %%\n", worst);
    assert_true(worst <= 2);
    assert_int_equal(told.value[EP_WAIT_IDLE], 0);
    assert_int_equal(told.value[EP_WAIT_LOCK], told.lock_value);
    assert_true(off_by(told.lock_count, SHORT_ONES) <= 15);
    assert_int_equal(told.count[EP_WAIT_DISK], LONG_ONES); /* each counts once, however often it was charged */
    assert_true(told.deepest[EP_WAIT_DISK] > 3);
}

static pthread_mutex_t two[STUCK] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t met;
static _Atomic uint64_t met_ns;

static void unlock(void *lock)
{
    (void)pthread_mutex_unlock(lock);
}

static void *deadlock(void *argument)
{
    unsigned mine = (unsigned)(uintptr_t)argument;
    struct timespec until;

    (void)pthread_mutex_lock(&two[mine]);
    pthread_cleanup_push(unlock, &two[mine]);
    (void)pthread_barrier_wait(&met);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    atomic_store(&met_ns, now_ns());
    ep_wait_begin(EP_WAIT_LOCK);
    (void)pthread_mutex_timedlock(&two[!mine], &until); /* ends after the profile does */
    ep_wait_end();
    pthread_cleanup_pop(1);
    return NULL;
}

TEST(test_deadlock)
{
    pthread_t thread[STUCK];

    const uint64_t began = now_ns();

    assert_int_equal(pthread_barrier_init(&met, NULL, STUCK), 0);
    begin(EP_KIND_BIT(EP_KIND_LOCK));
    for (unsigned i = 0; i < STUCK; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, deadlock, (void *)(uintptr_t)i), 0);
    sleep_ms(1000);
    const uint64_t waited = now_ns() - atomic_load(&met_ns);
    assert_int_equal(end_profile(2000), 0);
    print_message("deadlock: %.0f ms of two threads' %.0f, %u frames\n", (double)told.lock_value / (double)MS,
                  2 * (double)waited / (double)MS, told.deepest[EP_WAIT_LOCK]);
    assert_int_equal(told.lock_count, STUCK);
    assert_true(told.lock_value * 10 > 16 * (waited < 2000 * MS ? waited : 2000 * MS));
    assert_true(told.lock_value <= STUCK * (now_ns() - began));
    for (unsigned i = 0; i < STUCK; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
}

static void *leaves(void *unused)
{
    (void)unused;
    ep_wait_begin(EP_WAIT_SLEEP);
    pthread_exit(NULL);
}

TEST(test_thread_gone)
{
    begin(EP_KIND_BIT(EP_KIND_WAIT));
    run_thread(leaves);
    sleep_ms(700);
    assert_int_equal(end_profile(2000), 0);
    assert_int_equal(told.value[EP_WAIT_SLEEP], 0);
}

static __attribute__((noinline)) void idle_wait(unsigned us)
{
    ep_wait_begin((enum ep_wait)EP_WAIT_BY_CALLER);
    (void)usleep(us);
    ep_wait_end();
}

/* The two waits below have the same stack depth, as waits in a runtime may. */
static __attribute__((noinline)) void pool_waits(unsigned us)
{
    idle_wait(us);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static __attribute__((noinline)) void lock_waits(unsigned us)
{
    idle_wait(us);
    __asm__ volatile("" ::: "memory");
}

/* Number of walked frames, the cost of reporting waits. */
static uint64_t walked(void)
{
    struct ep_stats stats;

    (void)usleep(500000); /* longer than an interval, so all is collected */
    assert_int_equal(ep_stats_get(&stats), 0);
    return stats.rule_hits + stats.rule_misses;
}

/* Idle waits are sampled like others, but rarely walked once their caller is known. A lock wait at the same place of
 * the stack is always reported, even when a thread alternates between both. */
TEST(test_unwanted_waits_are_cheap)
{
    const struct ep_wait_place places[] = {{(uintptr_t)pool_waits, EP_WAIT_IDLE, EP_PLACE_CLASS},
                                           {(uintptr_t)lock_waits, EP_WAIT_LOCK, EP_PLACE_CLASS}};
    uint64_t locks = 0;

    ep_wait_places(places, 2);
    begin(EP_KIND_BIT(EP_KIND_LOCK));
    uint64_t start = walked();
    for (unsigned i = 0; i < 4; i++)
        pool_waits(15000);
    uint64_t each = (walked() - start) / 4, before = walked();
    for (unsigned i = 0; i < 64; i++)
        pool_waits(15000);
    uint64_t later = walked() - before;
    for (unsigned i = 0; i < 60; i++) {
        uint64_t begun = clock_ns(CLOCK_MONOTONIC);
        lock_waits(12000);
        locks += clock_ns(CLOCK_MONOTONIC) - begun;
        pool_waits(12000);
    }
    assert_int_equal(end_profile(2000), 0);
    ep_wait_places(NULL, 0);
    print_message("idle waits: %.1f frames walked each before, %.1f later\n", (double)each, (double)later / 64);
    assert_int_equal(told.value[EP_WAIT_IDLE], 0);
    assert_true(each >= 2 && later < 64 * each / 4);
    assert_true(off_by(told.lock_value, locks) <= 2);
}

/* Each function's frame has another size: linkers merge the entries of neighbours in 32-bit ARM's table that are alike,
 * and then they are one function for those who ask the table. */
#define CALLER(name, parameters, bytes, call)                                                                          \
    static __attribute__((noinline)) void name parameters                                                              \
    {                                                                                                                  \
        volatile char room[bytes];                                                                                     \
        room[0] = 0;                                                                                                   \
        call;                                                                                                          \
        (void)room[0];                                                                                                 \
    }                                                                                                                  \
    _Static_assert((bytes) > 0, "a frame")

CALLER(task_waits, (unsigned us), 32, idle_wait(us));
CALLER(entry_waits, (unsigned us), 64, task_waits(us));
CALLER(worker_waits, (unsigned us), 96, task_waits(us));
CALLER(entry_works, (unsigned us), 128, worker_waits(us));
CALLER(runtime_starts, (void (*entry)(unsigned), unsigned us), 160, entry(us));

/* The entry point itself waits for a task: nothing else is to be done there. A function that it calls waits for a
 * reason. */
TEST(test_an_entry_that_waits_for_a_task_is_idle)
{
    const struct ep_wait_place places[] = {{.function = (uintptr_t)task_waits, .role = EP_PLACE_TASK},
                                           {(uintptr_t)runtime_starts, EP_WAIT_IDLE, EP_PLACE_ENTRY}};
    uint64_t works = 0;

    ep_wait_places(places, 2);
    begin(EP_KIND_BIT(EP_KIND_WAIT));
    for (unsigned i = 0; i < 30; i++) {
        runtime_starts(entry_waits, 12000);
        uint64_t begun = clock_ns(CLOCK_MONOTONIC);
        runtime_starts(entry_works, 12000);
        works += clock_ns(CLOCK_MONOTONIC) - begun;
    }
    assert_int_equal(end_profile(2000), 0);
    ep_wait_places(NULL, 0);
    print_message("wait of a function that the entry calls: %.0f ms of %.0f\n", (double)told.value[EP_WAIT_OTHER] / 1e6,
                  (double)works / 1e6);
    assert_int_equal(told.value[EP_WAIT_IDLE], 0);
    assert_true(off_by(told.value[EP_WAIT_OTHER], works) <= 5);
}

/* A thread that slept has left its processor, each time; one that made a call that does not wait has not, most times.
 * The answer is remembered by no thread, and a signal in between can only make it cautious. */
TEST(test_stayed)
{
    unsigned slept = 0, stayed = 0;

    begin(EP_KIND_BIT(EP_KIND_WAIT));
    for (unsigned i = 0; i < STAYS; i++) {
        ep_port_stay_begin();
        (void)usleep(200); /* a shorter one may end before the kernel lets another thread run */
        slept += !ep_port_stayed();
        ep_port_stay_begin();
        (void)syscall(SYS_getppid);
        stayed += ep_port_stayed();
        assert_false(ep_port_stayed()); /* it was asked already */
    }
    assert_int_equal(end_profile(2000), 0);
    print_message("of %u sleeps %u were noticed; of as many calls %u kept the processor\n", STAYS, slept, stayed);
    assert_int_equal(slept, STAYS);
#if defined __x86_64__ && defined __GLIBC__ /* elsewhere the emulator or the C library may not tell */
    assert_true(stayed > STAYS / 2);
#endif
}

/* Other load only increases the duration. */
static uint64_t least(const uint64_t *numbers)
{
    uint64_t least = numbers[0];

    for (unsigned i = 1; i < TRIES; i++)
        least = numbers[i] < least ? numbers[i] : least;
    return least;
}

TEST(test_cost)
{
    uint64_t bare[TRIES], wait[TRIES];

    begin(EP_KIND_BIT(EP_KIND_WAIT));
    for (unsigned try = 0; try < TRIES; try++) {
        uint64_t start = clock_ns(CLOCK_MONOTONIC);
        for (unsigned i = 0; i < 2 * PAIRS; i++)
            (void)ep_port_uptime_ns();
        uint64_t between = clock_ns(CLOCK_MONOTONIC);
        for (unsigned i = 0; i < PAIRS; i++) {
            ep_wait_begin(EP_WAIT_OTHER);
            ep_wait_end();
        }
        bare[try] = between - start;
        wait[try] = clock_ns(CLOCK_MONOTONIC) - between;
    }
    assert_int_equal(end_profile(2000), 0);
    double ratio = (double)least(wait) / (double)least(bare);
    print_message("figure wait_hook_clock_ratio %.2f x\n", ratio);
/* Elsewhere this runs in an emulator, where a clock read costs little; sanitizers slow the profiler but not the clock.
 */
#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    assert_true(ratio <= 1.5);
#endif
}

static __attribute__((noinline)) uint64_t spin(unsigned rounds, bool hooks)
{
    uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    for (unsigned i = 0; i < rounds; i++) {
        if (hooks) {
            ep_wait_begin(EP_WAIT_NETWORK);
            ep_wait_end();
        } else {
            for (volatile unsigned j = 0; j < 64;)
                j = j + 1;
        }
    }
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

/* The CPU time of hooks in a program that is linked with the library appears as [edgeprof], below the program's
 * function; the program's own time does not. */
TEST(test_hooks_are_shown)
{
    uint64_t hooks_ns = 0, program_ns = 0;

    begin(EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_WAIT));
    while (hooks_ns < 1500000000) {
        hooks_ns += spin(20000, true);
        program_ns += spin(10000, false);
    }
    assert_int_equal(end_profile(2000), 0);
    assert_null(receiver.broken);
    double truth = 100.0 * (double)hooks_ns / (double)(hooks_ns + program_ns),
           shown = 100.0 * (double)told.own_value / (double)told.cpu_value;
    print_message("figure own_time_shown_pct %.1f %% (hooks and their loop: %.1f %%)\n", shown, truth);
#ifdef __arm__ /* hooks read the C library's clock, whose frames keep their names */
    assert_true(shown > truth / 6 && shown < truth + 15);
#else
    /* Four standard deviations of a share of so many samples: the governor takes fewer where each costs much. */
    const double chance = (shown - truth) * (shown - truth) * (double)told.cpu_count / 40000;
    assert_true((shown > truth - 15 && shown < truth + 15) || (told.cpu_count > 20 && chance < 1));
#endif
    assert_true(told.own_deepest > 3);
}

static volatile sig_atomic_t interruptions;
static _Atomic uint64_t handler_ns;

static void on_alarm(int number)
{
    uint64_t spent = 0;

    (void)number;
    interruptions = interruptions + 1;
    while (spent < 1000000) /* a third of the timer's period, on any machine */
        spent += spin(100, false);
    handler_ns += spent;
}

/* A handler of the program that interrupts a hook is the program's time. The kernel may start handlers and samples with
 * the same tick, so their share is not exact; at least half of it must be seen. */
TEST(test_handlers_are_not_shown_as_hooks)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, before;
    const struct itimerval every = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    uint64_t all_ns = 0;

    handler_ns = 0;
    begin(EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_WAIT));
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
    while (all_ns < 2000000000)
        all_ns += spin(20000, true);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_int_equal(end_profile(2000), 0);
    double handler = 100.0 * (double)handler_ns / (double)all_ns,
           shown = 100.0 * (double)told.own_value / (double)told.cpu_value;
    print_message("%d interruptions: [edgeprof] is %.1f %%, the handler %.1f %%\n", (int)interruptions, shown, handler);
    assert_true(handler > 20);
    assert_true(shown < 100 - handler / 2);
}

TEST_MAIN
