/*
 * Labels of stacks and tags of processes as text: "key=value" lines, sorted, one a key, '\n' after each. What comes in
 * is cleaned (et_clean), so that a line is a line.
 */
#ifndef ET_LABELS_H
#define ET_LABELS_H

#include "tools/lib/util.h"

/* Labels with these keys say which span and trace a stack belongs to: 16 and 32 hexadecimal digits. */
#define ET_SPAN_ID  "span_id"
#define ET_TRACE_ID "trace_id"

/* A list on its way to text. Zeroed: empty. */
struct et_labels {
    char **lines;
    size_t count, capacity;
};

/* A '=' in the key becomes '_'. */
void et_labels_add(struct et_labels *labels, const char *key, const char *value);
/* All lines of a text. */
void et_labels_add_lines(struct et_labels *labels, const char *lines);
/* Sorts, joins, frees the list. The last of several values of one key is kept. free() the result. */
char *et_labels_join(struct et_labels *labels);

/* Of a list that was not joined. */
void et_labels_free(struct et_labels *labels);

/* Value of a key, of *size bytes, or NULL. */
const char *et_labels_value(const char *lines, const char *key, size_t *size);

/* Calls line() for each, with the key and value apart. */
void et_labels_each(const char *lines, void (*line)(void *context, const char *key, const char *value), void *context);

#endif
