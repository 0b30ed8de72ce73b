/*
 * governor.c with scripted costs: a number of threads, costs of samples, and a clock that advances accordingly. When
 * the budget is scarce, the cost converges to it, within 20 %. Otherwise nothing is stretched. In all cases the
 * profiles add up to the CPU time used.
 */
#include "account.h"
#include "unit.h"

#define MS      1000000ull
#define US      1000ull
#define SECOND  1000000000ull
#define STEP    (100 * MS)
#define RATE    97u
#define MOST    20.0 /* percent */
#define SETTLED 240u /* seconds */

static uint8_t memory[EP_MEMORY_DEFAULT];

/* Costs; the clock advances by them. */
struct costs {
    uint64_t sample_ns, tick_ns, drain_ns; /* in the handler; of the signal; in the collect thread */
    uint64_t message_ns;                   /* of the deliver thread, per second */
};

static struct {
    uint64_t dice;
    uint64_t used_ns;      /* CPU time of the service, including handlers */
    uint64_t cost_ns;      /* the true cost */
    uint64_t carry_ns;     /* since the last tick, of all threads */
    uint64_t ticked_ns;    /* weight of the samples */
    unsigned pending;      /* samples since the last collection */
    uint64_t delivered_at; /* uptime */
} world;

static struct ep_stats stats(void)
{
    struct ep_stats s;

    assert_int_equal(ep_stats_get(&s), 0);
    return s;
}

static void begin(uint32_t budget_ppm, uint32_t rate_hz)
{
    struct ep_config c = {.memory = memory,
                          .memory_size = sizeof memory,
                          .rate_hz = rate_hz,
                          .interval_ms = 5000,
                          .kinds = EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_ALLOC),
                          .budget_ppm = budget_ppm,
                          .transport = &receiver_transport,
                          .flags = EP_MANUAL};

    account_afresh();
    memset(&world, 0, sizeof world);
    world.dice = 7;
    assert_int_equal(ep_start(&c), 0);
}

static void end(void)
{
    ep_sim.thread_cpu_step_ns = 0;
    assert_int_equal(ep_stop(1000), 0);
    assert_null(receiver.broken);
    assert_int_equal(stats().lost_count[EP_LOSS_RING_FULL], 0);
    assert_int_equal(receiver.ns, world.ticked_ns);
}

/* Half of the samples cost half as much, the others half as much again. */
static void tick(const struct costs *costs)
{
    const uint16_t stack[] = {(uint16_t)(unit_random(&world.dice) % 20), 100, 200};
    uint64_t ns = costs->sample_ns / 2 + (unit_random(&world.dice) & 1 ? costs->sample_ns : 0);

    ep_sim.thread_cpu_step_ns = ns;
    assert_true(ep_sim_tick(1, 1, stack, 3));
    world.ticked_ns += ep_sim.period_ns;
    world.cost_ns += ns + costs->tick_ns;
    world.used_ns += ns + costs->tick_ns;
    world.pending++;
}

/* Four clock reads: the round, and the ring in it. */
static void collect(const struct costs *costs)
{
    ep_sim.thread_cpu_step_ns = world.pending * costs->drain_ns;
    ep_sim.process_cpu_ns = world.used_ns;
    assert_int_equal(ep_collect(), 0);
    world.cost_ns += 3 * ep_sim.thread_cpu_step_ns;
    world.used_ns += 3 * ep_sim.thread_cpu_step_ns;
    world.pending = 0;
    if (ep_sim.uptime_ns - world.delivered_at < SECOND)
        return;
    world.delivered_at = ep_sim.uptime_ns;
    ep_sim.thread_cpu_step_ns = costs->message_ns;
    assert_int_equal(ep_deliver(100), 0);
    world.cost_ns += costs->message_ns;
    world.used_ns += costs->message_ns;
}

/* Simulates hooks that took this long, as measured by some of them. */
static void hooks(uint64_t ns)
{
    const uint64_t each = 1 * US;

    ep_sim.uptime_step_ns = 30; /* the reading itself, which is not the hook's cost */
    for (uint64_t told = 0; told < ns; told += each * EP_HOOK_TIMED_ONE_IN) {
        ep_hook_cost(ep_port_ticks() - each, EP_HOOK_TIMED_ONE_IN);
        ep_hook_cost(ep_port_ticks() - 20 * US, EP_HOOK_TIMED_ONE_IN); /* interrupted: ignored */
    }
    ep_sim.uptime_step_ns = 0;
    world.cost_ns += ns;
    world.used_ns += ns;
}

