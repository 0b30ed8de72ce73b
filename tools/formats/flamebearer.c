/*
 * See flamebearer.h. One profile is drawn as a diff without a right side. draw_tree() visits parents before children,
 * left to right, with a stack of bars.
 */
#include "tools/formats/flamebearer.h"
#include "tools/lib/json_write.h"
#include "tools/profile/tree.h"

#include <stdlib.h>
#include <string.h>

/* A bar still to be drawn: a call of the tree, or an added leaf. */
struct bar {
    uint32_t call; /* 0: the root, or an added leaf */
    uint32_t name;
    size_t level;
    uint64_t x[ET_SIDES], self[ET_SIDES], total[ET_SIDES];
};

struct flamebearer_drawing {
    struct et_flamebearer *out;
    const struct et_diff *diff;
    int sides;
    double least; /* calls with a smaller share become "other" */
    struct bar *bars;
    size_t count, capacity;
};

/* The root is always drawn and does not count. */
static double least_weight(const struct et_diff *diff, uint64_t max_nodes)
{
    max_nodes = max_nodes == 0                    ? ET_FLAMEBEARER_NODES
                : max_nodes < ET_FLAMEBEARER_MOST ? max_nodes
                                                  : ET_FLAMEBEARER_MOST;
    return diff->count - 1 <= max_nodes ? 0 : et_diff_least_weight(diff, max_nodes + 1);
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
    if (bar->level == out->level_count) {
        out->levels = et_reserve(out->levels, &out->level_capacity, out->level_count + 1, sizeof *out->levels);
        out->level_count++;
    }
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

/* Places a child to the right of its earlier siblings. */
static void push_bar(struct flamebearer_drawing *d, uint64_t x[ET_SIDES], struct bar bar)
{
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        bar.x[side] = x[side];
        x[side] += bar.total[side];
    }
    d->bars = et_reserve(d->bars, &d->capacity, d->count + 1, sizeof *d->bars);
    d->bars[d->count++] = bar;
}

static void push_leaf(struct flamebearer_drawing *d, uint64_t x[ET_SIDES], size_t level, const char *name,
                      const uint64_t figure[ET_SIDES])
{
    if (figure[ET_LEFT] || figure[ET_RIGHT]) {
        struct bar bar = {.name = et_intern(&d->out->names, name), .level = level};
        memcpy(bar.self, figure, sizeof bar.self);
        memcpy(bar.total, figure, sizeof bar.total);
        push_bar(d, x, bar);
    }
}

static void push_call(struct flamebearer_drawing *d, uint64_t x[ET_SIDES], size_t level, uint32_t index)
{
    const struct et_diff_call *call = &d->diff->calls[index];
    struct bar bar = {.call = index, .level = level};
    bar.name = et_intern(&d->out->names, et_text(&d->diff->strings, call->function));
    memcpy(bar.self, call->self, sizeof bar.self);
    memcpy(bar.total, call->total, sizeof bar.total);
    push_bar(d, x, bar);
}

/* Pushes the leftmost child last, so that it is drawn first. Returns the number of children. */
static size_t push_children(struct flamebearer_drawing *d, const struct bar *parent)
{
    size_t base = d->count, level = parent->level + 1;
    uint64_t x[ET_SIDES], other[ET_SIDES] = {0};
    const struct et_diff_call *call = &d->diff->calls[parent->call];
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        x[side] = parent->x[side] + parent->self[side];
    }
    for (uint32_t i = call->first_child; i; i = d->diff->calls[i].next) {
        const struct et_diff_call *child = &d->diff->calls[i];
        if (et_diff_weight(d->diff, child) >= d->least) {
            push_call(d, x, level, i);
        } else {
            other[ET_LEFT] += child->total[ET_LEFT];
            other[ET_RIGHT] += child->total[ET_RIGHT];
        }
    }
    push_leaf(d, x, level, "other", other);
    if (level == 1) {
        push_leaf(d, x, level, "[no stack]", call->self); /* the root has no self value */
    }
    for (size_t i = base, k = d->count; i + 1 < k; i++) {
        struct bar swapped = d->bars[i];
        d->bars[i] = d->bars[--k];
        d->bars[k] = swapped;
    }
    return d->count - base;
}

/* Writes name, self, number of children; the children follow. */
static void add_to_tree(struct flamebearer_drawing *d, const struct bar *bar, size_t children)
{
    const char *name = et_text(&d->out->names, bar->name);
    et_varint_put(&d->out->tree, strlen(name));
    et_buf_text(&d->out->tree, name);
    et_varint_put(&d->out->tree, bar->self[ET_LEFT]);
    et_varint_put(&d->out->tree, children);
}

static void draw_tree(const struct et_diff *diff, int sides, uint64_t max_nodes, struct et_flamebearer *out)
{
    *out = (struct et_flamebearer){0};
    struct flamebearer_drawing d = {.out = out, .diff = diff, .sides = sides, .least = least_weight(diff, max_nodes)};
    struct bar root = {.level = 0};
    uint64_t x[ET_SIDES] = {0};
    et_intern(&out->names, "");
    memcpy(root.total, diff->total, sizeof root.total);
    memcpy(out->total, diff->total, sizeof out->total);
    push_bar(&d, x, root);
    while (d.count) {
        struct bar bar = d.bars[--d.count];
        add_bar(&d, &bar);
        size_t children = bar.call || bar.level == 0 ? push_children(&d, &bar) : 0;
        if (sides == 1 && diff->total[ET_LEFT]) {
            add_to_tree(&d, &bar, children);
        }
    }
    free(d.bars);
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
