/*
 * See querier.h: exemplars. Each point of each series gets the profile, or the span, with the largest value of those
 * that it sums up. Where the query selects a part of a profile's stacks, the profile is loaded for its value.
 */
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/lib/labels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LOADS: profiles to load for a request; later points go without an exemplar. */
enum { LOADS = 500 };

struct exemplar_row {
    int64_t id, at_ns, start_ns;
    uint64_t ids[3]; /* of a span, and its trace */
    uint64_t value;  /* of all its stacks */
    uint32_t labels; /* tags, service and host, as lines */
    bool partial;
};

struct exemplar_search {
    const struct et_call *call;
    const struct et_query *query;
    const Querier__V1__SelectSeriesRequest *request;
    int64_t step_ns;
    bool spans;
    struct et_strings texts;
    struct exemplar_row *rows;
    size_t count, capacity, loads, held; /* held: bytes counted in the request's budget */
    bool failed;                         /* the answer has the error */
};

static void keep_row(void *context, const struct et_received_row *from)
{
    struct exemplar_search *s = context;
    struct et_labels labels = {0};
    bool counts = s->query->measure == ET_MEASURE_COUNT;
    if (from->host[0]) {
        et_labels_add(&labels, ET_HOST, from->host);
    }
    et_labels_add_lines(&labels, from->tags);
    et_labels_add(&labels, ET_SERVICE_NAME, from->service); /* the last of a name counts */
    char *lines = et_labels_join(&labels);
    s->rows = et_reserve(s->rows, &s->capacity, s->count + 1, sizeof *s->rows);
    s->rows[s->count++] = (struct exemplar_row){.id = from->id,
                                                .at_ns = from->at_ns,
                                                .start_ns = from->start_ns,
                                                .value = counts || !from->value ? from->count : from->value,
                                                .labels = et_intern(&s->texts, lines),
                                                .partial = from->partial};
    free(lines);
    (void)et_budget_hold(s->call->request->budget, &s->held,
                         s->capacity * sizeof *s->rows + et_strings_memory(&s->texts));
}

static void keep_span(void *context, const struct et_part *part)
{
    struct exemplar_search *s = context;
    if (part->ids[0] == 0) {
        return;
    }
    s->rows = et_reserve(s->rows, &s->capacity, s->count + 1, sizeof *s->rows);
    s->rows[s->count++] = (struct exemplar_row){.at_ns = part->at_ns,
                                                .start_ns = part->at_ns,
                                                .ids = {part->ids[0], part->ids[1], part->ids[2]},
                                                .value = part->value,
                                                .labels = et_intern(&s->texts, part->labels)};
    (void)et_budget_hold(s->call->request->budget, &s->held,
                         s->capacity * sizeof *s->rows + et_strings_memory(&s->texts));
}

static int by_span(const void *a, const void *b)
{
    const struct exemplar_row *x = a, *y = b;
    int64_t x_ms = x->at_ns / 1000000, y_ms = y->at_ns / 1000000;
    if (x->labels != y->labels) {
        return x->labels < y->labels ? -1 : 1;
    }
    return x_ms != y_ms ? (x_ms < y_ms ? -1 : 1) : memcmp(x->ids, y->ids, sizeof x->ids);
}

/* The parts of one span at one time become one. */
static void merge_spans(struct exemplar_search *s)
{
    size_t kept = 0;
    if (s->count) {
        qsort(s->rows, s->count, sizeof *s->rows, by_span);
    }
    for (size_t i = 0; i < s->count; i++) {
        if (kept && by_span(&s->rows[kept - 1], &s->rows[i]) == 0) {
            s->rows[kept - 1].value += s->rows[i].value;
        } else {
            s->rows[kept++] = s->rows[i];
        }
    }
    s->count = kept;
}

/* Whether the row has a label that the series are grouped by and this one lacks. */
static bool has_other_label(const struct exemplar_search *s, const struct exemplar_row *row,
                            const Querier__V1__Series *series)
{
    bool other = false;
    for (size_t i = 0; i < s->request->n_group_by && !other; i++) {
        size_t size, known = 0;
        const char *name = s->request->group_by[i];
        while (known < series->n_labels && strcmp(series->labels[known]->name, name) != 0) {
            known++;
        }
        other = known == series->n_labels && et_labels_value(et_text(&s->texts, row->labels), name, &size);
    }
    return other;
}

