/*
 * The table of contexts. Searched from the newest entry: a recent context is likely to appear again.
 */
#include "core/data/contexts.h"

#include <errno.h>

static bool same(const struct ep_context_key *a, const struct ep_context_key *b)
{
    return a->tags == b->tags && a->thread == b->thread && a->span_id == b->span_id && a->trace_low == b->trace_low &&
           a->trace_high == b->trace_high;
}

int ep_contexts_find(struct ep_contexts *contexts, const struct ep_context_key *key)
{
    static const struct ep_context_key nothing;

    if (same(key, &nothing))
        return 0;
    for (unsigned i = contexts->count; i > 1; i--)
        if (same(&contexts->key[i - 1], key))
            return (int)i - 1;
    if (contexts->count >= contexts->capacity)
        return -ENOSPC;
    contexts->key[contexts->count] = *key;
    return (int)contexts->count++;
}
