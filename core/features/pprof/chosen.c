/*
 * The samples that an encoding writes, in their order, and the nodes and labels that these need. A location's id is the
 * rank of its node among the marked ones.
 */
#include "core/features/pprof/parts.h"

#include <string.h>

static bool is_included(const struct ep_encoding *encoding, const struct ep_entry *entry)
{
    return (encoding->kinds & EP_KIND_BIT(entry->kind)) && ep_entry_has_data(entry);
}

static unsigned node_after(const struct ep_encoding *encoding, unsigned id)
{
    const struct ep_tree *tree = encoding->tree;

    if (!encoding->callers_first)
        return id + 1 < tree->nodes ? id + 1 : 0;
    if (tree->node[id].child)
        return tree->node[id].child;
    while (id && !tree->node[id].sibling)
        id = tree->node[id].parent;
    return id ? tree->node[id].sibling : 0;
}

bool ep_pprof_next(struct ep_pprof_walk *at, const struct ep_encoding *encoding)
{
    const struct ep_tree *tree = encoding->tree;

    for (;;) {
        at->entry = at->entry ? tree->entry[at->entry - 1].next : at->node ? tree->node[at->node].entry : 0;
        while (!at->entry) {
            at->node = node_after(encoding, at->node);
            if (!at->node)
                return false;
            at->entry = tree->node[at->node].entry;
        }
        if (!is_included(encoding, &tree->entry[at->entry - 1]))
            continue;
        unsigned index = at->index++;
        if (encoding->samples_end && index >= encoding->samples_end)
            return false;
        if (index >= encoding->samples_begin)
            return true;
    }
}

const struct ep_entry *ep_pprof_entry(const struct ep_encoding *encoding, const struct ep_pprof_walk *at)
{
    return &encoding->tree->entry[at->entry - 1];
}

unsigned ep_encode_pprof_sum(const struct ep_encoding *encoding, struct ep_sums *sums)
{
    struct ep_pprof_walk at = {0};
    unsigned samples = 0;

    *sums = (struct ep_sums){0};
    for (; ep_pprof_next(&at, encoding); samples++) {
        const struct ep_entry *entry = ep_pprof_entry(encoding, &at);
        sums->count[entry->kind] += entry->count;
        sums->value[entry->kind] += entry->value;
        if (entry->kind == EP_KIND_CPU && ep_is_lost(encoding->tree->node[at.node].frame))
            sums->lost_ns += entry->value;
    }
    return samples;
}

void ep_pprof_mark(const struct ep_encoding *encoding, struct ep_scratch *scratch)
{
    struct ep_tree *tree = encoding->tree;
    struct ep_pprof_walk at = {0};
    unsigned before = 0;

    ep_tree_unmark(tree);
    memset(scratch->labels, 0, sizeof scratch->labels);
    while (ep_pprof_next(&at, encoding)) {
        unsigned label = ep_pprof_entry(encoding, &at)->label;
        (void)ep_tree_mark(tree, at.node);
        if (label)
            scratch->labels[label / 32] |= 1u << (label % 32);
    }
    for (unsigned i = 0; i < (tree->node_capacity + 31) / 32; i++) {
        scratch->before[i] = (uint16_t)before;
        before += (unsigned)__builtin_popcount(tree->mark[i]);
    }
    scratch->marked = before;
}

unsigned ep_pprof_rank(const struct ep_source *source, unsigned id)
{
    uint32_t marks = source->encoding->tree->mark[id / 32] & (0xffffffffu >> (31 - id % 32));

    return source->scratch->before[id / 32] + (unsigned)__builtin_popcount(marks);
}

unsigned ep_pprof_label_rank(const struct ep_source *source, unsigned label)
{
    const uint32_t *mark = source->scratch->labels;
    unsigned count = 0;

    for (unsigned i = 0; i < label / 32; i++)
        count += (unsigned)__builtin_popcount(mark[i]);
    return count + (unsigned)__builtin_popcount(mark[label / 32] & (0xffffffffu >> (31 - label % 32)));
}

bool ep_pprof_has_label(const struct ep_source *source, unsigned label)
{
    return source->scratch->labels[label / 32] >> (label % 32) & 1;
}
