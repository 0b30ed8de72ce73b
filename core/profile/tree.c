/*
 * The calling-context tree: stacks that share their root side share nodes, in a fixed pool of 12-byte nodes.
 *
 * Node 0 is the root. A node's id is its place in the pool, so ids are in order of creation, which the format uses. The
 * leaf node of a stack has a short chain of entries with the measured values, one a kind and label set. If the pool is
 * full, a new stack keeps the part of its path that exists. It then ends in a [truncated] child if one still fits, else
 * in the [truncated] node under the root. So detail is lost, but totals are exact.
 *
 * Frames have no meaning here. Single nodes are never freed: the collect thread clears all nodes, or all unmarked ones.
 */
#include <edgeprof/options.h>
#include "core/profile/tree.h"

#include <string.h>

#define NODES_PER_ENTRY 4
#define GROUP_ENTRIES   8 /* a group: 8 entries, 32 nodes and their 32 mark bits */
/* The last nodes are reserved for [truncated] children, so that merged weight stays near its caller. */
#define RESERVE_DIVISOR 16
/* Nodes and entries reserved for CPU time shown as lost: if such a message is lost again, the part already counted
 * as lost must be known. */
#define LOST_ROOM 4

void ep_tree_init(struct ep_tree *tree, void *memory, size_t size)
{
    size_t nodes = GROUP_ENTRIES * NODES_PER_ENTRY;
    size_t group = GROUP_ENTRIES * sizeof(struct ep_entry) + nodes * sizeof(struct ep_node) + sizeof(uint32_t);
    size_t groups = size / group;

    if (groups * nodes > UINT16_MAX)
        groups = UINT16_MAX / nodes;
    tree->entry = memory;
    tree->entry_capacity = (unsigned)(groups * GROUP_ENTRIES);
    tree->node = (struct ep_node *)(void *)(tree->entry + tree->entry_capacity);
    tree->node_capacity = (unsigned)(groups * nodes);
    tree->mark = (uint32_t *)(void *)(tree->node + tree->node_capacity);
    ep_tree_clear(tree);
}

/* A node's entries are in descending order of label set, then by kind: most stacks belong to the newest label sets, so
 * the search ends early, above all when there is no such entry yet. */
static unsigned order_of(unsigned label, unsigned kind)
{
    return label << 4 | (0xf - kind);
}

uint16_t *ep_tree_entry_place(struct ep_tree *tree, unsigned node, unsigned kind, unsigned label)
{
    unsigned order = order_of(label, kind);
    uint16_t *place = &tree->node[node].entry;

    while (*place && order_of(tree->entry[*place - 1].label, tree->entry[*place - 1].kind) > order)
        place = &tree->entry[*place - 1].next;
    return place;
}

bool ep_tree_is_entry(const struct ep_tree *tree, unsigned place, unsigned kind, unsigned label)
{
    return place && tree->entry[place - 1].kind == kind && tree->entry[place - 1].label == label;
}

struct ep_entry *ep_tree_entry(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned label)
{
    uint16_t *place = ep_tree_entry_place(tree, node, kind, label);

    if (ep_tree_is_entry(tree, *place, kind, label))
        return &tree->entry[*place - 1];
    bool lost = kind == EP_KIND_CPU && ep_is_lost(tree->node[node].frame);
    if (tree->entries >= tree->entry_capacity - (lost ? 0 : LOST_ROOM))
        return NULL;
    struct ep_entry *entry = &tree->entry[tree->entries++];
    *entry = (struct ep_entry){.next = *place, .kind = kind & 0xf, .label = label & 0xfff};
    *place = (uint16_t)tree->entries;
    return entry;
}

/* Creates an entry of every kind for [truncated], so that there is always a place for weight. */
static void reserve_entries(struct ep_tree *tree)
{
    for (unsigned kind = EP_KINDS - 1; kind >= EP_KIND_CPU; kind--)
        (void)ep_tree_entry(tree, tree->truncated, (enum ep_kind)kind, 0);
}

