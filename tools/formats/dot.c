/*
 * See dot.h. Selection, order and style are those of github.com/google/pprof (internal/graph), without its fractions.
 *
 *   et_dot   make_graph, keep_top, make_graph again, remove_redundant
 *            write_legend, write_node, write_edge
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tools/formats/dot.h"

#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct dot_node {
    const char *name;
    int64_t flat, cum, score;
    size_t sample; /* last one that was counted */
    bool kept;
};

struct dot_edge {
    uint32_t from, to; /* indices into nodes */
    int64_t weight;
    size_t sample;
    bool residual; /* over a node that is not drawn */
    bool removed;
};

struct dot_graph {
    const et_pprof *pprof;
    struct et_strings names; /* of nodes, in their order */
    uint32_t *functions;     /* id -> node */
    size_t functions_end;
    struct dot_node *nodes;
    struct dot_edge *edges;
    size_t edge_count, edge_capacity;
    struct et_map index; /* from << 32 | to -> edge + 1 */
    struct et_map locations;
    const char *unit;
    int64_t total;
};

/* ---- the graph ---- */

static int64_t value_of(const struct dot_graph *g, const Perftools__Profiles__Sample *sample)
{
    return sample->n_value >= g->pprof->n_sample_type ? sample->value[g->pprof->n_sample_type - 1] : 0;
}

static void add_edge(struct dot_graph *g, uint32_t from, uint32_t to, int64_t value, size_t sample, bool residual)
{
    uint64_t *known = et_map_at(&g->index, (uint64_t)from << 32 | to);
    if (!*known) {
        g->edges = et_reserve(g->edges, &g->edge_capacity, g->edge_count + 1, sizeof *g->edges);
        g->edges[g->edge_count] = (struct dot_edge){.from = from, .to = to};
        *known = ++g->edge_count;
    }
    struct dot_edge *edge = &g->edges[*known - 1];
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

static void visit(struct dot_graph *g, struct dot_walk *walk, uint32_t number, int64_t value, size_t sample)
{
    struct dot_node *node = &g->nodes[number];
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

static void add_sample(struct dot_graph *g, const Perftools__Profiles__Sample *sample, size_t number)
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
static void set_scores(struct dot_graph *g)
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
        const struct dot_edge *edge = &g->edges[i];
        sums[edge->to].in_score += entropy((double)edge->weight, sums[edge->to].in);
        sums[edge->from].out_score +=
            entropy((double)edge->weight, sums[edge->from].out + (double)g->nodes[edge->from].flat);
    }
    for (size_t i = 0; i < count; i++) {
        struct dot_node *node = &g->nodes[i];
        double self = (double)node->flat, out = sums[i].out;
        double score =
            (sums[i].in > 0 ? sums[i].in_score : 1) + (out > 0 ? sums[i].out_score + entropy(self, out + self) : 1);
        node->score = (int64_t)(score * (double)node->cum) + node->flat;
    }
    free(sums);
}

/* Sums samples over the kept nodes. */
static void make_graph(struct dot_graph *g)
{
    for (size_t i = 0; i < g->names.count; i++) {
        g->nodes[i] = (struct dot_node){.name = et_text(&g->names, (uint32_t)i), .kept = g->nodes[i].kept};
    }
    g->edge_count = 0;
    et_map_free(&g->index);
    for (size_t i = 0; i < g->pprof->n_sample; i++) {
        add_sample(g, g->pprof->sample[i], i + 1);
    }
    set_scores(g);
}

static void begin_graph(struct dot_graph *g)
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
    const struct dot_graph *g = context;
    const struct dot_node *x = &g->nodes[*(const uint32_t *)a], *y = &g->nodes[*(const uint32_t *)b];
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : strcmp(x->name, y->name);
}

/* Lists the nodes with something, best first. Returns their number. */
static size_t list_nodes(struct dot_graph *g, uint32_t *order)
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

