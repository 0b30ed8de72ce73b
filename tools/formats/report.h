/*
 * A profile as text: the top table, its JSON, the tree of calls, and folded stacks.
 */
#ifndef ET_REPORT_H
#define ET_REPORT_H

#include "tools/profile/tree.h"

/* "svc cpu: 530.00ms in 53 samples", without a line end. */
void et_report_total(const struct et_profile *profile, struct et_buf *out);
/* Rows of the table from `first` on, below a line about the profile and the headings. */
void et_report_table(const struct et_profile *profile, const struct et_table *table, size_t first, size_t rows,
                     struct et_buf *out);
/* As et_report_table(), for the profile's own table, by total or by self. */
void et_report_top(const struct et_profile *profile, size_t rows, bool by_total, struct et_buf *out);
void et_report_json(const struct et_profile *profile, size_t rows, bool by_total, struct et_buf *out);
/* The calls as an indented tree, the largest first: at most `rows` of those with half a per cent or more. The last line
 * counts the others. */
void et_report_tree(const struct et_profile *profile, size_t rows, struct et_buf *out);
/* Folded stacks: "root;caller;leaf value" per line. */
void et_report_folded(const struct et_profile *profile, struct et_buf *out);

#endif
