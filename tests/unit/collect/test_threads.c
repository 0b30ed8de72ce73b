/*
 * threads.c on the simulated port: whatever threads do during a dump (wait, sleep, run, change state, end), each living
 * thread is in it exactly once, with its name and its stack. An unreachable thread is [no stack] and counted. The dump
 * is one profile, and in pprof it has the family that tools expect.
 */
#include "account.h"
#include "unit.h"

#define MS      1000000ull
#define THREADS 40u
#define MANY    (EP_MAX_THREADS + 30u)
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

static void begin(const struct ep_encoder *encoder, uint32_t kinds)
{
    struct ep_config c = {.memory = account_memory(EP_MEMORY_DEFAULT),
                          .memory_size = EP_MEMORY_DEFAULT,
                          .rate_hz = 100,
                          .interval_ms = 1000,
                          .kinds = kinds,
                          .transport = &receiver_transport,
                          .encoder = encoder,
                          .flags = EP_MANUAL};

    account_afresh();
    memset(times, 0, sizeof times);
    memset(one, 0, sizeof one);
    memset(threads, 0, sizeof threads);
    without = entries = wrong = sends_with_threads = unnamed = 0;
    told = 0;
    receiver.on_entry = on_entry;
    receiver.on_send = on_send;
    ep_sim.thread = threads;
    assert_int_equal(ep_start(&c), 0);
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

static void test_each_thread_once(void **state)
{
    uint64_t dice = 5;

    (void)state;
    assert_int_equal(ep_threads_dump(), -ESRCH);
    for (unsigned run = 0; run < 60; run++) {
        unsigned count[WAYS] = {0};
        begin(NULL, EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_LOCK));
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
static void test_more_than_the_table(void **state)
{
    (void)state;
    for (unsigned way = SLEEPS; way <= RESTLESS; way++) {
        begin(NULL, 0);
        for (unsigned tid = 1; tid <= MANY; tid++)
            make(tid, way);
        assert_int_equal(ep_threads_dump(), 0);
        for (unsigned round = 0; round < 15; round++)
            pass(100 * MS);
        end();
        assert_int_equal(receiver.kind_value[EP_KIND_THREAD], MANY);
        assert_int_equal(lost(), way == SLEEPS ? 0 : MANY);
        assert_true(unnamed <= MANY - EP_MAX_THREADS);
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

static void test_sampled_and_asleep(void **state)
{
    (void)state;
    begin(NULL, 0);
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
static void test_stop(void **state)
{
    (void)state;
    begin(NULL, 0);
    for (unsigned tid = 1; tid <= 9; tid++)
        make(tid, tid % 2 ? SLEEPS : RUNS);
    assert_int_equal(ep_threads_dump(), 0);
    pass(10 * MS);
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 0);
    end();
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 9);
    assert_int_equal(without, 4);
}

static void test_system_says_nothing(void **state)
{
    (void)state;
    begin(NULL, 0);
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

static void test_pprof_family(void **state)
{
    (void)state;
    begin(&ep_encoder_pprof, 0);
    receiver.on_send = on_pprof;
    for (unsigned tid = 1; tid <= 7; tid++)
        make(tid, SLEEPS);
    assert_int_equal(ep_threads_dump(), 0);
    pass(10 * MS);
    end();
    assert_string_equal(family, "goroutine");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_thread_once),    cmocka_unit_test(test_more_than_the_table),
        cmocka_unit_test(test_sampled_and_asleep),  cmocka_unit_test(test_stop),
        cmocka_unit_test(test_system_says_nothing), cmocka_unit_test(test_pprof_family),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
