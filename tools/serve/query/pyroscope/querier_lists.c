/* Methods that list profile types, labels and series, and the time range of the data. */
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/lib/labels.h"

#include <stdlib.h>

/* Maximum selectors or names per request. */
enum { LISTED_MOST = 100 };

static bool list_found(const struct et_call *call, enum et_listing what, const struct et_listed *of, int64_t start,
                       int64_t end, struct et_strings *found)
{
    struct et_listed own = *of;
    if (of->selector_count > LISTED_MOST || of->name_count > LISTED_MOST) {
        et_connect_error(call->answer, 400, "more than 100 matchers or label names");
        return false;
    }
    struct et_query range = {.to_ns = INT64_MAX};
    const char *why;
    if ((start || end) && !et_call_range(start, end, &range, &why)) { /* older Grafana sends no times */
        et_connect_error(call->answer, 400, why);
        return false;
    }
    own.from_ns = range.from_ns;
    own.to_ns = range.to_ns;
    own.all_names = call->all_names;
    own.strict = true;
    return et_pyroscope_list(call->server, call->request, what, &own, found, call->answer);
}

void et_querier_profile_types(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__ProfileTypesRequest *request = (const void *)message;
    Querier__V1__ProfileTypesResponse response = QUERIER__V1__PROFILE_TYPES_RESPONSE__INIT;
    struct et_strings ids = {0};
    if (list_found(call, ET_LIST_TYPES, &(struct et_listed){0}, request->start, request->end, &ids)) {
        size_t count = ids.count - 1;
        struct et_type *types = et_alloc(count, sizeof *types);
        Querier__V1__ProfileType *items = et_alloc(count, sizeof *items);
        response.profile_types = et_alloc(count, sizeof(Querier__V1__ProfileType *));
        for (uint32_t i = 1; i <= count; i++) {
            Querier__V1__ProfileType *item = &items[i - 1];
            struct et_type *type = &types[i - 1];
            if (!et_type_parse(et_text(&ids, i), type)) {
                continue; /* a name with a colon: no id can select it */
            }
            querier__v1__profile_type__init(item);
            item->id = type->id;
            item->name = type->name;
            item->sample_type = type->sample;
            item->sample_unit = type->unit;
            item->period_type = type->period;
            item->period_unit = type->period_unit;
            response.profile_types[response.n_profile_types++] = item;
        }
        et_call_reply(call, &response.base);
        for (size_t i = 0; i < count; i++) {
            et_type_free(&types[i]);
        }
        free(types);
        free(items);
        free(response.profile_types);
    }
    et_strings_free(&ids);
}

void et_querier_label_names(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__LabelNamesRequest *request = (const void *)message;
    Querier__V1__LabelNamesResponse response = QUERIER__V1__LABEL_NAMES_RESPONSE__INIT;
    struct et_listed of = {.selectors = request->matchers, .selector_count = request->n_matchers};
    struct et_strings names = {0};
    if (list_found(call, ET_LIST_NAMES, &of, request->start, request->end, &names)) {
        response.n_names = names.count - 1;
        response.names = names.text + 1;
        et_call_reply(call, &response.base);
    }
    et_strings_free(&names);
}

void et_querier_label_values(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__LabelValuesRequest *request = (const void *)message;
    Querier__V1__LabelValuesResponse response = QUERIER__V1__LABEL_VALUES_RESPONSE__INIT;
    char *name = request->name;
    struct et_listed of = {
        .selectors = request->matchers, .selector_count = request->n_matchers, .names = &name, .name_count = 1};
    struct et_strings values = {0};
    if (!*name) {
        et_connect_error(call->answer, 400, "name is required");
        return;
    }
    if (list_found(call, ET_LIST_VALUES, &of, request->start, request->end, &values)) {
        response.n_names = values.count - 1;
        response.names = values.text + 1;
        et_call_reply(call, &response.base);
    }
    et_strings_free(&values);
}

void et_querier_series(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__SeriesRequest *request = (const void *)message;
    struct et_listed of = {.selectors = request->matchers,
                           .selector_count = request->n_matchers,
                           .names = request->label_names,
                           .name_count = request->n_label_names};
    struct et_strings found = {0};
    if (list_found(call, ET_LIST_SERIES, &of, request->start, request->end, &found)) {
        Querier__V1__SeriesResponse *response = et_alloc(1, sizeof *response);
        querier__v1__series_response__init(response);
        response->labels_set = et_alloc(found.count, sizeof(Querier__V1__Labels *));
        for (uint32_t i = 1; i < found.count; i++) {
            struct et_pairs pairs = {0};
            Querier__V1__Labels *labels = et_alloc(1, sizeof *labels);
            querier__v1__labels__init(labels);
            et_labels_each(et_text(&found, i), et_pairs_add, &pairs);
            labels->n_labels = pairs.count;
            labels->labels = pairs.pairs;
            response->labels_set[response->n_labels_set++] = labels;
        }
        et_call_reply(call, &response->base);
        querier__v1__series_response__free_unpacked(response, NULL);
    }
    et_strings_free(&found);
}

static void extend_range(void *context, const struct et_service_row *row)
{
    Querier__V1__GetProfileStatsResponse *response = context;
    int64_t oldest = row->first_ns / 1000000;
    response->oldest_profile_time =
        !response->data_ingested || oldest < response->oldest_profile_time ? oldest : response->oldest_profile_time;
    response->data_ingested = true;
}

/* Pyroscope has nothing to say either: a page of its own asks before a large query. */
void et_querier_analyze(const struct et_call *call, const ProtobufCMessage *message)
{
    const Querier__V1__AnalyzeQueryResponse response = QUERIER__V1__ANALYZE_QUERY_RESPONSE__INIT;
    (void)message;
    et_call_reply(call, &response.base);
}

void et_querier_profile_stats(const struct et_call *call, const ProtobufCMessage *message)
{
    Querier__V1__GetProfileStatsResponse response = QUERIER__V1__GET_PROFILE_STATS_RESPONSE__INIT;
    struct et_store *store = et_server_read(call->server, call->request);
    (void)message;
    int64_t newest = et_store_newest(store);
    response.newest_profile_time = newest / 1000000;
    if (newest < 0 || et_store_services(store, extend_range, &response) < 0) {
        et_connect_error(call->answer, et_read_status(store), et_store_why(store));
    } else {
        et_call_reply(call, &response.base);
    }
    et_server_read_done(call->server, store);
}
