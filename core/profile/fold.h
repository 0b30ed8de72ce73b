/*
 * Makes room in a full tree: merges stacks without losing weight.
 */
#ifndef EP_DATA_FOLD_H
#define EP_DATA_FOLD_H

#include "core/profile/tree.h"

/* Which detail to give up. */
struct ep_fold {
    bool labels;                                       /* entries of one stack and kind that differ in label set */
    uint32_t (*frame)(void *argument, uint32_t frame); /* stacks whose frames it makes the same; NULL: none */
    void *argument;
    unsigned depth; /* frames beyond this depth, which become one [truncated]; 0: none */
};

/* Merges nodes and gives them new ids. Marked nodes keep frame and depth; callers of marked nodes must be marked. Until
 * ep_tree_folded(), node[old id].entry holds the new id of every old node. Context: collect. */
void ep_tree_fold(struct ep_tree *tree, const struct ep_fold *fold);
/* Merges the entries. Context: collect. */
void ep_tree_folded(struct ep_tree *tree, const struct ep_fold *fold);

/* Marks nodes with entries and their callers, beside those that are marked. Returns how many it marked. Context:
 * collect. */
unsigned ep_tree_mark_used(struct ep_tree *tree);

#endif
