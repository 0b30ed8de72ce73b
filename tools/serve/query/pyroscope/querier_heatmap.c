/*
 * SelectHeatmap: how many profiles, or spans, have which value in each step of time. Slots and the 20 rows of values
 * are Pyroscope's.
 *
 *   et_querier_heatmap   read_points -> add_point, merge_points
 *                        reply_heatmap -> new_series -> new_slot
 */
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/lib/labels.h"
#include "tools/store/query_builder.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 20 };

struct point {
    uint32_t series, labels; /* labels: of an exemplar */
    int64_t at_ms, profile;
    uint64_t ids[3], value;
};

struct heatmap {
    const Querier__V1__SelectHeatmapRequest *request;
    struct et_points steps;
    struct et_strings series;        /* label lines of the groups, and of exemplars; number 0: without labels */
    const struct et_type *exemplars; /* NULL: not asked for */
    struct point *points;
    size_t count, capacity, held; /* held: bytes counted in the request's budget */
    struct et_budget *budget;
    uint64_t least, most;
};

/* ---- points ---- */

static uint32_t find_series(struct heatmap *map, const char *lines)
{
    struct et_labels labels = {0};
    for (size_t i = 0; i < map->request->n_group_by; i++) {
        size_t size;
        const char *value = et_labels_value(lines, map->request->group_by[i], &size);
        if (value) {
            char *own = et_clean(value, size);
            et_labels_add(&labels, map->request->group_by[i], own);
            free(own);
        }
    }
    char *text = et_labels_join(&labels);
    uint32_t number = et_intern(&map->series, text);
    free(text);
    return number;
}

static void add_point(void *context, const struct et_part *part)
{
    struct heatmap *map = context;
    map->points = et_reserve(map->points, &map->capacity, map->count + 1, sizeof *map->points);
    map->points[map->count++] = (struct point){.series = find_series(map, part->labels),
                                               .labels = map->exemplars ? et_intern(&map->series, part->labels) : 0,
                                               .at_ms = part->at_ns / 1000000,
                                               .profile = part->profile,
                                               .ids = {part->ids[0], part->ids[1], part->ids[2]},
                                               .value = part->value};
    (void)et_budget_hold(map->budget, &map->held,
                         map->capacity * sizeof *map->points + et_strings_memory(&map->series));
}

static int compare_points(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    if (x->series != y->series) {
        return x->series < y->series ? -1 : 1;
    }
    if (x->at_ms != y->at_ms) {
        return x->at_ms < y->at_ms ? -1 : 1;
    }
    return memcmp(x->ids, y->ids, sizeof x->ids);
}

/* Sorts points by series and time. Those of one span at one time become one. Notes the range of values. */
static void merge_points(struct heatmap *map, bool spans)
{
    size_t kept = 0;
    if (map->count) {
        qsort(map->points, map->count, sizeof *map->points, compare_points);
    }
    for (size_t i = 0; i < map->count; i++) {
        if (spans && kept && compare_points(&map->points[kept - 1], &map->points[i]) == 0) {
            map->points[kept - 1].value += map->points[i].value;
        } else {
            map->points[kept++] = map->points[i];
        }
    }
    map->count = kept;
    for (size_t i = 0; i < kept; i++) {
        uint64_t value = map->points[i].value;
        map->least = i == 0 || value < map->least ? value : map->least;
        map->most = i == 0 || value > map->most ? value : map->most;
    }
    map->most += kept && map->most == map->least;
}

/* ---- the answer ---- */

/* The least value of a row. */
static uint64_t row_start(const struct heatmap *map, size_t row)
{
    return map->least + (uint64_t)((double)row * ((double)(map->most - map->least) / ROWS));
}

static size_t find_row(const struct heatmap *map, uint64_t value)
{
    size_t row = ROWS - 1;
    while (row > 0 && value < row_start(map, row)) {
        row--;
    }
    return row;
}

/* A slot ends at start + n * step and begins after the end of the slot before. */
static int64_t slot_of(const struct et_points *steps, int64_t at_ms)
{
    int64_t after = at_ms - steps->start_ms;
    return after <= 0 ? steps->start_ms
                      : steps->start_ms + (after + steps->step_ms - 1) / steps->step_ms * steps->step_ms;
}

