/*
 * Kinds, tags and spans from a hook to a message: stratum.c, tags.c, labels.c, level.c, and their use in capture.c,
 * collect.c and the encoders. Properties: sums of every kind arrive in every format, however often an interval is
 * delayed. Each stack has its thread's tags and span of that moment. Full tables lose only detail, which is counted. A
 * stratum's error is at most two periods, without bias.
 */
#include "account.h"
#include "unit.h"

#define MS         1000000ull
#define ALL_KINDS  ((EP_KIND_BIT(EP_KINDS) - 1) & ~1u)
#define PERIOD     4096u
#define TAG_VALUES 5u

static void begin(bool pprof, uint32_t kinds, uint32_t flags, size_t memory)
{
    account_afresh();
    unit_pprof(pprof);
    account_start(
        (struct ep_config){.memory_size = memory, .rate_hz = 100, .kinds = kinds, .flags = flags | EP_MANUAL});
}

static void end(void)
{
    account_end();
}

static void event(enum ep_kind kind, unsigned frame, uint32_t count, uint64_t value, uint32_t token)
{
    const uint16_t stack[] = {3, 4, 5};
    struct ep_hook_event e = {.kind = kind, .frame = frame, .count = count, .value = value, .token = token};

    ep_sim_here(stack, 3);
    assert_int_equal(ep_hook_event(&e), 0);
}

static void pass(uint64_t ns)
{
    ep_sim.uptime_ns += ns;
    assert_int_equal(ep_collect(), 0);
    assert_int_equal(ep_deliver(100), 0);
}

/* ---- sums ---- */

TEST(test_sums_of_all_kinds)
{
    uint64_t count[EP_KINDS] = {0}, value[EP_KINDS] = {0}, dice = 3;

    begin(false, ALL_KINDS, 0, EP_MEMORY_DEFAULT);
    for (unsigned i = 0; i < 3000; i++) {
        unsigned kind = EP_KIND_WAIT + unit_random(&dice) % (EP_KINDS - EP_KIND_WAIT);
        uint32_t n = 1 + unit_random(&dice) % 3;
        uint64_t v = unit_random(&dice) % 100000;
        event((enum ep_kind)kind, 0, n, v, 0);
        count[kind] += n;
        value[kind] += v;
        if (i % 7 == 0)
            pass(100 * MS);
    }
    end();
    for (unsigned kind = EP_KIND_WAIT; kind < EP_KINDS; kind++) {
        bool counts = kind != EP_KIND_EXCEPTION && kind != EP_KIND_THREAD && kind != EP_KIND_HEAP;
        assert_int_equal(receiver.kind_value[kind], value[kind]);
        assert_int_equal(receiver.kind_count[kind], counts ? count[kind] : 0);
    }
}

/* A wait for a lock is also a contention; each counts only when its kind is on. */
TEST(test_locks_are_waits)
{
    const uint32_t masks[] = {EP_KIND_BIT(EP_KIND_WAIT), EP_KIND_BIT(EP_KIND_LOCK),
                              EP_KIND_BIT(EP_KIND_WAIT) | EP_KIND_BIT(EP_KIND_LOCK)};

    for (unsigned i = 0; i < 3; i++) {
        begin(false, masks[i], 0, EP_MEMORY_DEFAULT);
        event(EP_KIND_WAIT, EP_FRAME_WAIT + EP_WAIT_LOCK, 5, 70, 3);
        event(EP_KIND_WAIT, EP_FRAME_WAIT + EP_WAIT_SLEEP, 1, 11, 0);
        end();
        bool waits = masks[i] & EP_KIND_BIT(EP_KIND_WAIT), locks = masks[i] & EP_KIND_BIT(EP_KIND_LOCK);
        assert_int_equal(receiver.kind_value[EP_KIND_WAIT], waits ? 81 : 0);
        assert_int_equal(receiver.kind_count[EP_KIND_WAIT], waits ? 6 : 0);
        assert_int_equal(receiver.kind_value[EP_KIND_LOCK], locks ? 70 : 0);
        assert_int_equal(receiver.kind_count[EP_KIND_LOCK], locks ? 3 : 0);
    }
}

/* ---- labels ---- */

static unsigned seen, wrong;