static void run(const struct costs *costs, unsigned busy_threads, unsigned steps)
{
    ep_sim.tick_cost_ns = costs->tick_ns;
    for (unsigned i = 0; i < steps; i++) {
        assert_true(ep_sim.period_ns > 0);
        ep_sim.uptime_ns += STEP;
        world.used_ns += busy_threads * STEP;
        for (world.carry_ns += busy_threads * STEP; world.carry_ns >= ep_sim.period_ns;) {
            world.carry_ns -= ep_sim.period_ns;
            tick(costs);
            if (world.pending == 20)
                collect(costs);
        }
        collect(costs);
    }
}

static void run_seconds(const struct costs *costs, unsigned busy_threads, unsigned seconds)
{
    run(costs, busy_threads, seconds * 10);
}

/* Cost of profiling from here on, in ppm of CPU time. */
static double cost_over(const struct costs *costs, unsigned busy_threads, unsigned seconds)
{
    uint64_t cost = world.cost_ns, used = world.used_ns;

    run_seconds(costs, busy_threads, seconds);
    return (double)(world.cost_ns - cost) * 1e6 / (double)(world.used_ns - used);
}

static double error_pct(double cost_ppm, double budget_ppm)
{
    double error = 100 * (cost_ppm - budget_ppm) / budget_ppm;

    return error < 0 ? -error : error;
}

/* ---- requirements ---- */

/* 1 to 64 threads and back, at every cost. */
TEST(test_budget_is_kept)
{
    static const unsigned threads[] = {1, 4, 16, 64, 16, 4, 1};
    static const uint64_t sample_us[] = {2, 10, 50, 5};
    const uint32_t budget = 150;
    double worst = 0;

    for (unsigned i = 0; i < sizeof sample_us / sizeof sample_us[0]; i++) {
        struct costs costs = {sample_us[i] * US, 1 * US, 300, 20 * US};
        begin(budget, RATE);
        for (unsigned j = 0; j < sizeof threads / sizeof threads[0]; j++) {
            run_seconds(&costs, threads[j], SETTLED);
            uint64_t changes = stats().stretches;
            double cost = cost_over(&costs, threads[j], 120), error = error_pct(cost, budget);
            if (error > MOST)
                print_message("%u us, %u threads: %.0f ppm of %u\n", (unsigned)sample_us[i], threads[j], cost, budget);
            worst = error > worst ? error : worst;
            assert_true(stats().stretch_pct > 100);
            assert_true(stats().stretches - changes <= 4);
            assert_true(error_pct((double)stats().cost_ppm, cost) < MOST);
            assert_int_equal(receiver.period_ns[EP_KIND_CPU], ep_sim.period_ns);
        }
        end();
        assert_true((double)world.ticked_ns > 0.99 * (double)world.used_ns);
    }
    print_message("figure governor_error_pct %.1f %%\n", worst);
    assert_true(worst <= MOST);
}

/* The cost of a sample changes by a factor of 25 and back. */
TEST(test_cost_of_a_sample_changes)
{
    static const uint64_t sample_us[] = {2, 50, 2, 50, 10};
    const uint32_t budget = 150;

    begin(budget, RATE);
    for (unsigned i = 0; i < sizeof sample_us / sizeof sample_us[0]; i++) {
        struct costs costs = {sample_us[i] * US, 1 * US, 300, 10 * US};
        run_seconds(&costs, 4, 30);
        assert_true(error_pct(cost_over(&costs, 4, 120), budget) <= MOST);
    }
    end();
}

/* A demand slightly above the budget is also reduced to it. */
TEST(test_slightly_over_budget)
{
    const struct costs costs = {10 * US, 1 * US, 300, 10 * US};

    for (unsigned percent = 125; percent <= 200; percent += 25) {
        uint32_t budget = (uint32_t)(RATE * (costs.sample_ns + costs.tick_ns + 3 * costs.drain_ns) / 10 / percent);
        begin(budget, RATE);
        run_seconds(&costs, 8, SETTLED);
        assert_true(error_pct(cost_over(&costs, 8, 120), budget) <= MOST);
        end();
    }
}

