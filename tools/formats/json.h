/*
 * Profiles as JSON: what the API and `--json` have in common.
 */
#ifndef ET_JSON_H
#define ET_JSON_H

#include "tools/profile/tree.h"

/* A whole object: figures of the profile, tree of calls and top table. rows: most rows of the table. */
void et_json_profile(struct et_buf *out, const struct et_profile *profile, size_t rows);

/* The table alone, an array of objects. */
void et_json_table(struct et_buf *out, const struct et_profile *profile, const struct et_table *table, size_t rows);

/* The tree alone: {"name", "value", "self", "module", "file", "line", "children": [...]}. */
void et_json_tree(struct et_buf *out, const struct et_profile *profile, const struct et_tree *tree);
/* ,"module":"libc.so.6","file":"a.c","line":12 as far as it is known. */
void et_json_place(struct et_buf *out, const struct et_profile *profile, uint32_t module, uint32_t file, uint32_t line);

/* What each value of each label had, whatever labels were asked for: "labels":{"key":{"value":123}}, the largest values
 * first and some hundred of them; "label_values":{"key":5}: how many there are. A comma behind both. */
void et_json_labels(struct et_buf *out, const struct et_profile *profile);

#endif