static Querier__V1__HeatmapSlot *new_slot(const struct heatmap *map, int64_t at_ms)
{
    Querier__V1__HeatmapSlot *slot = et_alloc(1, sizeof *slot);
    querier__v1__heatmap_slot__init(slot);
    slot->timestamp = at_ms;
    slot->n_y_min = slot->n_counts = ROWS;
    slot->y_min = et_alloc(ROWS, sizeof *slot->y_min);
    slot->counts = et_alloc(ROWS, sizeof *slot->counts);
    for (size_t i = 0; i < ROWS; i++) {
        slot->y_min[i] = (double)row_start(map, i);
    }
    return slot;
}

static bool wants_spans(const Querier__V1__SelectHeatmapRequest *request)
{
    return request->query_type == QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN;
}

/* A slot's exemplar is its largest point that has an id. */
static void show_exemplar(const struct heatmap *map, const struct point *point,
                          const Querier__V1__HeatmapSeries *series, Querier__V1__HeatmapSlot *slot)
{
    bool span = wants_spans(map->request);
    bool named = span ? point->ids[0] != 0 : point->profile != 0;
    if (!map->exemplars || !named || (slot->n_exemplars && slot->exemplars[0]->value >= (int64_t)point->value)) {
        return;
    }
    char id[ET_PROFILE_UUID];
    Querier__V1__Exemplar *exemplar = et_alloc(1, sizeof *exemplar);
    querier__v1__exemplar__init(exemplar);
    if (span) {
        et_querier_exemplar_span(point->ids, exemplar);
    } else {
        et_profile_uuid(point->profile, id);
        exemplar->profile_id = et_strdup(id);
    }
    exemplar->timestamp = point->at_ms;
    exemplar->value = (int64_t)point->value;
    et_querier_exemplar_labels(et_text(&map->series, point->labels), map->exemplars, series->labels, series->n_labels,
                               exemplar);
    if (slot->n_exemplars) {
        querier__v1__exemplar__free_unpacked(slot->exemplars[0], NULL);
    } else {
        slot->exemplars = et_alloc(1, sizeof(Querier__V1__Exemplar *));
        slot->n_exemplars = 1;
    }
    slot->exemplars[0] = exemplar;
}

/* Makes the series of points[0 .. count), which are in order of time. */
static Querier__V1__HeatmapSeries *new_series(const struct heatmap *map, const struct point *points, size_t count)
{
    Querier__V1__HeatmapSeries *series = et_alloc(1, sizeof *series);
    struct et_pairs pairs = {0};
    size_t capacity = 0;
    querier__v1__heatmap_series__init(series);
    et_labels_each(et_text(&map->series, points[0].series), et_pairs_add, &pairs);
    series->n_labels = pairs.count;
    series->labels = pairs.pairs;
    for (size_t i = 0; i < count; i++) {
        int64_t at_ms = slot_of(&map->steps, points[i].at_ms);
        if (!series->n_slots || series->slots[series->n_slots - 1]->timestamp != at_ms) {
            series->slots =
                et_reserve(series->slots, &capacity, series->n_slots + 1, sizeof(Querier__V1__HeatmapSlot *));
            series->slots[series->n_slots++] = new_slot(map, at_ms);
        }
        series->slots[series->n_slots - 1]->counts[find_row(map, points[i].value)]++;
        show_exemplar(map, &points[i], series, series->slots[series->n_slots - 1]);
    }
    return series;
}

static int64_t sum_counts(const Querier__V1__HeatmapSeries *series)
{
    int64_t sum = 0;
    for (size_t i = 0; i < series->n_slots; i++) {
        for (size_t k = 0; k < series->slots[i]->n_counts; k++) {
            sum += series->slots[i]->counts[k];
        }
    }
    return sum;
}

/* Of equal ones the first by their labels. */
static int compare_labels(const void *a, const void *b)
{
    const Querier__V1__HeatmapSeries *x = *(Querier__V1__HeatmapSeries *const *)a;
    const Querier__V1__HeatmapSeries *y = *(Querier__V1__HeatmapSeries *const *)b;
    int order = 0;
    for (size_t i = 0; !order && i < x->n_labels && i < y->n_labels; i++) {
        order = strcmp(x->labels[i]->name, y->labels[i]->name);
        order = order ? order : strcmp(x->labels[i]->value, y->labels[i]->value);
    }
    return order;
}

