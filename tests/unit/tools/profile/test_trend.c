/* Robust lines: the slope despite peaks and restarts, how often its interval has the true slope, and how often nothing
 * is taken for a trend. */
#include "tools/profile/trend.h"
#include "tests/unit/test.h"

#include <math.h>

enum { HOURS = 72, LINES = 3 };

static uint64_t seed;

static double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(seed >> 11) / 9007199254740992.0;
    }
    return sum;
}

/* Values around a line, each `again` of the deviation before it. */
static void draw(struct et_trend_point points[LINES * HOURS], double slope, double again)
{
    for (uint32_t line = 0; line < LINES; line++) {
        double rest = normal();
        for (uint32_t hour = 0; hour < HOURS; hour++) {
            rest = again * rest + sqrt(1 - again * again) * normal();
            points[line * HOURS + hour] =
                (struct et_trend_point){.line = line, .at = hour, .value = 1000 * line + slope * hour + 10 * rest};
        }
    }
}

TEST(intervals_hold)
{
    static const double resembling[] = {0, 0.3, 0.6};
    struct et_trend_point points[LINES * HOURS];
    struct et_trend trend;
    for (size_t i = 0; i < sizeof resembling / sizeof *resembling; i++) {
        size_t found = 0, outside = 0;
        seed = 1 + i;
        for (int run = 0; run < 200; run++) {
            draw(points, 0, resembling[i]);
            et_trend_make(points, LINES * HOURS, &trend);
            found += trend.p <= 0.05;
            draw(points, 0.5, resembling[i]);
            et_trend_make(points, LINES * HOURS, &trend);
            outside += trend.low > 0.5 || trend.high < 0.5;
            assert_true(trend.p < 0.05 && fabs(trend.slope - 0.5) < 0.3);
        }
        printf("values that keep %.1f of the one before: %zu of 200 trends where there is none, %zu intervals wrong\n",
               resembling[i], found, outside);
        assert_in_range(found, 0, 20);
        assert_in_range(outside, 0, 20);
    }
}

/* A tenth of the values is a hundred times as large. */
TEST(peaks_do_not_count)
{
    struct et_trend_point points[LINES * HOURS];
    struct et_trend trend;
    seed = 9;
    draw(points, 1, 0);
    for (size_t i = 5; i < LINES * HOURS; i += 10) {
        points[i].value *= 100;
    }
    et_trend_make(points, LINES * HOURS, &trend);
    assert_true(trend.p < 1e-6 && trend.low < 1 && trend.high > 1 && fabs(trend.slope - 1) < 0.1);
}

/* Each line begins higher and falls: across lines there is growth, within them there is none. */
TEST(lines_are_not_mixed)
{
    struct et_trend_point points[30];
    struct et_trend trend;
    for (uint32_t i = 0; i < 30; i++) { /* not in order of lines */
        points[i] = (struct et_trend_point){.line = i % 3, .at = i / 3 + 10 * (i % 3), .value = 100 * (i % 3) - i / 3};
    }
    et_trend_make(points, 30, &trend);
    assert_true(trend.slope == -1 && trend.high == -1);
}

TEST(few_points_say_nothing)
{
    struct et_trend_point points[] = {
        {.at = 1, .value = 1}, {.at = 2, .value = 2}, {.at = 3, .value = 3}, {.at = 4, .value = 4}};
    struct et_trend trend;
    et_trend_make(points, 4, &trend);
    assert_true(trend.p >= 1 && trend.slope == 0 && trend.pairs == 0);
    et_trend_make(points, 0, &trend);
    assert_true(trend.p >= 1);
}

/* The week of 100 processes of a service: few pairs, of all of them, and the same slope. */
TEST(many_long_lines_make_few_pairs)
{
    enum { WEEK = 167, MANY = 100 };
    static struct et_trend_point points[MANY * WEEK];
    struct et_trend trend;
    seed = 4;
    for (uint32_t i = 0; i < MANY * WEEK; i++) {
        uint32_t line = i / WEEK, hour = i % WEEK;
        double slope = line < 70 ? 1 : 3; /* the first lines alone would say so */
        points[i] = (struct et_trend_point){.line = line, .at = hour, .value = slope * hour + 10 * normal()};
    }
    et_trend_make(points, MANY * WEEK, &trend);
    assert_in_range(trend.pairs, 20000, 32768);
    assert_true(trend.p < 1e-6 && trend.low < trend.slope && trend.slope < trend.high);
    assert_true(trend.slope > 1.1 && trend.slope < 1.8);
}

TEST_MAIN
