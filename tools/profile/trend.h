/*
 * Whether something grows: a robust line through values over time. Several lines of one thing, such as the processes of
 * a service, have one slope and levels of their own; a value is never compared with one of another line.
 *
 * Sources: the slope is the median of the slopes of all pairs of a line (P. Sen, Journal of the American Statistical
 * Association 63, 1968, pages 1379-1389), so peaks do not move it. Its interval and significance are Kendall's, with
 * the variance enlarged for values that resemble the one before (the idea of K. Hamed, A. Rao, Journal of Hydrology
 * 204, 1998, for the first autocorrelation).
 */
#ifndef ET_TREND_H
#define ET_TREND_H

#include "tools/lib/util.h"

struct et_trend_point {
    uint32_t line;
    double at, value;
};

struct et_trend {
    double slope;     /* of value by `at` */
    double low, high; /* 95 % interval */
    double p;         /* of no growth or decline, two-sided, for this test alone; 1: too few points */
    size_t pairs;
};

/* Points of a line need not be adjacent; they are sorted. Lines with fewer than 5 points are left out, and where all
 * lines have more than 32,768 pairs, points of the long ones are. *points is changed. Without any: all zero, p 1. */
void et_trend_make(struct et_trend_point *points, size_t count, struct et_trend *out);

#endif
