/* What `edgeprof diff` has loaded and compared, as text and as JSON. */
#ifndef ET_DIFF_PRINT_H
#define ET_DIFF_PRINT_H

#include "tools/cmd/options.h"
#include "tools/profile/regression.h"

struct et_diff_input {
    struct et_profile *profile;
    double seconds; /* run time of the processes; 0: unknown */
    struct et_buf words;
};

struct et_diff_command {
    const struct et_options *options;
    struct et_diff_input sides[ET_SIDES];
    struct et_diff diff;
    struct et_regression_request wanted;
    struct et_findings findings;
    bool level; /* a level kind: totals are compared per process */
};

/* The name of a finding's function or scope: "Orders.Total", "the total per second". */
const char *et_diff_finding_name(const struct et_diff_command *command, const struct et_finding *finding);

/* Append the table, and the whole answer as JSON. */
void et_diff_print_text(const struct et_diff_command *command, struct et_buf *out);
void et_diff_print_json(const struct et_diff_command *command, struct et_buf *out);

#endif