static int heaviest_first(const void *a, const void *b, void *context)
{
    const struct dot_graph *g = context;
    const struct dot_edge *x = a, *y = b;
    if (x->weight != y->weight) {
        return x->weight < y->weight ? 1 : -1;
    }
    int order = strcmp(g->nodes[x->from].name, g->nodes[y->from].name);
    return order ? order : strcmp(g->nodes[x->to].name, g->nodes[y->to].name);
}

/* Whether another path leads along the edge. */
static bool is_redundant(const struct dot_graph *g, const struct dot_edge *edge)
{
    bool *seen = et_alloc(g->names.count, sizeof *seen), more = true;
    seen[edge->to] = true;
    while (more && !seen[edge->from]) {
        more = false;
        for (size_t i = 0; i < g->edge_count; i++) {
            const struct dot_edge *other = &g->edges[i];
            if (other != edge && !other->removed && seen[other->to] && !seen[other->from]) {
                seen[other->from] = more = true;
            }
        }
    }
    bool found = seen[edge->from];
    free(seen);
    return found;
}

/* Removes residual edges that are lighter than every other one into their node, where other paths lead there. */
static void remove_redundant(struct dot_graph *g, const uint32_t *order, size_t count)
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

/* ---- text ---- */

/* The value in its unit: time in seconds, amounts in bytes, as pprof does it. */
static void put_value(const struct dot_graph *g, int64_t value, struct et_buf *out)
{
    static const struct {
        const char *unit, *shown;
        double factor;
    } units[] = {{"nanoseconds", "s", 1e-9}, {"bytes", "B", 1}, {"count", "", 1}};
    const char *shown = "";
    double factor = 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].unit, g->unit) == 0) {
            shown = units[i].shown;
            factor = units[i].factor;
        }
    }
    char text[64];
    size_t size = (size_t)snprintf(text, sizeof text, "%.2f", (double)value * factor);
    if (size > 3 && strcmp(text + size - 3, ".00") == 0) {
        text[size - 3] = '\0';
    }
    et_buf_printf(out, "%s%s", text, strcmp(text, "0") == 0 ? "" : shown);
}

static void put_share(const struct dot_graph *g, int64_t value, struct et_buf *out)
{
    double share = g->total ? 100 * fabs((double)value / (double)g->total) : 0;
    if (share >= 99.95 && share <= 100.05) {
        et_buf_text(out, "100%");
    } else {
        et_buf_printf(out, share >= 1 ? "%.2f%%" : "%.2g%%", share);
    }
}

static void put_escaped(const char *text, struct et_buf *out)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            et_buf_char(out, '\\');
        }
        et_buf_char(out, *text);
    }
}

/* Replaces the name by what the pattern's groups have. False: no match. */
static bool shorten(const char *pattern, struct et_buf *name)
{
    int code;
    size_t at;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, 0, &code, &at, NULL);
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(compiled, NULL);
    int groups = pcre2_match(compiled, (PCRE2_SPTR)name->data, name->size, 0, 0, match, NULL);
    const size_t *offsets = pcre2_get_ovector_pointer(match);
    struct et_buf parts = {0};
    et_buf_text(&parts, "");
    for (int i = 1; i < groups; i++) {
        et_buf_add(&parts, name->data + offsets[2 * i], offsets[2 * i + 1] - offsets[2 * i]);
    }
    if (groups > 1) {
        et_buf_free(name);
        *name = parts;
    } else {
        et_buf_free(&parts);
    }
    pcre2_match_data_free(match);
    pcre2_code_free(compiled);
    return groups > 1;
}

