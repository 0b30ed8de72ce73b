/*
 * Divides the caller's memory:
 *
 *   [struct ep | struct ep_collect | struct ep_deliver | ring | labels, thread names | outbox | tree: entries, nodes]
 *
 * The memory behind these three is divided as follows. The ring gets at most a sixth (a power of two of words), the
 * labels a sixteenth, the outbox a quarter. The tree gets the rest.
 */
#include "core/lifecycle/start.h"
#include "core/collect/state.h"
#include "core/deliver/state.h"
#include "core/profile/encoding.h"

#include <errno.h>
#include <string.h>

#define RING_WORDS_MIN 512
#define RING_WORDS_MAX (1u << 20)
#define TREE_MIN       4096
#define OUTBOX_MIN     4096
#define OUTBOX_MAX     (64u << 20)
#define CONTEXTS_MAX   4095u /* an entry's context has 12 bits */
/* The places of the two threads' states behind struct ep. */
#define ALIGNED(size) (((size) + 63) & ~(size_t)63)
#define COLLECT_AT    ALIGNED(sizeof(struct ep))
#define DELIVER_AT    (COLLECT_AT + ALIGNED(sizeof(struct ep_collect)))
#define FIXED         (DELIVER_AT + ALIGNED(sizeof(struct ep_deliver)))

static unsigned ring_words(size_t bytes)
{
    unsigned words = RING_WORDS_MIN;

    while (words < RING_WORDS_MAX && words * 2 * sizeof(uintptr_t) <= bytes)
        words *= 2;
    return words;
}

/* Returns the number of bytes used at `at`. Thread names come on top of `bytes`. */
static size_t labels_carve(struct ep *ep, uint8_t *at, size_t bytes, unsigned most)
{
    struct ep_labels *labels = &ep->collect->labels;

    labels->capacity = (unsigned)(bytes / sizeof labels->key[0]);
    if (labels->capacity > most)
        labels->capacity = most;
    labels->key = (struct ep_label_key *)(void *)at;
    at += labels->capacity * sizeof labels->key[0];
    labels->name_capacity = EP_MAX_THREADS;
    labels->name = (struct ep_thread_name *)(void *)at;
    size_t used = labels->capacity * sizeof labels->key[0] + labels->name_capacity * sizeof labels->name[0];
    return (used + 15) & ~(size_t)15;
}

int ep_layout(const struct ep_config *config, struct ep **out)
{
    uintptr_t start = ((uintptr_t)config->memory + _Alignof(struct ep) - 1) & ~(uintptr_t)(_Alignof(struct ep) - 1);
    size_t lost = start - (uintptr_t)config->memory;
    size_t fixed = FIXED;

    if (config->memory_size < lost + fixed)
        return -ENOMEM;
    size_t left = config->memory_size - lost - fixed;
    unsigned words = ring_words(left / 6);
    size_t ring = words * sizeof(uintptr_t);
    size_t outbox = left / 4 & ~(size_t)15;
    if (outbox > OUTBOX_MAX)
        outbox = OUTBOX_MAX;
    size_t names = EP_MAX_THREADS * sizeof(struct ep_thread_name);
    if (outbox < OUTBOX_MIN || left < ring + outbox + left / 16 + names + TREE_MIN)
        return -ENOMEM;

    uint8_t *at = (uint8_t *)start;
    memset(at, 0, fixed + ring);
    struct ep *ep = (struct ep *)(void *)at;
    ep->collect = (struct ep_collect *)(void *)(at + COLLECT_AT);
    ep->deliver = (struct ep_deliver *)(void *)(at + DELIVER_AT);
    at += fixed;
    ep_ring_init(&ep->ring, (atomic_uintptr_t *)(void *)at, words);
    at += ring;
    size_t labels = labels_carve(ep, at, left / 16, config->encoder ? config->encoder->labels_most : CONTEXTS_MAX);
    at += labels;
    ep_outbox_init(&ep->deliver->outbox, at, outbox);
    at += outbox;
    size_t tree = left - ring - labels - outbox;
    if (config->encoder && tree > config->encoder->tree_most)
        tree = config->encoder->tree_most;
    ep_tree_init(&ep->collect->tree, at, tree);
    ep->memory_used = (uint32_t)(lost + fixed + left);
    *out = ep;
    return 0;
}
