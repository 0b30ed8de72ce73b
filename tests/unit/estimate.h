/* An estimate that is made again with other seeds: its mean and how exactly that is known. Needs -lm. */
#ifndef ESTIMATE_H
#define ESTIMATE_H

#include <math.h>

struct estimate {
    double sum, squares;
    unsigned count;
};

static inline void estimate_add(struct estimate *estimate, double value)
{
    estimate->sum += value;
    estimate->squares += value * value;
    estimate->count++;
}

static inline double estimate_mean(const struct estimate *estimate)
{
    return estimate->sum / estimate->count;
}

/* Of the mean. */
static inline double estimate_error(const struct estimate *estimate)
{
    double mean = estimate_mean(estimate);

    return sqrt((estimate->squares / estimate->count - mean * mean) / estimate->count);
}

#endif
