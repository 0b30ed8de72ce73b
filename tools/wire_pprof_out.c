/*
 * See wire_pprof.h: the writing half. Every frame goes out with its names, so that `go tool pprof` needs nothing else;
 * ids are 1..n in the order of the tables, as the strictest readers want.
 */
#include "wire_pprof.h"
#include "kinds.h"
#include "labels.h"

#include <stdio.h>
#include <stdlib.h>

struct writing {
    const struct et_profile *profile;
    et_pprof pprof;
    struct et_strings strings;
    struct et_map functions; /* name << 32 | file -> function id */
    size_t function_capacity;
    uint64_t *locations; /* of each frame: location id */
    size_t label_capacity;
    enum et_measure types[2]; /* which figure each sample type is */
};

static int64_t text(struct writing *w, uint32_t number)
{
    return et_intern(&w->strings, et_text(&w->profile->strings, number));
}

static void add_mappings(struct writing *w)
{
    const struct et_profile *p = w->profile;
    w->pprof.n_mapping = p->module_count;
    w->pprof.mapping = et_alloc(p->module_count, sizeof *w->pprof.mapping);
    for (size_t i = 0; i < p->module_count; i++) {
        Perftools__Profiles__Mapping *mapping = et_alloc(1, sizeof *mapping);
        perftools__profiles__mapping__init(mapping);
        mapping->id = i + 1;
        mapping->filename = text(w, p->modules[i].path);
        mapping->build_id = text(w, p->modules[i].build_id);
        mapping->has_functions = mapping->has_filenames = mapping->has_line_numbers = mapping->has_inline_frames = true;
        w->pprof.mapping[i] = mapping;
    }
}

static uint64_t function_id(struct writing *w, const struct et_line *line)
{
    uint64_t *id = et_map_at(&w->functions, (uint64_t)line->function << 32 | line->file);
    if (!*id) {
        Perftools__Profiles__Function *function = et_alloc(1, sizeof *function);
        perftools__profiles__function__init(function);
        w->pprof.function =
            et_reserve(w->pprof.function, &w->function_capacity, w->pprof.n_function + 1, sizeof *w->pprof.function);
        w->pprof.function[w->pprof.n_function++] = function;
        function->id = *id = w->pprof.n_function;
        function->name = function->system_name = text(w, line->function);
        function->filename = text(w, line->file);
    }
    return *id;
}

static void add_location(struct writing *w, const struct et_frame *frame, uint64_t id)
{
    Perftools__Profiles__Location *location = et_alloc(1, sizeof *location);
    perftools__profiles__location__init(location);
    location->id = id;
    location->mapping_id = frame->module;
    location->address = frame->module ? frame->address : 0;
    location->n_line = frame->line_count;
    location->line = et_alloc(frame->line_count, sizeof *location->line);
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct et_line *line = &w->profile->lines[frame->first_line + i];
        location->line[i] = et_alloc(1, sizeof **location->line);
        perftools__profiles__line__init(location->line[i]);
        location->line[i]->function_id = function_id(w, line);
        location->line[i]->line = line->line;
    }
    w->pprof.location[w->pprof.n_location++] = location;
}

/* Frame 0 belongs to the root and is no location. */
static void add_locations(struct writing *w)
{
    const struct et_profile *p = w->profile;
    w->locations = et_alloc(p->frame_count, sizeof *w->locations);
    w->pprof.location = et_alloc(p->frame_count, sizeof *w->pprof.location);
    for (size_t i = 1; i < p->frame_count; i++) {
        w->locations[i] = i;
        add_location(w, &p->frames[i], i);
    }
}

static void on_label(void *context, const char *key, const char *value)
{
    struct writing *w = context;
    Perftools__Profiles__Sample *sample = w->pprof.sample[w->pprof.n_sample];
    Perftools__Profiles__Label *label = et_alloc(1, sizeof *label);
    perftools__profiles__label__init(label);
    label->key = et_intern(&w->strings, key);
    label->str = et_intern(&w->strings, value);
    sample->label = et_reserve(sample->label, &w->label_capacity, sample->n_label + 1, sizeof *sample->label);
    sample->label[sample->n_label++] = label;
}

static void add_sample(struct writing *w, const struct et_entry *entry)
{
    const struct et_profile *p = w->profile;
    Perftools__Profiles__Sample *sample = et_alloc(1, sizeof *sample);
    perftools__profiles__sample__init(sample);
    w->pprof.sample[w->pprof.n_sample] = sample;
    sample->n_value = w->pprof.n_sample_type;
    sample->value = et_alloc(sample->n_value, sizeof *sample->value);
    for (size_t i = 0; i < sample->n_value; i++) {
        sample->value[i] = (int64_t)(w->types[i] == ET_MEASURE_COUNT ? entry->count : entry->value);
    }
    size_t capacity = 0;
    for (size_t up = entry->node; up; up = p->nodes[up].parent) {
        sample->location_id =
            et_reserve(sample->location_id, &capacity, sample->n_location_id + 1, sizeof *sample->location_id);
        sample->location_id[sample->n_location_id++] = w->locations[p->nodes[up].frame];
    }
    w->label_capacity = 0;
    et_labels_each(et_text(&p->strings, entry->labels), on_label, w);
    w->pprof.n_sample++;
}

