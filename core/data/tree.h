/*
 * The calling-context tree: frames, with entries by kind and context.
 */
#ifndef EP_DATA_TREE_H
#define EP_DATA_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/edgeprof.h"
#include "core/unwind/frames.h"

struct ep_node {
    uint32_t frame;                  /* linear address */
    uint16_t parent, child, sibling; /* 0: none */
    uint16_t entry;                  /* first entry + 1; 0: none */
};

/* The measured value of one stack, one kind and one context. */
struct ep_entry {
    uint16_t next;         /* next entry of the same node, + 1; 0: none */
    uint16_t kind : 4;     /* enum ep_kind */
    uint16_t context : 12; /* place in the interval's contexts, 0: none */
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

/* Removes all unmarked nodes, and all entries. Parents of marked nodes must be marked. Until
 * ep_tree_clear_entries(), node[old id].entry holds the new id of a kept node. */
void ep_tree_keep(struct ep_tree *tree);

/* The child of `parent` with that frame, created if needed; 0 if there is no room. */
unsigned ep_tree_child(struct ep_tree *tree, unsigned parent, uint32_t frame);

/* Moves *node one frame towards the leaf. False: no room, *node is a [truncated] node now. */
bool ep_tree_descend(struct ep_tree *tree, unsigned *node, uint32_t frame);

/* The entry of a node, created if needed; NULL if there is no room. Context: collect. */
struct ep_entry *ep_tree_entry(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned context);

/* Adds to a node's entry. False: no room, the weight was added to [truncated]. */
bool ep_tree_add(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned context, uint32_t count,
                 uint64_t value);

#endif
