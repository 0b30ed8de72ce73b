/*
 * threads.c on the simulated port: whatever threads do during a dump (wait, sleep, run, change state, end), each living
 * thread is in it exactly once, with its name and its stack. An unreachable thread is [no stack] and counted. The dump
 * is one profile, and in pprof it has the family that tools expect.
 *
 * The same for waits that nobody marks (watched_waits.c): each sleeping thread's time is in the profile once, with its
 * stack.
 */
#include "account.h"
#include "unit.h"

#include <edgeprof/hooks.h>

#define MS      1000000ull
#define THREADS 40u
#define MANY    (EP_THREADS + 30u)
#define DEPTH   5u

enum { WAITS, SLEEPS, RUNS, RESTLESS, GONE, WAYS };

struct record {
    uintptr_t fp, pc;
};

static struct {
    unsigned way;
    struct record stack[DEPTH];
    struct ep_work work;
} one[MANY + 1]; /* by thread id */

static struct ep_sim_thread threads[MANY];
static unsigned times[MANY + 1], without, entries, wrong;
static unsigned sends_with_threads, unnamed;
static uint64_t told;

static void on_entry(const struct receiver_stack *stack)
{
    unsigned tid = 0;

    if (stack->kind != EP_KIND_THREAD)
        return;
    entries++;
    if (sscanf(stack->with.thread, "thread-%u", &tid) != 1 || tid > MANY) {
        unnamed += (unsigned)stack->value;
        return;
    }
    times[tid] += (unsigned)stack->value;
    if (stack->frame[0] == EP_FRAME_NO_STACK) {
        without++;
        wrong += stack->depth != 1;
    } else if (one[tid].way == WAITS) {
        wrong += stack->frame[0] != EP_FRAME_WAIT + EP_WAIT_LOCK || stack->depth < DEPTH;
    } else {
        wrong += stack->frame[0] < EP_FRAME_FIRST_ADDRESS || stack->depth < DEPTH;
    }
}

static void on_send(const struct ep_message *message, const struct ep_deadline *deadline)
{
    (void)message;
    (void)deadline;
    sends_with_threads += receiver.kind_value[EP_KIND_THREAD] != told;
    told = receiver.kind_value[EP_KIND_THREAD];
}

static void begin(bool pprof, uint32_t kinds)
{
    account_afresh();
    unit_pprof(pprof);
    memset(times, 0, sizeof times);
    memset(one, 0, sizeof one);
    memset(threads, 0, sizeof threads);
    without = entries = wrong = sends_with_threads = unnamed = 0;
    told = 0;
    receiver.on_entry = on_entry;
    receiver.on_send = on_send;
    ep_sim.thread = threads;
    account_start(
        (struct ep_config){.memory_size = EP_MEMORY_DEFAULT, .rate_hz = 100, .kinds = kinds, .flags = EP_MANUAL});
}

static void end(void)
{
    account_end();
    assert_int_equal(wrong, 0);
}

static uint64_t lost(void)
{
    struct ep_stats s;

    assert_int_equal(ep_stats_get(&s), 0);
    return s.lost_count[EP_LOSS_NO_STACK];
}

/* Creates a thread of that kind with its own functions. */
static void make(unsigned tid, unsigned way)
{
    struct record *stack = one[tid].stack;
    struct ep_sim_thread *thread = &threads[ep_sim.thread_count++];

    one[tid].way = way;
    for (unsigned i = 0; i < DEPTH; i++)
        stack[i] = i + 1 < DEPTH ? (struct record){(uintptr_t)&stack[i + 1], ep_sim_pc(10 * tid + i + 1)}
                                 : (struct record){0, 0};
    *thread = (struct ep_sim_thread){
        .tid = tid,
        .error = way == SLEEPS || way == RESTLESS ? 0
                 : way == GONE                    ? -ESRCH
                                                  : -EAGAIN,
        .restless = way == RESTLESS,
        .at = {.pc = ep_sim_pc(10 * tid),
               .sp = (uintptr_t)stack,
               .fp = (uintptr_t)stack,
               .stack_end = (uintptr_t)(stack + DEPTH)},
    };
    if (way != WAITS)
        return;
    uint16_t functions[DEPTH];
    for (unsigned i = 0; i < DEPTH; i++)
        functions[i] = (uint16_t)(10 * tid + i);
    ep_sim.tid = tid;
    ep_sim.works = &one[tid].work;
    ep_sim_here(functions, DEPTH);
    ep_wait_begin(EP_WAIT_LOCK);
}