/* The cost of hooks without samples reduces the budget for samples. */
TEST(test_cost_of_hooks)
{
    const struct costs costs = {10 * US, 1 * US, 300, 10 * US};
    const uint32_t budget = 800;

    begin(budget, RATE);
    for (unsigned share = 1; share <= 2; share++) {
        uint64_t cost = 0, used = 0;
        for (unsigned seconds = 0; seconds < SETTLED + 120; seconds++) {
            if (seconds == SETTLED)
                cost = world.cost_ns, used = world.used_ns;
            hooks(share * 2 * MS);
            run_seconds(&costs, 8, 1);
        }
        double total = (double)(world.cost_ns - cost) * 1e6 / (double)(world.used_ns - used);
        assert_true(error_pct(total, budget) <= MOST);
    }
    end();
}

/* Calls that could wait but do not: hooks without a sample are in what the profiler says that it costs, and in the
 * budget. In the simulation a hook costs its reading of the clock. */
TEST(test_hooks_without_samples_are_accounted)
{
    const uint64_t step_ns = 30, pairs = 40000;
    const struct costs costs = {10 * US, 1 * US, 300, 10 * US};
    double told = 0, cost = 0;

    begin(0, RATE);
    assert_int_equal(ep_kinds_change(EP_KIND_BIT(EP_KIND_WAIT), 0), 0);
    for (unsigned seconds = 0; seconds < 20; seconds++) {
        uint64_t handler_ns = stats().handler_ns;
        ep_sim.uptime_step_ns = step_ns;
        for (unsigned i = 0; i < pairs; i++) {
            ep_wait_begin(EP_WAIT_NETWORK);
            ep_wait_end();
        }
        ep_sim.uptime_step_ns = 0;
        world.used_ns += 2 * pairs * step_ns;
        run_seconds(&costs, 0, 10);
        told += (double)(stats().handler_ns - handler_ns);
        cost += (double)(2 * pairs * step_ns);
    }
    assert_true(error_pct(told, cost) < 5);
    assert_true(error_pct((double)stats().cost_ppm, 1e6) < 5);
    end();
}

/* A counter of 100 ns, hooks of 20 ns, and 30 ns for a reading: a timed hook takes 0 or 100 ns, the mean is 50. The
 * cost is right, and never falls. */
TEST(test_coarse_counter)
{
    const uint64_t reading_ns = 30, took_ns[] = {0, 100}, timed = 1000;
    const struct costs none = {0, 0, 0, 0};

    begin(0, RATE);
    uint64_t before = stats().handler_ns;
    for (unsigned i = 0; i < 2; i++) {
        ep_sim.uptime_step_ns = reading_ns;
        for (unsigned n = 0; n < timed; n++)
            ep_hook_cost(ep_sim.uptime_ns + reading_ns - took_ns[i], 1);
        ep_sim.uptime_step_ns = 0;
        run_seconds(&none, 0, 10);
        assert_int_equal(stats().handler_ns - before, i * 2 * 20 * timed);
    }
    end();
}

/* Every reading adds a fault: each timed sample has one between its two. */
TEST(test_faults_of_timed_samples)
{
    const struct costs costs = {2 * US, 1 * US, 300, 50 * US};

    begin(0, RATE);
    ep_sim.thread_faults = UINT32_MAX - 1;
    run_seconds(&costs, 4, 10);
    uint64_t timed = stats().timed_samples;
    assert_true(timed > 0 && timed < stats().samples);
    assert_int_equal(stats().timed_faults, 0);
    ep_sim.thread_faults_step = 1;
    run_seconds(&costs, 4, 10);
    assert_true(stats().timed_samples > timed);
    assert_int_equal(stats().timed_faults, stats().timed_samples - timed);
    ep_sim.thread_faults_step = 0;
    end();
}

