/*
 * Labels of stacks and tags of processes as text: "key=value" lines, sorted, one per key, '\n' after each. Keys and
 * values are cleaned (et_clean), so they contain no line break.
 */
#ifndef ET_LABELS_H
#define ET_LABELS_H

#include "tools/lib/util.h"

/* Keys of the labels for a stack's span and trace: 16 and 32 hexadecimal digits. */
#define ET_SPAN_ID  "span_id"
#define ET_TRACE_ID "trace_id"

/* A list under construction. Zeroed: empty. */
struct et_labels {
    char **lines;
    size_t count, capacity;
};

/* A '=' in the key becomes '_'. */
void et_labels_add(struct et_labels *labels, const char *key, const char *value);
/* Adds every line of a text. */
void et_labels_add_lines(struct et_labels *labels, const char *lines);
/* Sorts and joins the lines, and frees the list. Keeps the last value of each key. free() the result. */
char *et_labels_join(struct et_labels *labels);

/* Replaces what ends a key in a line, as et_labels_add() does. */
void et_label_escape(char *key);

/* True for keys that no label of a sender may have: service_name is the origin's, spy_name and __* belong to servers.
 * Decides by the key as it is stored, so "service=name" is reserved, too. */
bool et_label_reserved(const char *key);
/* Whether both keys are the same once they are stored. */
bool et_label_same(const char *a, const char *b);

/* The label in /metrics for a tag: Prometheus' characters, '_' for others. False: too long, or a name that /metrics has
 * itself (service, version, device, reason ...). */
#define ET_METRIC_LABEL 64
bool et_metric_label(const char *tag, char label[ET_METRIC_LABEL]);

/* The keys of a group are lines without a line break at the end: "version\ndevice". Copies the first key to *key, and
 * moves *rest behind it. False: there is none. */
bool et_group_next(const char **rest, struct et_buf *key);
/* Whether the key is one of them. group: NULL for none. */
bool et_group_has(const char *group, const char *key);

/* The key's value, *size bytes long, not terminated. NULL: absent. */
const char *et_labels_value(const char *lines, const char *key, size_t *size);

/* Calls line() for each line, with key and value separate. */
void et_labels_each(const char *lines, void (*line)(void *context, const char *key, const char *value), void *context);

#endif
