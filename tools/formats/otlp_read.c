/*
 * See otlp_read.h: decoding, and the rules for every index and value. otlp_pprof.c converts; it trusts what was checked
 * here.
 */
#include "tools/formats/otlp_read.h"
#include "tools/formats/otlp_layout.h"
#include "tools/lib/time_text.h"
#include "tools/formats/protobuf_budget.h"
#include "tools/formats/protojson.h"
#include "tools/lib/json_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t DECODE_BUDGET = (size_t)256 << 20;

enum { TRACE_ID = 16, SPAN_ID = 8 };

void et_otlp_free(et_otlp_request *request)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    otlp__export_profiles_service_request__free_unpacked(request, &allocator);
}

/* ---- rules ---- */

/* Tables whose elements may break a rule. */
enum { MAPPINGS, LOCATIONS, FUNCTIONS, LINKS, ATTRIBUTES, STACKS, TABLES, STRINGS = TABLES };

struct otlp_table {
    const char *name;
    size_t count;
    bool *bad; /* elements that break a rule, or refer to such an element; NULL: none do */
};

struct otlp_check {
    const Otlp__ProfilesDictionary *d;
    struct et_buf *why; /* the first rule that is broken */
    struct otlp_table tables[TABLES + 1];
    bool below_zero;                   /* a sample of the profile has such a value */
    size_t profiles, samples, refused; /* of the request; samples, profiles that are left out */
};

/* Where a value is: "location_table[3]". */
struct otlp_place {
    const char *table;
    size_t at;
};

static bool refuse(struct otlp_check *c, struct otlp_place place, const char *rule)
{
    if (!c->why->size) {
        et_buf_printf(c->why, "%s[%zu]: %s", place.table, place.at, rule);
    }
    return false;
}

static void name_tables(struct otlp_check *c)
{
    const Otlp__ProfilesDictionary *d = c->d;
    c->tables[MAPPINGS] = (struct otlp_table){"mapping_table", d->n_mapping_table, NULL};
    c->tables[LOCATIONS] = (struct otlp_table){"location_table", d->n_location_table, NULL};
    c->tables[FUNCTIONS] = (struct otlp_table){"function_table", d->n_function_table, NULL};
    c->tables[LINKS] = (struct otlp_table){"link_table", d->n_link_table, NULL};
    c->tables[ATTRIBUTES] = (struct otlp_table){"attribute_table", d->n_attribute_table, NULL};
    c->tables[STACKS] = (struct otlp_table){"stack_table", d->n_stack_table, NULL};
    c->tables[STRINGS] = (struct otlp_table){"string_table", d->n_string_table, NULL};
}

static bool index_in(struct otlp_check *c, struct otlp_place place, const char *field, int64_t index, int number)
{
    const struct otlp_table *table = &c->tables[number];
    if (index >= 0 && (uint64_t)index < table->count) {
        return !table->bad || !table->bad[index];
    }
    if (index != 0 && !c->why->size) {
        et_buf_printf(c->why, "%s[%zu]: %s %lld is not in %s, which has %zu elements", place.table, place.at, field,
                      (long long)index, table->name, table->count);
    }
    return index == 0;
}

static bool text_in(struct otlp_check *c, struct otlp_place place, const char *field, int32_t index)
{
    return index_in(c, place, field, index, STRINGS);
}

static bool attributes_in(struct otlp_check *c, struct otlp_place place, const int32_t *indices, size_t count)
{
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        ok = index_in(c, place, "attribute_indices", indices[i], ATTRIBUTES);
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
    bool ok = index_in(c, place, "mapping_index", l->mapping_index, MAPPINGS) &&
              attributes_in(c, place, l->attribute_indices, l->n_attribute_indices);
    for (size_t i = 0; i < l->n_lines && ok; i++) {
        const Otlp__Line *line = l->lines[i];
        ok = index_in(c, place, "function_index", line->function_index, FUNCTIONS) &&
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
        ok = index_in(c, place, "location_indices", stack->location_indices[i], LOCATIONS);
    }
    return ok;
}

