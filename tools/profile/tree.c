/*
 * See tree.h. A profile's node may become several calls (inlined functions), and nodes with different addresses in one
 * function become one call. Parents have smaller indices than their children, so walking the arrays backwards sums
 * totals.
 */
#include "tools/profile/tree.h"

#include <stdlib.h>
#include <string.h>

uint32_t et_tree_child(struct et_tree *tree, struct et_map *children, uint32_t parent, const struct et_call *like)
{
    uint64_t *known = et_map_at(children, (uint64_t)parent << 32 | like->function);
    if (*known) {
        return (uint32_t)*known;
    }
    tree->calls = et_reserve(tree->calls, &tree->capacity, tree->count + 1, sizeof *tree->calls);
    tree->calls[tree->count] = (struct et_call){
        .parent = parent, .function = like->function, .module = like->module, .file = like->file, .line = like->line};
    *known = tree->count;
    return (uint32_t)tree->count++;
}

void et_tree_begin(struct et_tree *tree)
{
    *tree = (struct et_tree){0};
    tree->calls = et_reserve(NULL, &tree->capacity, 1, sizeof *tree->calls);
    tree->count = 1;
}

void et_tree_sum(struct et_tree *tree)
{
    for (size_t i = tree->count; i-- > 0;) {
        struct et_call *call = &tree->calls[i];
        call->total += call->self;
        if (i) {
            tree->calls[call->parent].total += call->total;
        }
    }
}

struct tree_build {
    const struct et_profile *profile;
    struct et_tree *tree;
    struct et_map children; /* for et_tree_child() */
};

/* Adds the calls of every node of the profile. calls[]: each node's call, 0 for the root. */
static void add_calls(struct tree_build *b, uint32_t *calls)
{
    const struct et_profile *p = b->profile;
    for (size_t i = 1; i < p->node_count; i++) {
        const struct et_frame *frame = &p->frames[p->nodes[i].frame];
        uint32_t call = calls[p->nodes[i].parent];
        for (uint32_t k = frame->line_count; k-- > 0;) {
            const struct et_line *line = &p->lines[frame->first_line + k];
            struct et_call like = {
                .function = line->function, .module = frame->module, .file = line->file, .line = line->line};
            call = et_tree_child(b->tree, &b->children, call, &like);
        }
        calls[i] = call;
    }
}

/* Makes the tree of all calls with their sums. Children are not linked yet. */
static void make_whole_tree(const struct et_profile *profile, struct et_tree *tree)
{
    struct tree_build b = {.profile = profile, .tree = tree};
    et_tree_begin(tree);
    uint32_t *calls = et_alloc(profile->node_count, sizeof *calls);
    add_calls(&b, calls);
    for (size_t i = 0; i < profile->node_count; i++) {
        tree->calls[calls[i]].self += profile->nodes[i].self;
    }
    et_tree_sum(tree);
    free(calls);
    et_map_free(&b.children);
}

static int compare_sizes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The smallest total among the `shown` largest calls. */
static uint64_t least_total(const struct et_tree *tree, size_t shown)
{
    uint64_t *totals = et_alloc(tree->count, sizeof *totals);
    for (size_t i = 0; i < tree->count; i++) {
        totals[i] = tree->calls[i].total;
    }
    qsort(totals, tree->count, sizeof *totals, compare_sizes);
    uint64_t least = totals[shown - 1];
    free(totals);
    return least;
}

/* Keeps calls above the threshold, and the first calls equal to it that fit. Parents precede their children and are
 * never smaller, so the result is a tree. */
static void prune_tree(struct et_tree *tree, size_t shown)
{
    if (tree->count <= shown) {
        return;
    }
    uint64_t least = least_total(tree, shown);
    size_t above = 0;
    for (size_t i = 0; i < tree->count; i++) {
        above += tree->calls[i].total > least;
    }
    uint32_t *moved = et_alloc(tree->count, sizeof *moved);
    size_t kept = 0, equal = shown - above;
    for (size_t i = 0; i < tree->count; i++) {
        struct et_call call = tree->calls[i];
        bool parent_kept = i == 0 || moved[call.parent] != UINT32_MAX;
        bool keep = parent_kept && (call.total > least || (call.total == least && equal > 0));
        equal -= keep && call.total == least;
        moved[i] = keep ? (uint32_t)kept : UINT32_MAX;
        if (keep) {
            call.parent = moved[call.parent];
            tree->calls[kept++] = call;
        }
    }
    tree->pruned = tree->count - kept;
    tree->count = kept;
    free(moved);
}

