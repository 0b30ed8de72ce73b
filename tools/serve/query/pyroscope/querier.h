/*
 * Calls of querier.v1.QuerierService: arguments and replies common to all methods. routes_querier.c decodes requests;
 * querier_stacks.c, querier_series.c and querier_lists.c have the methods.
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

/* Replies in the request's encoding. */
void et_call_reply(const struct et_call *call, const ProtobufCMessage *message);

/* Converts milliseconds since 1970, >= 0, to ns; 0 returns `unbounded`. Times after 2200 are limited, so that sums of
 * times stay in range. */
int64_t et_call_time(int64_t ms, int64_t unbounded);

/* Adds the request's selection. False: wanted->why has the error. */
bool et_call_selection(struct et_query_builder *wanted, const Querier__V1__SelectMergeStacktracesRequest *request);

/* Labels for a message; protobuf-c frees them with the message. Zeroed: none. */
struct et_pairs {
    Querier__V1__LabelPair **pairs;
    size_t count, capacity;
};

void et_pairs_add(void *pairs, const char *name, const char *value);

/* The methods. request: a message of the method's type. */
typedef void et_querier_method(const struct et_call *call, const ProtobufCMessage *request);
et_querier_method et_querier_profile_types, et_querier_label_names, et_querier_label_values, et_querier_series,
    et_querier_profile_stats;
et_querier_method et_querier_select_series;
et_querier_method et_querier_merge_stacktraces, et_querier_merge_span_profile, et_querier_merge_profile,
    et_querier_diff;

#endif
