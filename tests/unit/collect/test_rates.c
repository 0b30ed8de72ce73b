/*
 * rates.c: allocations, exceptions and waits stay within their limits per second, under steady load, in bursts and at
 * the start; and the weights of each site are what the site's events had: within 3 standard errors over 20 seeds.
 */
#include "account.h"
#include "unit.h"

#include <math.h>

#define MS      1000000ull
#define SECOND  1000000000ull
#define MIB     (1u << 20)
#define SEEDS   20u
#define MOST    4 /* standard errors: of 40 comparisons of 20 seeds one in ten has one beyond 3 by chance */
#define SITES   4u
#define THREADS 3u
#define SECONDS 60u

/* A kind of events: its sites' sizes, each site makes the same volume. */
struct kind {
    enum ep_kind kind;
    uint64_t sizes[SITES];
    uint64_t nominal;
};

static const struct kind allocations = {EP_KIND_ALLOC, {2000, 30000, 400000, 3000000}, MIB / 2};
static const struct kind exceptions = {EP_KIND_EXCEPTION, {1, 1, 1, 1}, 1};
static const struct kind waits = {EP_KIND_WAIT, {50000, 700000, 9 * MS, 60 * MS}, 10 * MS};

/* Volume per ms of all threads, at a time in ms. */
typedef uint64_t load_fn(unsigned ms);

static struct {
    uint64_t told[SITES], truth[SITES], dice;
    struct ep_stratum stratum[THREADS];
    unsigned events, busiest; /* in the current second; in the busiest */
    unsigned all, late;       /* in all; in the second half */
} world;

static void on_entry(const struct receiver_stack *stack)
{
    assert_in_range(stack->frame[0], EP_FRAME_WAIT, EP_FRAME_WAIT + SITES - 1);
    world.told[stack->frame[0] - EP_FRAME_WAIT] += stack->value;
}

static void begin(uint64_t seed, enum ep_level level, uint32_t kinds, uint32_t flags, size_t memory)
{
    account_afresh();
    memset(&world, 0, sizeof world);
    receiver.on_entry = on_entry;
    world.dice = seed;
    for (unsigned i = 0; i < THREADS; i++)
        world.stratum[i].seed = (seed * THREADS + i) * 0x9e3779b97f4a7c15u + 1;
    account_start((struct ep_config){
        .memory_size = memory, .level = level, .interval_ms = 10000, .kinds = kinds, .flags = flags | EP_MANUAL});
}

static void make_event(const struct kind *of, unsigned site)
{
    const uint16_t stack[] = {3, 4, 5};
    uint64_t size = of->sizes[site];
    struct ep_hook_event event = {.kind = of->kind, .frame = EP_FRAME_WAIT + site, .count = 1};

    world.truth[site] += size;
    event.value =
        ep_stratum_advance(&world.stratum[unit_random(&world.dice) % THREADS], size, ep_hook_period(of->kind));
    if (!event.value)
        return;
    ep_sim_here(stack, 3);
    assert_int_equal(ep_hook_event(&event), 0);
    world.events++;
}

/* The site of the next event: each makes the same volume. */
static unsigned next_site(const struct kind *of)
{
    double sum = 0, at;
    unsigned site = 0;

    for (unsigned i = 0; i < SITES; i++)
        sum += 1 / (double)of->sizes[i];
    at = sum * (double)unit_random(&world.dice) / 2147483648.0;
    while (site < SITES - 1 && (at -= 1 / (double)of->sizes[site]) > 0)
        site++;
    return site;
}

/* The collect thread runs when it is woken, a millisecond later, and once in ten seconds. */
static void run(const struct kind *of, load_fn *load)
{
    int64_t due = 0;
    unsigned wakes = ep_sim.wakes;

    for (unsigned ms = 0; ms < SECONDS * 1000; ms++) {
        ep_sim.uptime_ns += MS;
        for (due += (int64_t)load(ms); due > 0;) {
            unsigned site = next_site(of);
            due -= (int64_t)of->sizes[site];
            make_event(of, site);
        }
        if (ep_sim.wakes != wakes || ms % 10000 == 9999) {
            wakes = ep_sim.wakes;
            assert_int_equal(ep_collect(), 0);
        }
        if (ms % 10000 == 9999)
            assert_int_equal(ep_deliver(100), 0);
        if (ms % 1000 < 999)
            continue;
        world.busiest = world.events > world.busiest ? world.events : world.busiest;
        world.all += world.events;
        world.late += ms < SECONDS * 500 ? 0 : world.events;
        world.events = 0;
    }
}

static uint64_t most_bytes;

static uint64_t load_steady(unsigned ms)
{
    (void)ms;
    return most_bytes;
}

/* One second and a half of ten. */
static uint64_t load_bursts(unsigned ms)
{
    return ms % 10000 < 1500 ? most_bytes * 4 : most_bytes / 100;
}

/* Three seconds, then nearly nothing. */
static uint64_t load_start(unsigned ms)
{
    return ms < 3000 ? most_bytes * 10 : most_bytes / 100;
}

/* Runs all seeds. Weights must be right; never more than `busiest` events in a second, and on average at most `mean` in
 * the second half. */