static int most_first(const void *a, const void *b)
{
    int64_t x = sum_counts(*(Querier__V1__HeatmapSeries *const *)a);
    int64_t y = sum_counts(*(Querier__V1__HeatmapSeries *const *)b);
    return x < y ? 1 : x > y ? -1 : compare_labels(a, b);
}

static void keep_most(Querier__V1__SelectHeatmapResponse *response, int64_t limit)
{
    if (limit > 0 && response->n_series > (uint64_t)limit) {
        qsort(response->series, response->n_series, sizeof *response->series, most_first);
        while (response->n_series > (uint64_t)limit) {
            querier__v1__heatmap_series__free_unpacked(response->series[--response->n_series], NULL);
        }
    }
}

static void reply_heatmap(const struct et_call *call, const struct heatmap *map)
{
    Querier__V1__SelectHeatmapResponse *response = et_alloc(1, sizeof *response);
    size_t capacity = 0;
    querier__v1__select_heatmap_response__init(response);
    for (size_t first = 0, next; first < map->count; first = next) {
        for (next = first; next < map->count && map->points[next].series == map->points[first].series;) {
            next++;
        }
        response->series =
            et_reserve(response->series, &capacity, response->n_series + 1, sizeof(Querier__V1__HeatmapSeries *));
        response->series[response->n_series++] = new_series(map, &map->points[first], next - first);
    }
    keep_most(response, map->request->limit);
    et_call_reply(call, &response->base);
    querier__v1__select_heatmap_response__free_unpacked(response, NULL);
}

static bool wants_exemplars(const Querier__V1__SelectHeatmapRequest *request)
{
    return request->exemplar_type != QUERIER__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_UNSPECIFIED &&
           request->exemplar_type != QUERIER__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_NONE;
}

static const char *exemplar_error(const Querier__V1__SelectHeatmapRequest *request)
{
    Querier__V1__ExemplarType own = wants_spans(request) ? QUERIER__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN
                                                         : QUERIER__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL;
    return !wants_exemplars(request) || request->exemplar_type == own
               ? NULL
               : "exemplar_type must be that of query_type, or none";
}

/* Returns NULL when the request can be answered. */
static const char *find_error(const Querier__V1__SelectHeatmapRequest *request)
{
    return request->n_group_by > 8                            ? "more than 8 labels to group by"
           : !(request->step >= 0.001 && request->step < 1e9) ? "step must be seconds, 0.001 or more"
           : request->limit < 0                               ? "limit must not be negative"
           : request->start >= request->end                   ? "start must be before end"
           : (double)(request->end - request->start) / 1000 / request->step > ET_TIMELINE_STEPS
               ? "the step is too short for the range: at most 11000 steps"
           : request->query_type == QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_INDIVIDUAL ||
                   request->query_type == QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN
               ? exemplar_error(request)
               : "query_type must be HEATMAP_QUERY_TYPE_INDIVIDUAL or HEATMAP_QUERY_TYPE_SPAN";
}

/* False: the answer has the error. */
static bool read_points(const struct et_call *call, struct heatmap *map, struct et_query *query)
{
    bool spans = wants_spans(map->request);
    struct et_store *store = et_server_read(call->server, call->request);
    query->from_ns -= map->steps.step_ms * 1000000; /* the first slot ends at the start */
    int err = et_store_parts(store, query, spans, add_point, map);
    if (err < 0) {
        et_connect_error(call->answer, et_read_status(store), et_store_why(store));
    }
    et_server_read_done(call->server, store);
    merge_points(map, spans);
    return err >= 0;
}

void et_querier_heatmap(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SelectHeatmapRequest *request = (const void *)message;
    struct et_query_builder wanted = {0};
    struct heatmap map = {.request = request, .budget = call->request->budget};
    struct et_type type = {0};
    wanted.why = find_error(request);
    if (wanted.why ||
        !et_call_select(&wanted, request->profile_typeid, request->label_selector, request->start, request->end)) {
        et_connect_error(call->answer, 400, wanted.why);
    } else {
        et_intern(&map.series, "");
        map.exemplars = wants_exemplars(request) && et_type_parse(request->profile_typeid, &type) ? &type : NULL;
        map.steps = et_call_points(request->start, request->end, request->step);
        if (read_points(call, &map, &wanted.query)) {
            reply_heatmap(call, &map);
        }
    }
    et_type_free(&type);
    et_strings_free(&map.series);
    free(map.points);
    et_query_builder_free(&wanted);
}
