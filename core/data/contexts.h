/*
 * Whose work the stacks of an interval were: tags, span and thread.
 */
#ifndef EP_DATA_CONTEXTS_H
#define EP_DATA_CONTEXTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ep_context_key {
    uint64_t span_id, trace_high, trace_low;
    uint32_t thread; /* place in names + 1; 0: not asked for */
    uint32_t tags;
};

struct ep_thread_name {
    uint32_t tid;
    char name[16];
};

struct ep_contexts {
    unsigned count, capacity; /* [0] is none and not used */
    struct ep_context_key *key;
    unsigned names, name_capacity;
    struct ep_thread_name *name;
};

/* The key's place in the table, made when there is room; 0 when it is all zero, -ENOSPC. Context: collect. */
int ep_contexts_find(struct ep_contexts *contexts, const struct ep_context_key *key);

#endif
