/*
 * See flamebearer.h. Order, names and pruning are those of Pyroscope's answers. One profile is drawn as a diff without
 * a right side. draw_tree() visits parents before children, the rightmost child first, with a stack of bars; the levels
 * are made of the visited bars, last one first.
 */
#include "tools/formats/flamebearer.h"
#include "tools/lib/json_write.h"
#include "tools/profile/tree.h"

#include <stdlib.h>
#include <string.h>

static const char OTHER[] = "other";

/* A call of the tree, or an added leaf. */
struct bar {
    uint32_t call; /* 0: the root, or an added leaf */
    uint32_t name; /* since it was visited */
    const char *text;
    size_t level;
    uint64_t x[ET_SIDES], self[ET_SIDES], total[ET_SIDES];
};

struct bars {
    struct bar *bars;
    size_t count, capacity;
};

struct flamebearer_drawing {
    struct et_flamebearer *out;
    const struct et_diff *diff;
    int sides;
    uint64_t least; /* calls with less on both sides become "other" */
    struct bars waiting, visited;
    const struct et_diff_call **children; /* of the visited call, by name */
    size_t child_capacity;
};

static uint64_t larger(const struct et_diff_call *call)
{
    return call->total[ET_LEFT] > call->total[ET_RIGHT] ? call->total[ET_LEFT] : call->total[ET_RIGHT];
}

static int largest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The total of the smallest of the max_nodes largest calls; 0: all are drawn. The root counts in a diff only. */
static uint64_t least_total(const struct et_diff *diff, int sides, uint64_t max_nodes)
{
    size_t first = sides == ET_SIDES ? 0 : 1, count = diff->count - first;
    max_nodes = max_nodes == 0                    ? ET_FLAMEBEARER_NODES
                : max_nodes < ET_FLAMEBEARER_MOST ? max_nodes
                                                  : ET_FLAMEBEARER_MOST;
    if (count <= max_nodes) {
        return 0;
    }
    uint64_t *totals = et_alloc(count, sizeof *totals);
    for (size_t i = 0; i < count; i++) {
        totals[i] = larger(&diff->calls[i + first]);
    }
    qsort(totals, count, sizeof *totals, largest_first);
    uint64_t least = totals[max_nodes - 1];
    free(totals);
    return least;
}

/* ---- nodes ---- */

static void add_number(struct et_level *level, uint64_t value)
{
    level->values = et_reserve(level->values, &level->capacity, level->count + 1, sizeof *level->values);
    level->values[level->count++] = (int64_t)value;
}

static void add_bar(struct flamebearer_drawing *d, const struct bar *bar)
{
    struct et_flamebearer *out = d->out;
    struct et_level *level = &out->levels[bar->level];
    for (int side = 0; side < d->sides; side++) {
        add_number(level, bar->x[side] - level->end[side]);
        add_number(level, bar->total[side]);
        add_number(level, bar->self[side]);
        level->end[side] = bar->x[side] + bar->total[side];
        out->max_self = bar->self[side] > out->max_self ? bar->self[side] : out->max_self;
    }
    add_number(level, bar->name);
}

static void add_levels(struct flamebearer_drawing *d)
{
    struct et_flamebearer *out = d->out;
    for (size_t i = 0; i < d->visited.count; i++) {
        size_t level = d->visited.bars[i].level;
        out->level_count = level >= out->level_count ? level + 1 : out->level_count;
    }
    out->levels = et_alloc(out->level_count, sizeof *out->levels);
    for (size_t i = d->visited.count; i-- > 0;) {
        add_bar(d, &d->visited.bars[i]);
    }
}

static struct bar *push(struct bars *to, const struct bar *bar)
{
    to->bars = et_reserve(to->bars, &to->capacity, to->count + 1, sizeof *to->bars);
    to->bars[to->count] = *bar;
    return &to->bars[to->count++];
}

/* Places a child to the right of its earlier siblings. */
static void push_bar(struct flamebearer_drawing *d, uint64_t x[ET_SIDES], struct bar bar)
{
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        bar.x[side] = x[side];
        x[side] += bar.total[side];
    }
    push(&d->waiting, &bar);
}

static void push_leaf(struct flamebearer_drawing *d, uint64_t x[ET_SIDES], size_t level, const char *name,
                      const uint64_t figure[ET_SIDES])
{
    if (figure[ET_LEFT] || figure[ET_RIGHT]) {
        struct bar bar = {.text = name, .level = level};
        memcpy(bar.self, figure, sizeof bar.self);
        memcpy(bar.total, figure, sizeof bar.total);
        push_bar(d, x, bar);
    }
}

static const char *name_of(const struct flamebearer_drawing *d, const struct et_diff_call *call)
{
    return et_text(&d->diff->strings, call->function);
}

static void push_call(struct flamebearer_drawing *d, uint64_t x[ET_SIDES], size_t level,
                      const struct et_diff_call *call)
{
    struct bar bar = {.call = (uint32_t)(call - d->diff->calls), .text = name_of(d, call), .level = level};
    memcpy(bar.self, call->self, sizeof bar.self);
    memcpy(bar.total, call->total, sizeof bar.total);
    push_bar(d, x, bar);
}

static int by_name(const void *a, const void *b, void *context)
{
    return strcmp(name_of(context, *(const struct et_diff_call *const *)a),
                  name_of(context, *(const struct et_diff_call *const *)b));
}

/* Lists the call's children that have something in d->children. Returns their number. */
static size_t list_children(struct flamebearer_drawing *d, const struct et_diff_call *call)
{
    size_t count = 0;
    for (uint32_t i = call->first_child; i; i = d->diff->calls[i].next) {
        if (larger(&d->diff->calls[i])) { /* else a call that the selection left nothing of */
            d->children = et_reserve(d->children, &d->child_capacity, count + 1, sizeof(const struct et_diff_call *));
            d->children[count++] = &d->diff->calls[i];
        }
    }
    if (count) {
        qsort_r(d->children, count, sizeof(const struct et_diff_call *), by_name, d);
    }
    return count;
}

