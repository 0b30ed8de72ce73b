/*
 * See dot.h. The style is that of github.com/google/pprof (internal/graph), without its fractions.
 *
 *   et_dot   et_dot_graph_make, again with the best nodes only, et_dot_graph_reduce (dot_graph.c)
 *            write_legend, write_node, write_edge
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tools/formats/dot_graph.h"

#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- text ---- */

/* The value in its unit: time in seconds, amounts in bytes, as pprof does it. */
static void put_value(const struct et_dot_graph *g, int64_t value, struct et_buf *out)
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

static void put_share(const struct et_dot_graph *g, int64_t value, struct et_buf *out)
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

static double share_of(const struct et_dot_graph *g, int64_t value)
{
    return g->total ? (double)value / (double)g->total : 0;
}

/* ---- parts of the file ---- */

static void write_legend(const struct et_dot_graph *g, size_t shown, size_t all, const uint32_t *order,
                         struct et_buf *out)
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

static void write_node(const struct et_dot_graph *g, const struct et_dot_node *node, size_t number, int64_t most,
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

static void write_edge(const struct et_dot_graph *g, const struct et_dot_edge *edge, const size_t *numbers,
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

static void write_graph(const struct et_dot_graph *g, const uint32_t *order, size_t shown, size_t all,
                        struct et_buf *out)
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
    struct et_dot_graph g = {.pprof = pprof};
    if (!pprof->n_sample) {
        return;
    }
    g.unit = pprof->string_table[pprof->sample_type[pprof->n_sample_type - 1]->unit];
    et_intern(&g.names, "");
    et_dot_graph_begin(&g);
    et_dot_graph_make(&g);
    uint32_t *order = et_alloc(g.names.count, sizeof *order);
    size_t all = et_dot_graph_list(&g, order), shown = all;
    if (all > max_nodes) {
        for (size_t i = max_nodes; i < all; i++) {
            g.nodes[order[i]].kept = false;
        }
        et_dot_graph_make(&g);
        shown = et_dot_graph_list(&g, order);
    }
    if (g.edge_count) {
        qsort_r(g.edges, g.edge_count, sizeof *g.edges, et_dot_heaviest_first, &g);
    }
    et_dot_graph_reduce(&g, order, shown);
    write_graph(&g, order, shown, all, out);
    free(order);
    free(g.functions);
    free(g.nodes);
    free(g.edges);
    et_map_free(&g.index);
    et_map_free(&g.locations);
    et_strings_free(&g.names);
}
