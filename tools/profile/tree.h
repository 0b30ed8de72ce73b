/* A symbolized profile for display: the calls as a tree of names, and the table of functions. */
#ifndef ET_TREE_H
#define ET_TREE_H

#include "tools/profile/profile.h"

/* Default for the maximum number of calls. The smallest are pruned first; their values remain in their parents' totals.
 */
#define ET_TREE_SHOWN 8192

struct et_call {
    uint32_t parent, first_child, next; /* indices, 0: none; call 0 is the root */
    uint32_t function;                  /* string number in the profile; root: 0 */
    uint32_t module;                    /* index + 1 into the profile's modules */
    uint32_t file, line;                /* the call's hottest line: most time with callees */
    uint64_t self, total;
    uint64_t self_count, total_count; /* of samples, objects, waits; 0: unknown */
};

struct et_tree {
    struct et_call *calls; /* parents before children; children largest first */
    size_t count, capacity;
    size_t pruned; /* calls that are not shown */
};

/* A line of a function. A stack counts once in total, even if it has the line several times. */
struct et_hot_line {
    uint32_t file, line; /* 0: unknown */
    uint64_t self, total;
};

/* A function, summed over all its calls; recursion counts once in total. */
struct et_function {
    uint32_t function, module, file, line; /* file, line: of its hottest line */
    uint32_t first_line, line_count;       /* its lines in the table's, hottest first; at least one */
    uint64_t self, total;
};

struct et_table {
    struct et_function *rows; /* largest self first, then total, then name */
    size_t count;
    struct et_hot_line *lines;
};

/* Bytes of memory for the profile's tree and table before pruning, about. */
size_t et_tree_memory(const struct et_profile *profile);
void et_tree_make(const struct et_profile *profile, size_t shown, struct et_tree *tree);
void et_tree_free(struct et_tree *tree);
/* Writes the path from the root's child to this call, at most the ET_TREE_PATH innermost calls, and returns its length.
 */
#define ET_TREE_PATH 8192
size_t et_tree_path(const struct et_tree *tree, uint32_t call, uint32_t path[ET_TREE_PATH]);

/* The tree with a call for each line instead of each function. Children are not linked. et_tree_free() it. */
void et_tree_by_line(const struct et_profile *profile, struct et_tree *tree);

/* Steps to build other trees of a profile's functions. et_tree_begin() makes the root. et_tree_child() returns the
 * parent's call of a function, creating it; children: a zeroed map, shared by all calls of a tree. et_tree_add_line()
 * adds `total` to the line of `like`, for the call; lines: zeroed, shared likewise. et_tree_sum() computes totals from
 * self values, selects each call's hottest line, and frees *children and *lines. et_tree_finish() prunes and links. */
struct et_line_sums;
void et_tree_begin(struct et_tree *tree);
uint32_t et_tree_child(struct et_tree *tree, struct et_map *children, uint32_t parent, const struct et_call *like);
void et_tree_add_line(struct et_line_sums *lines, uint32_t call, const struct et_call *like, uint64_t total);
void et_tree_sum(struct et_tree *tree, struct et_map *children, struct et_line_sums *lines);
void et_tree_finish(const struct et_profile *profile, size_t shown, struct et_tree *tree);

void et_table_make(const struct et_profile *profile, struct et_table *table);
/* Sorts by total or by self. */
void et_table_sort(struct et_table *table, const struct et_profile *profile, bool by_total);
void et_table_free(struct et_table *table);

#endif
