/*
 * Contexts: the combinations of tags, span and thread of an interval's stacks. An entry refers to its context by a
 * small number. The table is cleared at the end of the interval. If it is full, a stack is stored without context, and
 * counted.
 */
#include "core/collect/collect.h"

#include <errno.h>
#include <string.h>

unsigned ep_context_find(struct ep *ep, const struct ep_context_key *key)
{
    static const struct ep_context_key none;
    bool given_up = ep->detail >= EP_DETAIL_CONTEXTS && memcmp(key, &none, sizeof none) != 0;
    const int found = given_up ? -ENOSPC : ep_contexts_find(&ep->contexts, key);

    if (found < 0)
        ep_lose(ep, EP_LOSS_CONTEXTS, 1, 0);
    return found < 0 ? 0 : (unsigned)found;
}

uint16_t ep_context_thread(struct ep *ep, uint32_t tid)
{
    struct ep_contexts *contexts = &ep->contexts;

    for (unsigned i = 0; i < contexts->names; i++)
        if (contexts->name[i].tid == tid)
            return (uint16_t)(i + 1);
    if (contexts->names >= contexts->name_capacity)
        return 0;
    contexts->name[contexts->names].tid = tid;
    ep_port_thread_name(tid, contexts->name[contexts->names].name, sizeof contexts->name[0].name);
    return (uint16_t)++contexts->names;
}

void ep_contexts_clear(struct ep *ep)
{
    ep->contexts.count = 1;
    ep->contexts.names = 0;
}
