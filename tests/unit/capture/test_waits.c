/*
 * waits.c on the simulated port. Properties, for any order of begins, ends and intervals and any number of waiting
 * threads: waits of a period or more are exact to the nanosecond and counted once. Short waits are off by at most two
 * periods per thread and class. An open wait is reported while it is open, and never twice.
 */
#include "account.h"
#include "unit.h"

#define MS      1000000ull
#define THREADS 5u
#define PERIOD  (10 * MS)
#define STEPS   700u

static struct ep_work works[EP_THREADS + 8];
static uint64_t told_ns[EP_WAITS], told_count[EP_WAITS];
static unsigned wrong, runs;

static void on_entry(const struct receiver_stack *stack)
{
    unsigned wait = stack->depth ? stack->frame[0] - EP_FRAME_WAIT : EP_WAITS;

    if (stack->kind != EP_KIND_WAIT)
        return;
    if (wait >= EP_WAITS || stack->depth < 2) {
        wrong++;
        return;
    }
    told_ns[wait] += stack->value;
    told_count[wait] += stack->count;
}

/* Without limits per second: test_rates.c has those. */
static void begin(uint32_t kinds, uint32_t flags)
{
    account_afresh();
    memset(works, 0, sizeof works);
    memset(told_ns, 0, sizeof told_ns);
    memset(told_count, 0, sizeof told_count);
    wrong = 0;
    receiver.on_entry = on_entry;
    ep_sim.random_state = ++runs; /* run numbers and times do not repeat */
    ep_sim.uptime_ns += runs * 1000000 * MS;
    account_start((struct ep_config){
        .memory_size = EP_MEMORY_DEFAULT, .kinds = kinds, .flags = flags | EP_ALL_EVENTS | EP_MANUAL});
}

static void end(void)
{
    account_end();
    assert_int_equal(wrong, 0);
}

/* Switches to that simulated thread. */
static void be(unsigned thread)
{
    const uint16_t stack[] = {20, 21, 22};

    ep_sim.tid = thread + 1;
    ep_sim.works = &works[thread];
    ep_sim_here(stack, 3);
}

static void collect(void)
{
    assert_int_equal(ep_collect(), 0);
    assert_int_equal(ep_deliver(100), 0);
}

static void pass(uint64_t ns)
{
    ep_sim.uptime_ns += ns;
    collect();
}

/* ---- permutations ---- */

struct truth {
    uint64_t start[THREADS];
    unsigned wait[THREADS];
    bool open[THREADS];
    uint64_t ns[EP_WAITS], count[EP_WAITS];
};

static void toggle(struct truth *truth, unsigned thread, unsigned wait)
{
    be(thread);
    if (truth->open[thread]) {
        uint64_t ns = ep_sim.uptime_ns - truth->start[thread];
        ep_wait_end();
        truth->ns[truth->wait[thread]] += ns;
        truth->count[truth->wait[thread]] += ns > 0;
    } else {
        ep_wait_begin((enum ep_wait)wait);
        truth->start[thread] = ep_sim.uptime_ns;
        truth->wait[thread] = wait;
    }
    truth->open[thread] = !truth->open[thread];
}

/* Random begins, ends and rounds of the collect thread. `least`: the shortest wait. */
static void permute(struct truth *truth, uint64_t *dice, uint64_t least, uint64_t most, unsigned waits)
{
    memset(truth, 0, sizeof *truth);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned thread = unit_random(dice) % THREADS;
        uint64_t jump = unit_random(dice) % 12 == 0 ? 900 * MS : 0;
        toggle(truth, thread, unit_random(dice) % waits);
        ep_sim.uptime_ns += least + jump + unit_random(dice) % (most - least + 1);
        if (unit_random(dice) % 3)
            collect();
    }
    for (unsigned thread = 0; thread < THREADS; thread++)
        if (truth->open[thread])
            toggle(truth, thread, 0);
}

TEST(test_long_waits_are_exact)
{
    struct truth truth;
    uint64_t dice = 17;

    for (unsigned run = 0; run < 40; run++) {
        begin(EP_KIND_BIT(EP_KIND_WAIT) | EP_KIND_BIT(EP_KIND_LOCK), EP_IDLE_WAITS);
        permute(&truth, &dice, PERIOD, (1 + run % 5) * 80 * MS, EP_WAITS);
        end();
        for (unsigned wait = 0; wait < EP_WAITS; wait++) {
            assert_int_equal(told_ns[wait], truth.ns[wait]);
            assert_int_equal(told_count[wait], truth.count[wait]);
        }
        assert_int_equal(receiver.kind_value[EP_KIND_LOCK], truth.ns[EP_WAIT_LOCK]);
        assert_int_equal(receiver.kind_count[EP_KIND_LOCK], truth.count[EP_WAIT_LOCK]);
    }
}