enum belonging { OTHER_SERIES, IN_SERIES, BY_STACKS };

/* Whether the row is one of the series, or has stacks that may be. */
static enum belonging row_belongs(const struct exemplar_search *s, const struct exemplar_row *row,
                                  const Querier__V1__Series *series)
{
    enum belonging belongs = row->partial ? BY_STACKS : IN_SERIES;
    for (size_t i = 0; i < series->n_labels; i++) {
        size_t size;
        const Querier__V1__LabelPair *pair = series->labels[i];
        const char *value = et_labels_value(et_text(&s->texts, row->labels), pair->name, &size);
        if (!value && s->spans) {
            return OTHER_SERIES; /* its labels are all that it has */
        }
        if (value && (strlen(pair->value) != size || memcmp(value, pair->value, size) != 0)) {
            return OTHER_SERIES;
        }
        belongs = value ? belongs : BY_STACKS;
    }
    return has_other_label(s, row, series) ? OTHER_SERIES : belongs;
}

/* The value of the row's stacks that belong to the series. */
static uint64_t load_part(struct exemplar_search *s, const struct exemplar_row *row, const Querier__V1__Series *series)
{
    struct et_query own = *s->query;
    struct et_profile *part = NULL;
    uint64_t total = 0;
    struct et_matcher *matchers = et_alloc(own.matcher_count + series->n_labels + 1, sizeof *matchers);
    if (own.matcher_count) {
        memcpy(matchers, own.matchers, own.matcher_count * sizeof *matchers);
    }
    for (size_t i = 0; i < series->n_labels; i++) {
        matchers[own.matcher_count++] =
            (struct et_matcher){.name = series->labels[i]->name, .value = series->labels[i]->value};
    }
    own.matchers = matchers;
    own.ids = &row->id;
    own.id_count = 1;
    struct et_store *store = et_server_read(s->call->server, s->call->request);
    if (et_store_load(store, &own, &part) < 0) {
        et_connect_error(s->call->answer, et_read_status(store), et_store_why(store));
        s->failed = true;
    } else {
        size_t held = et_profile_memory(part);
        total = part->total;
        (void)et_budget_hold(s->call->request->budget, &held, 0);
        et_profile_free(part);
    }
    et_server_read_done(s->call->server, store);
    free(matchers);
    return total;
}

/* 0: none of its stacks belongs to the series, or too many profiles were loaded. */
static uint64_t row_value(struct exemplar_search *s, const struct exemplar_row *row, enum belonging belongs,
                          const Querier__V1__Series *series)
{
    if (belongs == IN_SERIES) {
        return row->value;
    }
    return s->loads++ < LOADS ? load_part(s, row, series) : 0;
}

/* The first point that ends at the row's time or later. NULL: the row is in a step without a point. */
static Querier__V1__Point *find_point(const struct exemplar_search *s, const Querier__V1__Series *series, int64_t at_ns)
{
    size_t low = 0, high = series->n_points;
    int64_t at = at_ns / 1000000;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (series->points[middle]->timestamp < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool near = low < series->n_points && series->points[low]->timestamp - at <= s->step_ns / 1000000;
    return near ? series->points[low] : NULL;
}

void et_querier_exemplar_labels(const char *lines, const struct et_type *type, Querier__V1__LabelPair *const *series,
                                size_t count, Querier__V1__Exemplar *exemplar)
{
    size_t size;
    struct et_labels labels = {0};
    struct et_pairs pairs = {0};
    const char *service = et_labels_value(lines, ET_SERVICE_NAME, &size);
    char *own = et_clean(service ? service : "", service ? size : 0);
    const char *const more[][2] = {
        {"__name__", type->name},       {"__period_type__", type->period}, {"__period_unit__", type->period_unit},
        {"__profile_type__", type->id}, {"__service_name__", own},         {"__type__", type->sample},
        {"__unit__", type->unit}};
    et_labels_add_lines(&labels, lines);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        et_labels_add(&labels, more[i][0], more[i][1]);
    }
    for (size_t i = 0; i < count; i++) {
        et_labels_add(&labels, series[i]->name, "");
    }
    char *all = et_labels_join(&labels);
    et_labels_each(all, et_pairs_add, &pairs);
    for (size_t i = 0; i < pairs.count; i++) {
        if (pairs.pairs[i]->value[0]) {
            pairs.pairs[exemplar->n_labels++] = pairs.pairs[i];
        } else {
            querier__v1__label_pair__free_unpacked(pairs.pairs[i], NULL);
        }
    }
    exemplar->labels = pairs.pairs;
    free(own);
    free(all);
}

