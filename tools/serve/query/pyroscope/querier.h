/*
 * Calls of querier.v1.QuerierService: arguments and replies common to all methods. routes_querier.c decodes requests;
 * querier_stacks.c, querier_series.c, querier_heatmap.c and querier_lists.c have the methods.
 */
#ifndef ET_QUERIER_H
#define ET_QUERIER_H

#include "tools/serve/http/connect.h"
#include "tools/serve/query/pyroscope/pyroscope.h"
#include "querier.pb-c.h"
#include "tools/store/query_builder.h"

struct et_call {
    struct et_server *server;
    const struct et_request *request;
    bool json;
    bool all_names; /* the client takes names of labels that Prometheus does not have, such as dotted ones */
    struct et_answer *answer;
};

/* Replies in the request's encoding. */
void et_call_reply(const struct et_call *call, const ProtobufCMessage *message);

/* Limits milliseconds since 1970 to times until 2200, so that sums of times stay in range. */
int64_t et_call_ms(int64_t ms);

/* Sets the range from start to end, both included. False: *why has the error. A profile is in the range when its start
 * is. */
bool et_call_range(int64_t start_ms, int64_t end_ms, struct et_query *query, const char **why);

/* The points of a series or heatmap; step: seconds. */
struct et_points et_call_points(int64_t start_ms, int64_t end_ms, double step);

/* Adds a selection and a range. False: wanted->why has the error. */
bool et_call_select(struct et_query_builder *wanted, const char *type, const char *selector, int64_t start_ms,
                    int64_t end_ms);

/* The same, with the request's ids. */
bool et_call_selection(struct et_query_builder *wanted, const Querier__V1__SelectMergeStacktracesRequest *request);

/* The id of a received profile, a UUID that has the id in the database. */
enum { ET_PROFILE_UUID = 37 };
void et_profile_uuid(int64_t id, char text[ET_PROFILE_UUID]);

/* Labels for a message; protobuf-c frees them with the message. Zeroed: none. */
struct et_pairs {
    Querier__V1__LabelPair **pairs;
    size_t count, capacity;
};

void et_pairs_add(void *pairs, const char *name, const char *value);

/* Adds to each point the profile or the span, as the request says, with the largest value, with its id. False: the
 * answer has the error. */
bool et_querier_exemplars(const struct et_call *call, const struct et_query *query, const struct et_type *type,
                          const Querier__V1__SelectSeriesRequest *request, Querier__V1__SelectSeriesResponse *response);

/* Sets the exemplar's ids of a span and its trace (ids[1] and [2]; 0: unknown). */
void et_querier_exemplar_span(const uint64_t ids[3], Querier__V1__Exemplar *exemplar);

/* Sets the exemplar's labels: those of the lines and of the type, without those of the series. */
void et_querier_exemplar_labels(const char *lines, const struct et_type *type, Querier__V1__LabelPair *const *series,
                                size_t count, Querier__V1__Exemplar *exemplar);

/* The methods. request: a message of the method's type. */
typedef void et_querier_method(const struct et_call *call, const ProtobufCMessage *request);
et_querier_method et_querier_profile_types, et_querier_label_names, et_querier_label_values, et_querier_series,
    et_querier_profile_stats, et_querier_analyze;
et_querier_method et_querier_select_series, et_querier_heatmap;
et_querier_method et_querier_merge_stacktraces, et_querier_merge_span_profile, et_querier_merge_profile,
    et_querier_diff;

#endif
