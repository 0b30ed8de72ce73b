/*
 * Pyroscope's querier.v1.QuerierService by Connect's unary protocol: a POST for each method, binary or JSON. As far as
 * Grafana's data source and Pyroscope's command line ask; what is not here is answered "unimplemented".
 *
 *   call() decodes the request, runs the method's handler, which gives an answer of the method's own type by
 *   reply(), or an error
 */
#include "connect.h"
#include "labels.h"
#include "protojson.h"
#include "pyroscope.h"
#include "querier.pb-c.h"
#include "routes.h"
#include "wire_pprof.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a request; in one, selectors or names, labels to group by. */
enum { REQUEST_LIMIT = 1 << 20, LISTED_MOST = 100, GROUPED_MOST = 8 };

struct call {
    struct et_server *server;
    bool json;
    struct et_answer *answer;
};

static void reply(const struct call *call, const ProtobufCMessage *message)
{
    struct et_buf *out = &call->answer->body;
    call->answer->type = call->json ? "application/json" : "application/proto";
    if (call->json) {
        et_protojson_encode(message, out);
        return;
    }
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = et_alloc(size, 1);
    protobuf_c_message_pack(message, bytes);
    et_buf_add(out, bytes, size);
    free(bytes);
}

/* Milliseconds; 0 is no bound. Beyond 2200 nothing is measured, and sums of times stay in range. */
static int64_t from_ms(int64_t ms, int64_t unbounded)
{
    static const int64_t far_ms = 7258118400000;
    return ms == 0 ? unbounded : ms < 0 ? 0 : (ms < far_ms ? ms : far_ms) * 1000000;
}

/* ---- what is selected ---- */

/* Any of these values; they may only have characters that mean themselves in regular expressions. */
static bool add_ids(struct et_wanted *wanted, const char *label, char **ids, size_t count, size_t digits)
{
    struct et_buf text = {0};
    bool ok = true;
    et_buf_printf(&text, "%s=~", label);
    for (size_t i = 0; i < count && ok; i++) {
        size_t size = strspn(ids[i], "0123456789abcdefABCDEF-");
        ok = size && !ids[i][size] && (!digits || (size == digits && !strchr(ids[i], '-')));
        et_buf_text(&text, i ? "|" : "");
        for (size_t k = 0; k < size; k++) {
            char c = ids[i][k];
            et_buf_char(&text, c >= 'A' && c <= 'F' ? (char)(c + 32) : c);
        }
    }
    if (!ok) {
        wanted->why = digits == 16   ? "a span id is 16 hexadecimal digits"
                      : digits == 32 ? "a trace id is 32 hexadecimal digits"
                                     : "a profile id is hexadecimal digits and dashes";
    }
    ok = ok && (count == 0 || et_wanted_label(wanted, text.data));
    et_buf_free(&text);
    return ok;
}

/* false: wanted->why says why not. */
static bool add_selection(struct et_wanted *wanted, const Querier__V1__SelectMergeStacktracesRequest *request)
{
    struct et_type type;
    if (!et_wanted_query(wanted, request->label_selector)) {
        return false;
    }
    if (!et_type_parse(request->profile_typeid, &type)) {
        wanted->why = "profile_typeID is name:sample_type:sample_unit:period_type:period_unit";
        return false;
    }
    et_wanted_type(wanted, &type);
    et_type_free(&type);
    wanted->query.from_ns = from_ms(request->start, 0);
    wanted->query.to_ns = from_ms(request->end, INT64_MAX);
    return add_ids(wanted, ET_SPAN_ID, request->span_selector, request->n_span_selector, 16) &&
           add_ids(wanted, ET_TRACE_ID, request->trace_id_selector, request->n_trace_id_selector, 32) &&
           add_ids(wanted, "profile_id", request->profile_id_selector, request->n_profile_id_selector, 0);
}

/* ---- merged stacks ---- */

