/*
 * What was measured: a tree of frames with entries by kind and context.
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

/* What was measured for one stack, of one kind, in one context. */
struct ep_entry {
    uint16_t next;         /* of the same node, + 1 */
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
    uint32_t *mark;     /* one bit a node, for whoever encodes */
    unsigned truncated; /* node under the root, made at clear so that there always is one */
    bool full;
};

/* Context: collect, all of them. */
void ep_tree_init(struct ep_tree *tree, void *memory, size_t size);
void ep_tree_clear(struct ep_tree *tree);         /* forgets everything */
void ep_tree_clear_entries(struct ep_tree *tree); /* keeps the nodes */
/* Of nodes below limit, of some kinds; keeps their place. */
void ep_tree_zero_entries(struct ep_tree *tree, unsigned limit, uint32_t kinds);

struct ep_sums {
    uint64_t count[EP_KINDS], value[EP_KINDS];
    uint32_t kinds;   /* that have any */
    uint64_t lost_ns; /* of CPU: in [lost: ...] frames under the root, which was counted when it was lost */
};
/* Totals of the entries of nodes below limit, by kind. */
void ep_tree_sum(const struct ep_tree *tree, unsigned limit, struct ep_sums *sums);

/* Forgets all nodes that are not marked, and all entries. Parents of marked nodes must be marked. Until
 * ep_tree_clear_entries(), node[old id].entry is a kept node's new id. */
void ep_tree_keep(struct ep_tree *tree);

/* The child of `parent` with that frame, made when there is room. 0 when there is not. */
unsigned ep_tree_child(struct ep_tree *tree, unsigned parent, uint32_t frame);

/* Goes one frame towards the leaf. False: no room, *node is a [truncated] now. */
bool ep_tree_descend(struct ep_tree *tree, unsigned *node, uint32_t frame);

/* The entry of a node, made when there is room; NULL when there is not. Context: collect. */
struct ep_entry *ep_tree_entry(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned context);

/* Adds to the entry of a node. False: no room, it was added to [truncated]. */
bool ep_tree_add(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned context, uint32_t count,
                 uint64_t value);

#endif
