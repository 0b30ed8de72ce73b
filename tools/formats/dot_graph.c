/* See dot_graph.h. Selection and order are those of github.com/google/pprof (internal/graph), without its fractions. */
#include "tools/formats/dot_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t value_of(const struct et_dot_graph *g, const Perftools__Profiles__Sample *sample)
{
    return sample->n_value >= g->pprof->n_sample_type ? sample->value[g->pprof->n_sample_type - 1] : 0;
}

static void add_edge(struct et_dot_graph *g, uint32_t from, uint32_t to, int64_t value, size_t sample, bool residual)
{
    uint64_t *known = et_map_at(&g->index, (uint64_t)from << 32 | to);
    if (!*known) {
        g->edges = et_reserve(g->edges, &g->edge_capacity, g->edge_count + 1, sizeof *g->edges);
        g->edges[g->edge_count] = (struct et_dot_edge){.from = from, .to = to};
        *known = ++g->edge_count;
    }
    struct et_dot_edge *edge = &g->edges[*known - 1];
    if (edge->sample != sample) {
        edge->sample = sample;
        edge->weight += value;
        edge->residual |= residual;
    }
}

/* Where a walk from the root to the leaf is. */
struct dot_walk {
    uint32_t parent; /* UINT32_MAX: none */
    bool residual;
};

static void visit(struct et_dot_graph *g, struct dot_walk *walk, uint32_t number, int64_t value, size_t sample)
{
    struct et_dot_node *node = &g->nodes[number];
    if (!node->kept) {
        walk->residual = true;
        return;
    }
    if (node->sample != sample) {
        node->sample = sample;
        node->cum += value;
    }
    if (walk->parent != UINT32_MAX && walk->parent != number) {
        add_edge(g, walk->parent, number, value, sample, walk->residual);
    }
    *walk = (struct dot_walk){.parent = number};
}

static void add_sample(struct et_dot_graph *g, const Perftools__Profiles__Sample *sample, size_t number)
{
    struct dot_walk walk = {.parent = UINT32_MAX};
    int64_t value = value_of(g, sample);
    for (size_t i = sample->n_location_id; i-- > 0 && value;) {
        const uint64_t *at = et_map_find(&g->locations, sample->location_id[i]);
        const Perftools__Profiles__Location *location = at ? g->pprof->location[*at - 1] : NULL;
        for (size_t k = location ? location->n_line : 0; k-- > 0;) {
            uint64_t id = location->line[k]->function_id;
            visit(g, &walk, id < g->functions_end ? g->functions[id] : 0, value, number);
        }
    }
    if (walk.parent != UINT32_MAX && !walk.residual) {
        g->nodes[walk.parent].flat += value;
    }
}

static double entropy(double part, double total)
{
    return part > 0 && total > 0 ? -part / total * log2(part / total) : 0;
}

/* How much a node's calls differ: favours nodes that are no mere passage. */
static void set_scores(struct et_dot_graph *g)
{
    size_t count = g->names.count;
    struct {
        double in, out, in_score, out_score;
    } *sums = et_alloc(count, sizeof *sums);
    for (size_t i = 0; i < g->edge_count; i++) {
        sums[g->edges[i].to].in += (double)g->edges[i].weight;
        sums[g->edges[i].from].out += (double)g->edges[i].weight;
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        const struct et_dot_edge *edge = &g->edges[i];
        sums[edge->to].in_score += entropy((double)edge->weight, sums[edge->to].in);
        sums[edge->from].out_score +=
            entropy((double)edge->weight, sums[edge->from].out + (double)g->nodes[edge->from].flat);
    }
    for (size_t i = 0; i < count; i++) {
        struct et_dot_node *node = &g->nodes[i];
        double self = (double)node->flat, out = sums[i].out;
        double score =
            (sums[i].in > 0 ? sums[i].in_score : 1) + (out > 0 ? sums[i].out_score + entropy(self, out + self) : 1);
        node->score = (int64_t)(score * (double)node->cum) + node->flat;
    }
    free(sums);
}

