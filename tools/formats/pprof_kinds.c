/* See pprof_read.h: the kinds of a pprof, and its notes. */
#include "tools/formats/pprof_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *type_name(const et_pprof *p, size_t type)
{
    return p->string_table[p->sample_type[type]->type];
}

static const char *unit_name(const et_pprof *p, size_t type)
{
    uint64_t factor;
    return et_unit_base(p->string_table[p->sample_type[type]->unit], &factor);
}

static bool type_is(const et_pprof *p, size_t type, const char *name, const char *unit)
{
    return strcmp(type_name(p, type), name) == 0 && strcmp(unit_name(p, type), unit) == 0;
}

static bool has_type(const et_pprof *p, const char *name, const char *unit)
{
    for (size_t i = 0; i < p->n_sample_type; i++) {
        if (type_is(p, i, name, unit)) {
            return true;
        }
    }
    return false;
}

/* Whether the sample type only counts the samples of other types. */
static bool is_mere_count(const et_pprof *p, size_t type)
{
    return p->n_sample_type > 1 && type_is(p, type, "samples", "count") && !has_type(p, "cpu", "nanoseconds");
}

uint64_t et_pprof_period(const et_pprof *p)
{
    uint64_t factor = 1, period = p->period > 0 ? (uint64_t)p->period : 0;
    if (p->period_type) {
        (void)et_unit_base(p->string_table[p->period_type->unit], &factor);
    }
    return period <= INT64_MAX / factor ? period * factor : 0;
}

/* The value per sample where only samples were counted. */
static uint64_t sample_period(const et_pprof *p)
{
    uint64_t factor;
    bool cpu = p->period_type && strcmp(p->string_table[p->period_type->type], "cpu") == 0 &&
               strcmp(et_unit_base(p->string_table[p->period_type->unit], &factor), "nanoseconds") == 0;
    return cpu ? et_pprof_period(p) : 0;
}

static void set_value(const et_pprof *p, size_t type, struct et_pprof_kind *kind)
{
    kind->value = (int)type;
    (void)et_unit_base(p->string_table[p->sample_type[type]->unit], &kind->factor);
}

static void copy_clean(char *to, size_t size, const char *text)
{
    char *clean = et_clean(text, strnlen(text, size - 1));
    snprintf(to, size, "%s", clean);
    free(clean);
}

/* A sample type without a kind in kinds.h becomes its own kind, with a different name than those. */
static void set_unknown_kind(const et_pprof *p, size_t type, struct et_pprof_kind *kind)
{
    char name[sizeof kind->name / 2];
    copy_clean(kind->unit, sizeof kind->unit, unit_name(p, type));
    copy_clean(name, sizeof name, type_name(p, type));
    snprintf(kind->name, sizeof kind->name, et_kind_named(name) ? "%s %.40s" : "%s", name, kind->unit);
    set_value(p, type, kind);
}

