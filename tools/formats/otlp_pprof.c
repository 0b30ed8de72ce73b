/*
 * See otlp_read.h: converts checked OTLP profiles to pprof. An OTLP profile has one sample type, so senders split a
 * profile; those that share scope and interval become one pprof again, in which equal samples are one row with a value
 * for each type.
 *
 *   et_otlp_convert   convert_scope -> convert_profile -> find_group
 *                                                      -> convert_sample -> find_row
 *                                   -> finish_groups -> encode_group -> take()
 */
#include "tools/formats/otlp_read.h"
#include "tools/formats/protobuf.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* GROUPS: pprofs under construction; a scope with more is converted in parts. */
enum { TYPES = 16, GROUPS = 64 };

struct otlp_types {
    const char *type, *unit, *period, *period_unit;
    const char *family; /* of the profile types' ids */
};

struct row_range {
    size_t at, size;
};

/* A pprof under construction. Numbers of its tables are the order of first use, from 1. */
struct otlp_group {
    char *service;
    const Otlp__Profile *first; /* has the interval and the period of all */
    struct otlp_types types[TYPES];
    uint64_t *values[TYPES]; /* one per row */
    size_t capacity[TYPES], type_count;
    struct et_strings texts;                      /* pprof's string table */
    struct et_map mappings, functions, locations; /* index in the dictionary -> pprof's id */
    struct et_buf tables;                         /* encoded elements of the three */
    struct et_strings keys;                       /* of rows, in order, from 1 */
    struct row_range *rows;                       /* encoded stacks and labels */
    size_t row_capacity;
    struct et_buf bodies;
};

struct otlp_converter {
    const Otlp__ProfilesDictionary *d;
    size_t left; /* bytes */
    et_otlp_take *take;
    void *context;
    struct et_buf *why;
    const char *service; /* of the resource */
    char *tags;
    struct otlp_group groups[GROUPS];
    size_t group_count;
};

static const char *text_at(const Otlp__ProfilesDictionary *d, int32_t index)
{
    return d->string_table[index];
}

void et_otlp_value(const Otlp__ProfilesDictionary *d, const Otlp__AnyValue *value, int32_t unit, struct et_buf *out)
{
    const char *unit_text = text_at(d, unit);
    switch (value ? value->value_case : OTLP__ANY_VALUE__VALUE__NOT_SET) {
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE:
        et_buf_text(out, value->string_value);
        return;
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX:
        et_buf_text(out, text_at(d, value->string_value_strindex));
        return;
    case OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
        et_buf_text(out, value->bool_value ? "true" : "false");
        return;
    case OTLP__ANY_VALUE__VALUE_INT_VALUE:
        et_buf_printf(out, "%lld", (long long)value->int_value);
        break;
    case OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
        et_buf_printf(out, "%.15g", value->double_value);
        break;
    default:
        return;
    }
    et_buf_printf(out, "%s%s", *unit_text ? " " : "", unit_text);
}

/* ---- tables ---- */

static void use_bytes(struct otlp_converter *c, size_t size)
{
    c->left = size < c->left ? c->left - size : 0;
}

static uint32_t add_text(struct otlp_converter *c, struct otlp_group *g, const char *text)
{
    size_t before = g->texts.count;
    uint32_t number = et_intern(&g->texts, text);
    use_bytes(c, number >= before ? strlen(text) + 1 : 0);
    return number;
}

static void add_element(struct otlp_converter *c, struct otlp_group *g, unsigned field, struct et_buf *message)
{
    use_bytes(c, message->size);
    et_put_message(&g->tables, field, message);
    et_buf_free(message);
}

static const char *attribute_key(const struct otlp_converter *c, int32_t index)
{
    return index ? text_at(c->d, c->d->attribute_table[index]->key_strindex) : "";
}

