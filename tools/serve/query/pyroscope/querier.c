/* See querier.h. */
#include "tools/serve/query/pyroscope/querier.h"
#include "tools/lib/labels.h"
#include "tools/formats/protojson.h"
#include "tools/store/query_builder.h"

#include <stdio.h>
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

int64_t et_call_ms(int64_t ms)
{
    static const int64_t far_ms = 7258118400000;
    return ms < 0 ? 0 : ms < far_ms ? ms : far_ms;
}

bool et_call_range(int64_t start_ms, int64_t end_ms, struct et_query *query, const char **why)
{
    if (!start_ms || !end_ms || start_ms > end_ms) {
        *why = start_ms && end_ms ? "query start time is after end time" : "missing time range in the query";
        return false;
    }
    query->from_ns = et_call_ms(start_ms) * 1000000;
    query->to_ns = et_call_ms(end_ms) * 1000000 + 1;
    return true;
}

/* Adds a matcher for any of these values. They may contain only characters without special meaning in regular
 * expressions. */
static bool add_ids(struct et_query_builder *wanted, const char *label, char **ids, size_t count, size_t digits)
{
    struct et_buf text = {0};
    bool ok = true;
    et_buf_printf(&text, "%s=~", label);
    for (size_t i = 0; i < count && ok; i++) {
        size_t size = strspn(ids[i], "0123456789abcdefABCDEF");
        ok = size == digits && !ids[i][size];
        et_buf_text(&text, i ? "|" : "");
        for (size_t k = 0; k < size; k++) {
            char c = ids[i][k];
            et_buf_char(&text, c >= 'A' && c <= 'F' ? (char)(c + 32) : c);
        }
    }
    if (!ok) {
        wanted->why =
            digits == 16 ? "a span id must have 16 hexadecimal digits" : "a trace id must have 32 hexadecimal digits";
    }
    ok = ok && (count == 0 || et_query_builder_label(wanted, text.data));
    et_buf_free(&text);
    return ok;
}

static const char UUID_START[] = "65646765-7072-8000-8000-"; /* version 8: of our own making */

void et_profile_uuid(int64_t id, char text[ET_PROFILE_UUID])
{
    snprintf(text, ET_PROFILE_UUID, "%s%012llx", UUID_START, (unsigned long long)id & 0xffffffffffff);
}

/* Selects received profiles. An id of another server selects nothing. */
static bool add_profile_ids(struct et_query_builder *wanted, char **ids, size_t count)
{
    wanted->ids = et_alloc(count + 1, sizeof *wanted->ids);
    wanted->query.ids = wanted->ids;
    wanted->query.id_count = count;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(UUID_START);
        if (!ids[i][0] || ids[i][strspn(ids[i], "0123456789abcdefABCDEF-")]) {
            wanted->why = "a profile id may only have hexadecimal digits and dashes";
            return false;
        }
        bool ours = strlen(ids[i]) == ET_PROFILE_UUID - 1 && strncmp(ids[i], UUID_START, size) == 0;
        wanted->ids[i] = ours ? strtoll(ids[i] + size, NULL, 16) : -1;
    }
    return true;
}

struct et_points et_call_points(int64_t start_ms, int64_t end_ms, double step)
{
    return (struct et_points){
        .start_ms = et_call_ms(start_ms), .end_ms = et_call_ms(end_ms), .step_ms = (int64_t)(step * 1e9) / 1000000};
}

bool et_call_select(struct et_query_builder *wanted, const char *type, const char *selector, int64_t start_ms,
                    int64_t end_ms)
{
    struct et_type parsed;
    if (!selector[0]) {
        wanted->why = "label_selector is empty; {} selects everything";
        return false;
    }
    wanted->selector.strict = true;
    if (!et_call_range(start_ms, end_ms, &wanted->query, &wanted->why) || !et_wanted_query(wanted, selector)) {
        return false;
    }
    if (!et_type_parse(type, &parsed)) {
        wanted->why = "profile_typeID must be name:sample_type:sample_unit:period_type:period_unit";
        return false;
    }
    et_wanted_type(wanted, &parsed);
    et_type_free(&parsed);
    return true;
}

bool et_call_selection(struct et_query_builder *wanted, const Querier__V1__SelectMergeStacktracesRequest *request)
{
    if (request->n_span_selector && request->n_trace_id_selector) {
        wanted->why = "span_selector and trace_id_selector cannot be combined";
        return false;
    }
    return et_call_select(wanted, request->profile_typeid, request->label_selector, request->start, request->end) &&
           add_ids(wanted, ET_SPAN_ID, request->span_selector, request->n_span_selector, 16) &&
           add_ids(wanted, ET_TRACE_ID, request->trace_id_selector, request->n_trace_id_selector, 32) &&
           add_profile_ids(wanted, request->profile_id_selector, request->n_profile_id_selector);
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
