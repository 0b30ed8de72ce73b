/*
 * The table of labels: a hash table inside the array of keys. `first` of the i-th key is the newest key of the i-th
 * bucket, whatever key is there, and `next` of a key is the one before it in its own bucket.
 *
 * To clear the table is to set its count to 1, and it needs no initialisation: whoever adds a key sets its bucket's
 * `first`. One that was left from before refers to no used key, or to a key of another bucket, which ends no search too
 * early. `next` is always the smaller place, so every search ends.
 */
#include "core/profile/labels.h"

#include <errno.h>

static bool same(const struct ep_label_key *a, const struct ep_label_key *b)
{
    return a->span_id == b->span_id && a->tags == b->tags && a->thread == b->thread && a->trace_low == b->trace_low &&
           a->trace_high == b->trace_high;
}

static unsigned bucket_of(const struct ep_labels *labels, const struct ep_label_key *key)
{
    uint32_t hash = (uint32_t)key->span_id ^ (uint32_t)(key->span_id >> 32) ^ (uint32_t)key->trace_low ^
                    ((uint32_t)key->tags << 16 | key->thread);

    return (unsigned)((uint64_t)(hash * 0x9e3779b1u) * labels->capacity >> 32);
}

/* The newest key of a bucket, 0: none. */
static unsigned newest(const struct ep_labels *labels, unsigned bucket)
{
    unsigned first = labels->key[bucket].first;

    return first && first < labels->count && bucket_of(labels, &labels->key[first]) == bucket ? first : 0;
}

int ep_labels_find(struct ep_labels *labels, const struct ep_label_key *key)
{
    static const struct ep_label_key nothing;

    if (same(key, &nothing))
        return 0;
    unsigned bucket = bucket_of(labels, key), first = newest(labels, bucket);
    for (unsigned i = first; i; i = labels->key[i].next)
        if (same(&labels->key[i], key))
            return (int)i;
    if (labels->count >= labels->capacity)
        return -ENOSPC;
    struct ep_label_key *added = &labels->key[labels->count];
    unsigned other = added->first; /* of its place's bucket, not of its own */
    *added = *key;
    added->next = (uint16_t)first;
    added->first = (uint16_t)other;
    labels->key[bucket].first = (uint16_t)labels->count;
    return (int)labels->count++;
}
