/* The difference of two profiles: before plus difference is now, for any order of stacks; restarts are detected; other
 * frames or labels make another stack. */
#include "tools/profile/delta.h"
#include "tests/unit/test.h"

enum { STACKS = 40 };

static uint32_t seed;

static uint32_t any(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* Stack i has frames a/b/c from the digits of i, and a label if i is odd. */
static void put(struct et_profile *p, unsigned i, uint64_t value, uint64_t count)
{
    uint32_t node = 0;
    for (unsigned rest = i, level = 0; level < 3; level++, rest /= 4) {
        char name[16];
        snprintf(name, sizeof name, "f%u", rest % 4);
        struct et_frame frame = {.name = et_intern(&p->strings, name)};
        if (rest % 4 == 3) {
            frame = (struct et_frame){.module = et_profile_module(p, "abcd", name), .address = i};
        }
        node = et_profile_node(p, node, et_profile_frame(p, frame));
    }
    et_profile_entry(
        p, &(struct et_entry){
               .node = node, .labels = et_intern(&p->strings, i % 2 ? "k=v\n" : ""), .value = value, .count = count});
}

static struct et_profile *profile_of(const uint64_t *values, bool backwards)
{
    struct et_profile *p = et_profile_new();
    p->kind = et_intern(&p->strings, "alloc");
    p->value_unit = et_intern(&p->strings, "bytes");
    for (unsigned i = 0; i < STACKS; i++) {
        unsigned k = backwards ? STACKS - 1 - i : i;
        if (values[k]) {
            put(p, k, values[k], values[k] / 2 + 1);
            et_intern(&p->strings, backwards ? "other" : "numbers"); /* all have fallen */
        }
    }
    et_profile_show(p, ET_MEASURE_DEFAULT);
    return p;
}

TEST(before_plus_difference_is_now)
{
    for (uint32_t round = 1; round < 500; round++) {
        uint64_t then[STACKS] = {0}, now[STACKS], more = 0, changed = 0;
        seed = round;
        for (size_t i = 0; i < STACKS; i++) {
            then[i] = any(3) ? any(1000) : 0;
            uint64_t grown = any(2) ? any(500) : 0;
            now[i] = then[i] + grown;
            more += grown;
            changed += grown > 0 || now[i] / 2 != then[i] / 2;
        }
        struct et_profile *a = profile_of(then, round & 1), *b = profile_of(now, round & 2);
        assert_true(et_delta(a, b));
        assert_int_equal(b->values, more);
        assert_int_equal(b->total, more);
        assert_in_range(b->entry_count, changed ? 1 : 0, changed);
        uint64_t nodes = 0;
        for (size_t i = 0; i < b->node_count; i++) {
            nodes += b->nodes[i].self;
        }
        assert_int_equal(nodes, more);
        et_profile_free(a);
        et_profile_free(b);
    }
}

TEST(restarted_process_is_unchanged)
{
    uint64_t then[STACKS] = {0}, now[STACKS] = {0}, sum;
    static const struct {
        uint64_t then[3], now[3];
        bool same;
    } cases[] = {
        {{1000, 500, 0}, {10, 5, 0}, false},     /* one has fallen, the sum has not */
        {{1000, 500, 0}, {5000, 400, 0}, false}, /* one is gone */
        {{1000, 500, 0}, {5000, 0, 0}, false},   /* all are gone */
        {{1000, 500, 0}, {0, 0, 0}, false},      /* no change */
        {{1000, 500, 0}, {1000, 500, 0}, true},  /* a new stack */
        {{1000, 500, 0}, {1000, 500, 7}, true},  /* within rounding */
        {{1000, 500, 0}, {995, 600, 0}, true},   /* beyond rounding */
        {{1000, 500, 0}, {985, 600, 0}, false},  /* none before */
        {{0, 0, 0}, {5, 0, 0}, true},            /* nothing was there */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < 3; k++) {
            then[k * 7] = cases[i].then[k];
            now[k * 7] = cases[i].now[k];
        }
        struct et_profile *a = profile_of(then, false), *b = profile_of(now, true);
        sum = b->values;
        if (et_delta(a, b) != cases[i].same) {
            fail_msg("case %zu", i);
        }
        assert_true(cases[i].same || b->values == sum);
        et_profile_free(a);
        et_profile_free(b);
    }
}

TEST(one_stack_in_several_entries_is_one)
{
    uint64_t none[STACKS] = {0};
    struct et_profile *a = profile_of(none, false), *b = profile_of(none, false);
    put(a, 5, 100, 1);
    put(a, 5, 50, 1);
    put(b, 5, 80, 1);
    put(b, 5, 90, 4);
    put(b, 4, 7, 7); /* the same frames but one, and no label */
    assert_true(et_delta(a, b));
    assert_int_equal(b->values, 20 + 7);
    assert_int_equal(b->counts, 3 + 7);
    assert_int_equal(b->entry_count, 2);
    et_profile_free(a);
    et_profile_free(b);
}

TEST(counts_lines_and_labels_distinguish_stacks)
{
    uint64_t none[STACKS] = {0};
    struct et_profile *a = profile_of(none, false), *b = profile_of(none, false);
    put(a, 5, 100, 50);
    put(b, 5, 200, 10); /* the value has grown and the count has fallen, but not their sums */
    put(b, 6, 100, 90);
    assert_false(et_delta(a, b));
    et_profile_free(a);
    et_profile_free(b);
    for (uint32_t line = 1; line < 3; line++) {
        a = profile_of(none, false);
        b = profile_of(none, false);
        put(a, 5, 100, 1);
        put(b, 5, 100, 1);
        b->frames[1].line = line; /* another line is another stack: the first one is gone */
        a->frames[1].line = 1;
        assert_int_equal(et_delta(a, b), line == 1);
        et_profile_free(a);
        et_profile_free(b);
    }
    a = profile_of(none, false);
    b = profile_of(none, false);
    put(a, 5, 100, 1);
    put(b, 5, 100, 1);
    b->entries[0].labels = et_intern(&b->strings, "k=w\n");
    assert_false(et_delta(a, b));
    et_profile_free(a);
    et_profile_free(b);
}

TEST_MAIN
