/*
 * Sums over time by labels. The database groups by one label. For several labels, query_groups() makes a query for each
 * value of all labels but the last.
 */
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/store/query_builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Maximum labels to group by, and queries per request. */
enum { GROUPED_MOST = 8, GROUP_QUERIES = 300 };

/* Adds a series with the points of a line. Omits empty points, as Pyroscope does. */
static void add_reply_series(Querier__V1__SelectSeriesResponse *response, size_t *capacity, struct et_pairs *labels,
                             const struct et_points *points, const struct et_timeline *timeline,
                             const struct et_timeline_line *line)
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
            point->timestamp = points->start_ms + (int64_t)i * points->step_ms;
            one->points[one->n_points++] = point;
        }
    }
    response->series = et_reserve(response->series, capacity, response->n_series + 1, sizeof(Querier__V1__Series *));
    response->series[response->n_series++] = one;
}

/* State of a request: one query per combination of values of all labels but the last. */
struct series_grouping {
    const struct et_call *call;
    const Querier__V1__SelectSeriesRequest *request;
    Querier__V1__SelectSeriesResponse *response;
    size_t capacity, queries, held; /* held: bytes of the reply, counted in the request's budget */
    struct et_points points;
};

static bool query_groups(struct series_grouping *g, const struct et_query *query, size_t at,
                         const struct et_pairs *labels);

static void copy_pairs(const struct et_pairs *from, struct et_pairs *to)
{
    for (size_t i = 0; i < from->count; i++) {
        et_pairs_add(to, from->pairs[i]->name, from->pairs[i]->value);
    }
}

static void free_pairs(struct et_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        querier__v1__label_pair__free_unpacked(pairs->pairs[i], NULL);
    }
    free(pairs->pairs);
}

/* Repeats the query for one value of the label. */
static bool query_one_value(struct series_grouping *g, const struct et_query *query, size_t at,
                            const struct et_pairs *labels, const char *value)
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
    bool ok = query_groups(g, &own, at + 1, labels);
    free(matchers);
    return ok;
}

/* False: the answer has the error. */
static bool count_reply(struct series_grouping *g, const Querier__V1__Series *added, size_t steps)
{
    enum { PER_OBJECT = 16 }; /* malloc's */
    struct et_budget *budget = g->call->request->budget;
    size_t bytes = sizeof *added + steps * sizeof *added->points +
                   added->n_points * (sizeof(Querier__V1__Point) + PER_OBJECT) +
                   added->n_labels * (sizeof(Querier__V1__LabelPair) + 4 * PER_OBJECT);
    if (et_budget_hold(budget, &g->held, g->held + bytes) == 0) {
        return true;
    }
    char why[200];
    et_budget_why(budget, why, sizeof why);
    et_connect_error(g->call->answer, budget->failed == -ENOMEM ? 413 : 503, why);
    return false;
}

static bool query_groups(struct series_grouping *g, const struct et_query *query, size_t at,
                         const struct et_pairs *labels)
{
    struct et_timeline timeline;
    struct et_query own = *query;
    size_t held;
    bool last = at + 1 >= g->request->n_group_by, ok = true;
    own.group = at < g->request->n_group_by ? g->request->group_by[at] : NULL;
    if (g->queries++ >= GROUP_QUERIES) {
        et_connect_error(g->call->answer, 400, "too many values to group by several labels; choose fewer");
        return false;
    }
    if (!et_pyroscope_timeline(g->call->server, g->call->request, &own, &g->points, &timeline, g->call->answer)) {
        return false;
    }
    for (size_t i = 0; i < timeline.line_count && ok; i++) {
        struct et_pairs pairs = {0};
        copy_pairs(labels, &pairs);
        if (own.group && timeline.lines[i].name[0]) {
            et_pairs_add(&pairs, own.group, timeline.lines[i].name);
        }
        if (last) {
            add_reply_series(g->response, &g->capacity, &pairs, &g->points, &timeline, &timeline.lines[i]);
            ok = count_reply(g, g->response->series[g->response->n_series - 1], timeline.steps);
        } else {
            ok = query_one_value(g, query, at, &pairs, timeline.lines[i].name);
            free_pairs(&pairs);
        }
    }
    held = et_timeline_memory(&timeline);
    (void)et_budget_hold(g->call->request->budget, &held, 0);
    et_timeline_free(&timeline);
    return ok;
}

static double sum_points(const Querier__V1__Series *series)
{
    double sum = 0;
    for (size_t i = 0; i < series->n_points; i++) {
        sum += series->points[i]->value;
    }
    return sum;
}

static int compare_totals(const void *a, const void *b)
{
    double x = sum_points(*(Querier__V1__Series *const *)a), y = sum_points(*(Querier__V1__Series *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void keep_largest(Querier__V1__SelectSeriesResponse *response, int64_t limit)
{
    if (response->n_series) {
        qsort(response->series, response->n_series, sizeof *response->series, compare_totals);
    }
    while (limit > 0 && response->n_series > (uint64_t)limit) {
        querier__v1__series__free_unpacked(response->series[--response->n_series], NULL);
    }
}

/* Returns NULL when the request can be answered. Call sites and averages get the sums of whole profiles, as at
 * Pyroscope. */
static const char *find_error(const Querier__V1__SelectSeriesRequest *request)
{
    return request->n_group_by > GROUPED_MOST                 ? "more than 8 labels to group by"
           : !(request->step >= 0.001 && request->step < 1e9) ? "step must be seconds, 0.001 or more"
                                                              : NULL;
}

/* False: the answer has the error. */
static bool add_exemplars(const struct et_call *call, const Querier__V1__SelectSeriesRequest *request,
                          const struct et_query *query, Querier__V1__SelectSeriesResponse *response)
{
    struct et_type type;
    if ((request->exemplar_type != QUERIER__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN &&
         request->exemplar_type != QUERIER__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL) ||
        !et_type_parse(request->profile_typeid, &type)) {
        return true;
    }
    bool ok = et_querier_exemplars(call, query, &type, request, response);
    et_type_free(&type);
    return ok;
}

void et_querier_select_series(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SelectSeriesRequest *request = (const void *)message;
    struct et_query_builder wanted = {0};
    wanted.why = find_error(request);
    if (wanted.why ||
        !et_call_select(&wanted, request->profile_typeid, request->label_selector, request->start, request->end)) {
        et_connect_error(call->answer, 400, wanted.why);
    } else {
        Querier__V1__SelectSeriesResponse *response = et_alloc(1, sizeof *response);
        querier__v1__select_series_response__init(response);
        struct series_grouping g = {.call = call, .request = request, .response = response};
        g.points = et_call_points(request->start, request->end, request->step);
        if (query_groups(&g, &wanted.query, 0, &(struct et_pairs){0})) {
            keep_largest(response, request->limit);
            if (add_exemplars(call, request, &wanted.query, response)) {
                et_call_reply(call, &response->base);
            }
        }
        querier__v1__select_series_response__free_unpacked(response, NULL);
    }
    et_query_builder_free(&wanted);
}
