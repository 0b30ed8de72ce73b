/*
 * Folding: each old node gets a place in a new tree, which grows in the same memory behind the place where the old one
 * is read. Every old node adds at most one new one, so the new tree never overtakes.
 *
 *   ep_tree_fold -> owners_note, place_of -> child_of      nodes; .entry of an old id tells the new one
 *   ep_tree_folded -> entry_add                            entries
 */
#include "core/profile/fold.h"

/* Each entry's owner in place of the next entry, so that .entry of nodes is free. */
static void owners_note(struct ep_tree *tree)
{
    for (unsigned id = 0; id < tree->nodes; id++) {
        for (unsigned i = tree->node[id].entry, next; i; i = next) {
            next = tree->entry[i - 1].next;
            tree->entry[i - 1].next = (uint16_t)id;
        }
    }
}

/* The new child, created at `kept` if needed. */
static unsigned child_of(struct ep_tree *tree, unsigned parent, uint32_t frame, unsigned *kept)
{
    unsigned id = tree->node[parent].child;

    while (id && tree->node[id].frame != frame)
        id = tree->node[id].sibling;
    if (id)
        return id;
    struct ep_node *node = &tree->node[*kept];
    node->frame = frame;
    node->parent = (uint16_t)parent;
    node->child = 0;
    node->sibling = tree->node[parent].child;
    tree->node[parent].child = (uint16_t)*kept;
    return (*kept)++;
}

static unsigned depth_of(const struct ep_tree *tree, unsigned node)
{
    unsigned depth = 0;

    for (; node; node = tree->node[node].parent)
        depth++;
    return depth;
}

static unsigned place_of(struct ep_tree *tree, const struct ep_fold *fold, const struct ep_node *old, bool marked,
                         unsigned *kept)
{
    unsigned parent = old->parent ? tree->node[old->parent].entry : 0;
    uint32_t frame = old->frame;

    if (parent && tree->node[parent].frame == EP_FRAME_TRUNCATED)
        return parent;
    if (marked)
        return child_of(tree, parent, frame, kept);
    if (fold->depth && depth_of(tree, parent) >= fold->depth)
        frame = EP_FRAME_TRUNCATED;
    else if (fold->frame)
        frame = fold->frame(fold->argument, frame);
    return child_of(tree, parent, frame, kept);
}

void ep_tree_fold(struct ep_tree *tree, const struct ep_fold *fold)
{
    unsigned kept = 1;

    owners_note(tree);
    tree->node[0].child = 0;
    for (unsigned id = 1; id < tree->nodes; id++) {
        const struct ep_node old = tree->node[id];
        unsigned place = place_of(tree, fold, &old, ep_tree_is_marked(tree, id), &kept);
        tree->node[id].entry = (uint16_t)place;
    }
    for (unsigned i = 0; i < tree->entries; i++)
        tree->entry[i].next = tree->entry[i].next ? tree->node[tree->entry[i].next].entry : 0;
    tree->truncated = tree->node[tree->truncated].entry;
    tree->nodes = kept;
    tree->full = false;
}

static void entry_add(struct ep_tree *tree, struct ep_entry entry)
{
    uint16_t *place = ep_tree_entry_place(tree, entry.next, entry.kind, entry.label);

    if (ep_tree_is_entry(tree, *place, entry.kind, entry.label)) {
        tree->entry[*place - 1].count += entry.count;
        tree->entry[*place - 1].value += entry.value;
        return;
    }
    entry.next = *place;
    tree->entry[tree->entries++] = entry;
    *place = (uint16_t)tree->entries;
}

void ep_tree_folded(struct ep_tree *tree, const struct ep_fold *fold)
{
    unsigned entries = tree->entries;

    for (unsigned id = 0; id < tree->nodes; id++)
        tree->node[id].entry = 0;
    tree->entries = 0;
    for (unsigned i = 0; i < entries; i++) {
        struct ep_entry entry = tree->entry[i];
        if (fold->labels)
            entry.label = 0;
        if (ep_entry_has_data(&entry) || entry.next == tree->truncated)
            entry_add(tree, entry);
    }
}

unsigned ep_tree_mark_used(struct ep_tree *tree)
{
    unsigned marked = 0;

    for (unsigned id = 1; id < tree->nodes; id++)
        if (tree->node[id].entry)
            marked += ep_tree_mark(tree, id);
    return marked;
}