void et_querier_exemplar_span(const uint64_t ids[3], Querier__V1__Exemplar *exemplar)
{
    char span[17], trace[33] = "";
    snprintf(span, sizeof span, "%016llx", (unsigned long long)ids[0]);
    if (ids[1] || ids[2]) {
        snprintf(trace, sizeof trace, "%016llx%016llx", (unsigned long long)ids[1], (unsigned long long)ids[2]);
    }
    exemplar->span_id = et_strdup(span);
    exemplar->trace_id = et_strdup(trace);
}

static void set_exemplar(struct exemplar_search *s, const struct exemplar_row *row, const struct et_type *type,
                         const Querier__V1__Series *series, Querier__V1__Point *point, uint64_t value)
{
    char id[ET_PROFILE_UUID];
    Querier__V1__Exemplar *exemplar = et_alloc(1, sizeof *exemplar);
    querier__v1__exemplar__init(exemplar);
    if (s->spans) {
        et_querier_exemplar_span(row->ids, exemplar);
    } else {
        et_profile_uuid(row->id, id);
        exemplar->profile_id = et_strdup(id);
    }
    exemplar->timestamp = row->start_ns / 1000000;
    exemplar->value = (int64_t)value;
    et_querier_exemplar_labels(et_text(&s->texts, row->labels), type, series->labels, series->n_labels, exemplar);
    point->exemplars = et_alloc(1, sizeof(Querier__V1__Exemplar *));
    point->exemplars[point->n_exemplars++] = exemplar;
}

/* Largest first, so that the first one that belongs to a point is its exemplar. */
static int largest_first(const void *a, const void *b)
{
    const struct exemplar_row *x = a, *y = b;
    if (x->value != y->value) {
        return x->value > y->value ? -1 : 1;
    }
    return x->id != y->id ? (x->id < y->id ? -1 : 1) : by_span(x, y);
}

/* Whether the request has time left; otherwise the answer has the error. */
static bool has_time(struct exemplar_search *s)
{
    char why[200];
    if (et_budget_check(s->call->request->budget) != 0) {
        et_budget_why(s->call->request->budget, why, sizeof why);
        et_connect_error(s->call->answer, s->call->request->budget->failed == -ENOMEM ? 413 : 503, why);
        s->failed = true;
    }
    return !s->failed;
}

/* Each row is compared with each series. */
static void fill_series(struct exemplar_search *s, const struct et_type *type, Querier__V1__Series *series)
{
    enum { PAUSE = 1024 };
    for (size_t i = 0; i < s->count && !s->failed && (i % PAUSE || has_time(s)); i++) {
        const struct exemplar_row *row = &s->rows[i];
        enum belonging belongs = row_belongs(s, row, series);
        Querier__V1__Point *point = belongs != OTHER_SERIES ? find_point(s, series, row->at_ns) : NULL;
        uint64_t value = point && !point->n_exemplars ? row_value(s, row, belongs, series) : 0;
        if (value) {
            set_exemplar(s, row, type, series, point, value);
        }
    }
}

bool et_querier_exemplars(const struct et_call *call, const struct et_query *query, const struct et_type *type,
                          const Querier__V1__SelectSeriesRequest *request, Querier__V1__SelectSeriesResponse *response)
{
    bool spans = request->exemplar_type == QUERIER__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN;
    struct exemplar_search s = {
        .call = call, .query = query, .request = request, .step_ns = (int64_t)(request->step * 1e9), .spans = spans};
    struct et_store *store = et_server_read(call->server, call->request);
    int err = spans ? et_store_parts(store, query, true, keep_span, &s) : et_store_received(store, query, keep_row, &s);
    s.failed = err < 0;
    if (s.failed) {
        et_connect_error(call->answer, et_read_status(store), et_store_why(store));
    }
    et_server_read_done(call->server, store);
    if (spans) {
        merge_spans(&s);
    }
    if (s.count) {
        qsort(s.rows, s.count, sizeof *s.rows, largest_first);
    }
    for (size_t i = 0; i < response->n_series && !s.failed; i++) {
        fill_series(&s, type, response->series[i]);
    }
    free(s.rows);
    et_strings_free(&s.texts);
    return !s.failed;
}
