/*
 * See otlp_read.h: decoding, and the rules for every index and value. otlp_pprof.c converts; it trusts what was checked
 * here.
 */
#include "tools/formats/otlp_read.h"
#include "tools/lib/time_text.h"
#include "tools/formats/protobuf_budget.h"
#include "tools/formats/protojson.h"
#include "tools/lib/json_read.h"

#include <stdio.h>
#include <string.h>

static const size_t DECODE_BUDGET = (size_t)256 << 20;

enum { TRACE_ID = 16, SPAN_ID = 8 };

void et_otlp_free(et_otlp_request *request)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    otlp__export_profiles_service_request__free_unpacked(request, &allocator);
}

/* ---- rules ---- */

struct otlp_check {
    const Otlp__ProfilesDictionary *d;
    struct et_buf *why;
};

/* Where a value is: "location_table[3]". */
struct otlp_place {
    const char *table;
    size_t at;
};

static bool refuse(struct otlp_check *c, struct otlp_place place, const char *rule)
{
    et_buf_printf(c->why, "%s[%zu]: %s", place.table, place.at, rule);
    return false;
}

static bool index_in(struct otlp_check *c, struct otlp_place place, const char *field, int64_t index, const char *table,
                     size_t count)
{
    if (index >= 0 && ((uint64_t)index < count || index == 0)) {
        return true;
    }
    et_buf_printf(c->why, "%s[%zu]: %s %lld is not in %s, which has %zu elements", place.table, place.at, field,
                  (long long)index, table, count);
    return false;
}

static bool text_in(struct otlp_check *c, struct otlp_place place, const char *field, int32_t index)
{
    return index_in(c, place, field, index, "string_table", c->d->n_string_table);
}

static bool attributes_in(struct otlp_check *c, struct otlp_place place, const int32_t *indices, size_t count)
{
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        ok = index_in(c, place, "attribute_indices", indices[i], "attribute_table", c->d->n_attribute_table);
    }
    return ok;
}

static bool value_in(struct otlp_check *c, struct otlp_place place, const Otlp__AnyValue *value)
{
    return !value || value->value_case != OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX ||
           text_in(c, place, "string_value_strindex", value->string_value_strindex);
}

static bool all_zero(const ProtobufCBinaryData *bytes)
{
    for (size_t i = 0; i < bytes->len; i++) {
        if (bytes->data[i]) {
            return false;
        }
    }
    return true;
}

/* Element 0 stands for "none", but senders put real elements there, too. */
static bool check_zeros(struct otlp_check *c)
{
    const Otlp__ProfilesDictionary *d = c->d;
    return (d->n_string_table && !d->string_table[0][0]) ||
           refuse(c, (struct otlp_place){"string_table", 0}, "element 0 must be the empty string");
}

static bool check_mapping(struct otlp_check *c, struct otlp_place place, const Otlp__Mapping *m)
{
    if (!text_in(c, place, "filename_strindex", m->filename_strindex) ||
        !attributes_in(c, place, m->attribute_indices, m->n_attribute_indices)) {
        return false;
    }
    bool range = (m->memory_start == 0 && m->memory_limit == 0) || m->memory_start < m->memory_limit;
    return range || refuse(c, place, "memory_start must be below memory_limit, or both 0");
}

static bool check_location(struct otlp_check *c, struct otlp_place place, const Otlp__Location *l)
{
    bool ok = index_in(c, place, "mapping_index", l->mapping_index, "mapping_table", c->d->n_mapping_table) &&
              attributes_in(c, place, l->attribute_indices, l->n_attribute_indices);
    for (size_t i = 0; i < l->n_lines && ok; i++) {
        const Otlp__Line *line = l->lines[i];
        ok = index_in(c, place, "function_index", line->function_index, "function_table", c->d->n_function_table) &&
             ((line->line >= 0 && line->column >= 0) || refuse(c, place, "line and column must not be negative"));
    }
    return ok;
}

static bool check_function(struct otlp_check *c, struct otlp_place place, const Otlp__Function *f)
{
    return text_in(c, place, "name_strindex", f->name_strindex) &&
           text_in(c, place, "system_name_strindex", f->system_name_strindex) &&
           text_in(c, place, "filename_strindex", f->filename_strindex) &&
           (f->start_line >= 0 || refuse(c, place, "start_line must not be negative"));
}

static bool check_link(struct otlp_check *c, struct otlp_place place, const Otlp__Link *link)
{
    if (place.at == 0 && all_zero(&link->trace_id) && all_zero(&link->span_id)) {
        return true;
    }
    return (link->trace_id.len == TRACE_ID || refuse(c, place, "trace_id must have 16 bytes")) &&
           (link->span_id.len == SPAN_ID || refuse(c, place, "span_id must have 8 bytes"));
}