/* The rightmost child is pushed last, and visited first. Returns the number of children. */
static size_t push_children(struct flamebearer_drawing *d, const struct bar *parent)
{
    size_t base = d->waiting.count, level = parent->level + 1;
    uint64_t x[ET_SIDES], other[ET_SIDES] = {0};
    const struct et_diff_call *call = &d->diff->calls[parent->call];
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        x[side] = parent->x[side] + parent->self[side];
    }
    size_t count = list_children(d, call);
    for (size_t i = 0; i < count; i++) {
        const struct et_diff_call *child = d->children[i];
        bool rest = d->sides == 1 && strcmp(name_of(d, child), OTHER) == 0; /* Pyroscope takes it for what was cut */
        if (larger(child) >= d->least && !rest) {
            push_call(d, x, level, child);
        } else {
            other[ET_LEFT] += child->total[ET_LEFT];
            other[ET_RIGHT] += child->total[ET_RIGHT];
        }
    }
    push_leaf(d, x, level, OTHER, other);
    if (level == 1) {
        push_leaf(d, x, level, "[no stack]", call->self); /* the root has no self value */
    }
    return d->waiting.count - base;
}

/* Writes name, self, number of children; the children follow. */
static void add_to_tree(struct flamebearer_drawing *d, const struct bar *bar, size_t children)
{
    et_varint_put(&d->out->tree, strlen(bar->text));
    et_buf_text(&d->out->tree, bar->text);
    et_varint_put(&d->out->tree, bar->self[ET_LEFT]);
    et_varint_put(&d->out->tree, children);
}

static void draw_tree(const struct et_diff *diff, int sides, uint64_t max_nodes, struct et_flamebearer *out)
{
    *out = (struct et_flamebearer){0};
    struct flamebearer_drawing d = {
        .out = out, .diff = diff, .sides = sides, .least = least_total(diff, sides, max_nodes)};
    struct bar root = {.text = ""};
    memcpy(root.total, diff->total, sizeof root.total);
    memcpy(out->total, diff->total, sizeof out->total);
    push(&d.waiting, &root);
    while (d.waiting.count) {
        const struct bar *bar = push(&d.visited, &d.waiting.bars[--d.waiting.count]);
        d.visited.bars[d.visited.count - 1].name = et_intern(&out->names, bar->text);
        size_t children = bar->call || bar->level == 0 ? push_children(&d, bar) : 0;
        if (sides == 1 && diff->total[ET_LEFT]) {
            add_to_tree(&d, bar, children);
        }
    }
    add_levels(&d);
    free(d.waiting.bars);
    free(d.visited.bars);
    free(d.children);
}

void et_flamebearer_diff(const struct et_profile *left, const struct et_profile *right, uint64_t max_nodes,
                         struct et_flamebearer *out)
{
    struct et_diff diff;
    et_diff_make(left, right, SIZE_MAX, &diff);
    draw_tree(&diff, ET_SIDES, max_nodes, out);
    et_diff_free(&diff);
}

void et_flamebearer_make(const struct et_profile *profile, uint64_t max_nodes, struct et_flamebearer *out)
{
    struct et_tree tree;
    et_tree_make(profile, SIZE_MAX, &tree);
    struct et_diff diff = {.count = tree.count, .strings = profile->strings};
    diff.calls = et_alloc(tree.count, sizeof *diff.calls);
    for (size_t i = 0; i < tree.count; i++) {
        const struct et_call *call = &tree.calls[i];
        diff.calls[i] = (struct et_diff_call){.parent = call->parent,
                                              .first_child = call->first_child,
                                              .next = call->next,
                                              .function = call->function,
                                              .self = {call->self},
                                              .total = {call->total}};
    }
    diff.total[ET_LEFT] = tree.calls[0].total;
    draw_tree(&diff, 1, max_nodes, out);
    free(diff.calls);
    et_tree_free(&tree);
}

void et_flamebearer_free(struct et_flamebearer *flamebearer)
{
    et_strings_free(&flamebearer->names);
    for (size_t i = 0; i < flamebearer->level_count; i++) {
        free(flamebearer->levels[i].values);
    }
    free(flamebearer->levels);
    et_buf_free(&flamebearer->tree);
    *flamebearer = (struct et_flamebearer){0};
}

const char *et_flamebearer_name(const struct et_flamebearer *flamebearer, uint32_t number)
{
    return number ? et_text(&flamebearer->names, number) : "total";
}

void et_flamebearer_json(const struct et_flamebearer *flamebearer, struct et_buf *out)
{
    et_buf_text(out, "{\"names\":[");
    for (uint32_t i = 0; i < flamebearer->names.count; i++) {
        et_buf_text(out, i ? "," : "");
        et_json_string(out, et_flamebearer_name(flamebearer, i));
    }
    et_buf_text(out, "],\"levels\":[");
    for (size_t i = 0; i < flamebearer->level_count; i++) {
        const struct et_level *level = &flamebearer->levels[i];
        for (size_t k = 0; k < level->count; k++) {
            et_buf_printf(out, "%s%lld", k ? "," : i ? ",[" : "[", (long long)level->values[k]);
        }
        et_buf_char(out, ']');
    }
    et_buf_printf(out, "],\"numTicks\":%llu,\"maxSelf\":%llu}",
                  (unsigned long long)(flamebearer->total[ET_LEFT] + flamebearer->total[ET_RIGHT]),
                  (unsigned long long)flamebearer->max_self);
}
