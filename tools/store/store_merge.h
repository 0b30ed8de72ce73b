/* Merging rows of one kind into one row, as store_merge.c merges those of a series. */
#ifndef ET_STORE_MERGE_H
#define ET_STORE_MERGE_H

#include "tools/store/store_rows.h"

struct et_merged {
    struct et_row row; /* without id, series, level and at_ns */
    struct et_buf stacks, label_sets;
    size_t read; /* stacks of the rows */
};

/* Merges rows that may be of several series, which have this one's kind and unit; the row with the latest end first.
 * Leaves out span and trace ids. The kind is no level. et_merged_free() frees *out, also after an error. */
int et_merge_rows(struct et_store *store, const struct et_series *series, const struct et_row *rows, size_t count,
                  struct et_merged *out);
void et_merged_free(struct et_merged *merged);

#endif