static bool check_attribute(struct otlp_check *c, struct otlp_place place, const Otlp__KeyValueAndUnit *a)
{
    return text_in(c, place, "key_strindex", a->key_strindex) && text_in(c, place, "unit_strindex", a->unit_strindex) &&
           value_in(c, place, a->value);
}

static bool check_stack(struct otlp_check *c, struct otlp_place place, const Otlp__Stack *stack)
{
    size_t locations = c->d->n_location_table;
    bool ok = stack->n_location_indices == 0 || locations ||
              refuse(c, place, "location_indices need a location_table, which is empty");
    for (size_t i = 0; i < stack->n_location_indices && ok; i++) {
        ok = index_in(c, place, "location_indices", stack->location_indices[i], "location_table", locations);
    }
    return ok;
}

static bool check_dictionary(struct otlp_check *c)
{
    const Otlp__ProfilesDictionary *d = c->d;
    bool ok = check_zeros(c);
    for (size_t i = 0; i < d->n_mapping_table && ok; i++) {
        ok = check_mapping(c, (struct otlp_place){"mapping_table", i}, d->mapping_table[i]);
    }
    for (size_t i = 0; i < d->n_location_table && ok; i++) {
        ok = check_location(c, (struct otlp_place){"location_table", i}, d->location_table[i]);
    }
    for (size_t i = 0; i < d->n_function_table && ok; i++) {
        ok = check_function(c, (struct otlp_place){"function_table", i}, d->function_table[i]);
    }
    for (size_t i = 0; i < d->n_link_table && ok; i++) {
        ok = check_link(c, (struct otlp_place){"link_table", i}, d->link_table[i]);
    }
    for (size_t i = 0; i < d->n_attribute_table && ok; i++) {
        ok = check_attribute(c, (struct otlp_place){"attribute_table", i}, d->attribute_table[i]);
    }
    for (size_t i = 0; i < d->n_stack_table && ok; i++) {
        ok = check_stack(c, (struct otlp_place){"stack_table", i}, d->stack_table[i]);
    }
    return ok;
}

static bool check_values(struct otlp_check *c, struct otlp_place place, const Otlp__Sample *sample)
{
    for (size_t i = 0; i < sample->n_values; i++) {
        if (sample->values[i] < 0) {
            return refuse(c, place, "values must not be negative");
        }
    }
    if (sample->n_timestamps_unix_nano == 0) {
        return sample->n_values == 1 || refuse(c, place, "a sample without timestamps must have one value");
    }
    return sample->n_values == 0 || sample->n_values == sample->n_timestamps_unix_nano ||
           refuse(c, place, "values and timestamps_unix_nano must have the same length");
}

static bool check_sample(struct otlp_check *c, struct otlp_place place, const Otlp__Sample *sample)
{
    return index_in(c, place, "stack_index", sample->stack_index, "stack_table", c->d->n_stack_table) &&
           index_in(c, place, "link_index", sample->link_index, "link_table", c->d->n_link_table) &&
           attributes_in(c, place, sample->attribute_indices, sample->n_attribute_indices) &&
           check_values(c, place, sample);
}

static bool check_type(struct otlp_check *c, struct otlp_place place, const Otlp__ValueType *type)
{
    return !type || (text_in(c, place, "type_strindex", type->type_strindex) &&
                     text_in(c, place, "unit_strindex", type->unit_strindex));
}

static bool check_profile(struct otlp_check *c, struct otlp_place place, const Otlp__Profile *profile)
{
    bool timed = profile->time_unix_nano <= INT64_MAX / 2 && profile->duration_nano <= INT64_MAX / 4;
    bool ok = (profile->sample_type || refuse(c, place, "sample_type is missing")) &&
              (timed || refuse(c, place, "time_unix_nano or duration_nano is out of range")) &&
              check_type(c, place, profile->sample_type) && check_type(c, place, profile->period_type) &&
              attributes_in(c, place, profile->attribute_indices, profile->n_attribute_indices);
    for (size_t i = 0; i < profile->n_samples && ok; i++) {
        ok = check_sample(c, (struct otlp_place){"samples", i}, profile->samples[i]);
    }
    return ok;
}

static bool check_pairs(struct otlp_check *c, const char *owner, Otlp__KeyValue *const *pairs, size_t count)
{
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        struct otlp_place place = {owner, i};
        ok = text_in(c, place, "key_strindex", pairs[i]->key_strindex) && value_in(c, place, pairs[i]->value);
    }
    return ok;
}

static bool check_scope(struct otlp_check *c, const Otlp__ScopeProfiles *scope)
{
    bool ok = !scope->scope || check_pairs(c, "scope.attributes", scope->scope->attributes, scope->scope->n_attributes);
    for (size_t i = 0; i < scope->n_profiles && ok; i++) {
        ok = check_profile(c, (struct otlp_place){"profiles", i}, scope->profiles[i]);
    }
    return ok;
}