/* The name without packages and namespaces, one part a line. */
static void put_label(const char *function, struct et_buf *out)
{
    static const char *const patterns[] = {
        "^(?:[\\w\\-.]+/)+([^.]+\\..+)",
        "^(?:[a-z]\\w*\\.)*([A-Z][\\w$]*\\.(?:<init>|[a-z][\\w$]*(?:\\$\\d+)?))(?:(?:\\()|$)",
        "^(?:[_a-zA-Z]\\w*::)+(_*[A-Z]\\w*::~?[_a-zA-Z]\\w*(?:<.*>)?)",
    };
    struct et_buf name = {0};
    et_buf_text(&name, function);
    shorten("^\\(anonymous namespace\\)::(.*)$", &name);
    shorten("^(.*?)/v(?:[2-9]|[1-9][0-9]+)([./].*)$", &name);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && !shorten(patterns[i], &name);) {
        i++;
    }
    for (const char *at = name.data; *at; at++) {
        if (*at == '.' || (at[0] == ':' && at[1] == ':')) {
            et_buf_text(out, "\\n");
            at += *at == ':';
        } else {
            put_escaped((const char[]){*at, '\0'}, out);
        }
    }
    et_buf_text(out, "\\n");
    et_buf_free(&name);
}

/* From grey for nothing to red for everything. */
static void put_color(double score, bool background, struct et_buf *out)
{
    double saturation = background ? 0.1 : 1, value = background ? 0.93 : 0.7;
    score = score > 1 ? 1 : score;
    if (score < 0.2) {
        saturation *= score / 0.2;
    }
    score = score > 0 ? pow(score, 1 - 0.7) : 0;
    double green = value * (1 - saturation * score), blue = value * (1 - saturation);
    et_buf_printf(out, "\"#%02x%02x%02x\"", (unsigned)(value * 255), (unsigned)(green * 255), (unsigned)(blue * 255));
}

static double share_of(const struct dot_graph *g, int64_t value)
{
    return g->total ? (double)value / (double)g->total : 0;
}

/* ---- parts of the file ---- */

static void write_legend(const struct dot_graph *g, size_t shown, size_t all, const uint32_t *order, struct et_buf *out)
{
    const et_pprof *pprof = g->pprof;
    const char *type = pprof->string_table[pprof->sample_type[pprof->n_sample_type - 1]->type];
    int64_t flat = 0;
    for (size_t i = 0; i < shown; i++) {
        flat += g->nodes[order[i]].flat;
    }
    et_buf_text(out, "subgraph cluster_L { \"Type: ");
    put_escaped(type, out);
    et_buf_text(out, "\" [shape=box fontsize=16 label=\"Type: ");
    put_escaped(type, out);
    et_buf_text(out, "\\l");
    if (pprof->time_nanos) {
        char day[32], clock[16];
        struct tm at;
        gmtime_r(&(time_t){pprof->time_nanos / 1000000000}, &at);
        strftime(day, sizeof day, "%b", &at);
        snprintf(clock, sizeof clock, "%d:%02d%s", (at.tm_hour + 11) % 12 + 1, at.tm_min,
                 at.tm_hour < 12 ? "am" : "pm");
        et_buf_printf(out, "Time: %s %d, %d at %s (UTC)\\l", day, at.tm_mday, at.tm_year + 1900, clock);
    }
    et_buf_text(out, "Showing nodes accounting for ");
    put_value(g, flat, out);
    et_buf_text(out, ", ");
    put_share(g, flat, out);
    et_buf_text(out, " of ");
    put_value(g, g->total, out);
    et_buf_text(out, " total\\l");
    if (shown < all) {
        et_buf_printf(out, "Showing top %zu nodes out of %zu\\l", shown, all);
    }
    et_buf_text(out, "\\lSee https://git.io/JfYMW for how to read the graph\\l\"] }\n");
}