/* Each stack's value determines its context: tag v<value % TAG_VALUES>, span = value. */
static void on_entry(const struct receiver_stack *stack)
{
    char expected[40];

    seen++;
    (void)snprintf(expected, sizeof expected, "inner=v%u;outer=o;", (unsigned)(stack->value % TAG_VALUES));
    wrong += strcmp(stack->with.tags, expected) != 0 || stack->with.span_id != stack->value % 3 * 77 ||
             stack->with.trace_low != (stack->value % 3 ? 5 : 0) || stack->depth != 4 ||
             stack->frame[0] != EP_FRAME_WAIT + EP_WAIT_DISK;
}

TEST(test_stacks_carry_their_context)
{
    begin(false, ALL_KINDS, 0, EP_MEMORY_DEFAULT);
    receiver.on_entry = on_entry;
    seen = wrong = 0;
    for (unsigned i = 1; i <= 400; i++) {
        char value[8];
        (void)snprintf(value, sizeof value, "v%u", i % TAG_VALUES);
        assert_int_equal(ep_tag_push("outer", "o"), 0);
        assert_int_equal(ep_tag_push("inner", "hidden"), 0);
        assert_int_equal(ep_tag_push("inner", value), 0);
        ep_span_set(i % 3 * 77, 0, i % 3 ? 5 : 0);
        event(EP_KIND_WAIT, EP_FRAME_WAIT + EP_WAIT_DISK, 1, i, 0);
        for (int n = 0; n < 3; n++)
            ep_tag_pop();
        assert_int_equal(ep_work_tags(), 0);
        pass(1000 * MS);
    }
    end();
    assert_int_equal(wrong, 0);
    assert_int_equal(seen, 400);
}

/* Thread names, when enabled. */
static void on_thread(const struct receiver_stack *stack)
{
    char expected[40];

    (void)snprintf(expected, sizeof expected, "thread-%u", (unsigned)stack->value);
    wrong += strcmp(stack->with.thread, expected) != 0;
    seen++;
}

TEST(test_thread_labels)
{
    begin(false, ALL_KINDS, EP_THREAD_LABELS, EP_MEMORY_DEFAULT);
    receiver.on_entry = on_thread;
    seen = wrong = 0;
    for (ep_sim.tid = 1; ep_sim.tid <= 20; ep_sim.tid++)
        event(EP_KIND_WAIT, 0, 1, ep_sim.tid, 0);
    end();
    assert_int_equal(wrong, 0);
    assert_int_equal(seen, 20);
}

TEST(test_full_tables_lose_only_detail)
{
    char text[16];

    begin(false, ALL_KINDS, 0, EP_MEMORY_MIN);
    for (unsigned i = 0; i < 2000; i++) {
        (void)snprintf(text, sizeof text, "user-%u", i);
        (void)ep_tag_push("user", text);
        (void)ep_tag_push("depth", "1");
        ep_span_set(i + 1, 1, 1);
        event(EP_KIND_ALLOC, 0, 1, 10, 0);
        ep_tag_pop();
        ep_tag_pop();
        assert_int_equal(ep_work_tags(), 0);
        if (i % 2)
            pass(10 * MS);
    }
    end();
    assert_int_equal(receiver.kind_value[EP_KIND_ALLOC], 20000);
    assert_true(account_stats().lost_count[EP_LOSS_TAGS] >= 2000 - EP_TAG_VALUES);
    assert_true(account_stats().intervals_early > 0 || account_stats().degraded_labels > 0);
}

TEST(test_bad_keys_and_balance)
{
    const char *const bad[] = {"", "1a", "a b", "a-b", "\xc3\xa4"};

    assert_int_equal(ep_tag_push("before", "start"), 0);
    ep_tag_pop();
    begin(false, ALL_KINDS, 0, EP_MEMORY_DEFAULT);
    assert_int_equal(ep_tag_push("a", "1"), 0);
    uint32_t set = ep_work_tags();
    assert_int_not_equal(set, 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(ep_tag_push(bad[i], "x"), -EINVAL);
        assert_int_equal(ep_tag_push("b", "2"), 0);
        ep_tag_pop();
        ep_tag_pop();
        assert_int_equal(ep_work_tags(), set);
    }
    ep_tag_pop();
    ep_tag_pop(); /* one more than pushed */
    assert_int_equal(ep_work_tags(), 0);
    assert_int_equal(ep_tag_push("a", "1"), 0);
    end();
    assert_int_equal(ep_work_tags(), 0); /* ids of an ended run are invalid */
}