TEST(test_no_stretch_within_budget)
{
    for (unsigned i = 0; i < 3; i++) {
        struct costs costs = {(2 + 8 * i) * US, 1 * US, 300, 50 * US};
        double demand = (double)(RATE * (costs.sample_ns + costs.tick_ns + 3 * costs.drain_ns)) / 1e3;
        begin((uint32_t)(demand * 1.1) + 51, RATE);
        for (unsigned threads = 1; threads <= 64; threads *= 8)
            run_seconds(&costs, threads, 120);
        assert_int_equal(stats().stretches, 0);
        assert_int_equal(stats().stretch_pct, 100);
        end();
    }
}

/* Expensive, then cheap: the stretch is removed completely. */
TEST(test_stretch_is_taken_back)
{
    const struct costs dear = {50 * US, 1 * US, 300, 10 * US}, cheap = {2 * US, 1 * US, 300, 10 * US};

    begin(1000, RATE);
    run_seconds(&dear, 4, 60);
    assert_true(stats().stretch_pct > 300);
    run_seconds(&cheap, 4, SETTLED);
    assert_int_equal(stats().stretch_pct, 100);
    assert_int_equal(ep_sim.period_ns, SECOND / RATE);
    uint64_t changes = stats().stretches;
    run_seconds(&cheap, 4, SETTLED);
    assert_int_equal(stats().stretches, changes);
    end();
}

TEST(test_no_budget_no_limit)
{
    const struct costs costs = {50 * US, 1 * US, 300, 100 * US};

    begin(0, RATE);
    double cost = cost_over(&costs, 16, 120);
    assert_int_equal(stats().stretches, 0);
    assert_true(error_pct((double)stats().cost_ppm, cost) < MOST);
    end();
}

/* Two busy seconds of twenty: the budget holds over minutes. */
TEST(test_bursts)
{
    const struct costs costs = {20 * US, 1 * US, 300, 2 * US};
    const uint32_t budget = 300;

    begin(budget, RATE);
    uint64_t cost = 0, used = 0;
    for (unsigned i = 0; i < 30; i++) {
        if (i == 15) {
            cost = world.cost_ns;
            used = world.used_ns;
        }
        run_seconds(&costs, 16, 2);
        run_seconds(&costs, 0, 18);
    }
    double ppm = (double)(world.cost_ns - cost) * 1e6 / (double)(world.used_ns - used);
    assert_true(error_pct(ppm, budget) <= MOST);
    end();
}

/* Only edgeprof's own threads cost CPU time: stretching would not help and does not happen. Then work starts again. */
TEST(test_idle_service)
{
    const struct costs costs = {2 * US, 1 * US, 300, 100 * US};

    begin(1000, RATE);
    run_seconds(&costs, 0, 600);
    assert_int_equal(stats().stretches, 0);
    run_seconds(&costs, 2, 300);
    assert_int_equal(stats().stretch_pct, 100);
    end();
    begin(1000, RATE); /* the clocks stand still */
    const struct costs nothing = {0, 0, 0, 0};
    run_seconds(&nothing, 0, 600);
    assert_int_equal(stats().stretches, 0);
    assert_int_equal(stats().cost_ppm, 0);
    end();
}

/* If no stretch is enough, it stops at the maximum, and periods stay valid. Costs that cannot be stretched leave a
 * quarter of the budget for samples. */
TEST(test_range_limits)
{
    const struct costs costs = {5000 * US, 1 * US, 300, 10 * US}, messages = {10 * US, 1 * US, 300, 5000 * US};

    begin(1, 1);
    run_seconds(&costs, 16, SETTLED);
    assert_int_equal(stats().stretch_pct, 6400);
    assert_int_equal(ep_sim.period_ns, UINT32_MAX);
    assert_int_equal(ep_hook_period(EP_KIND_ALLOC), 64 * 512 * 1024);
    end();
    begin(1000, 1000);
    run_seconds(&messages, 1, SETTLED);
    uint64_t samples = stats().handler_ns, used = world.used_ns;
    run_seconds(&messages, 1, 120);
    double ppm = (double)(stats().handler_ns - samples) * 1e6 / (double)(world.used_ns - used);
    assert_true(ppm > 250 * 0.7 && ppm < 250 * 1.2);
    end();
}