static void check(const struct kind *of, load_fn *load, enum ep_level level, size_t memory, unsigned busiest,
                  unsigned mean)
{
    double sum[SITES] = {0}, squares[SITES] = {0}, all = 0;
    const unsigned seeds = SEEDS / unit_part();
    unsigned most = 0, late = 0;

    for (unsigned seed = 1; seed <= seeds; seed++) {
        begin(seed, level, EP_KIND_BIT(of->kind), 0, memory);
        assert_int_equal(ep_hook_period(of->kind), of->nominal);
        run(of, load);
        account_end();
        assert_int_equal(account_stats().lost_count[EP_LOSS_RING_FULL], 0);
        for (unsigned i = 0; i < SITES; i++) {
            double error = (double)world.told[i] - (double)world.truth[i];
            sum[i] += error;
            squares[i] += error * error;
            all += (double)world.truth[i];
        }
        most = world.busiest > most ? world.busiest : most;
        late += world.late;
    }
    for (unsigned i = 0; i < SITES; i++) {
        double error = sum[i] / seeds, se = sqrt((squares[i] / seeds - error * error) / (seeds - 1) + 1);
        print_message("  site %u: off by %+.2f standard errors of %.2f %% of all\n", i, error / se,
                      100 * se / (all / seeds));
        assert_true(fabs(error) < MOST * se);
    }
    print_message("  events a second: at most %u, mean of the second half %.1f\n", most,
                  late / (SECONDS / 2.0) / seeds);
    assert_true(most <= busiest);
    assert_true(late / (SECONDS / 2.0) / seeds <= mean);
}

/* ---- requirements ---- */

TEST(test_allocations)
{
    most_bytes = 400000;
    print_message("400 MB/s\n");
    check(&allocations, load_steady, EP_LEVEL_MEDIUM, EP_MEMORY_DEFAULT, 200, 21);
    print_message("bursts\n");
    check(&allocations, load_bursts, EP_LEVEL_MEDIUM, EP_MEMORY_DEFAULT, 300, 21);
    print_message("start\n");
    check(&allocations, load_start, EP_LEVEL_HIGH, EP_MEMORY_DEFAULT, 800, 51);
    print_message("start, a large ring\n");
    check(&allocations, load_start, EP_LEVEL_HIGH, 16 * EP_MEMORY_DEFAULT, 800, 51);
}

TEST(test_exceptions)
{
    most_bytes = 2;
    print_message("2000 exceptions/s\n");
    check(&exceptions, load_steady, EP_LEVEL_HIGH, EP_MEMORY_DEFAULT, 200, 21);
    print_message("bursts\n");
    check(&exceptions, load_bursts, EP_LEVEL_HIGH, EP_MEMORY_DEFAULT, 300, 21);
}

/* The distance of waits cannot exceed 100 ms. */
TEST(test_waits)
{
    most_bytes = 3 * MS;
    print_message("3 threads wait all the time\n");
    check(&waits, load_steady, EP_LEVEL_HIGH, EP_MEMORY_DEFAULT, 300, 51);
}

/* Below the limit nothing changes. */
TEST(test_within_the_limit)
{
    most_bytes = 7000;
    begin(1, EP_LEVEL_MEDIUM, EP_KIND_BIT(EP_KIND_ALLOC), 0, EP_MEMORY_DEFAULT);
    run(&allocations, load_steady);
    assert_int_equal(ep_hook_period(EP_KIND_ALLOC), MIB / 2);
    assert_true(world.all > 10 * SECONDS);
    account_end();
}

/* The distance goes back when the load is over. */
TEST(test_distance_is_taken_back)
{
    most_bytes = 100000;
    begin(1, EP_LEVEL_MEDIUM, EP_KIND_BIT(EP_KIND_ALLOC), 0, EP_MEMORY_DEFAULT);
    run(&allocations, load_start);
    assert_int_equal(ep_hook_period(EP_KIND_ALLOC), MIB / 2);
    account_end();
}

/* While the live heap is followed, allocations have no larger distance than 2 MiB; also if it is switched on later. */
TEST(test_live_heap)
{
    most_bytes = 1000000;
    begin(1, EP_LEVEL_MEDIUM, EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE), 0, EP_MEMORY_DEFAULT);
    run(&allocations, load_steady);
    assert_int_equal(ep_hook_period(EP_KIND_ALLOC), 2 * MIB);
    assert_int_equal(ep_kinds_change(0, EP_KIND_BIT(EP_KIND_LIVE)), 0);
    run(&allocations, load_steady);
    assert_true(ep_hook_period(EP_KIND_ALLOC) > 20 * MIB);
    assert_int_equal(ep_kinds_change(EP_KIND_BIT(EP_KIND_LIVE), 0), 0);
    assert_int_equal(ep_collect(), 0);
    assert_int_equal(ep_hook_period(EP_KIND_ALLOC), 2 * MIB);
    account_end();
}

TEST(test_all_events)
{
    struct ep_stats stats;

    most_bytes = 1;
    begin(1, EP_LEVEL_HIGH, EP_KIND_BIT(EP_KIND_EXCEPTION), EP_ALL_EVENTS, EP_MEMORY_DEFAULT);
    run(&exceptions, load_steady);
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_int_equal(stats.kind_rate[EP_KIND_EXCEPTION], 0);
    account_end();
    for (unsigned i = 0; i < SITES; i++)
        assert_int_equal(world.told[i], world.truth[i]);
}

/* Statistics name the limit and the distance. */
TEST(test_statistics)
{
    struct ep_stats stats;

    most_bytes = 4;
    begin(1, EP_LEVEL_HIGH, EP_KIND_BIT(EP_KIND_EXCEPTION), 0, EP_MEMORY_DEFAULT);
    run(&exceptions, load_steady);
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_int_equal(stats.kind_rate[EP_KIND_EXCEPTION], 20);
    assert_int_equal(stats.kind_rate[EP_KIND_CPU], 0);
    assert_in_range(stats.kind_distance[EP_KIND_EXCEPTION], 170, 260);
    assert_int_equal(ep_level_set(EP_LEVEL_MEDIUM), 0);
    assert_int_equal(ep_stats_get(&stats), 0);
    assert_int_equal(stats.kind_rate[EP_KIND_EXCEPTION], 10);
    account_end();
}

TEST_MAIN
