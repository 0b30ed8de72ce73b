/*
 * Whether a diff is a regression: more than a threshold, and no chance. What is less is none.
 */
#ifndef ET_REGRESSION_H
#define ET_REGRESSION_H

#include "tools/profile/diff.h"

enum et_regression_scope {
    ET_REGRESSION_TOTAL,     /* all together, per second */
    ET_REGRESSION_NAMED,     /* functions with all that they call, by name */
    ET_REGRESSION_FUNCTIONS, /* every function itself */
};

struct et_regression_request {
    enum et_regression_scope scope;
    double threshold; /* 0.1 is a tenth */
    const char *const *names;
    size_t name_count;
};

struct et_finding {
    const struct et_diff_row *row; /* NULL: all together */
    enum et_judgement judgement;   /* ET_DIFF_MORE, _SAME, _UNSURE or _NO_BASELINE */
    double before, after;          /* shares; all together: 1 and 1 + growth */
    double needed;                 /* ET_DIFF_UNSURE: samples that the smaller side would need */
};

struct et_findings {
    struct et_finding
        *findings; /* what was judged; regressions first, then what is unsure, each with the largest first */
    size_t count, capacity;
    enum et_judgement judgement; /* the worst of them */
    const char *unknown;         /* a name that no function has; NULL: none */
};

void et_regressions_find(const struct et_diff *diff, const struct et_regression_request *wanted,
                         struct et_findings *out);
void et_findings_free(struct et_findings *findings);

#endif
