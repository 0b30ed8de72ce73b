/* See trend.h. */
#include "tools/profile/trend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of long lines, so many points are used that all lines together have no more pairs: sorting a pair takes 0.1 us, and a
 * service has a thousand places of allocation. */
enum { MOST_PAIRS = 1 << 15, LEAST_POINTS = 5 };

struct pairs {
    double *slopes;
    size_t count, capacity;
    double score, variance; /* Kendall's */
};

static int by_line_and_time(const void *a, const void *b)
{
    const struct et_trend_point *x = a, *y = b;
    if (x->line != y->line) {
        return x->line < y->line ? -1 : 1;
    }
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void add_line(struct pairs *all, const struct et_trend_point *points, size_t count)
{
    double n = (double)count;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            double change = points[k].value - points[i].value;
            all->slopes = et_reserve(all->slopes, &all->capacity, all->count + 1, sizeof *all->slopes);
            all->slopes[all->count++] = change / (points[k].at - points[i].at);
            all->score += change > 0 ? 1 : change < 0 ? -1 : 0;
        }
    }
    all->variance += n * (n - 1) * (2 * n + 5) / 18;
}

static double median_of(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Sums for the autocorrelation of what the slope leaves of a line. */
static void add_residuals(const struct et_trend_point *points, size_t count, double slope, double sums[2])
{
    double *rest = et_alloc(count, sizeof *rest), *sorted = et_alloc(count, sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = rest[i] = points[i].value - slope * points[i].at;
    }
    double middle = median_of(sorted, count);
    for (size_t i = 0; i < count; i++) {
        sums[0] += (rest[i] - middle) * (rest[i] - middle);
        sums[1] += i ? (rest[i] - middle) * (rest[i - 1] - middle) : 0;
    }
    free(rest);
    free(sorted);
}

/* The end of the line that begins at a point. */
static size_t line_end(const struct et_trend_point *points, size_t count, size_t first)
{
    size_t end = first;
    while (end < count && points[end].line == points[first].line) {
        end++;
    }
    return end;
}

/* How many points a line may have. */
static size_t most_points(const struct et_trend_point *points, size_t count)
{
    size_t lines = 0, most = LEAST_POINTS;
    for (size_t i = 0, end; i < count; i = end) {
        end = line_end(points, count, i);
        lines += end - i >= LEAST_POINTS;
    }
    while (lines * (most + 1) * most / 2 <= MOST_PAIRS && most < count) {
        most++;
    }
    return most;
}

/* Leaves points of long lines at equal distances, the first and the last among them. Returns how many are left. */
static size_t thin_lines(struct et_trend_point *points, size_t count)
{
    size_t most = most_points(points, count), kept = 0;
    for (size_t i = 0, end; i < count; i = end) {
        end = line_end(points, count, i);
        size_t all = end - i, wanted = all < most ? all : most;
        for (size_t k = 0; k < wanted; k++) {
            points[kept++] = points[i + (all > wanted ? k * (all - 1) / (wanted - 1) : k)];
        }
    }
    return kept;
}

static bool is_sorted(const struct et_trend_point *points, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (by_line_and_time(&points[i - 1], &points[i]) > 0) {
            return false;
        }
    }
    return true;
}

/* Calls for each line with enough points. */
static void each_line(const struct et_trend_point *points, size_t count, struct pairs *pairs, double slope,
                      double sums[2])
{
    for (size_t i = 0, end; i < count; i = end) {
        end = line_end(points, count, i);
        if (end - i >= LEAST_POINTS && pairs) {
            add_line(pairs, &points[i], end - i);
        } else if (end - i >= LEAST_POINTS) {
            add_residuals(&points[i], end - i, slope, sums);
        }
    }
}

void et_trend_make(struct et_trend_point *points, size_t count, struct et_trend *out)
{
    struct pairs pairs = {0};
    double sums[2] = {0};
    *out = (struct et_trend){.p = 1};
    if (!is_sorted(points, count)) {
        qsort(points, count, sizeof *points, by_line_and_time);
    }
    count = thin_lines(points, count);
    each_line(points, count, &pairs, 0, NULL);
    if (pairs.count) {
        out->pairs = pairs.count;
        out->slope = median_of(pairs.slopes, pairs.count);
        each_line(points, count, NULL, out->slope, sums);
        double again = sums[0] > 0 ? fmin(0.95, fmax(0, sums[1] / sums[0])) : 0;
        double deviation = sqrt(pairs.variance * (1 + again) / (1 - again)), pairs_all = (double)pairs.count;
        out->p = erfc(fmax(0, fabs(pairs.score) - 1) / deviation / sqrt(2));
        double low = (pairs_all - 1.96 * deviation) / 2, high = (pairs_all + 1.96 * deviation) / 2;
        out->low = low >= 0 ? pairs.slopes[(size_t)low] : -INFINITY;
        out->high = high < pairs_all ? pairs.slopes[(size_t)high] : INFINITY;
    }
    free(pairs.slopes);
}
