/*
 * Label sets: the combinations of tags, span and thread of an interval's stacks. An entry refers to its label set by a
 * small number. The table is cleared at the end of the interval. If it is full, a stack is stored without labels, and
 * counted.
 */
#include "core/collect/collect.h"

#include <errno.h>
#include <string.h>

unsigned ep_label_find(struct ep *ep, const struct ep_label_key *key)
{
    static const struct ep_label_key none;
    bool given_up = ep->collect->detail >= EP_DETAIL_LABELS && memcmp(key, &none, sizeof none) != 0;
    const int found = given_up ? -ENOSPC : ep_labels_find(&ep->collect->labels, key);

    if (found < 0)
        ep_lose(ep, EP_LOSS_LABELS, 1, 0);
    return found < 0 ? 0 : (unsigned)found;
}

uint16_t ep_label_thread(struct ep *ep, uint32_t tid)
{
    struct ep_labels *labels = &ep->collect->labels;

    for (unsigned i = 0; i < labels->names; i++)
        if (labels->name[i].tid == tid)
            return (uint16_t)(i + 1);
    if (labels->names >= labels->name_capacity)
        return 0;
    labels->name[labels->names].tid = tid;
    ep_port_thread_name(tid, labels->name[labels->names].name, sizeof labels->name[0].name);
    return (uint16_t)++labels->names;
}

void ep_labels_clear(struct ep *ep)
{
    ep->collect->labels.count = 1;
    ep->collect->labels.names = 0;
}