TEST(test_short_waits_are_near)
{
    struct truth truth;
    uint64_t dice = 23;

    for (unsigned run = 0; run < 40; run++) {
        begin(EP_KIND_BIT(EP_KIND_WAIT), EP_IDLE_WAITS);
        permute(&truth, &dice, 20000, 3 * MS, EP_WAITS);
        end();
        for (unsigned wait = 0; wait < EP_WAITS; wait++) {
            assert_true(told_ns[wait] <= truth.ns[wait] + 2 * PERIOD * THREADS);
            assert_true(truth.ns[wait] <= told_ns[wait] + 2 * PERIOD * THREADS);
        }
    }
}

/* ---- open waits ---- */

TEST(test_open_waits_grow)
{
    uint64_t before = 0;

    begin(EP_KIND_BIT(EP_KIND_LOCK), 0);
    uint64_t start = ep_sim.uptime_ns;
    for (unsigned thread = 0; thread < 2; thread++) {
        be(thread);
        ep_wait_begin(EP_WAIT_LOCK);
    }
    for (unsigned interval = 0; interval < 8; interval++) {
        pass(1000 * MS);
        uint64_t now = receiver.kind_value[EP_KIND_LOCK];
        assert_int_equal(now - before, 2000 * MS);
        before = now;
    }
    end();
    assert_int_equal(receiver.kind_value[EP_KIND_LOCK], 2 * (ep_sim.uptime_ns - start));
    assert_int_equal(receiver.kind_count[EP_KIND_LOCK], 2);
}

/* A thread that was not announced: its open wait has a whole stack all the same. */
TEST(test_open_wait_without_bounds)
{
    begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
    ep_sim.no_bounds = true;
    be(0);
    ep_wait_begin(EP_WAIT_SLEEP);
    pass(1000 * MS);
    end();
    assert_int_equal(told_ns[EP_WAIT_SLEEP], 1000 * MS);
    assert_int_equal(account_stats().cut, 0);
}

TEST(test_thread_gone)
{
    begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
    be(0);
    ep_wait_begin(EP_WAIT_SLEEP);
    pass(1000 * MS);
    ep_sim.gone_tid = 1;
    pass(1000 * MS);
    pass(1000 * MS);
    end();
    assert_int_equal(told_ns[EP_WAIT_SLEEP], 1000 * MS);
}

/* Threads beyond the table are reported when their waits end, completely. */
TEST(test_more_threads_than_places)
{
    struct ep_stats s;

    begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
    for (unsigned thread = 0; thread < EP_THREADS + 8; thread++) {
        be(thread);
        ep_wait_begin(EP_WAIT_DISK);
    }
    for (unsigned interval = 0; interval < 3; interval++)
        for (unsigned i = 0; i < 10; i++)
            pass(100 * MS);
    for (unsigned thread = 0; thread < EP_THREADS + 8; thread++) {
        be(thread);
        ep_wait_end();
        collect();
    }
    end();
    assert_int_equal(ep_stats_get(&s), 0);
    assert_int_equal(s.lost_count[EP_LOSS_WAITERS], 8);
    uint64_t lost = receiver.kind_value[EP_KIND_WAIT] - told_ns[EP_WAIT_DISK]; /* reported as [lost: ring full] */
    assert_int_equal(told_ns[EP_WAIT_DISK] + lost, (EP_THREADS + 8ull) * 3000 * MS);
}

/* ---- which waits count ---- */

TEST(test_only_outermost_wait_counts)
{
    begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
    be(0);
    ep_wait_begin(EP_WAIT_NETWORK);
    for (unsigned i = 0; i < 3; i++) {
        ep_wait_begin(EP_WAIT_DISK);
        pass(20 * MS);
        ep_wait_end();
    }
    ep_wait_end();
    ep_wait_end(); /* one more than begun */
    end();
    assert_int_equal(told_ns[EP_WAIT_NETWORK], 60 * MS);
    assert_int_equal(told_ns[EP_WAIT_DISK], 0);
}

