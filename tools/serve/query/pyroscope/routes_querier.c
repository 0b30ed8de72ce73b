/*
 * Pyroscope's querier.v1.QuerierService with Connect's unary protocol: a POST per method, binary or JSON. It has the
 * methods that Grafana's data source and Pyroscope's command line use; others answer "unimplemented".
 */
#include "tools/formats/protobuf_budget.h"
#include "tools/formats/protojson.h"
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/serve/http/routes.h"

#include <string.h>

/* Decoded, empty messages are 30 times as large as on the way. Requests are short. */
enum { REQUEST_LIMIT = 1 << 20, DECODED_LIMIT = 4 << 20 };

static const struct querier_method {
    const char *name;
    const ProtobufCMessageDescriptor *request;
    et_querier_method *answer;
} methods[] = {
    {"ProfileTypes", &querier__v1__profile_types_request__descriptor, et_querier_profile_types},
    {"LabelNames", &querier__v1__label_names_request__descriptor, et_querier_label_names},
    {"LabelValues", &querier__v1__label_values_request__descriptor, et_querier_label_values},
    {"Series", &querier__v1__series_request__descriptor, et_querier_series},
    {"SelectSeries", &querier__v1__select_series_request__descriptor, et_querier_select_series},
    {"SelectHeatmap", &querier__v1__select_heatmap_request__descriptor, et_querier_heatmap},
    {"SelectMergeStacktraces", &querier__v1__select_merge_stacktraces_request__descriptor,
     et_querier_merge_stacktraces},
    {"SelectMergeSpanProfile", &querier__v1__select_merge_span_profile_request__descriptor,
     et_querier_merge_span_profile},
    {"SelectMergeProfile", &querier__v1__select_merge_profile_request__descriptor, et_querier_merge_profile},
    {"Diff", &querier__v1__diff_request__descriptor, et_querier_diff},
    {"AnalyzeQuery", &querier__v1__analyze_query_request__descriptor, et_querier_analyze},
    {"GetProfileStats", &querier__v1__get_profile_stats_request__descriptor, et_querier_profile_stats},
};

static const struct querier_method *find_method(const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

/* Clients that take any label's name say so: "Accept: ...; allow-utf8-labelnames=true". */
static bool takes_all_names(const struct et_request *request)
{
    const char *accept = et_header(request, "Accept");
    return accept && strstr(accept, "allow-utf8-labelnames=true");
}

static ProtobufCMessage *decode(const struct et_call *call, const struct querier_method *method,
                                const struct et_buf *body, const char **why)
{
    size_t left = DECODED_LIMIT;
    ProtobufCAllocator budget = et_budget_allocator(&left);
    *why = "not a request message of this method, or too large when decoded";
    return call->json ? et_protojson_decode(method->request, body->data ? body->data : "", body->size, why)
                      : protobuf_c_message_unpack(method->request, &budget, body->size, (const uint8_t *)body->data);
}

static void answer_call(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    const struct querier_method *method = find_method(request->path);
    const char *why;
    struct et_call call = {.server = server,
                           .request = request,
                           .answer = answer,
                           .json = et_content_type_is(request, "application/json"),
                           .all_names = takes_all_names(request)};
    struct et_buf body = {0};
    if (!method) {
        et_connect_error(answer, 501, "unknown method");
    } else if (!call.json && !et_content_type_is(request, "application/proto")) {
        et_answer_text(answer, 415, "content type must be application/proto or application/json");
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
    {.method = "POST",
     .path = "/querier.v1.QuerierService/*",
     .handle = answer_call,
     .limit = REQUEST_LIMIT,
     .need = ET_NEED_READ},
    {.method = "POST",
     .path = "/pyroscope/querier.v1.QuerierService/*",
     .handle = answer_call,
     .limit = REQUEST_LIMIT,
     .need = ET_NEED_READ},
    {0},
};
