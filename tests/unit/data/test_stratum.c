/*
 * stratum.c while the period changes: over many seeds each size gets the weight that it has, and the sum of the weights
 * is never more than two strata from the true sum.
 */
#include "unit.h"

#include "estimate.h"

#define SEEDS  400u
#define EVENTS 3000u
#define SIZES  6u
#define LEAST  1000u  /* shortest period */
#define MOST   24000u /* longest */

/* From small to larger than every period. */
static const uint64_t sizes[SIZES] = {1, 90, 700, 3000, 11000, 30000};

/* The mean error in standard errors. 1: keeps a size that is always exact from dividing by 0. */
static double estimate_off(const struct estimate *estimate)
{
    return estimate_mean(estimate) / hypot(estimate_error(estimate), 1);
}

/* A new period at random moments: shrinks by up to 24 and grows by as much. */
static uint64_t period_next(uint64_t period, uint64_t *dice)
{
    return unit_random(dice) % 50 ? period
                                  : LEAST << unit_random(dice) % 3 << unit_random(dice) % 3 << unit_random(dice) % 2;
}

/* together: all units are laid end to end, whatever the size; otherwise large events are apart. */
static void one_seed(uint64_t seed, bool together, struct estimate estimate[SIZES + 1])
{
    struct ep_stratum stratum = {.seed = seed * 0x9e3779b97f4a7c15u + 1};
    uint64_t dice = seed, period = LEAST, truth[SIZES] = {0}, told[SIZES] = {0}, sum = 0, all = 0;

    for (unsigned i = 0; i < EVENTS; i++) {
        unsigned which = unit_random(&dice) % SIZES;
        period = period_next(period, &dice);
        uint64_t stands_for = together ? ep_stratum_lay(&stratum, sizes[which], period)
                                       : ep_stratum_advance(&stratum, sizes[which], period);
        truth[which] += sizes[which];
        told[which] += stands_for;
        all += sizes[which];
        sum += stands_for;
        assert_true(sum <= all + 2 * MOST && all <= sum + 2 * MOST);
    }
    for (unsigned i = 0; i < SIZES; i++)
        estimate_add(&estimate[i], (double)told[i] - (double)truth[i]);
    estimate_add(&estimate[SIZES], (double)sum - (double)all);
}

static void test_period_changes(bool together)
{
    struct estimate estimate[SIZES + 1] = {{0}};

    for (unsigned seed = 1; seed <= SEEDS; seed++)
        one_seed(seed, together, estimate);
    for (unsigned i = 0; i <= SIZES; i++) {
        double off = estimate_off(&estimate[i]);
        print_message("%s, %s %llu: off by %+.2f standard errors\n", together ? "together" : "events",
                      i < SIZES ? "size" : "sum", i < SIZES ? (unsigned long long)sizes[i] : 0, off);
        assert_true(fabs(off) < 3);
    }
}

TEST(test_events)
{
    test_period_changes(false);
}

TEST(test_laid_end_to_end)
{
    test_period_changes(true);
}

/* The period follows the samples: longer after each, shorter without. The weights stay right. */
TEST(test_period_follows_samples)
{
    struct estimate estimate[SIZES + 1] = {{0}};

    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct ep_stratum stratum = {.seed = seed * 0x9e3779b97f4a7c15u + 1};
        uint64_t dice = seed, period = LEAST, truth[SIZES] = {0}, told[SIZES] = {0};
        for (unsigned i = 0; i < EVENTS; i++) {
            unsigned which = unit_random(&dice) % (SIZES - 2);
            uint64_t stands_for = ep_stratum_advance(&stratum, sizes[which], period);
            period = stands_for ? period * 2 : period - period / 16;
            period = period < LEAST ? LEAST : period > MOST ? MOST : period;
            truth[which] += sizes[which];
            told[which] += stands_for;
        }
        for (unsigned i = 0; i < SIZES; i++)
            estimate_add(&estimate[i], (double)told[i] - (double)truth[i]);
    }
    for (unsigned i = 0; i < SIZES; i++)
        assert_true(fabs(estimate_off(&estimate[i])) < 3);
}

/* A stratum keeps its length when the period shrinks below the size of the events in it. */
TEST(test_stratum_keeps_its_length)
{
    struct ep_stratum stratum = {.seed = 7};
    uint64_t sum = 0, length;

    (void)ep_stratum_lay(&stratum, 1, MOST);
    length = stratum.length - stratum.position;
    for (uint64_t left = length; left; left -= left < 2 * LEAST ? left : 2 * LEAST)
        sum += ep_stratum_advance(&stratum, left < 2 * LEAST ? left : 2 * LEAST, LEAST);
    assert_true(sum == 0 || sum == MOST);
    assert_int_equal(stratum.length, LEAST);
    assert_int_equal(stratum.position, 0);
}

TEST_MAIN