/* Calls that return at once are CPU time; idle workers are excluded unless enabled. */
TEST(test_excluded_waits)
{
    for (unsigned idle = 0; idle < 2; idle++) {
        begin(EP_KIND_BIT(EP_KIND_WAIT), idle ? EP_IDLE_WAITS : 0);
        be(0);
        for (unsigned i = 0; i < 100000; i++) {
            ep_wait_begin(EP_WAIT_NETWORK);
            ep_sim.uptime_ns += 9000;
            ep_wait_end();
        }
        ep_wait_begin(EP_WAIT_IDLE);
        pass(1500 * MS); /* while open */
        ep_wait_end();
        ep_wait_begin(EP_WAIT_IDLE);
        pass(30 * MS); /* and at its end */
        ep_wait_end();
        end();
        assert_int_equal(told_ns[EP_WAIT_NETWORK], 0);
        assert_int_equal(told_ns[EP_WAIT_IDLE], idle ? 1530 * MS : 0);
    }
}

/* A thread that kept its processor has not waited in a call, however long it took. Other waits count as before: a
 * thread may spin for a lock. */
TEST(test_stayed_calls_are_no_waits)
{
    uint64_t truth[EP_WAITS] = {0}, dice = 31;

    begin(EP_KIND_BIT(EP_KIND_WAIT), EP_IDLE_WAITS);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned wait = unit_random(&dice) % EP_WAITS;
        uint64_t ns = PERIOD + unit_random(&dice) % (80 * MS);
        bool call = wait == EP_WAIT_NETWORK || wait == EP_WAIT_DISK;
        ep_sim.stayed = unit_random(&dice) % 2;
        be(unit_random(&dice) % THREADS);
        ep_wait_begin((enum ep_wait)wait);
        ep_sim.uptime_ns += ns;
        ep_wait_end();
        truth[wait] += call && ep_sim.stayed ? 0 : ns;
        collect();
    }
    ep_sim.stayed = false;
    end();
    for (unsigned wait = 0; wait < EP_WAITS; wait++) {
        assert_true(truth[wait] > 0);
        assert_int_equal(told_ns[wait], truth[wait]);
    }
}

/* ---- waits for descriptors ---- */

static void wait_for(int fd, uint64_t ns)
{
    ep_wait_descriptor(fd);
    ep_wait_begin((enum ep_wait)EP_WAIT_BY_DESCRIPTOR);
    ep_sim.uptime_ns += ns;
    ep_wait_end();
}

/* Finding the class takes a system call, so a call that returns at once does without it. */
TEST(test_descriptors_are_looked_up_for_samples)
{
    begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
    be(0);
    for (unsigned i = 0; i < 100000; i++)
        wait_for(EP_WAIT_NETWORK, 9000);
    assert_int_equal(ep_sim.descriptors_seen, 0);
    wait_for(EP_WAIT_DISK, 2 * PERIOD);
    assert_int_equal(ep_sim.descriptors_seen, 1);
    ep_wait_descriptor(EP_WAIT_NETWORK);
    ep_wait_begin((enum ep_wait)EP_WAIT_BY_DESCRIPTOR);
    ep_wait_descriptor(EP_WAIT_OTHER); /* of a call in a signal handler of the program: nested */
    ep_wait_begin((enum ep_wait)EP_WAIT_BY_DESCRIPTOR);
    ep_wait_end();
    pass(1000 * MS); /* while open */
    ep_wait_end();
    end();
    assert_int_equal(told_ns[EP_WAIT_DISK], 2 * PERIOD);
    assert_int_equal(told_ns[EP_WAIT_NETWORK], 1000 * MS);
    assert_int_equal(told_ns[EP_WAIT_OTHER], 0);
}

/* The classes share a stratum, so one run may be off; the mean over many is not. */
TEST(test_weights_are_unbiased)
{
    enum { RUNS = 400, WAITS = 200 };
    double sum[EP_WAITS] = {0}, squares[EP_WAITS] = {0};
    uint64_t dice = 41;

    for (unsigned run = 0; run < RUNS; run++) {
        uint64_t truth[EP_WAITS] = {0};
        begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
        be(0);
        for (unsigned i = 0; i < WAITS; i++) {
            static const enum ep_wait classes[] = {EP_WAIT_OTHER, EP_WAIT_NETWORK, EP_WAIT_NETWORK, EP_WAIT_DISK};
            enum ep_wait wait = classes[unit_random(&dice) % 4];
            uint64_t ns = 10000 + unit_random(&dice) % (unit_random(&dice) % 3 ? 100000 : 12 * MS);
            wait_for((int)wait, ns);
            wait_for((int)wait, unit_random(&dice) % 10000); /* has not blocked */
            truth[wait] += ns;
            collect();
        }
        end();
        for (unsigned wait = 0; wait < EP_WAITS; wait++) {
            double off = (double)told_ns[wait] - (double)truth[wait];
            sum[wait] += off;
            squares[wait] += off * off;
        }
    }
    for (unsigned wait = 0; wait < EP_WAITS; wait++) {
        double mean = sum[wait] / RUNS, variance = squares[wait] / RUNS - mean * mean;
        print_message("class %u: %.0f us off in the mean, %.2f of 20 squares of its standard error\n", wait,
                      mean / 1000, variance > 0 ? mean * mean / (variance / RUNS) : 0);
        assert_true(mean * mean <= 20 * variance / RUNS);
    }
}