void ep_tree_clear(struct ep_tree *tree)
{
    memset(&tree->node[0], 0, sizeof tree->node[0]);
    tree->nodes = 1;
    tree->entries = 0;
    tree->full = false;
    tree->truncated = ep_tree_child(tree, 0, EP_FRAME_TRUNCATED);
    reserve_entries(tree);
}

void ep_tree_clear_entries(struct ep_tree *tree)
{
    for (unsigned i = 0; i < tree->nodes; i++)
        tree->node[i].entry = 0;
    tree->entries = 0;
    reserve_entries(tree);
}

void ep_tree_zero_entries(struct ep_tree *tree, unsigned limit, uint32_t kinds)
{
    for (unsigned id = 1; id < limit; id++)
        for (unsigned i = tree->node[id].entry; i; i = tree->entry[i - 1].next)
            if (kinds & EP_KIND_BIT(tree->entry[i - 1].kind))
                tree->entry[i - 1].count = 0, tree->entry[i - 1].value = 0;
}

void ep_tree_sum(const struct ep_tree *tree, unsigned limit, struct ep_sums *sums)
{
    *sums = (struct ep_sums){0};
    for (unsigned id = 1; id < limit; id++) {
        for (unsigned i = tree->node[id].entry; i; i = tree->entry[i - 1].next) {
            const struct ep_entry *entry = &tree->entry[i - 1];
            sums->count[entry->kind] += entry->count;
            sums->value[entry->kind] += entry->value;
            if (ep_entry_has_data(entry))
                sums->kinds |= EP_KIND_BIT(entry->kind);
            if (entry->kind == EP_KIND_CPU && ep_is_lost(tree->node[id].frame))
                sums->lost_ns += entry->value;
        }
    }
}

bool ep_tree_has_data(const struct ep_tree *tree, unsigned node)
{
    for (unsigned i = tree->node[node].entry; i; i = tree->entry[i - 1].next)
        if (ep_entry_has_data(&tree->entry[i - 1]))
            return true;
    return false;
}

void ep_tree_unmark(struct ep_tree *tree)
{
    memset(tree->mark, 0, (tree->node_capacity + 31) / 32 * sizeof tree->mark[0]);
}

unsigned ep_tree_mark(struct ep_tree *tree, unsigned node)
{
    unsigned marked = 0;

    for (; node && !ep_tree_is_marked(tree, node); node = tree->node[node].parent) {
        tree->mark[node / 32] |= 1u << (node % 32);
        marked++;
    }
    return marked;
}

void ep_tree_keep(struct ep_tree *tree)
{
    unsigned kept = 1;

    (void)ep_tree_mark(tree, tree->truncated);
    tree->node[0].child = 0;
    for (unsigned id = 1; id < tree->nodes; id++) {
        if (!ep_tree_is_marked(tree, id))
            continue;
        /* A parent comes before its children, and nodes only move down. So .entry of an old id still holds the new
         * id. */
        unsigned old = tree->node[id].parent, parent = old ? tree->node[old].entry : 0;
        tree->node[kept].frame = tree->node[id].frame;
        tree->node[kept].parent = (uint16_t)parent;
        tree->node[kept].child = 0;
        tree->node[kept].sibling = tree->node[parent].child;
        tree->node[parent].child = (uint16_t)kept;
        tree->node[id].entry = (uint16_t)kept++;
    }
    tree->truncated = tree->node[tree->truncated].entry;
    tree->nodes = kept;
    tree->full = false;
}

/* Nodes of the deepest stack with its special frames, entries of a CPU sample that is in a dump as well. */
#define SAMPLE_NODES   (EP_MAX_DEPTH + 3)
#define SAMPLE_ENTRIES 3
#define LOW_DIVISOR    8

