/*
 * See tree.h. A profile's node may become several calls (inlined functions), and nodes with different addresses in one
 * line become one call of the tree by line; the calls of a function's lines become one call of the tree by function.
 * Parents have smaller indices than their children, so walking the arrays backwards sums totals.
 */
#include "tools/profile/tree.h"
#include "tools/profile/line_sums.h"

#include <stdlib.h>
#include <string.h>

/* The parent's call with this key, which is created like `like` if needed. */
static uint32_t keyed_child(struct et_tree *tree, struct et_map *children, uint32_t parent, uint32_t key,
                            const struct et_call *like)
{
    uint64_t *known = et_map_at(children, (uint64_t)parent << 32 | key);
    if (*known) {
        return (uint32_t)*known;
    }
    tree->calls = et_reserve(tree->calls, &tree->capacity, tree->count + 1, sizeof *tree->calls);
    tree->calls[tree->count] = (struct et_call){
        .parent = parent, .function = like->function, .module = like->module, .file = like->file, .line = like->line};
    *known = tree->count;
    return (uint32_t)tree->count++;
}

uint32_t et_tree_child(struct et_tree *tree, struct et_map *children, uint32_t parent, const struct et_call *like)
{
    return keyed_child(tree, children, parent, like->function, like);
}

void et_tree_add_line(struct et_line_sums *lines, uint32_t call, const struct et_call *like, uint64_t total)
{
    et_line_sums_add(lines,
                     &(struct et_line_sum){.owner = call, .file = like->file, .line = like->line, .total = total});
}

void et_tree_begin(struct et_tree *tree)
{
    *tree = (struct et_tree){0};
    tree->calls = et_reserve(NULL, &tree->capacity, 1, sizeof *tree->calls);
    tree->count = 1;
}

static void sum_totals(struct et_tree *tree)
{
    for (size_t i = tree->count; i-- > 0;) {
        struct et_call *call = &tree->calls[i];
        call->total += call->self;
        call->total_count += call->self_count;
        if (i) {
            tree->calls[call->parent].total += call->total;
            tree->calls[call->parent].total_count += call->total_count;
        }
    }
}

static void select_lines(struct et_tree *tree, const struct et_line_sums *lines)
{
    const struct et_line_sum **best = et_alloc(tree->count, sizeof *best);
    for (size_t i = 0; i < lines->count; i++) {
        const struct et_line_sum *sum = &lines->sums[i], **own = &best[sum->owner];
        *own = !*own || et_line_is_hotter(sum, *own) ? sum : *own;
    }
    for (size_t i = 1; i < tree->count; i++) {
        if (best[i]) {
            tree->calls[i].file = best[i]->file;
            tree->calls[i].line = best[i]->line;
        }
    }
    free(best);
}

void et_tree_sum(struct et_tree *tree, struct et_map *children, struct et_line_sums *lines)
{
    sum_totals(tree);
    select_lines(tree, lines);
    et_map_free(children);
    et_line_sums_free(lines);
}

/* ---- the tree by line ---- */

/* Numbers the profile's lines from 1: equal ones have one number. free() it. */
static uint32_t *number_lines(const struct et_profile *p)
{
    struct et_map places = {0}, lines = {0};
    uint32_t *numbers = et_alloc(p->line_count + 1, sizeof *numbers);
    for (size_t i = 0; i < p->line_count; i++) {
        const struct et_line *line = &p->lines[i];
        uint64_t *place = et_map_at(&places, (uint64_t)line->file << 32 | line->line);
        *place = *place ? *place : places.count;
        uint64_t *number = et_map_at(&lines, (uint64_t)line->function << 32 | *place);
        *number = *number ? *number : lines.count;
        numbers[i] = (uint32_t)*number;
    }
    et_map_free(&places);
    et_map_free(&lines);
    return numbers;
}

void et_tree_by_line(const struct et_profile *p, struct et_tree *tree)
{
    struct et_map children = {0};
    uint32_t *numbers = number_lines(p);
    uint32_t *calls = et_alloc(p->node_count, sizeof *calls); /* of each node; 0 for the root */
    et_tree_begin(tree);
    for (size_t i = 0; i < p->node_count; i++) {
        const struct et_frame *frame = &p->frames[p->nodes[i].frame];
        uint32_t call = i ? calls[p->nodes[i].parent] : 0;
        for (uint32_t k = i ? frame->line_count : 0; k-- > 0;) {
            uint32_t at = frame->first_line + k;
            const struct et_line *line = &p->lines[at];
            struct et_call like = {
                .function = line->function, .module = frame->module, .file = line->file, .line = line->line};
            call = keyed_child(tree, &children, call, numbers[at], &like);
        }
        calls[i] = call;
        tree->calls[call].self += p->nodes[i].self;
    }
    for (size_t i = 0; i < p->entry_count; i++) {
        tree->calls[calls[p->entries[i].node]].self_count += p->entries[i].count;
    }
    sum_totals(tree);
    et_map_free(&children);
    free(calls);
    free(numbers);
}

/* Makes the tree of all calls with their sums. Children are not linked yet. */
static void make_whole_tree(const struct et_profile *profile, struct et_tree *tree)
{
    struct et_tree all;
    struct et_map children = {0};
    struct et_line_sums lines = {0};
    et_tree_by_line(profile, &all);
    et_tree_begin(tree);
    uint32_t *calls = et_alloc(all.count, sizeof *calls); /* of each call by line */
    for (size_t i = 0; i < all.count; i++) {
        const struct et_call *from = &all.calls[i];
        if (i) {
            calls[i] = et_tree_child(tree, &children, calls[from->parent], from);
            et_tree_add_line(&lines, calls[i], from, from->total);
        }
        tree->calls[calls[i]].self += from->self;
        tree->calls[calls[i]].self_count += from->self_count;
    }
    et_tree_sum(tree, &children, &lines);
    free(calls);
    et_tree_free(&all);
}