/* OTLP requires one of these ids. The second is a hash of the file's ends. */
static void add_build_id(const struct otlp_converter *c, const Otlp__Mapping *mapping, struct et_buf *id)
{
    static const char *const keys[] = {"process.executable.build_id.gnu", "process.executable.build_id.htlhash"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys && id->size == 0; k++) {
        for (size_t i = 0; i < mapping->n_attribute_indices && id->size == 0; i++) {
            int32_t index = mapping->attribute_indices[i];
            if (strcmp(attribute_key(c, index), keys[k]) == 0) {
                et_otlp_value(c->d, c->d->attribute_table[index]->value, 0, id);
            }
        }
    }
}

static uint64_t add_mapping_id(struct otlp_converter *c, struct otlp_group *g, int32_t index)
{
    uint64_t *known = index ? et_map_at(&g->mappings, (uint64_t)index) : NULL;
    if (!known || *known) {
        return known ? *known : 0;
    }
    uint64_t number = *known = g->mappings.count;
    const Otlp__Mapping *mapping = c->d->mapping_table[index];
    struct et_buf message = {0}, id = {0};
    et_buf_text(&id, "");
    add_build_id(c, mapping, &id);
    et_put_number(&message, 1, number);
    et_put_number(&message, 2, mapping->memory_start);
    et_put_number(&message, 3, mapping->memory_limit);
    et_put_number(&message, 4, mapping->file_offset);
    et_put_number(&message, 5, add_text(c, g, text_at(c->d, mapping->filename_strindex)));
    et_put_number(&message, 6, add_text(c, g, id.data));
    add_element(c, g, 3, &message);
    et_buf_free(&id);
    return number;
}

static uint64_t add_function_id(struct otlp_converter *c, struct otlp_group *g, int32_t index)
{
    uint64_t *known = et_map_at(&g->functions, (uint64_t)index);
    if (*known) {
        return *known;
    }
    uint64_t number = *known = g->functions.count;
    const Otlp__Function *function = c->d->function_table[index];
    struct et_buf message = {0};
    et_put_number(&message, 1, number);
    et_put_number(&message, 2, add_text(c, g, text_at(c->d, function->name_strindex)));
    et_put_number(&message, 3, add_text(c, g, text_at(c->d, function->system_name_strindex)));
    et_put_number(&message, 4, add_text(c, g, text_at(c->d, function->filename_strindex)));
    et_put_number(&message, 5, (uint64_t)function->start_line);
    add_element(c, g, 5, &message);
    return number;
}

static uint64_t add_location_id(struct otlp_converter *c, struct otlp_group *g, int32_t index)
{
    uint64_t *known = et_map_at(&g->locations, (uint64_t)index);
    if (*known) {
        return *known;
    }
    uint64_t number = *known = g->locations.count;
    const Otlp__Location *location = c->d->location_table[index];
    struct et_buf message = {0}, line = {0};
    et_put_number(&message, 1, number);
    et_put_number(&message, 2, add_mapping_id(c, g, location->mapping_index));
    et_put_number(&message, 3, location->address);
    for (size_t i = 0; i < location->n_lines; i++) {
        if (location->lines[i]->function_index) {
            line.size = 0;
            et_put_number(&line, 1, add_function_id(c, g, location->lines[i]->function_index));
            et_put_number(&line, 2, (uint64_t)location->lines[i]->line);
            et_put_message(&message, 4, &line);
        }
    }
    add_element(c, g, 4, &message);
    et_buf_free(&line);
    return number;
}

/* ---- samples ---- */

static void put_label(struct otlp_converter *c, struct otlp_group *g, const char *key, const char *value,
                      struct et_buf *body)
{
    struct et_buf message = {0};
    et_put_number(&message, 1, add_text(c, g, key));
    et_put_number(&message, 2, add_text(c, g, value));
    et_put_message(body, 3, &message);
    et_buf_free(&message);
}

