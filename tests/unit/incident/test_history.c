/*
 * history.c against a model: whatever samples come, at whatever times, each part holds its newest ones, with their
 * times and stacks, and times never run backwards.
 */
#include "unit.h"
#include "core/features/incident/incident.h"

#include "account.h"

#define SAMPLES 60000u
#define DEPTH   12u

static _Alignas(8) uint8_t memory[EP_INCIDENT_MEMORY], nodes_memory[1 << 20];
static struct ep_tree tree;

static struct {
    uint64_t tick;
    uint32_t frame[DEPTH], tid;
    unsigned depth, kind, value;
} model[EP_PAST_PARTS][SAMPLES];
static unsigned modelled[EP_PAST_PARTS];
static uint64_t newest[EP_PAST_PARTS];

static void reset(size_t size)
{
    account_afresh();
    assert_int_equal(ep_past_init(memory, size), 0);
    ep_tree_init(&tree, nodes_memory, sizeof nodes_memory);
    memset(modelled, 0, sizeof modelled);
    memset(newest, 0, sizeof newest);
}

static void add(uint64_t *dice, uint64_t tick, unsigned variety, unsigned threads)
{
    struct ep_past_sample sample = {.tick = tick, .kind = unit_random(dice) % 3 ? EP_KIND_CPU : EP_KIND_WAIT};
    unsigned part = sample.kind == EP_KIND_CPU ? EP_PAST_CPU : EP_PAST_EVENTS, at = modelled[part]++;

    if (tree.nodes > tree.node_capacity / 2)
        ep_tree_clear(&tree); /* as the profiler does at any time */
    sample.tid = 1000 + unit_random(dice) % threads;
    sample.value_ns = (uint64_t)(1 + unit_random(dice) % 60000) << EP_PAST_VALUE_SHIFT;
    newest[part] = tick > newest[part] ? tick : newest[part];
    model[part][at].tick = newest[part];
    model[part][at].kind = sample.kind;
    model[part][at].tid = sample.tid;
    model[part][at].value = (unsigned)(sample.value_ns >> EP_PAST_VALUE_SHIFT);
    model[part][at].depth = 1 + unit_random(dice) % DEPTH;
    for (unsigned i = 0; i < model[part][at].depth; i++) {
        model[part][at].frame[i] = EP_FRAME_FIRST_ADDRESS + unit_random(dice) % variety;
        sample.node = ep_tree_child(&tree, sample.node, model[part][at].frame[i]);
    }
    ep_past_add(&tree, &sample);
}

static void compare(unsigned part, unsigned at, const struct ep_moment *moment, uint64_t tick)
{
    unsigned node = moment->node;

    assert_int_equal(tick, model[part][at].tick);
    assert_int_equal(moment->kind, model[part][at].kind);
    assert_int_equal(ep_moment_value(moment), model[part][at].value);
    if (moment->thread != EP_PAST_NOBODY)
        assert_int_equal(ep_past.thread[moment->thread].tid, model[part][at].tid);
    for (unsigned i = model[part][at].depth; i > 0; i--, node = ep_past.tree.node[node].parent)
        assert_int_equal(ep_past.tree.node[node].frame, model[part][at].frame[i - 1]);
    assert_int_equal(node, 0);
}

/* Returns the number of samples of each part. */
static void check(unsigned held[EP_PAST_PARTS])
{
    struct ep_past_walk walk = {.at = {0}};
    const struct ep_moment *moment;
    uint64_t tick, before = 0;
    unsigned seen[EP_PAST_PARTS] = {0};

    held[0] = held[1] = 0;
    while ((moment = ep_past_next(&walk, &tick)) != NULL) {
        assert_true(tick >= before);
        before = tick;
        held[moment->kind == EP_KIND_CPU ? EP_PAST_CPU : EP_PAST_EVENTS]++;
    }
    walk = (struct ep_past_walk){.at = {0}};
    while ((moment = ep_past_next(&walk, &tick)) != NULL) {
        unsigned part = moment->kind == EP_KIND_CPU ? EP_PAST_CPU : EP_PAST_EVENTS;
        compare(part, modelled[part] - held[part] + seen[part]++, moment, tick);
    }
}

TEST(test_newest_stay)
{
    uint64_t dice = 7, tick = 1000;
    unsigned held[EP_PAST_PARTS];

    reset(sizeof memory);
    for (unsigned i = 0; i < 20000; i++) {
        unsigned way = unit_random(&dice) % 100;
        tick += way == 0   ? 65534 + unit_random(&dice) % 4
                : way == 1 ? 1ull << (17 + unit_random(&dice) % 20)
                           : way % 50;
        add(&dice, way % 10 == 3 ? tick - 5 : tick, 1, 20);
        if (i % 500 == 0)
            check(held);
    }
    check(held);
    /* gaps of more than a minute take the place of a sample each */
    assert_true(held[EP_PAST_CPU] > ep_past.part[EP_PAST_CPU].capacity * 9 / 10);
    assert_true(held[EP_PAST_EVENTS] > ep_past.part[EP_PAST_EVENTS].capacity * 9 / 10);
}

TEST(test_stacks_and_threads_give_way)
{
    uint64_t dice = 3;
    unsigned held[EP_PAST_PARTS];

    reset(EP_INCIDENT_MEMORY_MIN);
    for (unsigned i = 0; i < 20000; i++) {
        add(&dice, i, 5000, 3000); /* nearly each stack and thread is new */
        if (i % 200 == 0)
            check(held);
    }
    check(held);
    assert_true(held[EP_PAST_CPU] + held[EP_PAST_EVENTS] > ep_past.tree.node_capacity / DEPTH / 2);
}

TEST(test_long_values)
{
    struct ep_past_sample sample = {.kind = EP_KIND_WAIT, .tid = 1, .tick = 1, .value_ns = 600000000000u};
    struct ep_past_walk walk = {.at = {0}};
    uint64_t tick;

    reset(EP_INCIDENT_MEMORY_MIN);
    ep_past_add(&tree, &sample); /* ten minutes */
    sample.value_ns = UINT64_MAX;
    ep_past_add(&tree, &sample);
    uint64_t value = ep_moment_value(ep_past_next(&walk, &tick)) << EP_PAST_VALUE_SHIFT;
    assert_true(value <= 600000000000u && value > 600000000000u / 1000 * 999);
    assert_int_equal(ep_moment_value(ep_past_next(&walk, &tick)), UINT16_MAX << 8);
    assert_int_equal(ep_past_init(memory, EP_INCIDENT_MEMORY_MIN - 1), -ENOMEM);
}

TEST_MAIN
