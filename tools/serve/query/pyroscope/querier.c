/* See querier.h. */
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/lib/labels.h"
#include "tools/formats/protojson.h"
#include "tools/store/query_builder.h"

#include <stdlib.h>
#include <string.h>

void et_call_reply(const struct et_call *call, const ProtobufCMessage *message)
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

int64_t et_call_time(int64_t ms, int64_t unbounded)
{
    static const int64_t far_ms = 7258118400000;
    return ms == 0 ? unbounded : ms < 0 ? 0 : (ms < far_ms ? ms : far_ms) * 1000000;
}

/* Adds a matcher for any of these values. They may contain only characters without special meaning in regular
 * expressions. */
static bool add_ids(struct et_query_builder *wanted, const char *label, char **ids, size_t count, size_t digits)
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
        wanted->why = digits == 16   ? "a span id must have 16 hexadecimal digits"
                      : digits == 32 ? "a trace id must have 32 hexadecimal digits"
                                     : "a profile id may only have hexadecimal digits and dashes";
    }
    ok = ok && (count == 0 || et_query_builder_label(wanted, text.data));
    et_buf_free(&text);
    return ok;
}

bool et_call_selection(struct et_query_builder *wanted, const Querier__V1__SelectMergeStacktracesRequest *request)
{
    struct et_type type;
    if (!et_wanted_query(wanted, request->label_selector)) {
        return false;
    }
    if (!et_type_parse(request->profile_typeid, &type)) {
        wanted->why = "profile_typeID must be name:sample_type:sample_unit:period_type:period_unit";
        return false;
    }
    et_wanted_type(wanted, &type);
    et_type_free(&type);
    wanted->query.from_ns = et_call_time(request->start, 0);
    wanted->query.to_ns = et_call_time(request->end, INT64_MAX);
    return add_ids(wanted, ET_SPAN_ID, request->span_selector, request->n_span_selector, 16) &&
           add_ids(wanted, ET_TRACE_ID, request->trace_id_selector, request->n_trace_id_selector, 32) &&
           add_ids(wanted, "profile_id", request->profile_id_selector, request->n_profile_id_selector, 0);
}

void et_pairs_add(void *context, const char *name, const char *value)
{
    struct et_pairs *pairs = context;
    Querier__V1__LabelPair *pair = et_alloc(1, sizeof *pair);
    querier__v1__label_pair__init(pair);
    pair->name = et_strdup(name);
    pair->value = et_strdup(value);
    pairs->pairs = et_reserve(pairs->pairs, &pairs->capacity, pairs->count + 1, sizeof(Querier__V1__LabelPair *));
    pairs->pairs[pairs->count++] = pair;
}
