/*
 * A call of querier.v1.QuerierService: what every method gets and how it answers. routes_querier.c decodes requests;
 * the methods are querier_stacks.c's, querier_series.c's and querier_lists.c's.
 */
#ifndef ET_QUERIER_H
#define ET_QUERIER_H

#include "tools/serve/http/connect.h"
#include "tools/serve/query/pyroscope/pyroscope.h"
#include "querier.pb-c.h"
#include "tools/store/query_builder.h"

struct et_call {
    struct et_server *server;
    bool json;
    struct et_answer *answer;
};

/* The answer, in the request's encoding. */
void et_call_reply(const struct et_call *call, const ProtobufCMessage *message);

/* Of milliseconds since 1970, >= 0; 0 is no bound. Beyond 2200 nothing is measured, and sums of times stay in range. */
int64_t et_call_time(int64_t ms, int64_t unbounded);

/* Adds what a request selects. false: wanted->why says why not. */
bool et_call_selection(struct et_query_builder *wanted, const Querier__V1__SelectMergeStacktracesRequest *request);

/* Labels of a message on their way; protobuf-c frees them with the message. Zeroed: none. */
struct et_pairs {
    Querier__V1__LabelPair **pairs;
    size_t count, capacity;
};

void et_pairs_add(void *pairs, const char *name, const char *value);

/* The methods. request: a message of the method's own type. */
typedef void et_querier_method(const struct et_call *call, const ProtobufCMessage *request);
et_querier_method et_querier_profile_types, et_querier_label_names, et_querier_label_values, et_querier_series,
    et_querier_profile_stats;
et_querier_method et_querier_select_series;
et_querier_method et_querier_merge_stacktraces, et_querier_merge_span_profile, et_querier_merge_profile,
    et_querier_diff;

#endif
