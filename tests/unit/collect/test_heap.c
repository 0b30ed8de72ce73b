/*
 * Sizes of a collector's heap (core/features/heap/heap.c). Properties: each interval has the runtime's current sizes,
 * part by part, not earlier ones. The sum is correct for any outbox, tree and format. With the kind off there is no
 * profile.
 */
#include "account.h"
#include "unit.h"

#define MS 1000000ull

static uint64_t scale; /* the runtime's value, and the number of requests */
static unsigned asked, parts;

static unsigned read_sizes(struct ep_heap_part part[EP_HEAP_PARTS])
{
    static const struct ep_heap_part shape[] = {{EP_FRAME_GC0, 0, 100},
                                                {EP_FRAME_GC0 + 2, 0, 4000},
                                                {EP_FRAME_GC0 + 2, EP_FRAME_GC_FRAGMENTATION, 70},
                                                {EP_FRAME_GC_POH, 0, 0},
                                                {EP_FRAME_GC_UNUSED, 0, 5}};

    asked++;
    for (unsigned i = 0; i < parts; i++)
        part[i] = (struct ep_heap_part){shape[i].frame, shape[i].inner, shape[i].bytes * scale};
    return parts;
}

static void begin(bool pprof, uint32_t kinds, size_t memory)
{
    account_afresh();
    unit_pprof(pprof);
    scale = 1;
    asked = 0;
    parts = 5;
    ep_heap_attach(read_sizes);
    account_start((struct ep_config){.memory_size = memory, .kinds = kinds, .flags = EP_MANUAL});
}

static uint64_t interval(void)
{
    ep_sim.uptime_ns += 1000 * MS;
    assert_int_equal(ep_collect(), 0);
    (void)ep_deliver(100);
    return account_stats().kind_value[EP_KIND_HEAP];
}

/* ---- what arrives ---- */

static uint64_t told[2][EP_FRAME_SPECIALS]; /* directly, and below it as [gc fragmentation] */
static unsigned strange;

static void on_entry(const struct receiver_stack *stack)
{
    if (stack->kind != EP_KIND_HEAP)
        return;
    bool inner = stack->depth == 2 && stack->frame[0] == EP_FRAME_GC_FRAGMENTATION;
    if (stack->depth == 1u + inner && stack->frame[inner] < EP_FRAME_SPECIALS)
        told[inner][stack->frame[inner]] += stack->value;
    else
        strange++;
}

static uint64_t told_since(void)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < EP_FRAME_SPECIALS; i++)
        sum += told[0][i] + told[1][i];
    return sum;
}

static void forget(void)
{
    memset(told, 0, sizeof told);
    receiver.on_entry = on_entry;
    strange = 0;
}

TEST(test_each_interval_has_current_sizes)
{
    begin(false, EP_KIND_BIT(EP_KIND_HEAP), EP_MEMORY_DEFAULT);
    for (scale = 1; scale <= 20; scale++) {
        forget();
        assert_int_equal(interval(), 4175 * scale);
        assert_int_equal(told[0][EP_FRAME_GC0], 100 * scale);
        assert_int_equal(told[0][EP_FRAME_GC0 + 2], 4000 * scale);
        assert_int_equal(told[1][EP_FRAME_GC0 + 2], 70 * scale);
        assert_int_equal(told[0][EP_FRAME_GC_UNUSED], 5 * scale);
        assert_int_equal(told_since(), 4175 * scale);
        assert_int_equal(strange, 0);
    }
    assert_int_equal(asked, 20);
    account_end();
}

TEST(test_off_and_unknown)
{
    begin(false, EP_KIND_BIT(EP_KIND_CPU), EP_MEMORY_DEFAULT);
    forget();
    assert_int_equal(interval(), 0);
    assert_int_equal(asked, 0);
    assert_int_equal(ep_kinds_change(EP_KIND_BIT(EP_KIND_HEAP), 0), 0);
    assert_int_equal(interval(), 4175);
    parts = 0; /* no collection yet */
    forget();
    assert_int_equal(interval(), 0);
    parts = 5;
    assert_int_equal(interval(), 4175);
    assert_int_equal(ep_kinds_change(0, EP_KIND_BIT(EP_KIND_HEAP)), 0);
    forget();
    assert_int_equal(interval(), 0);
    assert_int_equal(told_since(), 0);
    account_end();
}

/* Without a link, intervals continue and are not added up. */
TEST(test_merged_intervals)
{
    begin(false, EP_KIND_BIT(EP_KIND_HEAP), EP_MEMORY_MIN);
    receiver.always = -ENETDOWN;
    for (scale = 1; account_stats().intervals_merged == 0 || scale % 50; scale++)
        assert_int_equal(interval(), 4175 * scale);
    receiver.always = 0;
    ep_sim.uptime_ns += 3600 * 1000 * MS;
    assert_int_equal(ep_deliver(100), 0);
    forget();
    assert_int_equal(interval(), 4175 * scale);
    assert_int_equal(ep_deliver(100), 0);
    assert_int_equal(told_since(), 4175 * scale);
    account_end();
}

/* The tree is nearly full when the sizes arrive: there is room for them, with the correct sum. */
TEST(test_full_tree)
{
    uint64_t dice = 5;
    unsigned merged = 0;

    begin(false, EP_KIND_BIT(EP_KIND_HEAP) | EP_KIND_BIT(EP_KIND_ALLOC), EP_MEMORY_MIN);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 60; i++) {
            uint16_t frames[24];
            for (unsigned j = 0; j < 24; j++)
                frames[j] = (uint16_t)(unit_random(&dice) % 60);
            const struct ep_hook_event event = {.kind = EP_KIND_ALLOC, .count = 1, .value = 1};
            ep_sim_here(frames, 24);
            (void)ep_hook_event(&event);
            assert_int_equal(ep_collect(), 0);
            assert_int_equal(ep_deliver(100), 0);
        }
        forget();
        assert_int_equal(interval(), 4175);
        assert_int_equal(told_since(), 4175);
        merged += told[0][EP_FRAME_TRUNCATED] > 0;
    }
    assert_int_equal(merged, 0);
    assert_true(account_stats().intervals_early > 0);
    account_end();
}

static char family[16];

static void on_send(const struct ep_message *message, const struct ep_deadline *deadline)
{
    (void)deadline;
    (void)snprintf(family, sizeof family, "%s", message->family);
}

TEST(test_pprof)
{
    begin(true, EP_KIND_BIT(EP_KIND_HEAP), EP_MEMORY_DEFAULT);
    receiver.on_send = on_send;
    assert_int_equal(interval(), 4175);
    assert_string_equal(family, "gc_heap");
    account_end();
}

TEST_MAIN
