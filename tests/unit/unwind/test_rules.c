/*
 * rules.c with the test's own derivation: after any requests in any order by any thread, the rule for a pc is the
 * derived one. A rule that fits is derived once and then found; others are derived each time.
 */
#include <pthread.h>

#include "unit.h"

static struct ep_rule derive(const struct ep_modules *modules, uintptr_t pc, bool exact);
#define ep_rule_derive          derive
#define ep_rule_derive_by_table derive
#include "core/unwind/rules.c"

static struct ep_unwinder unwinder;
static _Thread_local unsigned derivations;

static uint64_t mixed(uintptr_t pc)
{
    uint64_t x = pc + 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A rule for every pc; about one in six does not fit into the cache. */
static struct ep_rule rule_of(uintptr_t pc)
{
    uint64_t x = mixed(pc);
    bool large = x % 8 == 0;

    return (struct ep_rule){
        .kind = (uint8_t)(EP_RULE_SP + (x >> 8) % (EP_RULE_ROOT - EP_RULE_SP + 1)),
        .fp_slot = (uint8_t)((x >> 16) % (large ? 256 : 32)),
        .base_slot = (uint8_t)((x >> 24) % (large ? 256 : 32)),
        .cfa = (int16_t)(large ? (int)((x >> 32) % 60000) - 30000 : (int)((x >> 32) % 2048) - 1024),
    };
}

static struct ep_rule derive(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    (void)modules;
    (void)exact;
    derivations++;
    return rule_of(pc);
}

static bool equal(struct ep_rule a, struct ep_rule b)
{
    return a.kind == b.kind && a.fp_slot == b.fp_slot && a.base_slot == b.base_slot && a.cfa == b.cfa &&
           a.ra_extra == b.ra_extra;
}

static bool fits(struct ep_rule rule)
{
    bool sound = (rule.kind != EP_RULE_SP || rule.cfa > rule.ra_extra) &&
                 !(is_marked(rule.kind, rule.cfa) && rule.base_slot != 0);

    return sound && rule.fp_slot < 32 && rule.base_slot < 32 && rule.cfa >= -1024 && rule.cfa < 1024;
}

static void begin(void)
{
    memset(&unwinder, 0, sizeof unwinder);
}

static bool get(uintptr_t pc)
{
    struct ep_stack stack = {0};
    unsigned before = derivations;
    struct ep_rule rule = ep_rule_get(&unwinder, pc, true, &stack);
    bool derived = derivations != before;

    assert_true(equal(rule, rule_of(pc)));
    assert_int_equal(stack.misses, derived);
    assert_int_equal(stack.hits, !derived);
    return derived;
}

TEST(test_random_addresses)
{
    uint64_t dice = 1;

    begin();
    for (unsigned i = 0; i < 300000; i++) {
        uintptr_t pc = ((uintptr_t)unit_random(&dice) << 16 ^ unit_random(&dice)) & 0x7fffffffffff;
        (void)get(pc);
        assert_int_equal(get(pc), !fits(rule_of(pc)));
    }
}

/* Few addresses that collide: near, apart by every power of two, and at both ends of the range. */
TEST(test_collisions)
{
    static uintptr_t pcs[512];
    uint64_t dice = 2;
    unsigned count = 0;

    begin();
    for (unsigned shift = 0; shift < 47 && shift < 8 * sizeof(uintptr_t); shift++)
        for (unsigned low = 0; low < 8; low++)
            pcs[count++] = ((uintptr_t)1 << shift) + low * EP_RULE_BUCKETS;
    for (uintptr_t i = 0; i < 8; i++)
        pcs[count++] = i, pcs[count++] = (uintptr_t)0x7fffffffffff - i;
    for (unsigned i = 0; i < 300000; i++)
        (void)get(pcs[unit_random(&dice) % count]);
}

/* Addresses beyond user space are derived each time, never confused. */
TEST(test_beyond_the_tag)
{
    if (sizeof(uintptr_t) < 8)
        skip(); /* the tag has room for every address */
    begin();
    for (unsigned bit = 64 - EP_RULE_PC_SHIFT; bit < 64; bit++) {
        uintptr_t low = (uintptr_t)0x123456789a, high = low | (uintptr_t)1 << bit;
        (void)get(low);
        assert_true(get(high));
        assert_true(get(high));
        (void)get(low);
    }
    assert_true(get(UINTPTR_MAX) && get(UINTPTR_MAX));
}

/* As many addresses of one bucket as it has ways are kept; another one replaces the oldest. */
TEST(test_entries_per_bucket)
{
    uintptr_t pcs[EP_RULE_WAYS + 1];
    unsigned found = 0;

    begin();
    for (uintptr_t pc = 0x400000; found <= EP_RULE_WAYS; pc++)
        if (ep_rule_bucket(pc) == 17 && fits(rule_of(pc)))
            pcs[found++] = pc;
    for (unsigned way = 0; way < EP_RULE_WAYS; way++)
        assert_true(get(pcs[way]));
    for (unsigned i = 0; i < 10 * EP_RULE_WAYS; i++)
        assert_false(get(pcs[i % EP_RULE_WAYS]));
    assert_true(get(pcs[EP_RULE_WAYS]));
    for (unsigned way = 1; way <= EP_RULE_WAYS; way++)
        assert_false(get(pcs[way]));
    assert_true(get(pcs[0]));
}

TEST(test_pack_round_trip)
{
    uint64_t word = 0;

    for (int cfa = -1100; cfa < 1100; cfa++) {
        for (unsigned slot = 0; slot < 40; slot += 3) {
            for (uint8_t kind = EP_RULE_SP; kind < 16; kind++) {
                struct ep_rule rule = {
                    .kind = kind, .fp_slot = (uint8_t)slot, .base_slot = (uint8_t)(slot / 2), .cfa = (int16_t)cfa};
                bool packed = pack((uintptr_t)0x7f0123456789, rule, &word);
                assert_int_equal(packed, fits(rule));
                if (packed)
                    assert_true(word != 0 && ep_rule_is_for(word, (uintptr_t)0x7f0123456789) &&
                                equal(unpack(ep_rule_fields(word, (uintptr_t)0x7f0123456789)), rule));
            }
        }
    }
}

static void *thread_main(void *argument)
{
    uint64_t dice = (uintptr_t)argument;
    unsigned bad = 0;

    for (unsigned i = 0; i < 100000; i++) {
        uintptr_t pc = 0x400000 + unit_random(&dice) % 3000;
        struct ep_stack stack = {0};
        bad += !equal(ep_rule_get(&unwinder, pc, true, &stack), rule_of(pc));
    }
    return (void *)(uintptr_t)bad;
}

TEST(test_threads)
{
    pthread_t threads[4];
    void *bad;

    begin();
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
}

TEST_MAIN
