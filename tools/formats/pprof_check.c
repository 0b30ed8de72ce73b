/* See pprof_read.h: decoding within a memory budget, and the checks of every reference. */
#include "tools/formats/pprof_ids.h"
#include "tools/formats/pprof_read.h"
#include "tools/formats/pprof_wire.h"
#include "tools/formats/protobuf_budget.h"

#include <string.h>

static const size_t DECODE_BUDGET = (size_t)192 << 20;

void et_pprof_free(et_pprof *pprof)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    perftools__profiles__profile__free_unpacked(pprof, &allocator);
}

struct pprof_check {
    const et_pprof *p;
    struct et_pprof_ids mappings, functions, locations;
    const char *wrong;
};

static bool text_ok(const et_pprof *p, int64_t text)
{
    return text >= 0 && (uint64_t)text < p->n_string_table;
}

static bool types_ok(const et_pprof *p)
{
    for (size_t i = 0; i < p->n_sample_type; i++) {
        if (!text_ok(p, p->sample_type[i]->type) || !text_ok(p, p->sample_type[i]->unit)) {
            return false;
        }
    }
    return p->n_sample_type > 0 && p->n_sample_type <= ET_PPROF_KINDS && text_ok(p, p->default_sample_type);
}

static bool comments_ok(const et_pprof *p)
{
    for (size_t i = 0; i < p->n_comment; i++) {
        if (!text_ok(p, p->comment[i])) {
            return false;
        }
    }
    return !p->period_type || (text_ok(p, p->period_type->type) && text_ok(p, p->period_type->unit));
}

static bool mappings_ok(struct pprof_check *c)
{
    for (size_t i = 0; i < c->p->n_mapping; i++) {
        const Perftools__Profiles__Mapping *mapping = c->p->mapping[i];
        if (!et_pprof_ids_add(&c->mappings, mapping->id, i) || !text_ok(c->p, mapping->filename) ||
            !text_ok(c->p, mapping->build_id)) {
            return false;
        }
    }
    return true;
}

static bool functions_ok(struct pprof_check *c)
{
    for (size_t i = 0; i < c->p->n_function; i++) {
        const Perftools__Profiles__Function *function = c->p->function[i];
        if (!et_pprof_ids_add(&c->functions, function->id, i) || !text_ok(c->p, function->name) ||
            !text_ok(c->p, function->filename)) {
            return false;
        }
    }
    return true;
}

static bool locations_ok(struct pprof_check *c)
{
    for (size_t i = 0; i < c->p->n_location; i++) {
        const Perftools__Profiles__Location *location = c->p->location[i];
        if (!et_pprof_ids_add(&c->locations, location->id, i) ||
            (location->mapping_id && !et_pprof_ids_find(&c->mappings, location->mapping_id))) {
            return false;
        }
        for (size_t k = 0; k < location->n_line; k++) {
            if (!et_pprof_ids_find(&c->functions, location->line[k]->function_id)) {
                return false;
            }
        }
    }
    return true;
}

static bool labels_ok(const et_pprof *p, const Perftools__Profiles__Sample *sample)
{
    size_t bytes = 0;
    for (size_t i = 0; i < sample->n_label; i++) {
        const Perftools__Profiles__Label *label = sample->label[i];
        if (!text_ok(p, label->key) || !text_ok(p, label->str) || !text_ok(p, label->num_unit)) {
            return false;
        }
        bytes += strlen(p->string_table[label->key]) + strlen(p->string_table[label->str]) +
                 strlen(p->string_table[label->num_unit]);
    }
    return sample->n_label <= ET_PPROF_LABELS && bytes <= ET_PPROF_LABEL_BYTES;
}

static bool sample_ok(const struct pprof_check *c, const Perftools__Profiles__Sample *sample)
{
    bool ok =
        sample->n_value == c->p->n_sample_type && sample->n_location_id <= ET_PPROF_FRAMES && labels_ok(c->p, sample);
    for (size_t i = 0; i < sample->n_location_id && ok; i++) {
        ok = et_pprof_ids_find(&c->locations, sample->location_id[i]) != 0;
    }
    return ok;
}

/* Returns the number of samples that are left out. */
static size_t leave_bad_samples_out(const struct pprof_check *c)
{
    size_t bad = 0;
    for (size_t i = 0; i < c->p->n_sample; i++) {
        if (!sample_ok(c, c->p->sample[i])) {
            c->p->sample[i]->n_value = 0;
            bad++;
        }
    }
    return bad;
}

static const char *find_error(struct pprof_check *c)
{
    const et_pprof *p = c->p;
    if (p->n_string_table == 0 || p->string_table[0][0] != '\0') {
        return "pprof: string 0 is not empty";
    }
    if (p->time_nanos < 0 || p->duration_nanos < 0 || p->time_nanos > INT64_MAX / 2 ||
        p->duration_nanos > INT64_MAX / 4) {
        return "pprof: time is out of range";
    }
    return !types_ok(p)       ? "pprof: no sample types, too many, or without names"
           : !comments_ok(p)  ? "pprof: a comment or the period type refers to a missing string"
           : !mappings_ok(c)  ? "pprof: a mapping has an invalid id or name"
           : !functions_ok(c) ? "pprof: a function has an invalid id or name"
           : !locations_ok(c) ? "pprof: a location has an invalid reference"
                              : NULL;
}

/* Returns NULL, or what is wrong; *all: with all of it. */
static const char *check_pprof(const et_pprof *pprof, bool *all)
{
    struct pprof_check check = {.p = pprof};
    et_pprof_ids_begin(&check.mappings, pprof->n_mapping);
    et_pprof_ids_begin(&check.functions, pprof->n_function);
    et_pprof_ids_begin(&check.locations, pprof->n_location);
    const char *wrong = find_error(&check);
    size_t bad = wrong ? 0 : leave_bad_samples_out(&check);
    *all = wrong || (bad && bad == pprof->n_sample);
    et_pprof_ids_free(&check.mappings);
    et_pprof_ids_free(&check.functions);
    et_pprof_ids_free(&check.locations);
    return bad ? ET_PPROF_BAD_SAMPLE : wrong;
}

static const char NOT_PPROF[] = "not a pprof profile";

et_pprof *et_pprof_decode(const void *bytes, size_t size, const char **why)
{
    size_t left = DECODE_BUDGET;
    ProtobufCAllocator allocator = et_budget_allocator(&left);
    et_pprof *pprof = size ? perftools__profiles__profile__unpack(&allocator, size, bytes) : NULL;
    bool all = true;
    const char *wrong = pprof ? check_pprof(pprof, &all) : NOT_PPROF;
    *why = wrong ? wrong : *why;
    if (all && pprof) {
        et_pprof_free(pprof);
    }
    return all ? NULL : pprof;
}

et_pprof *et_pprof_decode_in(struct et_arena *arena, const void *bytes, size_t size, const char **why)
{
    arena->left = DECODE_BUDGET;
    et_pprof *pprof = size ? et_pprof_unpack(arena, bytes, size) : NULL;
    bool all = true;
    const char *wrong = pprof ? check_pprof(pprof, &all) : NOT_PPROF;
    *why = wrong ? wrong : *why;
    return all ? NULL : pprof;
}
