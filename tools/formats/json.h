/* Profiles as JSON, for the API and for `--json`. */
#ifndef ET_JSON_H
#define ET_JSON_H

#include "tools/profile/tree.h"

/* One object: properties of the profile, tree of calls and top table. rows: maximum rows of the table. */
void et_json_profile(struct et_buf *out, const struct et_profile *profile, size_t rows);

/* Only the table, an array of objects. Functions with several lines have "line_count", and the ten hottest in "lines".
 */
void et_json_table(struct et_buf *out, const struct et_profile *profile, const struct et_table *table, size_t rows);

/* Only the tree: {"name", "value", "self", "module", "file", "line", "children": [...]}. */
void et_json_tree(struct et_buf *out, const struct et_profile *profile, const struct et_tree *tree);
/* Appends ,"module":"libc.so.6","file":"a.c","line":12 as far as known. */
void et_json_place(struct et_buf *out, const struct et_profile *profile, uint32_t module, uint32_t file, uint32_t line);

/* Sums of each value of each label, before any label filter: "labels":{"key":{"value":123}}, the largest values first,
 * limited to some hundred; "label_values":{"key":5} has the number of values. A comma follows each. */
void et_json_labels(struct et_buf *out, const struct et_profile *profile);

#endif
