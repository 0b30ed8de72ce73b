/*
 * The labels of an interval's stacks: tags, span and thread.
 */
#ifndef EP_PROFILE_LABELS_H
#define EP_PROFILE_LABELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ep_label_key {
    uint64_t span_id, trace_high, trace_low;
    uint16_t thread; /* place in names + 1; 0: no thread label */
    uint16_t tags;
    uint16_t next, first; /* of the table, 0 in a key that is looked up; see labels.c */
};

struct ep_thread_name {
    uint32_t tid;
    char name[16];
};

struct ep_labels {
    unsigned count, capacity; /* [0] means no label set and is not used */
    struct ep_label_key *key;
    unsigned names, name_capacity;
    struct ep_thread_name *name;
};

/* Returns the key's place in the table and adds it if needed; 0 for an all-zero key; -ENOSPC. Context: collect. */
int ep_labels_find(struct ep_labels *labels, const struct ep_label_key *key);

#endif
