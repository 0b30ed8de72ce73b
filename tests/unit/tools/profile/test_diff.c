/* Diffs: both sides in one tree by names, rows, pruning, and the error rates of its judgements. */
#include "tools/profile/diff.h"
#include "tools/lib/kinds.h"
#include "tests/unit/test.h"

#include <math.h>

static const uint64_t PERIOD = 10000000;

static struct et_profile *cpu_profile(void)
{
    struct et_profile *p = et_profile_new();
    p->kind = et_intern(&p->strings, "cpu");
    p->value_unit = et_intern(&p->strings, "nanoseconds");
    p->period = PERIOD;
    p->end_ns = 10000000000;
    return p;
}

/* Adds a node below parent with this many samples. */
static uint32_t node(struct et_profile *p, uint32_t parent, const char *name, uint64_t samples)
{
    uint32_t frame = et_profile_frame(p, (struct et_frame){0});
    et_profile_line(p, &p->frames[frame], name, "file.c", 7);
    uint32_t index = et_profile_node(p, parent, frame);
    et_profile_entry(p, &(struct et_entry){.node = index, .value = samples * PERIOD, .count = samples});
    p->samples += samples;
    return index;
}

static void compare(struct et_profile *left, struct et_profile *right, size_t shown, struct et_diff *diff)
{
    et_profile_show(left, ET_MEASURE_DEFAULT);
    et_profile_show(right, ET_MEASURE_DEFAULT);
    et_diff_make(left, right, shown, diff);
    et_profile_free(left);
    et_profile_free(right);
}

static const struct et_diff_call *call_at(const struct et_diff *diff, const char *const *path)
{
    uint32_t at = 0;
    for (; *path; path++) {
        for (at = diff->calls[at].first_child;
             at && strcmp(et_text(&diff->strings, diff->calls[at].function), *path) != 0;) {
            at = diff->calls[at].next;
        }
        assert_int_not_equal(at, 0);
    }
    return &diff->calls[at];
}

static const struct et_diff_row *row_named(const struct et_diff *diff, const char *name)
{
    for (size_t i = 0; i < diff->row_count; i++) {
        if (strcmp(et_text(&diff->strings, diff->rows[i].function), name) == 0) {
            return &diff->rows[i];
        }
    }
    fail_msg("no row %s", name);
    return NULL;
}

TEST(sides_meet_by_names)
{
    struct et_profile *left = cpu_profile(), *right = cpu_profile();
    uint32_t main_left = node(left, 0, "main", 1), main_right = node(right, 0, "main", 2);
    node(left, main_left, "old", 4);
    node(left, main_left, "same", 8);
    node(right, main_right, "same", 16);
    node(right, node(right, main_right, "new", 32), "main", 64);
    struct et_diff diff;
    compare(left, right, 1000, &diff);
    assert_int_equal(diff.count, 6);
    assert_int_equal(diff.pruned, 0);
    assert_int_equal(diff.total[ET_LEFT], 13 * PERIOD);
    assert_int_equal(diff.total[ET_RIGHT], 114 * PERIOD);
    const struct et_diff_call *same = call_at(&diff, (const char *[]){"main", "same", NULL});
    assert_int_equal(same->self[ET_LEFT], 8 * PERIOD);
    assert_int_equal(same->total[ET_RIGHT], 16 * PERIOD);
    const struct et_diff_call *fresh = call_at(&diff, (const char *[]){"main", "new", NULL});
    assert_int_equal(fresh->total[ET_LEFT], 0);
    assert_int_equal(fresh->total[ET_RIGHT], 96 * PERIOD);
    const struct et_diff_row *recursive = row_named(&diff, "main");
    assert_int_equal(recursive->total[ET_RIGHT], 114 * PERIOD); /* the inner call does not count again */
    assert_int_equal(recursive->self[ET_RIGHT], 66 * PERIOD);
    assert_string_equal(et_text(&diff.strings, recursive->file), "file.c");
    assert_int_equal(row_named(&diff, "old")->self[ET_RIGHT], 0);
    assert_int_equal(diff.samples[ET_LEFT], 13);
    et_diff_free(&diff);
}

