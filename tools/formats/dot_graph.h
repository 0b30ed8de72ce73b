/* The graph of calls that dot.c writes: functions, and who calls whom. */
#ifndef ET_DOT_GRAPH_H
#define ET_DOT_GRAPH_H

#include "tools/formats/dot.h"

struct et_dot_node {
    const char *name;
    int64_t flat, cum, score;
    size_t sample; /* last one that was counted */
    bool kept;
};

struct et_dot_edge {
    uint32_t from, to; /* indices into nodes */
    int64_t weight;
    size_t sample;
    bool residual; /* over a node that is not drawn */
    bool removed;
};

struct et_dot_graph {
    const et_pprof *pprof;
    struct et_strings names; /* of nodes, in their order */
    uint32_t *functions;     /* id -> node */
    size_t functions_end;
    struct et_dot_node *nodes;
    struct et_dot_edge *edges;
    size_t edge_count, edge_capacity;
    struct et_map index; /* from << 32 | to -> edge + 1 */
    struct et_map locations;
    const char *unit;
    int64_t total;
};

/* Makes the nodes of a graph that has its pprof and names[0]; all are kept. */
void et_dot_graph_begin(struct et_dot_graph *graph);

/* Sums samples over the kept nodes. */
void et_dot_graph_make(struct et_dot_graph *graph);

/* Lists the nodes with something, best first. Returns their number. */
size_t et_dot_graph_list(struct et_dot_graph *graph, uint32_t *order);

/* For qsort_r(), of edges; context: the graph. */
int et_dot_heaviest_first(const void *a, const void *b, void *context);

/* Removes residual edges that are lighter than every other one into their node, where other paths lead there. */
void et_dot_graph_reduce(struct et_dot_graph *graph, const uint32_t *order, size_t count);

#endif