static void pass(uint64_t ns)
{
    ep_sim.uptime_ns += ns;
    assert_int_equal(ep_collect(), 0);
    assert_int_equal(ep_deliver(100), 0);
}

static void tick(unsigned tid)
{
    uint16_t functions[DEPTH];

    for (unsigned i = 0; i < DEPTH; i++)
        functions[i] = (uint16_t)(10 * tid + i);
    ep_sim.works = &one[tid].work;
    assert_true(ep_sim_tick(tid, 1, functions, DEPTH));
}

TEST(test_each_thread_once)
{
    uint64_t dice = 5;

    assert_int_equal(ep_threads_dump(), -ESRCH);
    for (unsigned run = 0; run < 60; run++) {
        unsigned count[WAYS] = {0};
        begin(false, EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_LOCK));
        for (unsigned tid = 1; tid <= THREADS; tid++) {
            unsigned way = unit_random(&dice) % WAYS;
            make(tid, way);
            count[way]++;
        }
        for (unsigned tid = 1; tid <= THREADS; tid += 3)
            tick(tid); /* before the request */
        assert_int_equal(ep_threads_dump(), 0);
        pass(10 * MS);
        for (unsigned round = 0; round < 150; round++) {
            unsigned tid = 1 + unit_random(&dice) % THREADS;
            if (one[tid].way == RUNS || one[tid].way == SLEEPS || round % 9 == 0)
                tick(tid);
            if (round == 20) /* a second request during the first */
                assert_int_equal(ep_flush(), 0);
            pass(10 * MS);
        }
        end();
        unsigned living = THREADS - count[GONE];
        assert_int_equal(receiver.kind_value[EP_KIND_THREAD], living);
        for (unsigned tid = 1; tid <= THREADS; tid++)
            assert_int_equal(times[tid], one[tid].way != GONE);
        assert_int_equal(lost(), without);
        assert_int_equal(unnamed, 0);
        assert_true(without <= count[RESTLESS] + count[RUNS]);
        assert_true(sends_with_threads <= 1); /* visible at the next send */
    }
}

/* Threads beyond the table are [no stack] at once; sleeping threads are all included. The table of names has the same
 * size. */
TEST(test_more_than_the_table)
{
    for (unsigned way = SLEEPS; way <= RESTLESS; way++) {
        begin(false, 0);
        for (unsigned tid = 1; tid <= MANY; tid++)
            make(tid, way);
        assert_int_equal(ep_threads_dump(), 0);
        for (unsigned round = 0; round < 15; round++)
            pass(100 * MS);
        end();
        assert_int_equal(receiver.kind_value[EP_KIND_THREAD], MANY);
        assert_int_equal(lost(), way == SLEEPS ? 0 : MANY);
        assert_true(unnamed <= MANY - EP_THREADS);
    }
}

/* Runs, is sampled, and falls asleep while it is examined the second time. */
static void falls_asleep(uint32_t tid)
{
    struct ep_sim_thread *thread = &threads[tid - 1];

    if (thread->ran_ns++ < 3)
        return;
    tick(tid);
    thread->error = 0;
    thread->ran_ns = 0;
    ep_sim.on_look = NULL;
}

TEST(test_sampled_and_asleep)
{
    begin(false, 0);
    make(1, RUNS);
    make(2, RUNS);
    assert_int_equal(ep_threads_dump(), 0);
    ep_sim.on_look = falls_asleep;
    for (unsigned round = 0; round < 150; round++)
        pass(10 * MS);
    end();
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 2);
    assert_int_equal(times[1], 1);
    assert_int_equal(times[2], 1);
}

