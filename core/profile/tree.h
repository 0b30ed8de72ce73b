/*
 * The calling-context tree: frames, with entries by kind and label set.
 */
#ifndef EP_DATA_TREE_H
#define EP_DATA_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/edgeprof.h>
#include "core/unwind/frames.h"

struct ep_node {
    uint32_t frame;                  /* linear address */
    uint16_t parent, child, sibling; /* 0: none */
    uint16_t entry;                  /* first entry + 1; 0: none */
};

/* The measured value of one stack, one kind and one label set. */
struct ep_entry {
    uint16_t next;       /* next entry of the same node, + 1; 0: none */
    uint16_t kind : 4;   /* enum ep_kind */
    uint16_t label : 12; /* place in the interval's label sets, 0: none */
    uint32_t count;
    uint64_t value; /* in the kind's unit */
};

struct ep_tree {
    struct ep_node *node; /* [0] is the root */
    struct ep_entry *entry;
    unsigned nodes, node_capacity; /* nodes includes the root */
    unsigned entries, entry_capacity;
    uint32_t *mark;     /* one bit a node, for encoders and ep_tree_keep() */
    unsigned truncated; /* [truncated] node under the root; ep_tree_clear() creates it */
    bool full;
};

/* Context: collect, all of them. */
void ep_tree_init(struct ep_tree *tree, void *memory, size_t size);
void ep_tree_clear(struct ep_tree *tree);         /* removes all nodes and entries */
void ep_tree_clear_entries(struct ep_tree *tree); /* keeps the nodes */
/* Sets the entries of some kinds of nodes below limit to 0; keeps them in place. */
void ep_tree_zero_entries(struct ep_tree *tree, unsigned limit, uint32_t kinds);

struct ep_sums {
    uint64_t count[EP_KINDS], value[EP_KINDS];
    uint32_t kinds;   /* kinds with a count or value */
    uint64_t lost_ns; /* CPU time in [lost: ...] frames under the root, already counted as lost */
};
/* Adds up the entries of nodes below limit, by kind. */
void ep_tree_sum(const struct ep_tree *tree, unsigned limit, struct ep_sums *sums);

/* An entry stays when its data are sent; then it is 0. */
static inline bool ep_entry_has_data(const struct ep_entry *entry)
{
    return entry->count || entry->value;
}
/* True if an entry of the node, of any kind, has data. */
bool ep_tree_has_data(const struct ep_tree *tree, unsigned node);

/* Clears all marks. */
void ep_tree_unmark(struct ep_tree *tree);
static inline bool ep_tree_is_marked(const struct ep_tree *tree, unsigned node)
{
    return tree->mark[node / 32] >> (node % 32) & 1u;
}
/* Marks a node and its callers up to one that is marked. Returns how many it marked. */
unsigned ep_tree_mark(struct ep_tree *tree, unsigned node);

/* Removes all unmarked nodes, and all entries. Parents of marked nodes must be marked. Until
 * ep_tree_clear_entries(), node[old id].entry holds the new id of a kept node. */
void ep_tree_keep(struct ep_tree *tree);

/* Full: the next sample may not fit. Low: that, and an eighth of the nodes or entries. */
bool ep_tree_is_full(const struct ep_tree *tree);
bool ep_tree_is_low(const struct ep_tree *tree);
bool ep_tree_nodes_are_low(const struct ep_tree *tree);

/* The child of `parent` with that frame, created if needed; 0 if there is no room. */
unsigned ep_tree_child(struct ep_tree *tree, unsigned parent, uint32_t frame);

/* The same without a reserve of nodes: for the copy of a tree. ep_tree_append() adds a child whether or not there is
 * one with that frame. */
unsigned ep_tree_child_of(struct ep_tree *tree, unsigned parent, uint32_t frame);
unsigned ep_tree_append(struct ep_tree *tree, unsigned parent, uint32_t frame);

/* Moves *node one frame towards the leaf. False: no room, *node is a [truncated] node now. */
bool ep_tree_descend(struct ep_tree *tree, unsigned *node, uint32_t frame);

/* The same, for a frame that is likely the first child's: one that was sampled moves to the front. */
static inline bool ep_tree_step(struct ep_tree *tree, unsigned *node, uint32_t frame)
{
    unsigned child = tree->node[*node].child;

    if (!child || tree->node[child].frame != frame)
        return ep_tree_descend(tree, node, frame);
    *node = child;
    return true;
}

/* Moves *node to its [truncated] child, or to the one under the root. */
void ep_tree_truncate(struct ep_tree *tree, unsigned *node);

/* The entry of a node, created if needed; NULL if there is no room. Context: collect. */
struct ep_entry *ep_tree_entry(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned label);

/* The link to that entry of a node, or the place for one: entry + 1, as far as ep_tree_is_entry() confirms it.
 * Context: collect. */
uint16_t *ep_tree_entry_place(struct ep_tree *tree, unsigned node, unsigned kind, unsigned label);
bool ep_tree_is_entry(const struct ep_tree *tree, unsigned place, unsigned kind, unsigned label);

/* Adds to a node's entry. False: no room, the weight was added to [truncated]. */
bool ep_tree_add(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned label, uint32_t count,
                 uint64_t value);

#endif