/* Sets what does not begin with these calls to 0. */
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
    for (size_t i = 0; i < p->entry_count && wanted; i++) {
        uint32_t depth = depths[p->entries[i].node];
        if (depth < wanted || depth == UINT32_MAX) {
            p->values -= p->entries[i].value;
            p->counts -= p->entries[i].count;
            p->entries[i].value = p->entries[i].count = 0;
        }
    }
    free(depths);
    et_profile_show(p, p->measure);
}

/* NULL: the answer is the error. */
static struct et_profile *merged(const struct call *call, const Querier__V1__SelectMergeStacktracesRequest *request)
{
    struct et_wanted wanted = {.query.keep_labels =
                                   request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF};
    struct et_profile *profile = NULL;
    if (add_selection(&wanted, request)) {
        profile = et_pyroscope_profile(call->server, &wanted.query, call->answer);
    } else {
        et_connect_error(call->answer, 400, wanted.why);
    }
    et_wanted_free(&wanted);
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
static void reply_flamegraph(const struct call *call, const struct et_profile *profile, int64_t max_nodes, bool tree)
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
    reply(call, &response.base);
    free_levels(&levels);
    et_flamebearer_free(&flamebearer);
}

/* Leaves the sample type that was asked for, which is the default one: clients take the first. */
static void keep_default_type(et_pprof *pprof)
{
    size_t kept = 0;
    while (kept + 1 < pprof->n_sample_type && pprof->sample_type[kept]->type != pprof->default_sample_type) {
        kept++;
    }
    for (size_t i = 0; i < pprof->n_sample; i++) {
        pprof->sample[i]->value[0] = pprof->sample[i]->value[kept];
        pprof->sample[i]->n_value = 1;
    }
    for (size_t i = 0; i < pprof->n_sample_type; i++) {
        if (i != kept) {
            perftools__profiles__value_type__free_unpacked(pprof->sample_type[i], NULL);
        }
    }
    pprof->sample_type[0] = pprof->sample_type[kept];
    pprof->n_sample_type = 1;
}

/* The profile as a message, by way of its bytes. */
static et_pprof *pprof_of(const struct et_profile *profile)
{
    struct et_buf bytes = {0};
    et_pprof_encode(profile, &bytes);
    et_pprof *pprof = perftools__profiles__profile__unpack(NULL, bytes.size, (const uint8_t *)bytes.data);
    et_buf_free(&bytes);
    keep_default_type(pprof);
    return pprof;
}

static void reply_pprof(const struct call *call, const struct et_profile *profile, bool wrapped)
{
    Querier__V1__PprofProfile wrap = QUERIER__V1__PPROF_PROFILE__INIT;
    Querier__V1__SelectMergeStacktracesResponse response = QUERIER__V1__SELECT_MERGE_STACKTRACES_RESPONSE__INIT;
    et_pprof *pprof = pprof_of(profile);
    wrap.profile = pprof;
    response.pprof = &wrap;
    reply(call, wrapped ? &response.base : &pprof->base);
    perftools__profiles__profile__free_unpacked(pprof, NULL);
}

static void merge_stacktraces(const struct call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SelectMergeStacktracesRequest *request = (const void *)message;
    if (request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_DOT) {
        et_connect_error(call->answer, 501, "there is no DOT here: ask for PPROF and run go tool pprof -dot");
        return;
    }
    struct et_profile *profile = merged(call, request);
    if (!profile) {
        return;
    }
    if (request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF) {
        reply_pprof(call, profile, true);
    } else {
        reply_flamegraph(call, profile, request->max_nodes,
                         request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE);
    }
    et_profile_free(profile);
}

/* The answers of both have the same fields. */
static void merge_span_profile(const struct call *call, const ProtobufCMessage *message)
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
    merge_stacktraces(call, &same.base);
}

static void merge_profile(const struct call *call, const ProtobufCMessage *message)
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
        reply_pprof(call, profile, false);
        et_profile_free(profile);
    }
}

