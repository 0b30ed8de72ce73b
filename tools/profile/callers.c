/* See callers.h. Both trees are built from the tree of all calls by line, in which parents precede their children. */
#include "tools/profile/callers.h"
#include "tools/profile/line_sums.h"

#include <stdlib.h>
#include <string.h>

static uint32_t find_string(const struct et_profile *profile, const char *name)
{
    for (uint32_t i = 1; i < profile->strings.count; i++) {
        if (strcmp(et_text(&profile->strings, i), name) == 0) {
            return i;
        }
    }
    return 0;
}

/* Makes the tree of all calls below the outermost calls of the function. below[i]: 1 + node in out->callees of call i
 * of `all`. */
static void add_callees(const struct et_tree *all, uint32_t function, struct et_callers *out, uint32_t *below)
{
    struct et_map children = {0};
    struct et_line_sums lines = {0};
    for (size_t i = 1; i < all->count; i++) {
        const struct et_call *call = &all->calls[i];
        uint32_t above = below[call->parent];
        if (above) {
            below[i] = 1 + et_tree_child(&out->callees, &children, above - 1, call);
            et_tree_add_line(&lines, below[i] - 1, call, call->total);
        } else if (call->function == function) {
            below[i] = 1;
        }
        if (below[i]) {
            out->callees.calls[below[i] - 1].self += call->self;
            out->callees.calls[below[i] - 1].self_count += call->self_count;
        }
        out->self += call->function == function ? call->self : 0;
    }
    et_tree_sum(&out->callees, &children, &lines);
}

static void add_callers(const struct et_tree *all, uint32_t function, struct et_callers *out, const uint32_t *below)
{
    struct et_map children = {0};
    struct et_line_sums lines = {0};
    for (size_t i = 1; i < all->count; i++) {
        const struct et_call *call = &all->calls[i];
        uint32_t at = 0;
        if (call->function != function || below[call->parent]) {
            continue;
        }
        for (uint32_t up = call->parent; up; up = all->calls[up].parent) {
            at = et_tree_child(&out->callers, &children, at, &all->calls[up]);
            et_tree_add_line(&lines, at, &all->calls[up], call->total);
        }
        out->callers.calls[at].self += call->total;
        out->callers.calls[at].self_count += call->total_count;
    }
    et_tree_sum(&out->callers, &children, &lines);
}

static int by_value(const void *a, const void *b)
{
    const struct et_neighbour *x = a, *y = b;
    if (x->value != y->value) {
        return x->value < y->value ? 1 : -1;
    }
    return x->function < y->function ? -1 : x->function > y->function;
}

static void collect_neighbours(const struct et_tree *tree, struct et_neighbours *out)
{
    for (size_t i = 1; i < tree->count; i++) {
        const struct et_call *call = &tree->calls[i];
        if (call->parent == 0) {
            out->rows = et_reserve(out->rows, &out->capacity, out->count + 1, sizeof *out->rows);
            out->rows[out->count++] = (struct et_neighbour){.function = call->function,
                                                            .module = call->module,
                                                            .file = call->file,
                                                            .line = call->line,
                                                            .value = call->total};
        }
    }
    if (out->count) {
        qsort(out->rows, out->count, sizeof *out->rows, by_value);
    }
}

static void finish_tree(const struct et_profile *profile, uint32_t function, size_t shown, struct et_tree *tree,
                        struct et_neighbours *neighbours)
{
    tree->calls[0].function = function;
    collect_neighbours(tree, neighbours);
    et_tree_finish(profile, shown, tree);
}

void et_callers_make(const struct et_profile *profile, const char *name, size_t shown, struct et_callers *out)
{
    struct et_tree all;
    uint32_t function = find_string(profile, name);
    *out = (struct et_callers){0};
    et_tree_begin(&out->callers);
    et_tree_begin(&out->callees);
    et_tree_by_line(profile, &all);
    uint32_t *below = et_alloc(all.count, sizeof *below);
    if (function) {
        add_callees(&all, function, out, below);
        add_callers(&all, function, out, below);
    }
    finish_tree(profile, function, shown, &out->callers, &out->called_by);
    finish_tree(profile, function, shown, &out->callees, &out->calls);
    out->total = out->callees.calls[0].total;
    free(below);
    et_tree_free(&all);
}

void et_callers_free(struct et_callers *callers)
{
    et_tree_free(&callers->callers);
    et_tree_free(&callers->callees);
    free(callers->called_by.rows);
    free(callers->calls.rows);
    *callers = (struct et_callers){0};
}
