/*
 * Two profiles side by side: one tree by names, one table of functions, and whether a difference means anything.
 *
 * The two sides may cover different times and numbers of processes. So what is compared is shares, a function's part of
 * its own side's total; et_diff_growth() compares the totals, per second. Samples are taken as independent: where the
 * load comes in phases that are longer than a side, the real scatter is wider than the intervals say.
 *
 * It does not load or symbolize anything, and does not print.
 */
#ifndef ET_DIFF_H
#define ET_DIFF_H

#include "tools/profile/profile.h"

enum et_side { ET_LEFT, ET_RIGHT, ET_SIDES };

/* A change of a share below this is none, however well it is known. */
#define ET_DIFF_LEAST_SHARE 0.005

struct et_diff_call {
    uint32_t parent, first_child, next; /* indices, 0: none; call 0 is the root */
    uint32_t function;                  /* string number in the diff; root: 0 */
    uint64_t self[ET_SIDES], total[ET_SIDES];
};

/* A function, summed over all its calls; recursion counts once in total. */
struct et_diff_row {
    uint32_t function, file, line; /* strings and lines of the right side, of the left where it is only there */
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
    double samples[ET_SIDES]; /* independent measurements that the total rests on, at most */
    double seconds[ET_SIDES]; /* that the data covers */
    bool level;               /* what is there at a time, and no sum over time */
    size_t tests;             /* functions that are large enough to be judged */
};

/* Compares two symbolized profiles of the same kind and measure. shown: most calls of the tree. et_diff_free() the
 * result. Context: any thread. */
void et_diff_make(const struct et_profile *left, const struct et_profile *right, size_t shown, struct et_diff *diff);
void et_diff_free(struct et_diff *diff);

/* 0..1; 0 of an empty side. */
double et_diff_share(const struct et_diff *diff, enum et_side side, uint64_t figure);

/* The larger of a call's two shares, and the least of those that the `shown` largest calls have, 1 <= shown <= count.
 */
double et_diff_weight(const struct et_diff *diff, const struct et_diff_call *call);
double et_diff_least_weight(const struct et_diff *diff, size_t shown);

/* Where the true value lies with 95 %. */
struct et_interval {
    double low, high;
};

/* Of the change of a share, right - left; figure: self or total of a call or a row. All functions together are wrong in
 * 5 % of diffs, not each of them: the interval is that much wider. -1..1 when a side has no samples. */
struct et_interval et_diff_change(const struct et_diff *diff, const uint64_t figure[ET_SIDES]);

enum et_judgement {
    ET_DIFF_SAME,        /* the change is below the threshold */
    ET_DIFF_MORE,        /* it is above, and no chance */
    ET_DIFF_LESS,        /* the same, downwards */
    ET_DIFF_UNSURE,      /* too few samples: it may be above or not */
    ET_DIFF_NO_BASELINE, /* nothing on the left */
};

/* Of a share. threshold: relative to the left share, 0.1 is a tenth. */
enum et_judgement et_diff_judge(const struct et_diff *diff, const uint64_t figure[ET_SIDES], double threshold);

/* Totals per second (of a level: totals), right / left - 1, with its interval; 0.1 is a tenth more. Says nothing about
 * the number of processes behind them. False: a side is empty. */
bool et_diff_growth(const struct et_diff *diff, double *growth, struct et_interval *interval);
enum et_judgement et_diff_judge_growth(const struct et_diff *diff, double threshold);

#endif