void et_dot_graph_make(struct et_dot_graph *g)
{
    for (size_t i = 0; i < g->names.count; i++) {
        g->nodes[i] = (struct et_dot_node){.name = et_text(&g->names, (uint32_t)i), .kept = g->nodes[i].kept};
    }
    g->edge_count = 0;
    et_map_free(&g->index);
    for (size_t i = 0; i < g->pprof->n_sample; i++) {
        add_sample(g, g->pprof->sample[i], i + 1);
    }
    set_scores(g);
}

void et_dot_graph_begin(struct et_dot_graph *g)
{
    for (size_t i = 0; i < g->pprof->n_function; i++) {
        uint64_t id = g->pprof->function[i]->id;
        g->functions_end = id >= g->functions_end ? (size_t)id + 1 : g->functions_end;
    }
    g->functions = et_alloc(g->functions_end, sizeof *g->functions);
    for (size_t i = 0; i < g->pprof->n_function; i++) {
        const Perftools__Profiles__Function *function = g->pprof->function[i];
        g->functions[function->id] = et_intern(&g->names, g->pprof->string_table[function->name]);
    }
    for (size_t i = 0; i < g->pprof->n_location; i++) {
        *et_map_at(&g->locations, g->pprof->location[i]->id) = i + 1;
    }
    for (size_t i = 0; i < g->pprof->n_sample; i++) {
        g->total += value_of(g, g->pprof->sample[i]);
    }
    g->nodes = et_alloc(g->names.count, sizeof *g->nodes);
    for (size_t i = 0; i < g->names.count; i++) {
        g->nodes[i].kept = true;
    }
}

static int best_first(const void *a, const void *b, void *context)
{
    const struct et_dot_graph *g = context;
    const struct et_dot_node *x = &g->nodes[*(const uint32_t *)a], *y = &g->nodes[*(const uint32_t *)b];
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : strcmp(x->name, y->name);
}

size_t et_dot_graph_list(struct et_dot_graph *g, uint32_t *order)
{
    size_t count = 0;
    for (uint32_t i = 0; i < g->names.count; i++) {
        if (g->nodes[i].cum || g->nodes[i].flat) {
            order[count++] = i;
        }
    }
    if (count) {
        qsort_r(order, count, sizeof *order, best_first, g);
    }
    return count;
}

int et_dot_heaviest_first(const void *a, const void *b, void *context)
{
    const struct et_dot_graph *g = context;
    const struct et_dot_edge *x = a, *y = b;
    if (x->weight != y->weight) {
        return x->weight < y->weight ? 1 : -1;
    }
    int order = strcmp(g->nodes[x->from].name, g->nodes[y->from].name);
    return order ? order : strcmp(g->nodes[x->to].name, g->nodes[y->to].name);
}

/* Whether another path leads along the edge. */
static bool is_redundant(const struct et_dot_graph *g, const struct et_dot_edge *edge)
{
    bool *seen = et_alloc(g->names.count, sizeof *seen), more = true;
    seen[edge->to] = true;
    while (more && !seen[edge->from]) {
        more = false;
        for (size_t i = 0; i < g->edge_count; i++) {
            const struct et_dot_edge *other = &g->edges[i];
            if (other != edge && !other->removed && seen[other->to] && !seen[other->from]) {
                seen[other->from] = more = true;
            }
        }
    }
    bool found = seen[edge->from];
    free(seen);
    return found;
}

void et_dot_graph_reduce(struct et_dot_graph *g, const uint32_t *order, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        bool blocked = false;
        for (size_t k = g->edge_count; k-- > 0 && !blocked;) {
            if (g->edges[k].to == order[i]) {
                blocked = !g->edges[k].residual;
                g->edges[k].removed = !blocked && is_redundant(g, &g->edges[k]);
            }
        }
    }
}
