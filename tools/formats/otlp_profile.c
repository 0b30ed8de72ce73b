/*
 * See otlp_read.h: converts checked OTLP profiles to struct et_profile. An OTLP profile has one sample type, so senders
 * split a profile; those that share scope and interval are one group again, in which equal samples are one row with a
 * value for each type. otlp_fill.c makes the profiles of a group.
 *
 *   et_otlp_convert   convert_scope -> convert_profile -> find_group
 *                                                      -> convert_sample -> et_otlp_add_row
 *                                   -> finish_groups -> et_otlp_finish_group -> take()
 */
#include "tools/formats/otlp_group.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Groups under construction; a scope with more is converted in parts. */
enum { GROUPS = 64 };

struct otlp_converter {
    struct et_otlp_source source;
    et_otlp_take *take;
    void *context;
    const char *service; /* of the resource */
    char *tags;
    struct et_otlp_group groups[GROUPS];
    size_t group_count;
};

/* The sum, at most TOO_LARGE, which no profile can have. */
static const uint64_t TOO_LARGE = UINT64_MAX / 2 + 1;

static uint64_t add_value(uint64_t sum, uint64_t value)
{
    return sum <= INT64_MAX && value <= INT64_MAX - sum ? sum + value : TOO_LARGE;
}

/* Timestamps without values are events of 1. */
static uint64_t sum_values(const Otlp__Sample *sample)
{
    uint64_t sum = sample->n_values ? 0 : sample->n_timestamps_unix_nano;
    for (size_t i = 0; i < sample->n_values; i++) {
        sum = add_value(sum, (uint64_t)sample->values[i]);
    }
    return sum;
}

/* Hands the profiles of every group over, unless there was an error. */
static void finish_groups(struct otlp_converter *c, int err)
{
    for (size_t i = 0; i < c->group_count; i++) {
        if (!err) {
            et_otlp_finish_group(&c->source, &c->groups[i], c->tags, c->take, c->context);
        }
        et_otlp_free_group(&c->groups[i]);
    }
    c->group_count = 0;
}

/* Sample and period type in pprof's names. Pyroscope names types by the period type, and OTLP's senders choose that for
 * Pyroscope; a kind of kinds.h has its own. A count of samples is CPU time only by its period. */
