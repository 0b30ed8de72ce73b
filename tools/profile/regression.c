/*
 * See regression.h. diff.c does the statistics. The number of samples needed is found by repeating its test for the
 * same shares with more samples.
 */
#include "tools/profile/regression.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MOST_TIMES_MORE = 1e6;

/* The values of a row that the scope compares. */
static const uint64_t *figure_of(const struct et_diff_row *row, enum et_regression_scope scope)
{
    return scope == ET_REGRESSION_NAMED ? row->total : row->self;
}

/* Only increases count: a decrease, or an uncertain change that cannot be an increase, is ET_DIFF_SAME. */
static enum et_judgement judge_row(const struct et_diff *diff, const uint64_t figure[ET_SIDES], double threshold)
{
    enum et_judgement judgement = et_diff_judge(diff, figure, threshold);
    double least = fmax(threshold * et_diff_share(diff, ET_LEFT, figure[ET_LEFT]), ET_DIFF_LEAST_SHARE);
    bool not_more = judgement == ET_DIFF_UNSURE && et_diff_change(diff, figure).high < least;
    return judgement == ET_DIFF_LESS || not_more ? ET_DIFF_SAME : judgement;
}

static enum et_judgement judge_total(const struct et_diff *diff, double threshold)
{
    enum et_judgement judgement = et_diff_judge_growth(diff, threshold);
    double growth;
    struct et_interval interval;
    bool known = et_diff_growth(diff, &growth, &interval);
    bool not_more = known && judgement == ET_DIFF_UNSURE && interval.high < fmax(threshold, ET_DIFF_LEAST_SHARE);
    return judgement == ET_DIFF_LESS || not_more ? ET_DIFF_SAME : judgement;
}

static enum et_judgement judge_finding(const struct et_diff *diff, const struct et_diff_row *row,
                                       const struct et_regression_request *wanted)
{
    return row ? judge_row(diff, figure_of(row, wanted->scope), wanted->threshold)
               : judge_total(diff, wanted->threshold);
}

/* Samples that the smaller side needs, at the same shares, for a certain result. */
static double samples_needed(const struct et_diff *diff, const struct et_diff_row *row,
                             const struct et_regression_request *wanted)
{
    double low = 1, high = 1;
    struct et_diff more = *diff;
    do {
        low = high;
        high *= 2;
        more.samples[ET_LEFT] = diff->samples[ET_LEFT] * high;
        more.samples[ET_RIGHT] = diff->samples[ET_RIGHT] * high;
    } while (judge_finding(&more, row, wanted) == ET_DIFF_UNSURE && high < MOST_TIMES_MORE);
    for (int i = 0; i < 30; i++) {
        double middle = (low + high) / 2;
        more.samples[ET_LEFT] = diff->samples[ET_LEFT] * middle;
        more.samples[ET_RIGHT] = diff->samples[ET_RIGHT] * middle;
        *(judge_finding(&more, row, wanted) == ET_DIFF_UNSURE ? &low : &high) = middle;
    }
    return high * fmin(diff->samples[ET_LEFT], diff->samples[ET_RIGHT]);
}

static int severity_of(enum et_judgement judgement)
{
    return judgement == ET_DIFF_NO_BASELINE ? 3 : judgement == ET_DIFF_MORE ? 2 : judgement == ET_DIFF_UNSURE;
}

static void add_finding(struct et_findings *out, const struct et_diff *diff, const struct et_diff_row *row,
                        const struct et_regression_request *wanted)
{
    struct et_finding finding = {.row = row, .judgement = judge_finding(diff, row, wanted), .before = 1, .after = 1};
    struct et_interval unused;
    double growth;
    if (row) {
        const uint64_t *figure = figure_of(row, wanted->scope);
        finding.before = et_diff_share(diff, ET_LEFT, figure[ET_LEFT]);
        finding.after = et_diff_share(diff, ET_RIGHT, figure[ET_RIGHT]);
    } else if (et_diff_growth(diff, &growth, &unused)) {
        finding.after = 1 + growth;
    }
    if (finding.judgement == ET_DIFF_UNSURE) {
        finding.needed = samples_needed(diff, row, wanted);
    }
    out->findings = et_reserve(out->findings, &out->capacity, out->count + 1, sizeof *out->findings);
    out->findings[out->count++] = finding;
    if (severity_of(finding.judgement) > severity_of(out->judgement)) {
        out->judgement = finding.judgement;
    }
}

static void add_named(struct et_findings *out, const struct et_diff *diff, const struct et_regression_request *wanted)
{
    for (size_t i = 0; i < wanted->name_count; i++) {
        const struct et_diff_row *found = NULL;
        for (size_t k = 0; k < diff->row_count && !found; k++) {
            bool same = strcmp(et_text(&diff->strings, diff->rows[k].function), wanted->names[i]) == 0;
            found = same ? &diff->rows[k] : NULL;
        }
        if (found) {
            add_finding(out, diff, found, wanted);
        } else {
            out->unknown = wanted->names[i];
        }
    }
}

static int worst_first(const void *a, const void *b)
{
    const struct et_finding *x = a, *y = b;
    double by_x = x->after - x->before, by_y = y->after - y->before;
    if (severity_of(x->judgement) != severity_of(y->judgement)) {
        return severity_of(y->judgement) - severity_of(x->judgement);
    }
    return by_x < by_y ? 1 : by_x > by_y ? -1 : 0;
}

/* A function below this share on both sides cannot change enough. */
static bool large_enough(const struct et_diff *diff, const struct et_diff_row *row)
{
    return et_diff_share(diff, ET_LEFT, row->self[ET_LEFT]) >= ET_DIFF_LEAST_SHARE ||
           et_diff_share(diff, ET_RIGHT, row->self[ET_RIGHT]) >= ET_DIFF_LEAST_SHARE;
}

void et_regressions_find(const struct et_diff *given, const struct et_regression_request *wanted,
                         struct et_findings *out)
{
    struct et_diff own = *given, *diff = &own; /* a copy, to set the number of tests */
    *out = (struct et_findings){.judgement = ET_DIFF_SAME};
    diff->tests = wanted->name_count;
    if (wanted->scope == ET_REGRESSION_NAMED) {
        add_named(out, diff, wanted);
    } else if (wanted->scope == ET_REGRESSION_FUNCTIONS) {
        diff->tests = 0;
        for (size_t i = 0; i < diff->row_count; i++) {
            diff->tests += large_enough(diff, &diff->rows[i]);
        }
        for (size_t i = 0; i < diff->row_count; i++) {
            if (large_enough(diff, &diff->rows[i])) {
                add_finding(out, diff, &diff->rows[i], wanted);
            }
        }
    } else {
        add_finding(out, diff, NULL, wanted);
    }
    if (out->count) {
        qsort(out->findings, out->count, sizeof *out->findings, worst_first);
    }
}

void et_findings_free(struct et_findings *findings)
{
    free(findings->findings);
    *findings = (struct et_findings){0};
}