static bool has_room(const struct ep_tree *tree, unsigned nodes, unsigned entries)
{
    if (nodes > tree->node_capacity / 3) /* small trees do not hold the deepest stacks */
        nodes = tree->node_capacity / 3;
    return tree->nodes + nodes + tree->node_capacity / RESERVE_DIVISOR <= tree->node_capacity &&
           tree->entries + entries + LOST_ROOM <= tree->entry_capacity;
}

bool ep_tree_is_full(const struct ep_tree *tree)
{
    return !has_room(tree, SAMPLE_NODES, SAMPLE_ENTRIES);
}

bool ep_tree_nodes_are_low(const struct ep_tree *tree)
{
    return !has_room(tree, SAMPLE_NODES + tree->node_capacity / LOW_DIVISOR, 0);
}

bool ep_tree_is_low(const struct ep_tree *tree)
{
    return ep_tree_nodes_are_low(tree) || !has_room(tree, 0, SAMPLE_ENTRIES + tree->entry_capacity / LOW_DIVISOR);
}

unsigned ep_tree_append(struct ep_tree *tree, unsigned parent, uint32_t frame)
{
    if (tree->nodes >= tree->node_capacity)
        return 0;
    unsigned id = tree->nodes++;
    struct ep_node *up = &tree->node[parent];
    tree->node[id] = (struct ep_node){.frame = frame, .parent = (uint16_t)parent, .sibling = up->child};
    up->child = (uint16_t)id;
    return id;
}

static unsigned node_make(struct ep_tree *tree, unsigned parent, uint32_t frame)
{
    unsigned reserve = tree->node_capacity / RESERVE_DIVISOR;
    unsigned limit = tree->node_capacity;

    if (!ep_is_lost(frame))
        limit -= frame == EP_FRAME_TRUNCATED ? LOST_ROOM : reserve;
    if (tree->nodes < limit)
        return ep_tree_append(tree, parent, frame);
    tree->full = true;
    return 0;
}

/* 0: there is none. */
static unsigned child_find(struct ep_tree *tree, unsigned parent, uint32_t frame)
{
    unsigned before = 0;

    for (unsigned id = tree->node[parent].child; id; id = tree->node[id].sibling) {
        if (tree->node[id].frame != frame) {
            before = id;
            continue;
        }
        if (before) { /* move it to the front: it is likely to be sampled again */
            tree->node[before].sibling = tree->node[id].sibling;
            tree->node[id].sibling = tree->node[parent].child;
            tree->node[parent].child = (uint16_t)id;
        }
        return id;
    }
    return 0;
}

unsigned ep_tree_child(struct ep_tree *tree, unsigned parent, uint32_t frame)
{
    unsigned id = child_find(tree, parent, frame);

    return id ? id : node_make(tree, parent, frame);
}

unsigned ep_tree_child_of(struct ep_tree *tree, unsigned parent, uint32_t frame)
{
    unsigned id = child_find(tree, parent, frame);

    return id ? id : ep_tree_append(tree, parent, frame);
}

void ep_tree_truncate(struct ep_tree *tree, unsigned *node)
{
    unsigned child = ep_tree_child(tree, *node, EP_FRAME_TRUNCATED);

    *node = child ? child : tree->truncated;
}

bool ep_tree_descend(struct ep_tree *tree, unsigned *node, uint32_t frame)
{
    unsigned child = ep_tree_child(tree, *node, frame);

    if (child)
        *node = child;
    else
        ep_tree_truncate(tree, node);
    return child != 0;
}

bool ep_tree_add(struct ep_tree *tree, unsigned node, enum ep_kind kind, unsigned label, uint32_t count, uint64_t value)
{
    struct ep_entry *entry = ep_tree_entry(tree, node, kind, label);
    bool placed = entry != NULL;

    if (!placed) {
        tree->full = true;
        entry = ep_tree_entry(tree, tree->truncated, kind, 0);
    }
    if (entry) {
        entry->count += count;
        entry->value += value;
    }
    return placed;
}