/* A program's own pattern is timed in all its phases. */
TEST(test_timed_calls_follow_no_pattern)
{
    struct ep_hook_timer timer = {.dice = 1};

    for (unsigned length = 1; length <= 64; length++) {
        unsigned timed[64] = {0};
        for (unsigned n = 0; n < 64 * length * EP_HOOK_TIMED_ONE_IN; n++)
            timed[n % length] += ep_hook_is_timed(&timer);
        for (unsigned phase = 0; phase < length; phase++)
            assert_in_range(timed[phase], 16, 128); /* six standard errors */
    }
}

/* Threads that live for a few calls are timed as often as others, although each finds the same memory: wherever that
 * is, and however regularly they start. */
TEST(test_short_threads_are_timed)
{
    enum { PLACES = 100, SHORT = 40000, CALLS = 32 };
    static _Alignas(16) uint8_t memory[16 * PLACES + sizeof(struct ep_hook_timer)];
    /* The first call makes the thread's note ready. Six standard errors. */
    const unsigned expected = SHORT * (CALLS - 1) / EP_HOOK_TIMED_ONE_IN, slack = 300;
    unsigned least = UINT32_MAX, most = 0, nth[CALLS] = {0};

    for (unsigned place = 0; place < PLACES; place++) {
        struct ep_hook_timer *timer = (void *)(memory + (size_t)16 * place);
        unsigned timed = 0;
        ep_sim.uptime_ns += 12345 * MS;
        for (unsigned i = 0; i < SHORT; i++) {
            *timer = (struct ep_hook_timer){0};
            ep_sim.uptime_ns += (10 + place) * MS / 1000 + place % 2 * i % 7;
            for (unsigned n = 0; n < CALLS; n++) {
                bool chosen = ep_hook_is_timed(timer);
                timed += chosen;
                nth[n] += chosen;
            }
        }
        least = timed < least ? timed : least;
        most = timed > most ? timed : most;
    }
    print_message("             %u calls are to be timed: %u to %u are\n", expected, least, most);
    assert_true(least >= expected - slack && most <= expected + slack);
    for (unsigned n = 1; n < CALLS; n++)
        assert_in_range(nth[n], PLACES * SHORT / EP_HOOK_TIMED_ONE_IN - 6 * 89,
                        PLACES * SHORT / EP_HOOK_TIMED_ONE_IN + 6 * 89);
}

/* A wait that begins before its kind is on, or ends after it is off or in another run, is never reported as longer than
 * it was. */
TEST(test_kinds_and_runs_change)
{
    uint64_t dice = 3, truth = 0;

    begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
    be(0);
    for (unsigned i = 0; i < 400; i++) {
        uint64_t ns = PERIOD + unit_random(&dice) % (300 * MS);
        bool before = unit_random(&dice) % 2, after = unit_random(&dice) % 2;
        assert_int_equal(
            ep_kinds_change(before ? EP_KIND_BIT(EP_KIND_WAIT) : 0, before ? 0 : EP_KIND_BIT(EP_KIND_WAIT)), 0);
        ep_wait_begin(EP_WAIT_SLEEP);
        pass(ns / 2);
        assert_int_equal(ep_kinds_change(after ? EP_KIND_BIT(EP_KIND_WAIT) : 0, after ? 0 : EP_KIND_BIT(EP_KIND_WAIT)),
                         0);
        pass(ns - ns / 2);
        ep_wait_end();
        truth += before && after ? ns : 0;
        assert_true(receiver.kind_value[EP_KIND_WAIT] <= truth + i * 300 * MS);
    }
    assert_int_equal(ep_kinds_change(EP_KIND_BIT(EP_KIND_WAIT), 0), 0);
    collect();
    assert_true(told_ns[EP_WAIT_SLEEP] >= truth - 300 * MS);
    ep_wait_begin(EP_WAIT_SLEEP);
    end();
    struct ep_work kept = works[0];
    begin(EP_KIND_BIT(EP_KIND_WAIT), 0);
    works[0] = kept;
    be(0);
    pass(1500 * MS);
    ep_wait_end(); /* of the previous run */
    ep_wait_begin(EP_WAIT_SLEEP);
    pass(50 * MS);
    ep_wait_end();
    end();
    assert_int_equal(told_ns[EP_WAIT_SLEEP], 50 * MS);
}

TEST_MAIN
