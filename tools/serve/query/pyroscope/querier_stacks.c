/*
 * Methods that merge stacks: flame graphs of one query and of two, Pyroscope's tree, pprof.
 *
 *   merged() loads what a request selects, keeps what lies below its calls; reply_*() give it its form
 */
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/formats/pprof_read.h"
#include "tools/store/query_builder.h"

#include <stdlib.h>
#include <string.h>

/* Removes what does not begin with these calls. */
static void keep_calls(struct et_profile *p, const Querier__V1__StackTraceSelector *selector)
{
    size_t wanted = selector ? selector->n_call_site : 0;
    uint32_t *depths = et_alloc(p->node_count, sizeof *depths); /* calls that match so far; UINT32_MAX: not any more */
    for (size_t i = 1; i < p->node_count && wanted; i++) {
        const struct et_frame *frame = &p->frames[p->nodes[i].frame];
        uint32_t depth = depths[p->nodes[i].parent];
        for (uint32_t k = frame->line_count; k-- > 0 && depth < wanted;) {
            const char *name = et_text(&p->strings, p->lines[frame->first_line + k].function);
            depth = strcmp(name, selector->call_site[depth]->name) == 0 ? depth + 1 : UINT32_MAX;
        }
        depths[i] = depth;
    }
    size_t kept = 0;
    for (size_t i = 0; i < p->entry_count && wanted; i++) {
        struct et_entry entry = p->entries[i];
        if (depths[entry.node] == wanted) {
            p->entries[kept++] = entry;
        } else {
            p->values -= entry.value;
            p->counts -= entry.count;
        }
    }
    p->entry_count = wanted ? kept : p->entry_count;
    free(depths);
    et_profile_show(p, p->measure);
}

/* NULL: the answer is the error. */
static struct et_profile *merged(const struct et_call *call, const Querier__V1__SelectMergeStacktracesRequest *request)
{
    struct et_query_builder wanted = {0};
    struct et_profile *profile = NULL;
    if (et_call_selection(&wanted, request)) {
        profile = et_pyroscope_profile(call->server, call->request, &wanted.query, call->answer);
    } else {
        et_connect_error(call->answer, 400, wanted.why);
    }
    et_query_builder_free(&wanted);
    if (profile) {
        keep_calls(profile, request->stack_trace_selector);
    }
    return profile;
}

/* Names and levels as messages; their memory stays the flamebearer's. */
struct levels {
    char **names;
    Querier__V1__Level *levels, **pointers;
};

static void make_levels(const struct et_flamebearer *flamebearer, struct levels *levels)
{
    levels->names = et_alloc(flamebearer->names.count, sizeof *levels->names);
    for (uint32_t i = 0; i < flamebearer->names.count; i++) {
        levels->names[i] = (char *)(uintptr_t)et_flamebearer_name(flamebearer, i);
    }
    levels->levels = et_alloc(flamebearer->level_count, sizeof *levels->levels);
    levels->pointers = et_alloc(flamebearer->level_count, sizeof(Querier__V1__Level *));
    for (size_t i = 0; i < flamebearer->level_count; i++) {
        querier__v1__level__init(&levels->levels[i]);
        levels->levels[i].n_values = flamebearer->levels[i].count;
        levels->levels[i].values = flamebearer->levels[i].values;
        levels->pointers[i] = &levels->levels[i];
    }
}

static void free_levels(struct levels *levels)
{
    free(levels->names);
    free(levels->levels);
    free(levels->pointers);
}

/* A figure that was 0 in a tree of nothing is left out on the wire, as Pyroscope does. */
static void reply_flamegraph(const struct et_call *call, const struct et_profile *profile, int64_t max_nodes, bool tree)
{
    struct et_flamebearer flamebearer;
    struct levels levels;
    Querier__V1__FlameGraph graph = QUERIER__V1__FLAME_GRAPH__INIT;
    Querier__V1__SelectMergeStacktracesResponse response = QUERIER__V1__SELECT_MERGE_STACKTRACES_RESPONSE__INIT;
    et_flamebearer_make(profile, max_nodes > 0 ? (uint64_t)max_nodes : 0, &flamebearer);
    make_levels(&flamebearer, &levels);
    graph.n_names = flamebearer.names.count;
    graph.names = levels.names;
    graph.n_levels = flamebearer.level_count;
    graph.levels = levels.pointers;
    graph.total = (int64_t)flamebearer.total[ET_LEFT];
    graph.max_self = (int64_t)flamebearer.max_self;
    if (tree) {
        response.tree.len = flamebearer.tree.size;
        response.tree.data = (uint8_t *)flamebearer.tree.data;
    } else {
        response.flamegraph = &graph;
    }
    et_call_reply(call, &response.base);
    free_levels(&levels);
    et_flamebearer_free(&flamebearer);
}

