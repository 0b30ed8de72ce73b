/*
 * labels.c compared with a model: each key has one place, in order of appearance, whatever the memory held before and
 * however often the table was cleared.
 */
#include "unit.h"

#define CAPACITY 60u

static struct ep_label_key memory[CAPACITY], seen[CAPACITY];
static struct ep_labels labels;

static bool same(const struct ep_label_key *a, const struct ep_label_key *b)
{
    return a->span_id == b->span_id && a->trace_high == b->trace_high && a->trace_low == b->trace_low &&
           a->thread == b->thread && a->tags == b->tags;
}

/* Keys that differ in one field, most of them. */
static struct ep_label_key key_of(uint64_t *dice)
{
    struct ep_label_key key = {.span_id = unit_random(dice) % 40};

    switch (unit_random(dice) % 8) {
    case 0:
        key.tags = (uint16_t)(unit_random(dice) % 4);
        break;
    case 1:
        key.thread = (uint16_t)(unit_random(dice) % 4);
        break;
    case 2:
        key.trace_high = unit_random(dice) % 4;
        break;
    case 3:
        key.trace_low = unit_random(dice) % 4;
        break;
    default:
        break;
    }
    return key;
}

static void find_one(uint64_t *dice)
{
    const struct ep_label_key key = key_of(dice), none = {0};
    unsigned i = 1, count = labels.count;

    while (i < count && !same(&seen[i], &key))
        i++;
    int found = ep_labels_find(&labels, &key);
    if (same(&key, &none)) {
        assert_int_equal(found, 0);
        return;
    }
    assert_int_equal(found, i < labels.capacity ? (int)i : -ENOSPC);
    if (i < count || found < 0) {
        assert_int_equal(labels.count, count);
        return;
    }
    assert_int_equal(labels.count, count + 1);
    assert_true(same(&labels.key[i], &key));
    seen[i] = key;
}

TEST(test_against_the_model)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t dice = seed;
        for (unsigned i = 0; i < sizeof memory / 8; i++)
            ((uint64_t *)(void *)memory)[i] = (uint64_t)unit_random(&dice) << 48 | unit_random(&dice) % CAPACITY << 16;
        labels = (struct ep_labels){.count = 1, .capacity = 4 + unit_random(&dice) % (CAPACITY - 4), .key = memory};
        for (unsigned round = 0; round < 20; round++) {
            for (unsigned i = unit_random(&dice) % 150; i > 0; i--)
                find_one(&dice);
            labels.count = 1;
        }
    }
}

TEST_MAIN