static struct et_pprof_kind *kind_entry(struct et_pprof_kind *kinds, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++) {
        if (name && strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    kinds[*count] = (struct et_pprof_kind){.value = -1, .count = -1, .factor = 1};
    snprintf(kinds[*count].name, sizeof kinds->name, "%s", name ? name : "");
    return &kinds[(*count)++];
}

/* Whether the type is kept by its id. */
static bool add_id_kind(const et_pprof *p, const char *family, size_t type, const struct et_kind *known,
                        struct et_pprof_kind *kinds, size_t *count)
{
    const Perftools__Profiles__ValueType *period = p->period_type;
    const struct et_kind_id id = {.family = family,
                                  .type = type_name(p, type),
                                  .unit = unit_name(p, type),
                                  .period = period ? p->string_table[period->type] : "",
                                  .period_unit = period ? p->string_table[period->unit] : ""};
    char name[ET_KIND_NAME], clean[ET_KIND_NAME];
    if (!et_kind_keeps_id(known, &id, name)) {
        return false;
    }
    copy_clean(clean, sizeof clean, name);
    struct et_pprof_kind *kind = kind_entry(kinds, count, clean);
    copy_clean(kind->unit, sizeof kind->unit, id.unit);
    set_value(p, type, kind);
    return true;
}

static void add_type(const et_pprof *p, const char *hint, size_t type, struct et_pprof_kind *kinds, size_t *count)
{
    bool counts = false;
    const struct et_kind *known = et_kind_of_pprof(hint, type_name(p, type), unit_name(p, type), &counts);
    bool alone = type_is(p, type, "samples", "count") && p->n_sample_type == 1;
    if (!known || (alone && !sample_period(p))) {
        set_unknown_kind(p, type, kind_entry(kinds, count, NULL));
        return;
    }
    struct et_pprof_kind *kind = kind_entry(kinds, count, known->name);
    snprintf(kind->unit, sizeof kind->unit, "%s", known->unit);
    if (counts) {
        kind->count = kind->count < 0 ? (int)type : kind->count;
    } else if (kind->value < 0) {
        set_value(p, type, kind);
    }
    kind->scale = alone ? sample_period(p) : 0;
}

size_t et_pprof_kinds(const et_pprof *p, const char *hint, struct et_pprof_kind kinds[ET_PPROF_KINDS])
{
    size_t count = 0;
    for (size_t type = 0; type < p->n_sample_type; type++) {
        if (!is_mere_count(p, type)) {
            add_type(p, hint, type, kinds, &count);
        }
    }
    return count;
}

size_t et_pprof_sent_kinds(const et_pprof *p, const char *family, struct et_pprof_kind kinds[ET_PPROF_KINDS])
{
    size_t count = 0;
    for (size_t type = 0; type < p->n_sample_type; type++) {
        bool counts;
        const struct et_kind *known = et_kind_of_pprof(family, type_name(p, type), unit_name(p, type), &counts);
        if (!is_mere_count(p, type) && !(family[0] && add_id_kind(p, family, type, known, kinds, &count))) {
            add_type(p, family, type, kinds, &count);
        }
    }
    return count;
}

const char *et_pprof_family(const et_pprof *p, const char *(*display)(void *context, const char *type), void *context)
{
    static const struct {
        const char *part, *family;
    } parts[] = {{"cpu", "process_cpu"}, {"alloc_", "memory"}, {"inuse_", "memory"}, {"space", "memory"},
                 {"objects", "memory"},  {"mutex_", "mutex"},  {"block_", "block"},  {"goroutines", "goroutines"}};
    for (size_t type = 0; type < p->n_sample_type; type++) {
        if (strcmp(type_name(p, type), "wall") == 0) {
            return "wall";
        }
    }
    for (size_t type = 0; type < p->n_sample_type; type++) {
        const char *shown = display(context, type_name(p, type));
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            if (strstr(shown ? shown : type_name(p, type), parts[i].part)) {
                return parts[i].family;
            }
        }
    }
    return "";
}

const char *et_pprof_note(const et_pprof *p, const char *name)
{
    struct et_buf start = {0};
    const char *found = "";
    et_buf_printf(&start, "edgeprof %s: ", name);
    for (size_t i = 0; i < p->n_comment; i++) {
        const char *comment = p->string_table[p->comment[i]];
        if (strncmp(comment, start.data, start.size) == 0) {
            found = comment + start.size;
        }
    }
    et_buf_free(&start);
    return found;
}

const char *et_pprof_hint(const et_pprof *p)
{
    const struct et_kind *kind = et_kind_named(et_pprof_note(p, "kind"));
    return kind ? kind->family : "";
}

int et_pprof_samples_type(const et_pprof *p, const struct et_pprof_kind *kind)
{
    const struct et_kind *known = et_kind_named(kind->name);
    bool own = !known || !known->counts[0] || known->number == 1;
    for (size_t type = 0; type < p->n_sample_type && p->n_sample_type > 1 && own; type++) {
        if (type_is(p, type, "samples", "count")) {
            return (int)type;
        }
    }
    return -1;
}
