/*
 * Divides the caller's memory:
 *
 *   [struct ep | waiters | the port's threads | struct ep_collect | struct ep_deliver
 *    | ring | labels, thread names | outbox | tree: entries, nodes]
 *
 * The number of threads follows from the size, see EP_THREADS. The memory behind them is divided as follows. The ring
 * gets at most a sixth (a power of two of words), the labels a sixteenth, the outbox a quarter. The tree gets the rest.
 */
#include "core/lifecycle/start.h"
#include "core/collect/state.h"
#include "core/deliver/state.h"
#include "core/sample/feature.h"

#include <errno.h>
#include <string.h>

#define RING_WORDS_MIN 512
#define RING_WORDS_MAX (1u << 20)
#define TREE_MIN       4096
#define THREADS_LEAST  (EP_THREADS - EP_THREADS / 16) /* so that EP_MEMORY_MIN has room for the rest */
#define OUTBOX_MIN     4096
#define OUTBOX_MAX     (64u << 20)
#define LABELS_MAX     4095u /* an entry's label has 12 bits */
#define ALIGNED(size)  (((size) + 63) & ~(size_t)63)
#define WAITERS_AT     ALIGNED(sizeof(struct ep))
/* The two threads' states, behind the tables of threads. */
#define COLLECT_SIZE ALIGNED(sizeof(struct ep_collect))
#define STATES_SIZE  (COLLECT_SIZE + ALIGNED(sizeof(struct ep_deliver)))

static unsigned threads_of(size_t memory_size)
{
    size_t threads = memory_size / (EP_MEMORY_DEFAULT / EP_THREADS);

    return threads < THREADS_LEAST ? THREADS_LEAST : threads > EP_THREADS_MOST ? EP_THREADS_MOST : (unsigned)threads;
}

static size_t port_at(unsigned threads)
{
    return WAITERS_AT + ALIGNED(threads * sizeof(struct ep_waiter));
}

size_t ep_layout_private(size_t memory_size)
{
    const unsigned threads = threads_of(memory_size);

    return port_at(threads) + ALIGNED(ep_port_memory_size(threads));
}

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
    labels->name_capacity = ep->threads;
    labels->name = (struct ep_thread_name *)(void *)at;
    size_t used = labels->capacity * sizeof labels->key[0] + labels->name_capacity * sizeof labels->name[0];
    return (used + 15) & ~(size_t)15;
}

/* Leaves pages untouched that are zero already, as of static memory: many threads and a large ring cost nothing before
 * they are needed. */
static void zero(uint8_t *at, size_t bytes)
{
    uintptr_t *word = (uintptr_t *)(void *)at;

    for (size_t i = 0; i < bytes / sizeof *word; i++)
        if (word[i])
            word[i] = 0;
}

int ep_layout(const struct ep_config *config, struct ep **out)
{
    uintptr_t start = ((uintptr_t)config->memory + _Alignof(struct ep) - 1) & ~(uintptr_t)(_Alignof(struct ep) - 1);
    size_t lost = start - (uintptr_t)config->memory;
    unsigned threads = threads_of(config->memory_size);
    const size_t states = ep_layout_private(config->memory_size), fixed = states + STATES_SIZE;

    if (config->memory_size < lost + fixed)
        return -ENOMEM;
    size_t left = config->memory_size - lost - fixed;
    unsigned words = ring_words(left / 6);
    size_t ring = words * sizeof(uintptr_t);
    size_t outbox = left / 4 & ~(size_t)15;
    if (outbox > OUTBOX_MAX)
        outbox = OUTBOX_MAX;
    size_t names = threads * sizeof(struct ep_thread_name);
    if (outbox < OUTBOX_MIN || left < ring + outbox + left / 16 + names + TREE_MIN)
        return -ENOMEM;

    uint8_t *at = (uint8_t *)start;
    if (!(config->flags & EP_ZERO_MEMORY))
        zero(at, fixed + ring);
    struct ep *ep = (struct ep *)(void *)at;
    ep->threads = threads;
    ep->waiter = (struct ep_waiter *)(void *)(at + WAITERS_AT);
    ep->port_memory = at + port_at(threads);
    ep->collect = (struct ep_collect *)(void *)(at + states);
    ep->deliver = (struct ep_deliver *)(void *)(at + states + COLLECT_SIZE);
    at += fixed;
    ep_ring_init(&ep->ring, (atomic_uintptr_t *)(void *)at, words);
    at += ring;
    unsigned labels_most = LABELS_MAX;
    size_t tree_most = SIZE_MAX;
    EP_EACH_FEATURE (it, limit)
        it.feature->limit(&labels_most, &tree_most);
    size_t labels = labels_carve(ep, at, left / 16, labels_most);
    at += labels;
    ep_outbox_init(&ep->deliver->outbox, at, outbox);
    at += outbox;
    size_t tree = left - ring - labels - outbox;
    if (tree > tree_most)
        tree = tree_most;
    ep_tree_init(&ep->collect->tree, at, tree);
    ep->memory_used = (uint32_t)(lost + fixed + left);
    *out = ep;
    return 0;
}