static struct et_otlp_types name_types(const struct otlp_converter *c, const Otlp__Profile *profile)
{
    const Otlp__ValueType *sample = profile->sample_type, *period = profile->period_type;
    struct et_otlp_types types = {.type = et_otlp_text(&c->source, sample->type_strindex),
                                  .unit = et_otlp_text(&c->source, sample->unit_strindex),
                                  .period = period ? et_otlp_text(&c->source, period->type_strindex) : "",
                                  .period_unit = et_otlp_period_unit(&c->source, profile, &(uint64_t){0})};
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

static bool fits_group(const struct et_otlp_group *g, const char *service, const Otlp__Profile *profile,
                       const struct et_otlp_types *types)
{
    const Otlp__Profile *first = g->first;
    const struct et_otlp_types *same = &g->types[0];
    return first->time_unix_nano == profile->time_unix_nano && first->duration_nano == profile->duration_nano &&
           first->period == profile->period && strcmp(same->family, types->family) == 0 &&
           strcmp(same->period, types->period) == 0 && strcmp(same->period_unit, types->period_unit) == 0 &&
           strcmp(g->service, service) == 0;
}

/* The group's column for the type; -1: another profile has filled it, or there are too many. */
static int free_column(struct et_otlp_group *g, const struct et_otlp_types *types)
{
    for (size_t i = 0; i < g->type_count; i++) {
        if (strcmp(g->types[i].type, types->type) == 0 && strcmp(g->types[i].unit, types->unit) == 0) {
            return -1;
        }
    }
    return g->type_count < ET_PPROF_KINDS ? (int)g->type_count : -1;
}

/* Where samples of a profile and service go. */
struct otlp_target {
    struct et_otlp_group *group;
    size_t column;
};

static struct otlp_target find_group(struct otlp_converter *c, const char *service, const Otlp__Profile *profile,
                                     const struct et_otlp_types *types)
{
    for (size_t i = 0; i < c->group_count; i++) {
        struct et_otlp_group *g = &c->groups[i];
        int column = fits_group(g, service, profile, types) ? free_column(g, types) : -1;
        if (column >= 0) {
            g->types[g->type_count++] = *types;
            return (struct otlp_target){g, (size_t)column};
        }
    }
    struct et_otlp_group *g = &c->groups[c->group_count++];
    *g = (struct et_otlp_group){.service = et_strdup(service), .first = profile, .types = {*types}, .type_count = 1};
    et_otlp_use(&c->source, sizeof *g + strlen(service) + strlen(c->tags));
    et_intern(&g->keys, "");
    return (struct otlp_target){g, 0};
}

static const char *service_of(struct otlp_converter *c, const Otlp__Sample *sample, struct et_buf *own)
{
    own->size = 0;
    for (size_t i = 0; i < sample->n_attribute_indices; i++) {
        int32_t index = sample->attribute_indices[i];
        if (strcmp(et_otlp_key(&c->source, index), "service.name") == 0) {
            et_otlp_value(c->source.d, c->source.d->attribute_table[index]->value, 0, own);
        }
    }
    return own->size ? own->data : c->service;
}

static int convert_sample(struct otlp_converter *c, const Otlp__Profile *profile, const Otlp__Sample *sample,
                          struct otlp_target target)
{
    size_t row = et_otlp_add_row(&c->source, target.group, profile, sample);
    uint64_t **values = &target.group->values[target.column];
    *values = et_reserve(*values, &target.group->capacity[target.column], row + 1, sizeof **values);
    (*values)[row] = add_value((*values)[row], sum_values(sample));
    return c->source.left ? 0 : -EFBIG;
}

/* Samples may name services of their own, each of which has a group. */
static int convert_profile(struct otlp_converter *c, const Otlp__Profile *profile)
{
    struct et_otlp_types types = name_types(c, profile);
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
            finish_groups(c, 0);
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
    return pair->key[0] ? pair->key : et_otlp_text(&c->source, pair->key_strindex);
}

/* Adds attributes as tags. */
static void add_tags(const struct otlp_converter *c, Otlp__KeyValue *const *pairs, size_t count, struct et_labels *tags)
{
    for (size_t i = 0; i < count; i++) {
        const char *key = pair_key(c, pairs[i]);
        struct et_buf value = {0};
        et_otlp_value(c->source.d, pairs[i]->value, 0, &value);
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
            et_otlp_value(c->source.d, resource->attributes[i]->value, 0, out);
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
    finish_groups(c, err);
    free(c->tags);
    return err;
}

/* The attributes of a resource without profiles may break rules. */
static bool has_profiles(const Otlp__ResourceProfiles *resource)
{
    bool some = false;
    for (size_t i = 0; i < resource->n_scope_profiles && !some; i++) {
        some = resource->scope_profiles[i]->n_profiles > 0;
    }
    return some;
}

int et_otlp_convert(const et_otlp_request *request, size_t limit, et_otlp_take *take, void *context, struct et_buf *why,
                    size_t *refused)
{
    struct otlp_converter *c = et_alloc(1, sizeof *c);
    int err = 0;
    *c = (struct otlp_converter){
        .source = {.d = request->dictionary, .left = limit, .why = why}, .take = take, .context = context};
    for (size_t i = 0; i < request->n_resource_profiles && !err; i++) {
        const Otlp__ResourceProfiles *from = request->resource_profiles[i];
        struct et_buf service = {0};
        if (!has_profiles(from)) {
            continue;
        }
        add_service(c, from->resource, &service);
        c->service = service.data;
        for (size_t k = 0; k < from->n_scope_profiles && !err; k++) {
            const Otlp__ScopeProfiles *scope = from->scope_profiles[k];
            err = scope->n_profiles ? convert_scope(c, from->resource, scope) : 0;
        }
        et_buf_free(&service);
    }
    *refused += c->source.refused;
    if (err == -EFBIG) {
        why->size = 0;
        et_buf_printf(why, "larger than %zu bytes as pprof", limit);
    }
    free(c);
    return err;
}