static size_t count_from(const struct et_tree *tree, uint64_t total)
{
    size_t count = 0;
    for (size_t i = 0; i < tree->count; i++) {
        count += tree->calls[i].total >= total;
    }
    return count;
}

/* The smallest total among the `shown` largest calls: the greatest that so many calls reach. */
static uint64_t least_total(const struct et_tree *tree, size_t shown)
{
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < tree->count; i++) {
        high = tree->calls[i].total > high ? tree->calls[i].total : high;
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2 + 1;
        if (count_from(tree, middle) >= shown) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
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

size_t et_tree_memory(const struct et_profile *profile)
{
    /* a call, its entry in the maps of children and lines while they grow, and its row of the table */
    return profile->node_count *
           (sizeof(struct et_call) + 4 * sizeof(struct et_map_entry) + sizeof(struct et_hot_line));
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

/* What the callers of a call by line repeat. */
struct repeated {
    bool function, line;
};

/* Of a call whose function is also above it. */
static struct repeated find_repeated(const struct et_tree *tree, const struct et_call *call)
{
    struct repeated found = {0};
    for (uint32_t up = call->parent; up && !found.line; up = tree->calls[up].parent) {
        const struct et_call *above = &tree->calls[up];
        if (above->function == call->function) {
            found.function = true;
            found.line = above->file == call->file && above->line == call->line;
        }
    }
    return found;
}

static void link_in_order(struct et_tree *tree)
{
    for (size_t i = tree->count; i-- > 1;) {
        struct et_call *parent = &tree->calls[tree->calls[i].parent];
        tree->calls[i].next = parent->first_child;
        parent->first_child = (uint32_t)i;
    }
}

/* For each call of a tree without links, whether its function is also above it: depth first, with the number of calls
 * of each function on the way. free() it. */
static bool *find_recursions(const struct et_profile *profile, struct et_tree *tree)
{
    bool *recursions = et_alloc(tree->count, sizeof *recursions);
    uint32_t *above = et_alloc(profile->strings.count, sizeof *above), at = 0;
    link_in_order(tree);
    for (;;) {
        const struct et_call *now = &tree->calls[at];
        recursions[at] = above[now->function]++ > 0;
        if (now->first_child) {
            at = now->first_child;
            continue;
        }
        while (at && !tree->calls[at].next) {
            above[tree->calls[at].function]--;
            at = tree->calls[at].parent;
        }
        if (!at) {
            break;
        }
        above[tree->calls[at].function]--;
        at = tree->calls[at].next;
    }
    free(above);
    return recursions;
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

/* The function's row, which is created if needed. index: function -> row + 1. */
static uint32_t find_row(struct et_table *table, size_t *capacity, uint32_t *index, const struct et_call *call)
{
    uint32_t *row = &index[call->function];
    if (!*row) {
        table->rows = et_reserve(table->rows, capacity, table->count + 1, sizeof *table->rows);
        table->rows[table->count] = (struct et_function){.function = call->function, .module = call->module};
        *row = (uint32_t)++table->count;
    }
    return *row - 1;
}

/* Moves the sums to the table; their owners are rows. */
static void take_lines(struct et_table *table, struct et_line_sums *sums)
{
    et_line_sums_sort(sums);
    table->lines = et_alloc(sums->count + 1, sizeof *table->lines);
    for (size_t i = 0; i < sums->count; i++) {
        const struct et_line_sum *sum = &sums->sums[i];
        struct et_function *row = &table->rows[sum->owner];
        table->lines[i] =
            (struct et_hot_line){.file = sum->file, .line = sum->line, .self = sum->self, .total = sum->total};
        if (row->line_count++ == 0) {
            row->first_line = (uint32_t)i;
            row->file = sum->file;
            row->line = sum->line;
        }
    }
    et_line_sums_free(sums);
}

void et_table_make(const struct et_profile *profile, struct et_table *table)
{
    struct et_tree tree;
    uint32_t *index = et_alloc(profile->strings.count, sizeof *index);
    struct et_line_sums sums = {0};
    size_t capacity = 0;
    *table = (struct et_table){0};
    et_tree_by_line(profile, &tree);
    bool *recursions = find_recursions(profile, &tree);
    for (size_t i = 1; i < tree.count; i++) {
        const struct et_call *call = &tree.calls[i];
        struct repeated above = recursions[i] ? find_repeated(&tree, call) : (struct repeated){0};
        uint32_t row = find_row(table, &capacity, index, call);
        table->rows[row].self += call->self;
        table->rows[row].total += above.function ? 0 : call->total;
        et_line_sums_add(&sums, &(struct et_line_sum){.owner = row,
                                                      .file = call->file,
                                                      .line = call->line,
                                                      .self = call->self,
                                                      .total = above.line ? 0 : call->total});
    }
    take_lines(table, &sums);
    et_table_sort(table, profile, false);
    free(index);
    free(recursions);
    et_tree_free(&tree);
}

void et_table_free(struct et_table *table)
{
    free(table->rows);
    free(table->lines);
    *table = (struct et_table){0};
}