/* A long side does not displace a short one. */
TEST(pruning_goes_by_share)
{
    struct et_profile *left = cpu_profile(), *right = cpu_profile();
    for (unsigned i = 1; i <= 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "long%u", i);
        node(left, 0, name, i * 1000);
        snprintf(name, sizeof name, "short%u", i);
        node(right, 0, name, i);
    }
    struct et_diff diff;
    compare(left, right, 41, &diff);
    assert_int_equal(diff.count, 41);
    assert_int_equal(diff.pruned, 160);
    size_t sides[ET_SIDES] = {0};
    double before = 1;
    for (uint32_t i = diff.calls[0].first_child; i; i = diff.calls[i].next) {
        sides[ET_LEFT] += diff.calls[i].total[ET_LEFT] > 0;
        sides[ET_RIGHT] += diff.calls[i].total[ET_RIGHT] > 0;
        double share = fmax(et_diff_share(&diff, ET_LEFT, diff.calls[i].total[ET_LEFT]),
                            et_diff_share(&diff, ET_RIGHT, diff.calls[i].total[ET_RIGHT]));
        assert_true(share <= before);
        before = share;
    }
    assert_int_equal(sides[ET_LEFT], 20);
    assert_int_equal(sides[ET_RIGHT], 20);
    et_diff_free(&diff);
}

/* ---- significance ---- */

static uint64_t seed;

static double chance(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

/* samples: random draws from functions f0.. with these shares, which sum to 1 */
static struct et_profile *drawn(const double *shares, size_t count, unsigned samples)
{
    struct et_profile *p = cpu_profile();
    uint64_t *hits = et_alloc(count, sizeof *hits);
    for (unsigned i = 0; i < samples; i++) {
        double x = chance();
        size_t at = 0;
        while (at + 1 < count && x >= shares[at]) {
            x -= shares[at++];
        }
        hits[at]++;
    }
    for (size_t i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "f%zu", i);
        if (hits[i]) {
            node(p, 0, name, hits[i]);
        }
    }
    free(hits);
    return p;
}

static size_t judged(const struct et_diff *diff, enum et_judgement judgement, double threshold)
{
    size_t count = 0;
    for (size_t i = 0; i < diff->row_count; i++) {
        count += et_diff_judge(diff, diff->rows[i].self, threshold) == judgement;
    }
    return count;
}

/* Both sides have the same distribution: in at most 5 % of diffs any function is reported as changed. */
TEST(nothing_has_changed)
{
    static const double shares[] = {0.3,  0.2,  0.1,  0.1,  0.05, 0.05, 0.05, 0.05,
                                    0.02, 0.02, 0.02, 0.01, 0.01, 0.01, 0.01};
    size_t wrong = 0, runs = 400;
    seed = 1;
    for (size_t run = 0; run < runs; run++) {
        struct et_diff diff;
        size_t count = sizeof shares / sizeof *shares;
        compare(drawn(shares, count, 300 + 10 * (unsigned)run), drawn(shares, count, 2000), 1000, &diff);
        wrong += judged(&diff, ET_DIFF_MORE, 0) + judged(&diff, ET_DIFF_LESS, 0) > 0;
        et_diff_free(&diff);
    }
    assert_in_range(wrong, 0, runs / 20);
}

/* One function grows by half, with enough samples to detect it. */
TEST(a_change_is_found)
{
    static const double before[] = {0.10, 0.90}, after[] = {0.15, 0.85};
    size_t missed = 0;
    seed = 2;
    for (int run = 0; run < 50; run++) {
        struct et_diff diff;
        compare(drawn(before, 2, 20000), drawn(after, 2, 20000), 1000, &diff);
        const struct et_diff_row *row = row_named(&diff, "f0");
        struct et_interval change = et_diff_change(&diff, row->self);
        assert_true(change.low > 0 && change.high < 0.1);
        missed += change.low > 0.05 || change.high < 0.05;
        assert_int_equal(et_diff_judge(&diff, row->self, 0.1), ET_DIFF_MORE);
        assert_int_equal(et_diff_judge(&diff, row->self, 0.9), ET_DIFF_SAME);
        assert_int_equal(et_diff_judge(&diff, row_named(&diff, "f1")->self, 0.1), ET_DIFF_SAME);
        et_diff_free(&diff);
    }
    assert_in_range(missed, 0, 50 / 20);
}

/* The same change with few samples is undecided. */
TEST(few_samples_decide_nothing)
{
    struct et_profile *left = cpu_profile(), *right = cpu_profile();
    node(left, 0, "f0", 4);
    node(left, 0, "f1", 36);
    node(right, 0, "f0", 6);
    node(right, 0, "f1", 34);
    struct et_diff diff;
    compare(left, right, 1000, &diff);
    assert_int_equal(et_diff_judge(&diff, row_named(&diff, "f0")->self, 0.1), ET_DIFF_UNSURE);
    assert_int_equal(et_diff_judge(&diff, row_named(&diff, "f1")->self, 0.1), ET_DIFF_UNSURE);
    et_diff_free(&diff);
}

