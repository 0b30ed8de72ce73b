/* Whether a diff is a regression: a significant increase above a threshold. Decreases are not reported. */
#ifndef ET_REGRESSION_H
#define ET_REGRESSION_H

#include "tools/profile/diff.h"

enum et_regression_scope {
    ET_REGRESSION_TOTAL,     /* all functions together, per second */
    ET_REGRESSION_NAMED,     /* named functions, with their callees */
    ET_REGRESSION_FUNCTIONS, /* every function, without its callees */
};

struct et_regression_request {
    enum et_regression_scope scope;
    double threshold; /* 0.1 is a tenth */
    const char *const *names;
    size_t name_count;
};

struct et_finding {
    const struct et_diff_row *row; /* NULL: all functions together */
    enum et_judgement judgement;   /* ET_DIFF_MORE, _SAME, _UNSURE or _NO_BASELINE */
    double before, after;          /* shares; for all together: 1 and 1 + growth */
    double needed;                 /* ET_DIFF_UNSURE: samples that the smaller side needs */
};

struct et_findings {
    struct et_finding *findings; /* regressions, then unsure ones; each group largest change first */
    size_t count, capacity;
    enum et_judgement judgement; /* the worst finding */
    const char *unknown;         /* a requested name that no function has; NULL: none */
};

void et_regressions_find(const struct et_diff *diff, const struct et_regression_request *wanted,
                         struct et_findings *out);
void et_findings_free(struct et_findings *findings);

#endif
