/*
 * A profile as text: the top table, its JSON, and folded stacks.
 */
#ifndef ET_REPORT_H
#define ET_REPORT_H

#include "tools/profile/tree.h"

/* The table's rows from first on, under lines that say what of and what they are. */
void et_report_table(const struct et_profile *profile, const struct et_table *table, size_t first, size_t rows,
                     struct et_buf *out);
/* The same of a table of its own. */
void et_report_top(const struct et_profile *profile, size_t rows, struct et_buf *out);
void et_report_json(const struct et_profile *profile, size_t rows, struct et_buf *out);
/* "root;caller;leaf value" a line */
void et_report_folded(const struct et_profile *profile, struct et_buf *out);

#endif