/* Marks the elements that break a rule. */
static void check_dictionary(struct otlp_check *c)
{
    const Otlp__ProfilesDictionary *d = c->d;
    for (size_t i = 0; i < TABLES; i++) {
        c->tables[i].bad = et_alloc(c->tables[i].count, sizeof *c->tables[i].bad);
    }
    for (size_t i = 0; i < d->n_attribute_table; i++) {
        c->tables[ATTRIBUTES].bad[i] =
            !check_attribute(c, (struct otlp_place){"attribute_table", i}, d->attribute_table[i]);
    }
    for (size_t i = 0; i < d->n_mapping_table; i++) {
        c->tables[MAPPINGS].bad[i] = !check_mapping(c, (struct otlp_place){"mapping_table", i}, d->mapping_table[i]);
    }
    for (size_t i = 0; i < d->n_function_table; i++) {
        c->tables[FUNCTIONS].bad[i] =
            !check_function(c, (struct otlp_place){"function_table", i}, d->function_table[i]);
    }
    for (size_t i = 0; i < d->n_location_table; i++) {
        c->tables[LOCATIONS].bad[i] =
            !check_location(c, (struct otlp_place){"location_table", i}, d->location_table[i]);
    }
    for (size_t i = 0; i < d->n_link_table; i++) {
        c->tables[LINKS].bad[i] = !check_link(c, (struct otlp_place){"link_table", i}, d->link_table[i]);
    }
    for (size_t i = 0; i < d->n_stack_table; i++) {
        c->tables[STACKS].bad[i] = !check_stack(c, (struct otlp_place){"stack_table", i}, d->stack_table[i]);
    }
}