struct call_order {
    const struct et_profile *profile;
    const struct et_call *calls;
};

static int compare_children(const void *a, const void *b, void *context)
{
    const struct call_order *order = context;
    const struct et_call *x = &order->calls[*(const uint32_t *)a], *y = &order->calls[*(const uint32_t *)b];
    if (x->total != y->total) {
        return x->total < y->total ? 1 : -1;
    }
    return strcmp(et_text(&order->profile->strings, x->function), et_text(&order->profile->strings, y->function));
}

/* Links children, largest first: the smallest comes first, and each goes to the front of its parent's list. */
static void link_children(const struct et_profile *profile, struct et_tree *tree)
{
    uint32_t *sorted = et_alloc(tree->count, sizeof *sorted);
    for (size_t i = 0; i < tree->count; i++) {
        sorted[i] = (uint32_t)i;
    }
    struct call_order order = {.profile = profile, .calls = tree->calls};
    qsort_r(sorted, tree->count, sizeof *sorted, compare_children, &order);
    for (size_t i = tree->count; i-- > 0;) {
        uint32_t own = sorted[i];
        if (own) {
            struct et_call *parent = &tree->calls[tree->calls[own].parent];
            tree->calls[own].next = parent->first_child;
            parent->first_child = own;
        }
    }
    free(sorted);
}

void et_tree_finish(const struct et_profile *profile, size_t shown, struct et_tree *tree)
{
    prune_tree(tree, shown);
    link_children(profile, tree);
}

void et_tree_make(const struct et_profile *profile, size_t shown, struct et_tree *tree)
{
    make_whole_tree(profile, tree);
    et_tree_finish(profile, shown, tree);
}

void et_tree_free(struct et_tree *tree)
{
    free(tree->calls);
    *tree = (struct et_tree){0};
}

size_t et_tree_path(const struct et_tree *tree, uint32_t call, uint32_t path[ET_TREE_PATH])
{
    size_t depth = 0;
    for (; call && depth < ET_TREE_PATH; call = tree->calls[call].parent) {
        path[depth++] = call;
    }
    for (size_t i = 0; i < depth / 2; i++) {
        uint32_t outer = path[i];
        path[i] = path[depth - 1 - i];
        path[depth - 1 - i] = outer;
    }
    return depth;
}

/* ---- table ---- */

static bool is_recursive(const struct et_tree *tree, const struct et_call *call)
{
    for (uint32_t up = call->parent; up; up = tree->calls[up].parent) {
        if (tree->calls[up].function == call->function) {
            return true;
        }
    }
    return false;
}

static int compare_functions(const void *a, const void *b, void *context)
{
    const struct et_function *x = a, *y = b;
    const struct et_profile *profile = context;
    if (x->self != y->self) {
        return x->self < y->self ? 1 : -1;
    }
    if (x->total != y->total) {
        return x->total < y->total ? 1 : -1;
    }
    return strcmp(et_text(&profile->strings, x->function), et_text(&profile->strings, y->function));
}

static int compare_totals(const void *a, const void *b, void *context)
{
    const struct et_function *x = a, *y = b;
    return x->total != y->total ? x->total < y->total ? 1 : -1 : compare_functions(a, b, context);
}

void et_table_sort(struct et_table *table, const struct et_profile *profile, bool by_total)
{
    if (table->count) {
        qsort_r(table->rows, table->count, sizeof *table->rows, by_total ? compare_totals : compare_functions,
                (void *)(uintptr_t)profile);
    }
}

void et_table_make(const struct et_profile *profile, struct et_table *table)
{
    struct et_tree tree;
    make_whole_tree(profile, &tree);
    struct et_map index = {0};
    size_t capacity = 0;
    *table = (struct et_table){0};
    for (size_t i = 1; i < tree.count; i++) {
        const struct et_call *call = &tree.calls[i];
        uint64_t *row = et_map_at(&index, call->function);
        if (!*row) {
            table->rows = et_reserve(table->rows, &capacity, table->count + 1, sizeof *table->rows);
            table->rows[table->count] = (struct et_function){
                .function = call->function, .module = call->module, .file = call->file, .line = call->line};
            *row = ++table->count;
        }
        struct et_function *function = &table->rows[*row - 1];
        function->self += call->self;
        function->total += is_recursive(&tree, call) ? 0 : call->total;
    }
    et_table_sort(table, profile, false);
    et_map_free(&index);
    et_tree_free(&tree);
}

void et_table_free(struct et_table *table)
{
    free(table->rows);
    *table = (struct et_table){0};
}
