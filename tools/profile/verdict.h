/*
 * Whether a version of a service uses more than another one on a fleet of devices, for each function and in all.
 *
 * The unit is the device: the error of a figure is how much it varies from device to device, however many samples they
 * send. Two figures are compared: the share of the service's usage, and the load, usage per second that devices ran the
 * service. Load is in units of the baseline's whole load, so both say "of the service's usage". A device that ran both
 * versions is its own comparison.
 *
 * Sources: the error is the delete-one-device jackknife of a ratio (B. Efron, R. Tibshirani, An Introduction to the
 * Bootstrap, 1993, chapter 11; CR3 of MacKinnon, Nielsen, Webb, Journal of Econometrics 232, 2023); cohorts are
 * combined as strata (W. Cochran, Sampling Techniques, 1977, 5.4); S. Holm's correction for multiple tests
 * (Scandinavian Journal of Statistics 6, 1979, pages 65-70) holds for tests that depend on each other, as shares do. So
 * in at most 5 % of comparisons of equal versions any function is found.
 */
#ifndef ET_VERDICT_H
#define ET_VERDICT_H

#include "tools/profile/fleet.h"

/* A cohort needs so many devices on each side. */
#define ET_VERDICT_LEAST_DEVICES 3

/* Sides are ET_LEFT, the baseline, and ET_RIGHT. Units: parts of the service's usage, 0.03 is 3 %. */
struct et_estimate {
    double before, after, change;
    double error, freedom; /* standard error of the change, degrees of freedom */
    double spread, unit;   /* of one side: error between devices, relative; what one sample is */
    double low, high;      /* 95 % interval of the change, for all tests together */
    double p;              /* after Holm's correction: <= 0.05 is significant */
};

enum et_verdict_by { ET_BY_NONE, ET_BY_SHARE, ET_BY_LOAD, ET_BY_BOTH };

struct et_verdict_row {
    uint32_t function;   /* string number in the fleet; "": the service in all, only its load */
    bool total;          /* with callees */
    bool shared, loaded; /* which estimates exist */
    struct et_estimate share, load;
    enum et_judgement judgement; /* ET_DIFF_UNSURE: an increase of `threshold` could be missed */
    enum et_verdict_by by;       /* of ET_DIFF_MORE and _LESS */
    double detectable;           /* the increase that is found with 80 % probability; INFINITY: none */
    double
        devices_needed; /* per side, to find an increase of `threshold`; 0: there are enough, or the row is `total` */
};

struct et_verdict_cohort {
    uint32_t cohort;                /* string number in the fleet */
    size_t devices[ET_SIDES], both; /* both: ran both versions */
    double seconds[ET_SIDES], total[ET_SIDES];
    bool used; /* there are enough devices on both sides */
};

enum et_verdict_result { ET_VERDICT_SAME, ET_VERDICT_REGRESSION, ET_VERDICT_NOT_YET };

struct et_verdict {
    enum et_verdict_result result;
    struct et_verdict_row all;   /* the service in all */
    struct et_verdict_row *rows; /* increases, decreases, unsure ones, others; largest change first */
    size_t row_count, row_capacity;
    struct et_verdict_cohort *cohorts; /* largest first */
    size_t cohort_count, cohort_capacity;
    size_t devices[ET_SIDES]; /* in the cohorts used */
    size_t tests;
    size_t unsure;         /* functions whose own usage could have increased by `threshold` unnoticed */
    double detectable;     /* the largest of functions' own usage: any larger increase is found with 80 % probability */
    double devices_needed; /* per side; 0: there are enough */
};

/* threshold: the increase that must be found before the versions count as equal, in parts of the service's usage. An
 * increase is found when it is significant and at least ET_DIFF_LEAST_SHARE. A share that grew because others became
 * cheaper, or a load that grew with all others, is no increase of the function. et_verdict_free() the result. Context:
 * any thread. */
void et_verdict_make(const struct et_fleet *fleet, double threshold, struct et_verdict *out);
void et_verdict_free(struct et_verdict *verdict);

#endif