static Perftools__Profiles__ValueType *value_type(struct writing *w, const char *type, const char *unit)
{
    Perftools__Profiles__ValueType *made = et_alloc(1, sizeof *made);
    perftools__profiles__value_type__init(made);
    made->type = et_intern(&w->strings, type);
    made->unit = et_intern(&w->strings, unit);
    return made;
}

static void add_type(struct writing *w, enum et_measure measure, const char *type, const char *unit)
{
    size_t at = w->pprof.n_sample_type++;
    w->types[at] = measure;
    w->pprof.sample_type[at] = value_type(w, type, unit);
    if (w->profile->measure == measure) {
        w->pprof.default_sample_type = w->pprof.sample_type[at]->type;
    }
}

/* The count comes first, as everywhere. */
static void add_types(struct writing *w)
{
    const struct et_profile *p = w->profile;
    const char *name = et_text(&p->strings, p->kind), *unit = et_text(&p->strings, p->value_unit);
    const struct et_kind *kind = et_kind_named(name);
    w->pprof.sample_type = et_alloc(2, sizeof *w->pprof.sample_type);
    if (kind && kind->counts[0] && (p->counts || p->measure == ET_MEASURE_COUNT)) {
        add_type(w, ET_MEASURE_COUNT, kind->count, "count");
    }
    add_type(w, ET_MEASURE_VALUE, !kind ? name : kind->value[0] ? kind->value : kind->count, unit);
    w->pprof.period_type = kind ? value_type(w, kind->period, kind->period_unit) : value_type(w, name, unit);
}

/* What pprof has no field for; source.c reads it. */
static void add_note(struct writing *w, size_t *capacity, const char *name, const char *text)
{
    struct et_buf note = {0};
    et_buf_printf(&note, "edgeprof %s: %s", name, text);
    w->pprof.comment = et_reserve(w->pprof.comment, capacity, w->pprof.n_comment + 1, sizeof *w->pprof.comment);
    w->pprof.comment[w->pprof.n_comment++] = et_intern(&w->strings, note.data);
    et_buf_free(&note);
}

static void add_header(struct writing *w)
{
    const struct et_profile *p = w->profile;
    size_t capacity = 0;
    char number[24];
    add_types(w);
    w->pprof.period = p->period && p->period <= INT64_MAX ? (int64_t)p->period : 1;
    w->pprof.time_nanos = p->start_ns;
    w->pprof.duration_nanos = p->end_ns - p->start_ns;
    add_note(w, &capacity, "service", et_text(&p->strings, p->service));
    add_note(w, &capacity, "kind", et_text(&p->strings, p->kind));
    snprintf(number, sizeof number, "%llu", (unsigned long long)p->samples);
    add_note(w, &capacity, "samples", number);
    snprintf(number, sizeof number, "%llu", (unsigned long long)p->processes);
    add_note(w, &capacity, "processes", number);
}

void et_pprof_encode(const struct et_profile *profile, struct et_buf *out)
{
    struct writing w = {.profile = profile};
    perftools__profiles__profile__init(&w.pprof);
    et_intern(&w.strings, "");
    add_header(&w);
    add_mappings(&w);
    add_locations(&w);
    w.pprof.sample = et_alloc(profile->entry_count, sizeof *w.pprof.sample);
    for (size_t i = 0; i < profile->entry_count; i++) {
        if (profile->entries[i].count || profile->entries[i].value) {
            add_sample(&w, &profile->entries[i]);
        }
    }
    w.pprof.string_table = w.strings.text;
    w.pprof.n_string_table = w.strings.count;
    size_t size = perftools__profiles__profile__get_packed_size(&w.pprof);
    uint8_t *bytes = et_alloc(size, 1);
    perftools__profiles__profile__pack(&w.pprof, bytes);
    et_buf_add(out, bytes, size);
    free(bytes);

    /* All of it was allocated piece by piece, as a decoder would have; a copy on the heap is freed as one. */
    et_pprof *whole = et_alloc(1, sizeof *whole);
    *whole = w.pprof;
    whole->string_table = NULL;
    whole->n_string_table = 0;
    et_pprof_free(whole);
    et_strings_free(&w.strings);
    et_map_free(&w.functions);
    free(w.locations);
}
