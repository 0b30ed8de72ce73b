/*
 * Whether a diff is a regression: more than a threshold, and no chance. What is less is none.
 */
#ifndef ET_VERDICT_H
#define ET_VERDICT_H

#include "diff.h"

enum et_verdict_scope {
    ET_VERDICT_TOTAL,     /* all together, per second */
    ET_VERDICT_NAMED,     /* functions with all that they call, by name */
    ET_VERDICT_FUNCTIONS, /* every function itself */
};

struct et_verdict_wanted {
    enum et_verdict_scope scope;
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

void et_verdict(const struct et_diff *diff, const struct et_verdict_wanted *wanted, struct et_findings *out);
void et_findings_free(struct et_findings *findings);

#endif