/* One factor stretches all kinds. Events keep their totals, and a level set meanwhile applies. */
TEST(test_kinds_and_levels)
{
    const struct costs costs = {20 * US, 1 * US, 300, 10 * US};
    struct ep_stratum stratum = {0};
    uint64_t bytes = 0;

    begin(100, RATE);
    for (unsigned i = 0; i < 20 * SETTLED; i++) {
        uint64_t size = 1 + unit_random(&world.dice) % 200000;
        struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .count = 1};
        bytes += size;
        event.value = ep_stratum_advance(&stratum, size, ep_hook_period(EP_KIND_ALLOC));
        ep_sim.thread_cpu_step_ns = costs.sample_ns;
        if (event.value)
            assert_int_equal(ep_hook_event(&event), 0);
        run(&costs, 2, 1);
    }
    uint64_t pct = stats().stretch_pct;
    assert_true(pct > 1000);
    assert_true((double)ep_hook_period(EP_KIND_ALLOC) / 524288 > (double)pct / 100 - 0.1);
    assert_true((double)ep_hook_period(EP_KIND_ALLOC) / 524288 < (double)pct / 100 + 0.1);
    assert_int_equal(ep_level_set(EP_LEVEL_HIGH), 0);
    collect(&costs);
    uint64_t period = SECOND / 251 * ep_hook_period(EP_KIND_ALLOC) / 524288;
    assert_true(ep_sim.period_ns >= period - 10 && ep_sim.period_ns <= period + 10);
    end();
    uint64_t told = receiver.kind_value[EP_KIND_ALLOC], off = told > bytes ? told - bytes : bytes - told;
    assert_true(off < 2 * 64 * 524288ull);
    assert_true(off < bytes / 20);
}

/* Allocations of 64 KiB: this many in a step. Returns how many became samples. */
static unsigned allocate(const struct costs *costs, struct ep_stratum *stratum, unsigned objects, uint64_t *bytes)
{
    unsigned samples = 0;

    for (unsigned i = 0; i < objects; i++) {
        struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .count = 1};
        event.value = ep_stratum_advance(stratum, 65536, ep_hook_period(EP_KIND_ALLOC));
        *bytes += 65536;
        if (!event.value)
            continue;
        ep_sim.thread_cpu_step_ns = costs->sample_ns;
        assert_int_equal(ep_hook_event(&event), 0);
        world.cost_ns += costs->sample_ns;
        world.used_ns += costs->sample_ns;
        if (++samples % 20 == 0)
            collect(costs);
    }
    return samples;
}

/* Many allocations: their limit per second and the budget hold together. The budget's stretch multiplies the distance
 * that the limit asks for. */
TEST(test_limits_and_budget)
{
    const struct costs costs = {20 * US, 1 * US, 300, 2 * US};
    static const uint32_t budgets[] = {100000, 300};

    for (unsigned i = 0; i < 2; i++) {
        struct ep_stratum stratum = {.seed = 5};
        uint64_t bytes = 0, cost = 0, used = 0;
        unsigned samples = 0;
        begin(budgets[i], RATE);
        for (unsigned step = 0; step < 10 * (SETTLED + 120); step++) {
            if (step == 10 * SETTLED) {
                cost = world.cost_ns;
                used = world.used_ns;
                samples = 0;
            }
            samples += allocate(&costs, &stratum, 640, &bytes); /* 400 MiB/s */
            run(&costs, 2, 1);
        }
        double ppm = (double)(world.cost_ns - cost) * 1e6 / (double)(world.used_ns - used);
        double stretch = (double)stats().stretch_pct / 100, rate = samples / 120.0;
        print_message("budget %u: cost %.0f ppm, stretch %.1f, %.1f allocations a second\n", budgets[i], ppm, stretch,
                      rate);
        assert_true(i ? stretch > 3 && error_pct(ppm, budgets[i]) <= MOST : stretch == 1);
        assert_true(rate * stretch > 17 && rate * stretch < 23); /* the limit is 20 */
        end();
        uint64_t told = receiver.kind_value[EP_KIND_ALLOC], off = told > bytes ? told - bytes : bytes - told;
        assert_true(off < 2 * (uint64_t)UINT32_MAX && off < bytes / 100);
    }
}

TEST_MAIN