static bool check_values(struct otlp_check *c, struct otlp_place place, const Otlp__Sample *sample)
{
    for (size_t i = 0; i < sample->n_values; i++) {
        if (sample->values[i] < 0) {
            c->below_zero = true;
            return refuse(c, place, "values must not be negative, as those of a difference are");
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
    return index_in(c, place, "stack_index", sample->stack_index, STACKS) &&
           index_in(c, place, "link_index", sample->link_index, LINKS) &&
           attributes_in(c, place, sample->attribute_indices, sample->n_attribute_indices) &&
           check_values(c, place, sample);
}

static bool check_type(struct otlp_check *c, struct otlp_place place, const Otlp__ValueType *type)
{
    return !type || (text_in(c, place, "type_strindex", type->type_strindex) &&
                     text_in(c, place, "unit_strindex", type->unit_strindex));
}

/* Takes out the samples that break a rule. False: none is left, or the profile is a difference. */
static bool keep_good_samples(struct otlp_check *c, Otlp__Profile *profile)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    size_t kept = 0, count = profile->n_samples;
    for (size_t i = 0; i < count; i++) {
        if (check_sample(c, (struct otlp_place){"samples", i}, profile->samples[i])) {
            profile->samples[kept++] = profile->samples[i];
        } else {
            otlp__sample__free_unpacked(profile->samples[i], &allocator);
        }
    }
    profile->n_samples = kept;
    bool good = !c->below_zero && (kept || !count);
    c->samples += good ? count - kept : 0;
    return good;
}

static bool check_profile(struct otlp_check *c, struct otlp_place place, Otlp__Profile *profile)
{
    bool timed = profile->time_unix_nano <= INT64_MAX / 2 && profile->duration_nano <= INT64_MAX / 4;
    bool ok = (profile->sample_type || refuse(c, place, "sample_type is missing")) &&
              (timed || refuse(c, place, "time_unix_nano or duration_nano is out of range")) &&
              check_type(c, place, profile->sample_type) && check_type(c, place, profile->period_type) &&
              attributes_in(c, place, profile->attribute_indices, profile->n_attribute_indices);
    c->below_zero = false;
    return ok && keep_good_samples(c, profile);
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

/* Takes out the profiles that break a rule; all, if the attributes of scope or resource do. */
static void keep_good_profiles(struct otlp_check *c, bool named, Otlp__ScopeProfiles *scope)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    size_t kept = 0, count = scope->n_profiles;
    bool ok = named && (!scope->scope ||
                        check_pairs(c, "scope.attributes", scope->scope->attributes, scope->scope->n_attributes));
    for (size_t i = 0; i < count; i++) {
        if (ok && check_profile(c, (struct otlp_place){"profiles", i}, scope->profiles[i])) {
            scope->profiles[kept++] = scope->profiles[i];
        } else {
            otlp__profile__free_unpacked(scope->profiles[i], &allocator);
        }
    }
    scope->n_profiles = kept;
    c->profiles += count;
    c->refused += count - kept;
}

static void check_resource(struct otlp_check *c, const Otlp__ResourceProfiles *from)
{
    bool ok = !from->resource ||
              check_pairs(c, "resource.attributes", from->resource->attributes, from->resource->n_attributes);
    for (size_t i = 0; i < from->n_scope_profiles; i++) {
        keep_good_profiles(c, ok, from->scope_profiles[i]);
    }
}

/* Takes out what breaks a rule. False: nothing is left. */
static bool check_request(const et_otlp_request *request, struct et_buf *why, size_t *refused)
{
    struct otlp_check c = {.d = request->dictionary, .why = why};
    if (!request->dictionary || request->n_resource_profiles == 0) {
        et_buf_text(why, !request->dictionary
                             ? "dictionary is missing, as before opentelemetry-proto 1.7; 1.8 and later are read"
                             : "resource_profiles is empty");
        return false;
    }
    name_tables(&c);
    if (!check_zeros(&c)) {
        return false;
    }
    check_dictionary(&c);
    for (size_t i = 0; i < request->n_resource_profiles; i++) {
        check_resource(&c, request->resource_profiles[i]);
    }
    for (size_t i = 0; i < TABLES; i++) {
        free(c.tables[i].bad);
    }
    bool ok = c.refused < c.profiles || !c.profiles;
    if (ok && (c.refused || c.samples)) {
        et_buf_printf(why, "; %zu profiles and %zu samples of others are left out", c.refused, c.samples);
    }
    *refused = c.refused;
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

static et_otlp_request *checked(et_otlp_request *request, struct et_buf *why, size_t *refused)
{
    struct et_buf rule = {0};
    bool ok = check_request(request, &rule, refused);
    if (rule.size) {
        et_buf_printf(why, "OTLP profiles: %s", rule.data);
    }
    if (ok) {
        settle_request(request);
    } else {
        et_otlp_free(request);
    }
    et_buf_free(&rule);
    return ok ? request : NULL;
}

et_otlp_request *et_otlp_decode(const void *bytes, size_t size, struct et_buf *why, size_t *refused)
{
    size_t left = DECODE_BUDGET;
    ProtobufCAllocator allocator = et_budget_allocator(&left);
    struct et_buf renumbered = {0};
    *refused = 0;
    if (!et_otlp_renumber(bytes, size, &renumbered, why)) {
        return NULL;
    }
    const uint8_t *today = renumbered.size ? (const uint8_t *)renumbered.data : bytes;
    et_otlp_request *request = otlp__export_profiles_service_request__unpack(&allocator, size, today);
    et_buf_free(&renumbered);
    if (!request) {
        et_buf_text(why, "not an ExportProfilesServiceRequest");
        return NULL;
    }
    return checked(request, why, refused);
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

/* Two fields had other names in 1.8. */
static void use_former_names(const et_otlp_request *request)
{
    const Otlp__ProfilesDictionary *d = request->dictionary;
    for (size_t i = 0; d && i < d->n_location_table; i++) {
        Otlp__Location *location = d->location_table[i];
        if (!location->n_lines) {
            location->lines = location->line;
            location->n_lines = location->n_line;
            location->line = NULL;
            location->n_line = 0;
        }
    }
    for (size_t i = 0; i < request->n_resource_profiles; i++) {
        const Otlp__ResourceProfiles *resource = request->resource_profiles[i];
        for (size_t k = 0; k < resource->n_scope_profiles; k++) {
            for (size_t p = 0; p < resource->scope_profiles[k]->n_profiles; p++) {
                Otlp__Profile *profile = resource->scope_profiles[k]->profiles[p];
                if (!profile->n_samples) {
                    profile->samples = profile->sample;
                    profile->n_samples = profile->n_sample;
                    profile->sample = NULL;
                    profile->n_sample = 0;
                }
            }
        }
    }
}

et_otlp_request *et_otlp_decode_json(const void *bytes, size_t size, struct et_buf *why, size_t *refused)
{
    const char *wrong = "";
    *refused = 0;
    if (!et_otlp_known_names(bytes, size, why)) {
        return NULL;
    }
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
    use_former_names(request);
    return checked(request, why, refused);
}