/* A few long waits are few samples, however long they are. */
TEST(weights_do_not_make_samples)
{
    struct et_profile *left = cpu_profile(), *right = cpu_profile();
    for (int side = 0; side < 2; side++) {
        struct et_profile *p = side ? right : left;
        p->kind = et_intern(&p->strings, "lock");
        p->period = 1;
        for (int i = 0; i < 1000; i++) {
            node(p, 0, "short", 1);
        }
        uint32_t rare = node(p, 0, "rare", 0);
        et_profile_entry(p, &(struct et_entry){.node = rare, .value = 100000 * PERIOD, .count = side ? 3 : 2});
        p->samples = 0;
    }
    struct et_diff diff;
    compare(left, right, 1000, &diff);
    assert_true(diff.samples[ET_LEFT] > 1.9 && diff.samples[ET_LEFT] < 2.2);
    assert_true(diff.samples[ET_RIGHT] > 2.9 && diff.samples[ET_RIGHT] < 3.2);
    assert_int_equal(et_diff_judge(&diff, row_named(&diff, "rare")->self, 0.1), ET_DIFF_UNSURE);
    et_diff_free(&diff);
}

/* Objects are estimated from samples; there may be fewer samples than objects, or fewer objects than samples. */
TEST(the_smaller_number_counts)
{
    struct et_profile *left = cpu_profile(), *right = cpu_profile();
    node(left, 0, "f", 1000000);
    left->samples = 50;
    node(right, 0, "f", 20);
    right->samples = 1000;
    struct et_diff diff;
    compare(left, right, 1000, &diff);
    assert_int_equal(diff.samples[ET_LEFT], 50);
    assert_int_equal(diff.samples[ET_RIGHT], 20);
    et_diff_free(&diff);
}

/* Three times a very small share is not reported, even with many samples. */
TEST(small_changes_do_not_matter)
{
    struct et_profile *left = cpu_profile(), *right = cpu_profile();
    node(left, 0, "f", 1000);
    node(left, 0, "rest", 999000);
    node(right, 0, "f", 3000);
    node(right, 0, "rest", 997000);
    struct et_diff diff;
    compare(left, right, 1000, &diff);
    const uint64_t *f = row_named(&diff, "f")->self;
    assert_true(et_diff_change(&diff, f).low > 0);
    assert_int_equal(et_diff_judge(&diff, f, 0.1), ET_DIFF_SAME);
    et_diff_free(&diff);
}

TEST(totals_grow_per_second)
{
    struct et_profile *left = cpu_profile(), *right = cpu_profile();
    node(left, 0, "f", 10000);
    node(right, 0, "f", 30000);
    right->end_ns = 2 * left->end_ns;
    struct et_diff diff;
    double growth;
    struct et_interval interval;
    compare(left, right, 1000, &diff);
    assert_true(et_diff_growth(&diff, &growth, &interval));
    assert_true(fabs(growth - 0.5) < 1e-9);
    assert_true(interval.low > 0.46 && interval.low < 0.5 && interval.high > 0.5 && interval.high < 0.54);
    assert_int_equal(et_diff_judge_growth(&diff, 0.1), ET_DIFF_MORE);
    assert_int_equal(et_diff_judge_growth(&diff, 0.6), ET_DIFF_SAME);
    et_diff_free(&diff);
}

TEST(empty_sides)
{
    struct et_diff diff;
    struct et_profile *right = cpu_profile();
    node(right, 0, "f", 100);
    compare(cpu_profile(), right, 1000, &diff);
    assert_int_equal(diff.count, 2);
    assert_int_equal(et_diff_judge(&diff, diff.rows[0].self, 0.1), ET_DIFF_NO_BASELINE);
    assert_int_equal(et_diff_judge_growth(&diff, 0.1), ET_DIFF_NO_BASELINE);
    et_diff_free(&diff);
    struct et_profile *left = cpu_profile();
    node(left, 0, "f", 100);
    compare(left, cpu_profile(), 1000, &diff);
    assert_int_equal(et_diff_judge(&diff, diff.rows[0].self, 0.1), ET_DIFF_UNSURE);
    assert_int_equal(et_diff_judge_growth(&diff, 0.1), ET_DIFF_UNSURE);
    et_diff_free(&diff);
    compare(cpu_profile(), cpu_profile(), 1000, &diff);
    assert_int_equal(diff.count, 1);
    assert_int_equal(diff.row_count, 0);
    et_diff_free(&diff);
}

TEST_MAIN