static void write_node(const struct dot_graph *g, const struct dot_node *node, size_t number, int64_t most,
                       struct et_buf *out)
{
    int size = 8;
    et_buf_printf(out, "N%zu [label=\"", number);
    put_label(node->name, out);
    put_value(g, node->flat, out);
    if (node->flat) {
        size += most ? (int)ceil(16 * sqrt((double)node->flat / (double)most)) : 0;
        et_buf_text(out, " (");
        put_share(g, node->flat, out);
        et_buf_char(out, ')');
    }
    if (node->cum != node->flat) {
        et_buf_text(out, node->flat ? "\\nof " : " of ");
        put_value(g, node->cum, out);
        et_buf_text(out, " (");
        put_share(g, node->cum, out);
        et_buf_char(out, ')');
    }
    et_buf_printf(out, "\" id=\"node%zu\" fontsize=%d shape=box tooltip=\"", number, size);
    put_escaped(node->name, out);
    et_buf_text(out, " (");
    put_value(g, node->cum, out);
    et_buf_text(out, ")\" color=");
    put_color(share_of(g, node->cum), false, out);
    et_buf_text(out, " fillcolor=");
    put_color(share_of(g, node->cum), true, out);
    et_buf_text(out, "]\n");
}

static void write_edge(const struct dot_graph *g, const struct dot_edge *edge, const size_t *numbers,
                       struct et_buf *out)
{
    static const char *const tips[] = {" tooltip=\"", " labeltooltip=\""};
    double share = share_of(g, edge->weight);
    int weight = 1 + (int)(share * 100), width = 1 + (int)(share * 5);
    et_buf_printf(out, "N%zu -> N%zu [label=\" ", numbers[edge->from], numbers[edge->to]);
    put_value(g, edge->weight, out);
    et_buf_char(out, '"');
    if (weight > 1) {
        et_buf_printf(out, " weight=%d", weight);
    }
    if (width > 1) {
        et_buf_printf(out, " penwidth=%d", width);
    }
    et_buf_text(out, " color=");
    put_color(share, false, out);
    for (size_t i = 0; i < 2; i++) {
        et_buf_text(out, tips[i]);
        put_escaped(g->nodes[edge->from].name, out);
        et_buf_text(out, edge->residual ? " ... " : " -> ");
        put_escaped(g->nodes[edge->to].name, out);
        et_buf_text(out, " (");
        put_value(g, edge->weight, out);
        et_buf_text(out, ")\"");
    }
    et_buf_text(out, edge->residual ? " style=\"dotted\"]\n" : "]\n");
}

static void write_graph(const struct dot_graph *g, const uint32_t *order, size_t shown, size_t all, struct et_buf *out)
{
    size_t *numbers = et_alloc(g->names.count, sizeof *numbers);
    int64_t most = 0;
    et_buf_text(out, "digraph \"unnamed\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n");
    write_legend(g, shown, all, order, out);
    for (size_t i = 0; i < shown; i++) {
        numbers[order[i]] = i + 1;
        most = g->nodes[order[i]].flat > most ? g->nodes[order[i]].flat : most;
    }
    for (size_t i = 0; i < shown; i++) {
        write_node(g, &g->nodes[order[i]], i + 1, most, out);
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        if (!g->edges[i].removed) {
            write_edge(g, &g->edges[i], numbers, out);
        }
    }
    et_buf_text(out, "}\n");
    free(numbers);
}

void et_dot(const et_pprof *pprof, size_t max_nodes, struct et_buf *out)
{
    struct dot_graph g = {.pprof = pprof};
    if (!pprof->n_sample) {
        return;
    }
    g.unit = pprof->string_table[pprof->sample_type[pprof->n_sample_type - 1]->unit];
    et_intern(&g.names, "");
    begin_graph(&g);
    make_graph(&g);
    uint32_t *order = et_alloc(g.names.count, sizeof *order);
    size_t all = list_nodes(&g, order), shown = all;
    if (all > max_nodes) {
        for (size_t i = max_nodes; i < all; i++) {
            g.nodes[order[i]].kept = false;
        }
        make_graph(&g);
        shown = list_nodes(&g, order);
    }
    if (g.edge_count) {
        qsort_r(g.edges, g.edge_count, sizeof *g.edges, heaviest_first, &g);
    }
    remove_redundant(&g, order, shown);
    write_graph(&g, order, shown, all, out);
    free(order);
    free(g.functions);
    free(g.nodes);
    free(g.edges);
    et_map_free(&g.index);
    et_map_free(&g.locations);
    et_strings_free(&g.names);
}