/* The profiler's end ends the dump, and loses no thread. */
TEST(test_stop)
{
    begin(false, 0);
    for (unsigned tid = 1; tid <= 9; tid++)
        make(tid, tid % 2 ? SLEEPS : RUNS);
    assert_int_equal(ep_threads_dump(), 0);
    pass(10 * MS);
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 0);
    end();
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 9);
    assert_int_equal(without, 4);
}

TEST(test_system_says_nothing)
{
    begin(false, 0);
    make(1, SLEEPS);
    ep_sim.fail_at = ep_sim.calls + 1;
    assert_int_equal(ep_threads_dump(), 0);
    pass(10 * MS);
    end();
    assert_string_equal(ep_sim.failed, "threads_each");
    assert_int_equal(lost(), 1);
}

static char family[32];

static void on_pprof(const struct ep_message *message, const struct ep_deadline *deadline)
{
    (void)deadline;
    if (strcmp(message->family, "process_cpu") != 0)
        (void)snprintf(family, sizeof family, "%s", message->family);
}

TEST(test_pprof_family)
{
    begin(true, 0);
    receiver.on_send = on_pprof;
    for (unsigned tid = 1; tid <= 7; tid++)
        make(tid, SLEEPS);
    assert_int_equal(ep_threads_dump(), 0);
    pass(10 * MS);
    end();
    assert_string_equal(family, "goroutine");
}

TEST_MAIN

/* ---- waits that nobody marks ---- */

static uint64_t waited_ns[EP_WAITS]; /* by class */

static void on_wait(const struct receiver_stack *stack)
{
    const uint32_t class = stack->frame[0] - EP_FRAME_WAIT;

    if (stack->kind != EP_KIND_WAIT)
        return;
    wrong += class >= EP_WAITS || stack->depth < DEPTH;
    if (class < EP_WAITS)
        waited_ns[class] += (uint64_t)stack->value;
}

static void begin_watched(void)
{
    assert_int_equal(ep_waits_watch_start(), 0);
    begin(false, EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_WAIT));
    memset(waited_ns, 0, sizeof waited_ns);
    receiver.on_entry = on_wait;
}

TEST(test_sleeping_threads_are_waits)
{
    const uint64_t all = 60000 * MS;
    enum { SLEEPING = 1, MARKED, RUNNING, IDLE, UNREADABLE };

    begin_watched();
    make(SLEEPING, SLEEPS);
    make(MARKED, WAITS);
    make(RUNNING, RUNS);
    make(IDLE, SLEEPS);
    make(UNREADABLE, GONE);
    threads[SLEEPING - 1].wait = EP_WAIT_SLEEP;
    threads[IDLE - 1].wait = EP_WAIT_IDLE;
    for (uint64_t passed = 0; passed < all; passed += 50 * MS)
        pass(50 * MS);
    ep_sim.works = &one[MARKED].work;
    ep_wait_end();
    end();
    assert_in_range(waited_ns[EP_WAIT_SLEEP], all - 2000 * MS, all);
    assert_in_range(waited_ns[EP_WAIT_LOCK], all - 2000 * MS, all);
    assert_int_equal(waited_ns[EP_WAIT_OTHER] + waited_ns[EP_WAIT_IDLE], 0);
}

/* Waits that are shorter than the pause between two looks: each is seen or not, and the sum is right. */
TEST(test_short_sleeps_add_up)
{
    uint64_t slept = 0, dice = 9, error;

    begin_watched();
    make(1, SLEEPS);
    threads[0].wait = EP_WAIT_SLEEP;
    for (unsigned i = 0; i < 20000; i++) {
        const unsigned awake = 1 + unit_random(&dice) % 6, asleep = 1 + unit_random(&dice) % 12;
        for (unsigned j = 0; j < awake + asleep; j++) {
            threads[0].error = j < awake ? -EAGAIN : 0;
            threads[0].ran_ns += j < awake ? 10 * MS : 0;
            pass(10 * MS);
        }
        slept += asleep * 10 * MS;
    }
    end();
    error = waited_ns[EP_WAIT_SLEEP] > slept ? waited_ns[EP_WAIT_SLEEP] - slept : slept - waited_ns[EP_WAIT_SLEEP];
    assert_in_range(error, 0, slept / 20);
}