static bool check_resource(struct otlp_check *c, const Otlp__ResourceProfiles *from)
{
    bool ok = !from->resource ||
              check_pairs(c, "resource.attributes", from->resource->attributes, from->resource->n_attributes);
    for (size_t i = 0; i < from->n_scope_profiles && ok; i++) {
        ok = check_scope(c, from->scope_profiles[i]);
    }
    return ok;
}

static bool check_request(const et_otlp_request *request, struct et_buf *why)
{
    struct otlp_check c = {.d = request->dictionary, .why = why};
    if (!request->dictionary || request->n_resource_profiles == 0) {
        et_buf_text(why, !request->dictionary ? "dictionary is missing" : "resource_profiles is empty");
        return false;
    }
    bool ok = check_dictionary(&c);
    for (size_t i = 0; i < request->n_resource_profiles && ok; i++) {
        ok = check_resource(&c, request->resource_profiles[i]);
    }
    return ok;
}

/* ---- times ---- */

/* An agent reads a sample's time and its interval's from different clocks, or at different moments. The interval then
 * grows by what is outside; one of a clock that was not set becomes that of the samples. */
static void settle_times(Otlp__Profile *profile)
{
    uint64_t first = UINT64_MAX, last = 0, start = profile->time_unix_nano, end = start + profile->duration_nano;
    for (size_t i = 0; i < profile->n_samples; i++) {
        for (size_t k = 0; k < profile->samples[i]->n_timestamps_unix_nano; k++) {
            uint64_t time = profile->samples[i]->timestamps_unix_nano[k];
            first = time < first ? time : first;
            last = time > last ? time : last;
        }
    }
    if (first > last || last > INT64_MAX / 2 || !et_is_date((int64_t)first) || !et_is_date((int64_t)last)) {
        return;
    }
    if (et_is_date((int64_t)start)) {
        first = start < first ? start : first;
        last = end > last ? end : last;
    }
    profile->time_unix_nano = first;
    profile->duration_nano = last - first;
}

static void settle_request(const et_otlp_request *request)
{
    for (size_t i = 0; i < request->n_resource_profiles; i++) {
        const Otlp__ResourceProfiles *resource = request->resource_profiles[i];
        for (size_t k = 0; k < resource->n_scope_profiles; k++) {
            for (size_t p = 0; p < resource->scope_profiles[k]->n_profiles; p++) {
                settle_times(resource->scope_profiles[k]->profiles[p]);
            }
        }
    }
}

/* ---- decoding ---- */

static et_otlp_request *checked(et_otlp_request *request, struct et_buf *why)
{
    struct et_buf rule = {0};
    if (!check_request(request, &rule)) {
        et_buf_printf(why, "OTLP profiles: %s", rule.data);
        et_otlp_free(request);
        request = NULL;
    } else {
        settle_request(request);
    }
    et_buf_free(&rule);
    return request;
}

et_otlp_request *et_otlp_decode(const void *bytes, size_t size, struct et_buf *why)
{
    size_t left = DECODE_BUDGET;
    ProtobufCAllocator allocator = et_budget_allocator(&left);
    et_otlp_request *request = otlp__export_profiles_service_request__unpack(&allocator, size, bytes);
    if (!request) {
        et_buf_text(why, "not an ExportProfilesServiceRequest");
        return NULL;
    }
    return checked(request, why);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* OTLP's JSON has ids in hexadecimal, where protobuf's JSON mapping has base64, which Pyroscope's clients send.
 * Hexadecimal digits are also base64 digits: an id that was decoded as base64 has another length, and encoding it again
 * gives the digits. */
static void read_id(ProtobufCBinaryData *id, size_t size)
{
    struct et_buf text = {0};
    if (id->len != 2 * size / 4 * 3) {
        return;
    }
    et_base64_put(&text, id->data, id->len);
    bool hex = text.size == 2 * size;
    for (size_t i = 0; i < text.size && hex; i++) {
        hex = hex_digit(text.data[i]) >= 0;
    }
    for (size_t i = 0; i < size && hex; i++) {
        id->data[i] = (uint8_t)(hex_digit(text.data[2 * i]) << 4 | hex_digit(text.data[2 * i + 1]));
    }
    id->len = hex ? size : id->len;
    et_buf_free(&text);
}

et_otlp_request *et_otlp_decode_json(const void *bytes, size_t size, struct et_buf *why)
{
    const char *wrong = "";
    et_otlp_request *request =
        (et_otlp_request *)et_protojson_decode(&otlp__export_profiles_service_request__descriptor, bytes, size, &wrong);
    if (!request) {
        et_buf_printf(why, "not an ExportProfilesServiceRequest: %s", wrong);
        return NULL;
    }
    const Otlp__ProfilesDictionary *d = request->dictionary;
    for (size_t i = 1; d && i < d->n_link_table; i++) {
        read_id(&d->link_table[i]->trace_id, TRACE_ID);
        read_id(&d->link_table[i]->span_id, SPAN_ID);
    }
    return checked(request, why);
}