/* Names labels as the store has them. Notes of pprof's converters are no labels. */
static void put_attributes(struct otlp_converter *c, struct otlp_group *g, const int32_t *indices, size_t count,
                           struct et_buf *body)
{
    for (size_t i = 0; i < count; i++) {
        const char *key = attribute_key(c, indices[i]);
        struct et_buf value = {0};
        if (*key && strcmp(key, "service.name") != 0 && strncmp(key, "pprof.", 6) != 0) {
            const Otlp__KeyValueAndUnit *attribute = c->d->attribute_table[indices[i]];
            et_otlp_value(c->d, attribute->value, attribute->unit_strindex, &value);
        }
        if (value.size) {
            put_label(c, g, strcmp(key, "thread.name") == 0 ? "thread" : key, value.data, body);
        }
        et_buf_free(&value);
    }
}

/* Omits an id that is 0. */
static void put_id(struct otlp_converter *c, struct otlp_group *g, const char *key, const ProtobufCBinaryData *id,
                   struct et_buf *body)
{
    struct et_buf hex = {0};
    bool some = false;
    for (size_t i = 0; i < id->len; i++) {
        et_buf_printf(&hex, "%02x", id->data[i]);
        some |= id->data[i] != 0;
    }
    if (some) {
        put_label(c, g, key, hex.data, body);
    }
    et_buf_free(&hex);
}

static void encode_row(struct otlp_converter *c, struct otlp_group *g, const Otlp__Profile *profile,
                       const Otlp__Sample *sample, struct et_buf *body)
{
    struct et_buf ids = {0};
    if (c->d->n_stack_table) {
        const Otlp__Stack *stack = c->d->stack_table[sample->stack_index];
        for (size_t i = 0; i < stack->n_location_indices && ids.size <= c->left; i++) {
            et_varint_put(&ids, add_location_id(c, g, stack->location_indices[i]));
        }
    }
    et_put_bytes(body, 1, ids.data, ids.size);
    et_buf_free(&ids);
    put_attributes(c, g, profile->attribute_indices, profile->n_attribute_indices, body);
    put_attributes(c, g, sample->attribute_indices, sample->n_attribute_indices, body);
    if (sample->link_index) {
        put_id(c, g, ET_SPAN_ID, &c->d->link_table[sample->link_index]->span_id, body);
        put_id(c, g, ET_TRACE_ID, &c->d->link_table[sample->link_index]->trace_id, body);
    }
}

/* The number of the sample's row, from 0. */
static size_t find_row(struct otlp_converter *c, struct otlp_group *g, const Otlp__Profile *profile,
                       const Otlp__Sample *sample)
{
    struct et_buf key = {0};
    size_t before = g->keys.count;
    et_buf_printf(&key, "%d %d", sample->stack_index, sample->link_index);
    for (size_t i = 0; i < sample->n_attribute_indices; i++) {
        et_buf_printf(&key, " %d", sample->attribute_indices[i]);
    }
    for (size_t i = 0; i < profile->n_attribute_indices; i++) {
        et_buf_printf(&key, "%s%d", i ? " " : "+", profile->attribute_indices[i]);
    }
    uint32_t number = et_intern(&g->keys, key.data);
    if (number >= before) {
        struct row_range row = {.at = g->bodies.size};
        encode_row(c, g, profile, sample, &g->bodies);
        row.size = g->bodies.size - row.at;
        g->rows = et_reserve(g->rows, &g->row_capacity, number, sizeof *g->rows);
        g->rows[number - 1] = row;
        use_bytes(c, row.size + key.size);
    }
    et_buf_free(&key);
    return number - 1;
}

/* Timestamps without values are events of 1. False: too large. */
static bool sum_values(const Otlp__Sample *sample, uint64_t *sum)
{
    bool ok = true;
    *sum = sample->n_values ? 0 : sample->n_timestamps_unix_nano;
    for (size_t i = 0; i < sample->n_values && ok; i++) {
        *sum += (uint64_t)sample->values[i];
        ok = *sum <= INT64_MAX;
    }
    return ok;
}

/* ---- groups ---- */