static void reply_diff(const struct call *call, const struct et_profile *left, const struct et_profile *right,
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
    reply(call, &response.base);
    free_levels(&levels);
    et_flamebearer_free(&flamebearer);
}

static void diff(const struct call *call, const ProtobufCMessage *message)
{
    const Querier__V1__DiffRequest *request = (const void *)message;
    if (!request->left || !request->right) {
        et_connect_error(call->answer, 400, "left and right are both needed");
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

/* ---- lists ---- */

static bool list(const struct call *call, enum et_listing what, const struct et_listed *of, int64_t start, int64_t end,
                 struct et_strings *found)
{
    struct et_listed own = *of;
    if (of->selector_count > LISTED_MOST || of->name_count > LISTED_MOST) {
        et_connect_error(call->answer, 400, "more than 100 matchers or label names");
        return false;
    }
    own.from_ns = from_ms(start, 0);
    own.to_ns = from_ms(end, INT64_MAX);
    return et_pyroscope_list(call->server, what, &own, found, call->answer);
}

static void profile_types(const struct call *call, const ProtobufCMessage *message)
{
    const Querier__V1__ProfileTypesRequest *request = (const void *)message;
    Querier__V1__ProfileTypesResponse response = QUERIER__V1__PROFILE_TYPES_RESPONSE__INIT;
    struct et_strings ids = {0};
    if (list(call, ET_LIST_TYPES, &(struct et_listed){0}, request->start, request->end, &ids)) {
        size_t count = ids.count - 1;
        struct et_type *types = et_alloc(count, sizeof *types);
        Querier__V1__ProfileType *items = et_alloc(count, sizeof *items);
        response.profile_types = et_alloc(count, sizeof(Querier__V1__ProfileType *));
        for (uint32_t i = 1; i <= count; i++) {
            Querier__V1__ProfileType *item = response.profile_types[response.n_profile_types++] = &items[i - 1];
            struct et_type *type = &types[i - 1];
            querier__v1__profile_type__init(item);
            if (et_type_parse(et_text(&ids, i), type)) {
                item->id = type->id;
                item->name = type->name;
                item->sample_type = type->sample;
                item->sample_unit = type->unit;
                item->period_type = type->period;
                item->period_unit = type->period_unit;
            }
        }
        reply(call, &response.base);
        for (size_t i = 0; i < count; i++) {
            et_type_free(&types[i]);
        }
        free(types);
        free(items);
        free(response.profile_types);
    }
    et_strings_free(&ids);
}

static void label_names(const struct call *call, const ProtobufCMessage *message)
{
    const Querier__V1__LabelNamesRequest *request = (const void *)message;
    Querier__V1__LabelNamesResponse response = QUERIER__V1__LABEL_NAMES_RESPONSE__INIT;
    struct et_listed of = {.selectors = request->matchers, .selector_count = request->n_matchers};
    struct et_strings names = {0};
    if (list(call, ET_LIST_NAMES, &of, request->start, request->end, &names)) {
        response.n_names = names.count - 1;
        response.names = names.text + 1;
        reply(call, &response.base);
    }
    et_strings_free(&names);
}

static void label_values(const struct call *call, const ProtobufCMessage *message)
{
    const Querier__V1__LabelValuesRequest *request = (const void *)message;
    Querier__V1__LabelValuesResponse response = QUERIER__V1__LABEL_VALUES_RESPONSE__INIT;
    char *name = request->name;
    struct et_listed of = {
        .selectors = request->matchers, .selector_count = request->n_matchers, .names = &name, .name_count = 1};
    struct et_strings values = {0};
    if (!*name) {
        et_connect_error(call->answer, 400, "name is missing");
        return;
    }
    if (list(call, ET_LIST_VALUES, &of, request->start, request->end, &values)) {
        response.n_names = values.count - 1;
        response.names = values.text + 1;
        reply(call, &response.base);
    }
    et_strings_free(&values);
}

/* Labels of a message on their way. */
struct pairs {
    Querier__V1__LabelPair **pairs;
    size_t count, capacity;
};

static void add_pair(void *context, const char *name, const char *value)
{
    struct pairs *pairs = context;
    Querier__V1__LabelPair *pair = et_alloc(1, sizeof *pair);
    querier__v1__label_pair__init(pair);
    pair->name = et_strdup(name);
    pair->value = et_strdup(value);
    pairs->pairs = et_reserve(pairs->pairs, &pairs->capacity, pairs->count + 1, sizeof(Querier__V1__LabelPair *));
    pairs->pairs[pairs->count++] = pair;
}

static void series(const struct call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SeriesRequest *request = (const void *)message;
    struct et_listed of = {.selectors = request->matchers,
                           .selector_count = request->n_matchers,
                           .names = request->label_names,
                           .name_count = request->n_label_names};
    struct et_strings found = {0};
    if (list(call, ET_LIST_SERIES, &of, request->start, request->end, &found)) {
        Querier__V1__SeriesResponse *response = et_alloc(1, sizeof *response);
        querier__v1__series_response__init(response);
        response->labels_set = et_alloc(found.count, sizeof(Querier__V1__Labels *));
        for (uint32_t i = 1; i < found.count; i++) {
            struct pairs pairs = {0};
            Querier__V1__Labels *labels = et_alloc(1, sizeof *labels);
            querier__v1__labels__init(labels);
            et_labels_each(et_text(&found, i), add_pair, &pairs);
            labels->n_labels = pairs.count;
            labels->labels = pairs.pairs;
            response->labels_set[response->n_labels_set++] = labels;
        }
        reply(call, &response->base);
        querier__v1__series_response__free_unpacked(response, NULL);
    }
    et_strings_free(&found);
}

/* ---- over time ---- */

/* One more series with a line's points; those without anything are left out, as Pyroscope does. */
static void add_series(Querier__V1__SelectSeriesResponse *response, size_t *capacity, struct pairs *labels,
                       const struct et_timeline *timeline, const struct et_timeline_line *line)
{
    Querier__V1__Series *one = et_alloc(1, sizeof *one);
    querier__v1__series__init(one);
    one->n_labels = labels->count;
    one->labels = labels->pairs;
    one->points = et_alloc(timeline->steps, sizeof(Querier__V1__Point *));
    for (size_t i = 0; i < timeline->steps; i++) {
        if (line->sums[i]) {
            Querier__V1__Point *point = et_alloc(1, sizeof *point);
            querier__v1__point__init(point);
            point->value = (double)line->sums[i];
            point->timestamp = (timeline->from_ns + ((int64_t)i + 1) * timeline->step_ns) / 1000000;
            one->points[one->n_points++] = point;
        }
    }
    response->series = et_reserve(response->series, capacity, response->n_series + 1, sizeof(Querier__V1__Series *));
    response->series[response->n_series++] = one;
}

/* A query for each set of values of all labels but the last, which the store groups by. */
struct grouping {
    const struct call *call;
    const Querier__V1__SelectSeriesRequest *request;
    Querier__V1__SelectSeriesResponse *response;
    size_t capacity, queries;
    int64_t step_ns;
};

enum { GROUP_QUERIES = 300 };

static bool group_by(struct grouping *g, const struct et_query *query, size_t at, const struct pairs *labels);

static void copy_pairs(const struct pairs *from, struct pairs *to)
{
    for (size_t i = 0; i < from->count; i++) {
        add_pair(to, from->pairs[i]->name, from->pairs[i]->value);
    }
}

static void free_pairs(struct pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        querier__v1__label_pair__free_unpacked(pairs->pairs[i], NULL);
    }
    free(pairs->pairs);
}

/* The same query of one value of the label alone. */
static bool group_below(struct grouping *g, const struct et_query *query, size_t at, const struct pairs *labels,
                        const char *value)
{
    struct et_query own = *query;
    struct et_matcher only = {.name = g->request->group_by[at], .value = (char *)(uintptr_t)value};
    struct et_matcher *matchers = et_alloc(query->matcher_count + 1, sizeof *matchers);
    if (query->matcher_count) {
        memcpy(matchers, query->matchers, query->matcher_count * sizeof *matchers);
    }
    matchers[query->matcher_count] = only;
    own.matchers = matchers;
    own.matcher_count++;
    bool ok = group_by(g, &own, at + 1, labels);
    free(matchers);
    return ok;
}

static bool group_by(struct grouping *g, const struct et_query *query, size_t at, const struct pairs *labels)
{
    struct et_timeline timeline;
    struct et_query own = *query;
    bool last = at + 1 >= g->request->n_group_by, ok = true;
    own.group = at < g->request->n_group_by ? g->request->group_by[at] : NULL;
    if (g->queries++ >= GROUP_QUERIES) {
        et_connect_error(g->call->answer, 400, "too many values to group by several labels; choose fewer");
        return false;
    }
    if (!et_pyroscope_timeline(g->call->server, &own, g->step_ns, &timeline, g->call->answer)) {
        return false;
    }
    for (size_t i = 0; i < timeline.line_count && ok; i++) {
        struct pairs pairs = {0};
        copy_pairs(labels, &pairs);
        if (own.group && timeline.lines[i].name[0]) {
            add_pair(&pairs, own.group, timeline.lines[i].name);
        }
        if (last) {
            add_series(g->response, &g->capacity, &pairs, &timeline, &timeline.lines[i]);
        } else {
            ok = group_below(g, query, at, &pairs, timeline.lines[i].name);
            free_pairs(&pairs);
        }
    }
    et_timeline_free(&timeline);
    return ok;
}

static double total_of(const Querier__V1__Series *series)
{
    double sum = 0;
    for (size_t i = 0; i < series->n_points; i++) {
        sum += series->points[i]->value;
    }
    return sum;
}

static int by_total(const void *a, const void *b)
{
    double x = total_of(*(Querier__V1__Series *const *)a), y = total_of(*(Querier__V1__Series *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void keep_largest(Querier__V1__SelectSeriesResponse *response, int64_t limit)
{
    if (response->n_series) {
        qsort(response->series, response->n_series, sizeof *response->series, by_total);
    }
    while (limit > 0 && response->n_series > (uint64_t)limit) {
        querier__v1__series__free_unpacked(response->series[--response->n_series], NULL);
    }
}

/* NULL: it can be answered. */
static const char *why_not(const Querier__V1__SelectSeriesRequest *request)
{
    bool average =
        request->aggregation == QUERIER__V1__TIME_SERIES_AGGREGATION_TYPE__TIME_SERIES_AGGREGATION_TYPE_AVERAGE;
    return average ? "series are sums, no averages"
           : request->stack_trace_selector && request->stack_trace_selector->n_call_site
               ? "series are of whole profiles"
           : request->n_group_by > GROUPED_MOST                    ? "more than 8 labels to group by"
           : !(request->step > 0 && request->step < 1e9)           ? "step is seconds, above 0"
           : request->start <= 0 || request->end <= request->start ? "start and end are ms since 1970, end is later"
                                                                   : NULL;
}

static void select_series(const struct call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SelectSeriesRequest *request = (const void *)message;
    Querier__V1__SelectMergeStacktracesRequest same = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;
    struct et_wanted wanted = {0};
    same.profile_typeid = request->profile_typeid;
    same.label_selector = request->label_selector;
    same.start = request->start;
    same.end = request->end;
    wanted.why = why_not(request);
    if (wanted.why || !add_selection(&wanted, &same)) {
        et_connect_error(call->answer, 400, wanted.why);
    } else {
        Querier__V1__SelectSeriesResponse *response = et_alloc(1, sizeof *response);
        querier__v1__select_series_response__init(response);
        struct grouping g = {.call = call, .request = request, .response = response};
        g.step_ns = (int64_t)(request->step * 1e9);
        if (group_by(&g, &wanted.query, 0, &(struct pairs){0})) {
            keep_largest(response, request->limit);
            reply(call, &response->base);
        }
        querier__v1__select_series_response__free_unpacked(response, NULL);
    }
    et_wanted_free(&wanted);
}

static void on_service(void *context, const struct et_service_row *row)
{
    Querier__V1__GetProfileStatsResponse *response = context;
    int64_t oldest = row->first_ns / 1000000, newest = row->last_ns / 1000000;
    response->oldest_profile_time =
        !response->data_ingested || oldest < response->oldest_profile_time ? oldest : response->oldest_profile_time;
    response->newest_profile_time = newest > response->newest_profile_time ? newest : response->newest_profile_time;
    response->data_ingested = true;
}

static void profile_stats(const struct call *call, const ProtobufCMessage *message)
{
    Querier__V1__GetProfileStatsResponse response = QUERIER__V1__GET_PROFILE_STATS_RESPONSE__INIT;
    struct et_store *store = et_server_read(call->server);
    (void)message;
    if (et_store_services(store, on_service, &response) < 0) {
        et_connect_error(call->answer, 503, et_store_why(store));
    } else {
        reply(call, &response.base);
    }
    et_server_read_done(call->server, store);
}

/* ---- calls ---- */

static const struct method {
    const char *name;
    const ProtobufCMessageDescriptor *request;
    void (*answer)(const struct call *call, const ProtobufCMessage *request);
} methods[] = {
    {"ProfileTypes", &querier__v1__profile_types_request__descriptor, profile_types},
    {"LabelNames", &querier__v1__label_names_request__descriptor, label_names},
    {"LabelValues", &querier__v1__label_values_request__descriptor, label_values},
    {"Series", &querier__v1__series_request__descriptor, series},
    {"SelectSeries", &querier__v1__select_series_request__descriptor, select_series},
    {"SelectMergeStacktraces", &querier__v1__select_merge_stacktraces_request__descriptor, merge_stacktraces},
    {"SelectMergeSpanProfile", &querier__v1__select_merge_span_profile_request__descriptor, merge_span_profile},
    {"SelectMergeProfile", &querier__v1__select_merge_profile_request__descriptor, merge_profile},
    {"Diff", &querier__v1__diff_request__descriptor, diff},
    {"GetProfileStats", &querier__v1__get_profile_stats_request__descriptor, profile_stats},
};

static const struct method *method_at(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

static ProtobufCMessage *decode(const struct call *call, const struct method *method, const struct et_buf *body,
                                const char **why)
{
    *why = "no message of this method";
    return call->json ? et_protojson_decode(method->request, body->data ? body->data : "", body->size, why)
                      : protobuf_c_message_unpack(method->request, NULL, body->size, (const uint8_t *)body->data);
}

static void answer_call(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    const struct method *method = method_at(request->path);
    const char *why;
    struct call call = {.server = server, .answer = answer, .json = et_content_type_is(request, "application/json")};
    struct et_buf body = {0};
    if (!method) {
        et_connect_error(answer, 501, "there is no such method here");
    } else if (!call.json && !et_content_type_is(request, "application/proto")) {
        et_answer_text(answer, 415, "content types are application/proto and application/json");
    } else if (et_body(request, REQUEST_LIMIT, &body, answer) != 0) {
        et_connect_error_again(answer);
    } else {
        ProtobufCMessage *message = decode(&call, method, &body, &why);
        if (message) {
            method->answer(&call, message);
            protobuf_c_message_free_unpacked(message, NULL);
        } else {
            et_connect_error(answer, 400, why);
        }
    }
    et_buf_free(&body);
}

const struct et_route et_routes_querier[] = {
    {.method = "POST", .path = "/querier.v1.QuerierService/*", .handle = answer_call, .limit = REQUEST_LIMIT},
    {.method = "POST", .path = "/pyroscope/querier.v1.QuerierService/*", .handle = answer_call, .limit = REQUEST_LIMIT},
    {0},
};
