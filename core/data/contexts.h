/*
 * The contexts of an interval's stacks: tags, span and thread.
 */
#ifndef EP_DATA_CONTEXTS_H
#define EP_DATA_CONTEXTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ep_context_key {
    uint64_t span_id, trace_high, trace_low;
    uint16_t thread; /* place in names + 1; 0: no thread label */
    uint16_t tags;
    uint16_t next, first; /* of the table, 0 in a key that is looked up; see contexts.c */
};

struct ep_thread_name {
    uint32_t tid;
    char name[16];
};

struct ep_contexts {
    unsigned count, capacity; /* [0] means no context and is not used */
    struct ep_context_key *key;
    unsigned names, name_capacity;
    struct ep_thread_name *name;
};

/* Returns the key's place in the table and adds it if needed; 0 for an all-zero key; -ENOSPC. Context: collect. */
int ep_contexts_find(struct ep_contexts *contexts, const struct ep_context_key *key);

#endif