static void free_group(struct otlp_group *g)
{
    struct et_map *maps[] = {&g->mappings, &g->functions, &g->locations};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        et_map_free(maps[i]);
    }
    for (size_t i = 0; i < g->type_count; i++) {
        free(g->values[i]);
    }
    free(g->service);
    free(g->rows);
    et_strings_free(&g->texts);
    et_strings_free(&g->keys);
    et_buf_free(&g->tables);
    et_buf_free(&g->bodies);
    *g = (struct otlp_group){0};
}

static void put_value_type(struct otlp_group *g, unsigned field, const char *type, const char *unit, struct et_buf *out)
{
    struct et_buf message = {0};
    et_put_number(&message, 1, et_intern(&g->texts, type));
    et_put_number(&message, 2, et_intern(&g->texts, unit));
    et_put_message(out, field, &message);
    et_buf_free(&message);
}

static void put_rows(const struct otlp_group *g, struct et_buf *out)
{
    struct et_buf sample = {0}, values = {0};
    for (size_t row = 0; row + 1 < g->keys.count; row++) {
        sample.size = values.size = 0;
        for (size_t type = 0; type < g->type_count; type++) {
            et_varint_put(&values, row < g->capacity[type] ? g->values[type][row] : 0);
        }
        et_buf_add(&sample, g->bodies.data + g->rows[row].at, g->rows[row].size);
        et_put_bytes(&sample, 2, values.data, values.size);
        et_put_message(out, 2, &sample);
    }
    et_buf_free(&sample);
    et_buf_free(&values);
}

static void encode_group(struct otlp_group *g, struct et_buf *out)
{
    const struct otlp_types *types = g->types;
    for (size_t i = 0; i < g->type_count; i++) {
        put_value_type(g, 1, types[i].type, types[i].unit, out);
    }
    if (types[0].period[0]) {
        put_value_type(g, 11, types[0].period, types[0].period_unit, out);
    }
    put_rows(g, out);
    et_buf_add(out, g->tables.data, g->tables.size);
    for (size_t i = 0; i < g->texts.count; i++) {
        const char *text = et_text(&g->texts, (uint32_t)i);
        et_put_message(out, 6, &(struct et_buf){.data = (char *)(uintptr_t)text, .size = strlen(text)});
    }
    et_put_number(out, 9, g->first->time_unix_nano);
    et_put_number(out, 10, g->first->duration_nano);
    et_put_number(out, 12, (uint64_t)g->first->period);
}

/* Hands every group over, unless there was an error. Returns 0 or the error. */
static int finish_groups(struct otlp_converter *c, int err)
{
    for (size_t i = 0; i < c->group_count; i++) {
        struct otlp_group *g = &c->groups[i];
        struct et_buf bytes = {0};
        if (!err) {
            encode_group(g, &bytes);
            const struct et_otlp_pprof pprof = {.service = g->service,
                                                .tags = c->tags,
                                                .family = g->types[0].family,
                                                .bytes = bytes.data,
                                                .size = bytes.size};
            const char *wrong = c->take(c->context, &pprof);
            if (wrong) {
                et_buf_text(c->why, wrong);
                err = -EINVAL;
            }
        }
        et_buf_free(&bytes);
        free_group(g);
    }
    c->group_count = 0;
    return err;
}

/* Sample and period type in pprof's names. Pyroscope names types by the period type, and OTLP's senders choose that for
 * Pyroscope; a kind of kinds.h has its own. A count of samples is CPU time only by its period. */
static struct otlp_types name_types(const struct otlp_converter *c, const Otlp__Profile *profile)
{
    const Otlp__ValueType *sample = profile->sample_type, *period = profile->period_type;
    struct otlp_types types = {.type = text_at(c->d, sample->type_strindex),
                               .unit = text_at(c->d, sample->unit_strindex),
                               .period = period ? text_at(c->d, period->type_strindex) : "",
                               .period_unit = period ? text_at(c->d, period->unit_strindex) : ""};
    bool is_count, samples = strcmp(types.type, "samples") == 0;
    bool cpu = strcmp(types.period, "cpu") == 0 && strcmp(types.period_unit, "nanoseconds") == 0;
    const struct et_kind *kind = et_kind_of_pprof(types.period, types.type, types.unit, &is_count);
    types.family = types.period;
    if (kind && (!samples || cpu)) {
        types.family = kind->family;
        types.period = kind->period;
        types.period_unit = kind->period_unit;
    }
    return types;
}

