/*
 * Two profiles side by side: one tree by names, one table of functions, and whether a difference is significant.
 *
 * The two sides may cover different times and numbers of processes, so functions are compared by their share of their
 * side's total. et_diff_growth() compares the totals per second. The intervals assume independent samples: where load
 * phases last longer than a side, the true variation is larger. It does not load, symbolize or print profiles.
 */
#ifndef ET_DIFF_H
#define ET_DIFF_H

#include "tools/profile/profile.h"

enum et_side { ET_LEFT, ET_RIGHT, ET_SIDES };

/* A smaller change of a share counts as no change. */
#define ET_DIFF_LEAST_SHARE 0.005

struct et_diff_call {
    uint32_t parent, first_child, next; /* indices, 0: none; call 0 is the root */
    uint32_t function;                  /* string number in the diff; root: 0 */
    uint64_t self[ET_SIDES], total[ET_SIDES];
};

/* A function, summed over all its calls; recursion counts once in total. */
struct et_diff_row {
    uint32_t function, file, line; /* of the right side; of the left side for functions that only it has */
    uint64_t self[ET_SIDES], total[ET_SIDES];
};

struct et_diff {
    struct et_strings strings;
    struct et_diff_call *calls; /* parents before children; children with the largest share of either side first */
    size_t count, capacity;
    size_t pruned;            /* calls that are not shown */
    struct et_diff_row *rows; /* largest change of the share of self first */
    size_t row_count, row_capacity;
    uint64_t total[ET_SIDES];
    double samples[ET_SIDES]; /* upper bound of the independent samples behind the total */
    double seconds[ET_SIDES]; /* duration that the data covers */
    bool level;               /* an amount at a point in time, not a sum over time */
    size_t tests;             /* number of functions large enough to be compared */
};

/* Compares two symbolized profiles of the same kind and measure. shown: most calls of the tree. et_diff_free() the
 * result. Context: any thread. */
void et_diff_make(const struct et_profile *left, const struct et_profile *right, size_t shown, struct et_diff *diff);
void et_diff_free(struct et_diff *diff);

/* From 0 to 1; 0 for an empty side. */
double et_diff_share(const struct et_diff *diff, enum et_side side, uint64_t figure);

/* A 95 % confidence interval. */
struct et_interval {
    double low, high;
};

/* The interval of the change of a share, right - left. figure: self or total of a call or a row. It is widened so that
 * in 95 % of diffs no function lies outside (multiple tests). -1..1 when a side has no samples. */
struct et_interval et_diff_change(const struct et_diff *diff, const uint64_t figure[ET_SIDES]);

enum et_judgement {
    ET_DIFF_SAME,        /* the change is below the threshold */
    ET_DIFF_MORE,        /* an increase above the threshold, significant */
    ET_DIFF_LESS,        /* a decrease above the threshold, significant */
    ET_DIFF_UNSURE,      /* too few samples to decide */
    ET_DIFF_NO_BASELINE, /* the left side is empty */
};

/* Judges the change of a share. threshold: relative to the left share, 0.1 is a tenth. */
enum et_judgement et_diff_judge(const struct et_diff *diff, const uint64_t figure[ET_SIDES], double threshold);

/* growth: right / left - 1 of the totals per second (levels: of the totals), 0.1 is a tenth more. Ignores the number of
 * processes. False: a side is empty. */
bool et_diff_growth(const struct et_diff *diff, double *growth, struct et_interval *interval);
enum et_judgement et_diff_judge_growth(const struct et_diff *diff, double threshold);

#endif