/* A set has the same id, in whatever order it was built. */
TEST(test_sets_are_shared)
{
    begin(false, ALL_KINDS, 0, EP_MEMORY_DEFAULT);
    uint32_t a = ep_tags_add(0, "a", 1, "1", 1), ab = ep_tags_add(a, "b", 1, "2", 1);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(ep_tags_add(0, "a", 1, "1x", 1), a);
        assert_int_equal(ep_tags_add(a, "b", 1, "2", 1), ab);
    }
    assert_int_not_equal(a, ab);
    end();
}

/* ---- strata ---- */

TEST(test_strata)
{
    static const uint64_t sizes[] = {1, 7, 64, 500, 4095};
    uint64_t truth[5] = {0}, told[5] = {0}, all = 0, sum = 0, dice = 11;
    struct ep_stratum stratum = {.seed = 12345, .length = PERIOD, .chosen = 100};

    for (unsigned i = 0; i < 400000; i++) {
        unsigned which = i % 2 ? 4 : unit_random(&dice) % 5; /* alternating, and random */
        uint64_t stands_for = ep_stratum_advance(&stratum, sizes[which], PERIOD);
        truth[which] += sizes[which];
        told[which] += stands_for;
        all += sizes[which];
        sum += stands_for;
        assert_true(sum <= all + 2 * PERIOD && all <= sum + 2 * PERIOD);
    }
    for (unsigned i = 0; i < 5; i++) { /* five standard errors of independent draws */
        double error = (double)told[i] - (double)truth[i], sigma2 = (double)truth[i] * PERIOD;
        assert_true(error * error <= 25 * sigma2);
    }
}

TEST(test_stratum_counts)
{
    struct ep_stratum stratum = {.seed = 1};
    uint64_t sum = 0;

    for (unsigned i = 0; i < 100000; i++)
        sum += ep_stratum_count(&stratum, 1000, 300);
    assert_in_range(sum, 331000, 336000);
    assert_int_equal(ep_stratum_advance(&stratum, 5000, PERIOD), 5000);
}

/* ---- levels ---- */

TEST(test_levels_change_at_run_time)
{
    const uint16_t stack[] = {1, 2};

    assert_int_equal(ep_level_set(EP_LEVEL_HIGH), -ESRCH);
    begin(false, 0, 0, EP_MEMORY_DEFAULT);
    assert_int_equal(ep_kinds_get(), EP_KIND_BIT(EP_KIND_CPU));
    assert_int_equal(ep_level_set((enum ep_level)7), -EINVAL);
    assert_int_equal(ep_kinds_set(1u << 30), -EINVAL);
    uint64_t expected = 0;
    for (unsigned i = 0; i < 60; i++) {
        assert_int_equal(ep_level_set((enum ep_level)(1 + i % 3)), 0);
        pass(10 * MS);
        assert_int_equal(ep_level_get(), 1 + i % 3);
        assert_true(ep_sim_tick(1, 2, stack, 2));
        expected += 2 * (uint64_t)ep_sim.period_ns;
    }
    assert_int_equal(ep_kinds_change(EP_KIND_BIT(EP_KIND_GC), EP_KIND_BIT(EP_KIND_CPU)), 0);
    assert_true(ep_sim_tick(1, 1, stack, 2)); /* the old level's kind is off */
    end();
    assert_int_equal(receiver.ns, expected);
    assert_int_equal(ep_kinds_get(), 0);
}

/* Timers run only for the CPU kind; periods are the level's in any case. */
TEST(test_timers_are_for_cpu_time)
{
    const uint32_t cpu = EP_KIND_BIT(EP_KIND_CPU), wait = EP_KIND_BIT(EP_KIND_WAIT);

    begin(EP_FORMAT_COMPACT, wait, 0, EP_MEMORY_DEFAULT);
    assert_int_equal(ep_sim.period_ns, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ep_kinds_change(cpu, 0), 0);
        pass(10 * MS);
        assert_int_equal(ep_sim.period_ns, 10 * MS);
        assert_int_equal(ep_kinds_change(0, cpu), 0);
        pass(10 * MS);
        assert_int_equal(ep_sim.period_ns, 0);
    }
    assert_int_equal(ep_level_set(EP_LEVEL_LOW), 0);
    pass(10 * MS);
    assert_int_equal(ep_sim.period_ns, 1000 * MS / 19);
    assert_int_equal(ep_kinds_set(wait), 0);
    pass(10 * MS);
    assert_int_equal(ep_sim.period_ns, 0);
    event(EP_KIND_WAIT, 0, 1, 5, 0);
    end();
    assert_int_equal(receiver.kind_value[EP_KIND_WAIT], 5);
}

TEST_MAIN