static bool fits_group(const struct otlp_group *g, const char *service, const Otlp__Profile *profile,
                       const struct otlp_types *types)
{
    const Otlp__Profile *first = g->first;
    const struct otlp_types *same = &g->types[0];
    return first->time_unix_nano == profile->time_unix_nano && first->duration_nano == profile->duration_nano &&
           first->period == profile->period && strcmp(same->family, types->family) == 0 &&
           strcmp(same->period, types->period) == 0 && strcmp(same->period_unit, types->period_unit) == 0 &&
           strcmp(g->service, service) == 0;
}

/* The group's column for the type; -1: another profile has filled it, or there are too many. */
static int free_column(struct otlp_group *g, const struct otlp_types *types)
{
    for (size_t i = 0; i < g->type_count; i++) {
        if (strcmp(g->types[i].type, types->type) == 0 && strcmp(g->types[i].unit, types->unit) == 0) {
            return -1;
        }
    }
    return g->type_count < TYPES ? (int)g->type_count : -1;
}

/* Where samples of a profile and service go. */
struct otlp_target {
    struct otlp_group *group;
    size_t column;
};

static struct otlp_target find_group(struct otlp_converter *c, const char *service, const Otlp__Profile *profile,
                                     const struct otlp_types *types)
{
    for (size_t i = 0; i < c->group_count; i++) {
        struct otlp_group *g = &c->groups[i];
        int column = fits_group(g, service, profile, types) ? free_column(g, types) : -1;
        if (column >= 0) {
            g->types[g->type_count++] = *types;
            return (struct otlp_target){g, (size_t)column};
        }
    }
    struct otlp_group *g = &c->groups[c->group_count++];
    *g = (struct otlp_group){.service = et_strdup(service), .first = profile, .types = {*types}, .type_count = 1};
    use_bytes(c, sizeof *g + strlen(service) + strlen(c->tags));
    et_intern(&g->texts, "");
    et_intern(&g->keys, "");
    et_buf_text(&g->bodies, "");
    return (struct otlp_target){g, 0};
}

static const char *service_of(struct otlp_converter *c, const Otlp__Sample *sample, struct et_buf *own)
{
    own->size = 0;
    for (size_t i = 0; i < sample->n_attribute_indices; i++) {
        int32_t index = sample->attribute_indices[i];
        if (strcmp(attribute_key(c, index), "service.name") == 0) {
            et_otlp_value(c->d, c->d->attribute_table[index]->value, 0, own);
        }
    }
    return own->size ? own->data : c->service;
}

static int convert_sample(struct otlp_converter *c, const Otlp__Profile *profile, const Otlp__Sample *sample,
                          struct otlp_target target)
{
    uint64_t sum;
    size_t row = find_row(c, target.group, profile, sample);
    uint64_t **values = &target.group->values[target.column];
    *values = et_reserve(*values, &target.group->capacity[target.column], row + 1, sizeof **values);
    if (!sum_values(sample, &sum) || ((*values)[row] += sum) > INT64_MAX) {
        et_buf_text(c->why, "OTLP profiles: values are too large");
        return -EINVAL;
    }
    return c->left ? 0 : -EFBIG;
}