static void reply_pprof(const struct et_call *call, const struct et_profile *profile, int64_t end_ms, bool wrapped)
{
    Querier__V1__PprofProfile wrap = QUERIER__V1__PPROF_PROFILE__INIT;
    Querier__V1__SelectMergeStacktracesResponse response = QUERIER__V1__SELECT_MERGE_STACKTRACES_RESPONSE__INIT;
    et_pprof *pprof = et_pyroscope_pprof(profile, et_call_ms(end_ms) * 1000000);
    wrap.profile = pprof;
    response.pprof = &wrap;
    et_call_reply(call, wrapped ? &response.base : &pprof->base);
    perftools__profiles__profile__free_unpacked(pprof, NULL);
}

static void reply_dot(const struct et_call *call, const struct et_profile *profile,
                      const Querier__V1__SelectMergeStacktracesRequest *request)
{
    Querier__V1__SelectMergeStacktracesResponse response = QUERIER__V1__SELECT_MERGE_STACKTRACES_RESPONSE__INIT;
    struct et_buf dot = {0};
    et_buf_text(&dot, "");
    et_pyroscope_dot(profile, et_call_ms(request->end) * 1000000, request->max_nodes, &dot);
    response.dot = dot.data;
    et_call_reply(call, &response.base);
    et_buf_free(&dot);
}

void et_querier_merge_stacktraces(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SelectMergeStacktracesRequest *request = (const void *)message;
    struct et_profile *profile = merged(call, request);
    if (!profile) {
        return;
    }
    if (request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF) {
        reply_pprof(call, profile, request->end, true);
    } else if (request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT) {
        reply_dot(call, profile, request);
    } else {
        reply_flamegraph(call, profile, request->max_nodes,
                         request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE);
    }
    et_profile_free(profile);
}

/* The answers of both have the same fields. */
void et_querier_merge_span_profile(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SelectMergeSpanProfileRequest *request = (const void *)message;
    Querier__V1__SelectMergeStacktracesRequest same = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    same.profile_typeid = request->profile_typeid;
    same.label_selector = request->label_selector;
    same.n_span_selector = request->n_span_selector;
    same.span_selector = request->span_selector;
    same.start = request->start;
    same.end = request->end;
    same.max_nodes = request->max_nodes;
    same.format = request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE
                      ? QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE
                      : QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH;
    et_querier_merge_stacktraces(call, &same.base);
}

void et_querier_merge_profile(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SelectMergeProfileRequest *request = (const void *)message;
    Querier__V1__SelectMergeStacktracesRequest same = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    same.profile_typeid = request->profile_typeid;
    same.label_selector = request->label_selector;
    same.start = request->start;
    same.end = request->end;
    same.stack_trace_selector = request->stack_trace_selector;
    same.n_profile_id_selector = request->n_profile_id_selector;
    same.profile_id_selector = request->profile_id_selector;
    same.n_trace_id_selector = request->n_trace_id_selector;
    same.trace_id_selector = request->trace_id_selector;
    same.format = QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF;
    struct et_profile *profile = merged(call, &same);
    if (profile) {
        reply_pprof(call, profile, request->end, false);
        et_profile_free(profile);
    }
}

static void reply_diff(const struct et_call *call, const struct et_profile *left, const struct et_profile *right,
                       int64_t max_nodes)
{
    struct et_flamebearer flamebearer;
    struct levels levels;
    Querier__V1__FlameGraphDiff graph = QUERIER__V1__FLAME_GRAPH_DIFF__INIT;
    Querier__V1__DiffResponse response = QUERIER__V1__DIFF_RESPONSE__INIT;
    et_flamebearer_diff(left, right, max_nodes > 0 ? (uint64_t)max_nodes : 0, &flamebearer);
    make_levels(&flamebearer, &levels);
    graph.n_names = flamebearer.names.count;
    graph.names = levels.names;
    graph.n_levels = flamebearer.level_count;
    graph.levels = levels.pointers;
    graph.leftticks = (int64_t)flamebearer.total[ET_LEFT];
    graph.rightticks = (int64_t)flamebearer.total[ET_RIGHT];
    graph.total = graph.leftticks + graph.rightticks;
    graph.max_self = (int64_t)flamebearer.max_self;
    response.flamegraph = &graph;
    et_call_reply(call, &response.base);
    free_levels(&levels);
    et_flamebearer_free(&flamebearer);
}

void et_querier_diff(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__DiffRequest *request = (const void *)message;
    if (!request->left || !request->right) {
        et_connect_error(call->answer, 400, "left and right are required");
        return;
    }
    struct et_profile *left = merged(call, request->left), *right = left ? merged(call, request->right) : NULL;
    if (right) {
        bool more = request->left->max_nodes > request->right->max_nodes;
        reply_diff(call, left, right, more ? request->left->max_nodes : request->right->max_nodes);
    }
    et_profile_free(left);
    et_profile_free(right);
}
