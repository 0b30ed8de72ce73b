/*
 * See wire_pprof.h: the writing half. Every frame goes out with its names, so that `go tool pprof` needs nothing else;
 * ids are 1..n in the order of the tables, as the strictest readers want.
 */
#include "wire_pprof.h"

#include <stdlib.h>

struct writing {
    const struct et_profile *profile;
    et_pprof pprof;
    struct et_strings strings;
    struct et_map functions; /* name << 32 | file -> function id */
    size_t function_capacity;
    uint64_t *locations; /* of each frame: location id */
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
        Edgeprof__Pprof__Mapping *mapping = et_alloc(1, sizeof *mapping);
        edgeprof__pprof__mapping__init(mapping);
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
        Edgeprof__Pprof__Function *function = et_alloc(1, sizeof *function);
        edgeprof__pprof__function__init(function);
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
    Edgeprof__Pprof__Location *location = et_alloc(1, sizeof *location);
    edgeprof__pprof__location__init(location);
    location->id = id;
    location->mapping_id = frame->module;
    location->address = frame->module ? frame->address : 0;
    location->n_line = frame->line_count;
    location->line = et_alloc(frame->line_count, sizeof *location->line);
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct et_line *line = &w->profile->lines[frame->first_line + i];
        location->line[i] = et_alloc(1, sizeof **location->line);
        edgeprof__pprof__line__init(location->line[i]);
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

static void add_sample(struct writing *w, size_t node)
{
    const struct et_profile *p = w->profile;
    Edgeprof__Pprof__Sample *sample = et_alloc(1, sizeof *sample);
    edgeprof__pprof__sample__init(sample);
    sample->n_value = 1;
    sample->value = et_alloc(1, sizeof *sample->value);
    sample->value[0] = (int64_t)p->nodes[node].self;
    size_t capacity = 0;
    for (size_t up = node; up; up = p->nodes[up].parent) {
        sample->location_id =
            et_reserve(sample->location_id, &capacity, sample->n_location_id + 1, sizeof *sample->location_id);
        sample->location_id[sample->n_location_id++] = w->locations[p->nodes[up].frame];
    }
    w->pprof.sample[w->pprof.n_sample++] = sample;
}

static void add_header(struct writing *w)
{
    const struct et_profile *p = w->profile;
    Edgeprof__Pprof__ValueType *type = et_alloc(1, sizeof *type), *period = et_alloc(1, sizeof *period);
    edgeprof__pprof__value_type__init(type);
    type->type = text(w, p->kind);
    type->unit = text(w, p->unit);
    *period = *type;
    w->pprof.sample_type = et_alloc(1, sizeof *w->pprof.sample_type);
    w->pprof.sample_type[0] = type;
    w->pprof.n_sample_type = 1;
    w->pprof.period_type = period;
    w->pprof.period = p->period && p->period <= INT64_MAX ? (int64_t)p->period : 1;
    w->pprof.time_nanos = p->start_ns;
    w->pprof.duration_nanos = p->end_ns - p->start_ns;
}

void et_pprof_encode(const struct et_profile *profile, struct et_buf *out)
{
    struct writing w = {.profile = profile};
    edgeprof__pprof__profile__init(&w.pprof);
    et_intern(&w.strings, "");
    add_header(&w);
    add_mappings(&w);
    add_locations(&w);
    w.pprof.sample = et_alloc(profile->node_count, sizeof *w.pprof.sample);
    for (size_t i = 1; i < profile->node_count; i++) {
        if (profile->nodes[i].self) {
            add_sample(&w, i);
        }
    }
    w.pprof.string_table = w.strings.text;
    w.pprof.n_string_table = w.strings.count;
    size_t size = edgeprof__pprof__profile__get_packed_size(&w.pprof);
    uint8_t *bytes = et_alloc(size, 1);
    edgeprof__pprof__profile__pack(&w.pprof, bytes);
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