/* Samples may name services of their own, each of which has a group. */
static int convert_profile(struct otlp_converter *c, const Otlp__Profile *profile)
{
    struct otlp_types types = name_types(c, profile);
    struct et_map targets = {0}; /* service -> group + 1 */
    struct et_strings services = {0};
    size_t columns[GROUPS];
    struct et_buf own = {0};
    int err = 0;
    for (size_t i = 0; i < profile->n_samples && !err; i++) {
        const char *service = service_of(c, profile->samples[i], &own);
        uint32_t number = et_intern(&services, service);
        uint64_t *known = et_map_at(&targets, number);
        if (!*known && c->group_count == GROUPS) {
            err = finish_groups(c, 0);
            et_map_free(&targets);
            known = et_map_at(&targets, number);
        }
        if (!*known && !err) {
            struct otlp_target found = find_group(c, service, profile, &types);
            *known = (uint64_t)(found.group - c->groups) + 1;
            columns[*known - 1] = found.column;
        }
        err = err ? err
                  : convert_sample(c, profile, profile->samples[i],
                                   (struct otlp_target){&c->groups[*known - 1], columns[*known - 1]});
    }
    et_map_free(&targets);
    et_strings_free(&services);
    et_buf_free(&own);
    return err;
}

/* ---- resources ---- */

static const char *pair_key(const struct otlp_converter *c, const Otlp__KeyValue *pair)
{
    return pair->key[0] ? pair->key : text_at(c->d, pair->key_strindex);
}

/* Adds attributes as tags. */
static void add_tags(const struct otlp_converter *c, Otlp__KeyValue *const *pairs, size_t count, struct et_labels *tags)
{
    for (size_t i = 0; i < count; i++) {
        const char *key = pair_key(c, pairs[i]);
        struct et_buf value = {0};
        et_otlp_value(c->d, pairs[i]->value, 0, &value);
        if (*key && value.size && !et_label_reserved(key) && strcmp(key, "service.name") != 0) {
            et_labels_add(tags, key, value.data);
        }
        et_buf_free(&value);
    }
}

static void resource_value(const struct otlp_converter *c, const Otlp__Resource *resource, const char *key,
                           struct et_buf *out)
{
    for (size_t i = 0; resource && i < resource->n_attributes && out->size == 0; i++) {
        if (strcmp(pair_key(c, resource->attributes[i]), key) == 0) {
            et_otlp_value(c->d, resource->attributes[i]->value, 0, out);
        }
    }
}

/* OpenTelemetry's default names a service that has no name by its executable. */
static void add_service(const struct otlp_converter *c, const Otlp__Resource *resource, struct et_buf *service)
{
    struct et_buf program = {0};
    resource_value(c, resource, "service.name", service);
    if (service->size == 0) {
        resource_value(c, resource, "process.executable.name", &program);
        et_buf_printf(service, "unknown_service%s%s", program.size ? ":" : "", program.size ? program.data : "");
    }
    et_buf_free(&program);
}

static int convert_scope(struct otlp_converter *c, const Otlp__Resource *resource, const Otlp__ScopeProfiles *scope)
{
    struct et_labels tags = {0};
    int err = 0;
    if (resource) {
        add_tags(c, resource->attributes, resource->n_attributes, &tags);
    }
    if (scope->scope) {
        add_tags(c, scope->scope->attributes, scope->scope->n_attributes, &tags);
    }
    c->tags = et_labels_join(&tags);
    for (size_t i = 0; i < scope->n_profiles && !err; i++) {
        err = convert_profile(c, scope->profiles[i]);
    }
    err = finish_groups(c, err);
    free(c->tags);
    return err;
}

int et_otlp_convert(const et_otlp_request *request, size_t limit, et_otlp_take *take, void *context, struct et_buf *why)
{
    struct otlp_converter *c = et_alloc(1, sizeof *c);
    int err = 0;
    *c = (struct otlp_converter){.d = request->dictionary, .left = limit, .take = take, .context = context, .why = why};
    for (size_t i = 0; i < request->n_resource_profiles && !err; i++) {
        const Otlp__ResourceProfiles *from = request->resource_profiles[i];
        struct et_buf service = {0};
        add_service(c, from->resource, &service);
        c->service = service.data;
        for (size_t k = 0; k < from->n_scope_profiles && !err; k++) {
            err = convert_scope(c, from->resource, from->scope_profiles[k]);
        }
        et_buf_free(&service);
    }
    if (err == -EFBIG) {
        et_buf_printf(why, "larger than %zu bytes as pprof", limit);
    }
    free(c);
    return err;
}
