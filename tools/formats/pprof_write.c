/*
 * See pprof_read.h: the writing half. Ids are 1..n in table order, as strict readers require. Tables have no unused
 * elements: write_sample() adds a location, its mapping and its functions when a sample first needs them.
 *
 * Frames with and without lines of one module have separate mappings, because servers treat a whole mapping as
 * symbolized or not.
 */
#include "tools/formats/pprof_read.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pprof_writer {
    const struct et_profile *profile;
    const struct et_pprof_form *form;
    bool own; /* for edgeprof and `go tool pprof`: with notes, and mappings marked as symbolized */
    et_pprof pprof;
    struct et_strings strings;
    struct et_map functions; /* name << 32 | file -> function id */
    struct et_map mappings;  /* module << 1 | has lines -> mapping id */
    uint64_t *locations;     /* of each frame: location id, 0: not used yet */
    uint64_t root;           /* location id of form->root */
    size_t function_capacity, mapping_capacity, location_capacity, sample_capacity, label_capacity;
    enum et_measure types[2]; /* measure of each sample type */
};

static int64_t add_text(struct pprof_writer *w, uint32_t number)
{
    return et_intern(&w->strings, et_text(&w->profile->strings, number));
}

static uint64_t add_mapping(struct pprof_writer *w, uint32_t module, bool lines)
{
    uint64_t *id = et_map_at(&w->mappings, (uint64_t)module << 1 | lines);
    if (module && !*id) {
        const struct et_module *from = &w->profile->modules[module - 1];
        Perftools__Profiles__Mapping *mapping = et_alloc(1, sizeof *mapping);
        perftools__profiles__mapping__init(mapping);
        w->pprof.mapping =
            et_reserve(w->pprof.mapping, &w->mapping_capacity, w->pprof.n_mapping + 1, sizeof *w->pprof.mapping);
        w->pprof.mapping[w->pprof.n_mapping++] = mapping;
        mapping->id = *id = w->pprof.n_mapping;
        mapping->filename = add_text(w, from->path);
        mapping->build_id = add_text(w, from->build_id);
        mapping->has_functions = lines; /* all of its locations have a name */
        mapping->has_filenames = mapping->has_line_numbers = mapping->has_inline_frames = w->own;
    }
    return *id;
}

static uint64_t add_function(struct pprof_writer *w, const char *name, const char *file)
{
    int64_t name_at = et_intern(&w->strings, name), file_at = et_intern(&w->strings, file);
    uint64_t *id = et_map_at(&w->functions, (uint64_t)name_at << 32 | (uint64_t)file_at);
    if (!*id) {
        Perftools__Profiles__Function *function = et_alloc(1, sizeof *function);
        perftools__profiles__function__init(function);
        w->pprof.function =
            et_reserve(w->pprof.function, &w->function_capacity, w->pprof.n_function + 1, sizeof *w->pprof.function);
        w->pprof.function[w->pprof.n_function++] = function;
        function->id = *id = w->pprof.n_function;
        function->name = function->system_name = name_at;
        function->filename = file_at;
    }
    return *id;
}

static void add_line(void *context, const char *function, const char *file, uint32_t number)
{
    struct pprof_writer *w = context;
    Perftools__Profiles__Location *location = w->pprof.location[w->pprof.n_location - 1];
    Perftools__Profiles__Line *line = et_alloc(1, sizeof *line);
    perftools__profiles__line__init(line);
    size_t capacity = location->n_line;
    location->line = et_reserve(location->line, &capacity, location->n_line + 1, sizeof *location->line);
    location->line[location->n_line++] = line;
    line->function_id = add_function(w, function, file);
    line->line = number;
}

static Perftools__Profiles__Location *new_location(struct pprof_writer *w)
{
    Perftools__Profiles__Location *location = et_alloc(1, sizeof *location);
    perftools__profiles__location__init(location);
    w->pprof.location =
        et_reserve(w->pprof.location, &w->location_capacity, w->pprof.n_location + 1, sizeof *w->pprof.location);
    w->pprof.location[w->pprof.n_location++] = location;
    location->id = w->pprof.n_location;
    return location;
}

static uint64_t add_root(struct pprof_writer *w)
{
    if (!w->root) {
        w->root = new_location(w)->id;
        add_line(w, w->form->root, "", 0);
    }
    return w->root;
}

static uint64_t add_location(struct pprof_writer *w, uint32_t number)
{
    const struct et_frame *frame = &w->profile->frames[number];
    if (!w->locations[number]) {
        Perftools__Profiles__Location *location = new_location(w);
        w->locations[number] = location->id;
        location->address = frame->module ? frame->address : 0;
        et_profile_lines(w->profile, frame, w->form->bare, add_line, w);
        location->mapping_id = add_mapping(w, frame->module, location->n_line > 0);
    }
    return w->locations[number];
}

static void add_label(void *context, const char *key, const char *value)
{
    struct pprof_writer *w = context;
    Perftools__Profiles__Sample *sample = w->pprof.sample[w->pprof.n_sample];
    struct et_pprof_label wanted = {.text = value};
    if (!w->form->label(w->form->context, key, value, &wanted)) {
        return;
    }
    int64_t key_at = et_intern(&w->strings, wanted.key);
    for (size_t i = 0; i < sample->n_label; i++) {
        if (sample->label[i]->key == key_at) {
            return;
        }
    }
    Perftools__Profiles__Label *label = et_alloc(1, sizeof *label);
    perftools__profiles__label__init(label);
    label->key = key_at;
    label->str = wanted.text ? et_intern(&w->strings, wanted.text) : 0;
    label->num = wanted.text ? 0 : (int64_t)wanted.number;
    sample->label = et_reserve(sample->label, &w->label_capacity, sample->n_label + 1, sizeof *sample->label);
    sample->label[sample->n_label++] = label;
}

static void add_sample_stack(struct pprof_writer *w, Perftools__Profiles__Sample *sample, uint32_t node)
{
    const struct et_profile *p = w->profile;
    const bool root = w->form->root != NULL;
    size_t depth = 0, at = 0, most = w->form->depth ? w->form->depth - root : 0;
    for (size_t up = node; up; up = p->nodes[up].parent) {
        depth++;
    }
    size_t skipped = most && depth > most ? depth - most : 0;
    sample->n_location_id = depth - skipped + root;
    sample->location_id = et_alloc(sample->n_location_id, sizeof *sample->location_id);
    for (size_t up = node; up; up = p->nodes[up].parent, at++) {
        if (at >= skipped) {
            sample->location_id[at - skipped] = add_location(w, p->nodes[up].frame);
        }
    }
    if (root) {
        sample->location_id[depth - skipped] = add_root(w);
    }
}

static void write_sample(struct pprof_writer *w, const struct et_entry *entry)
{
    uint64_t values[2], any = 0;
    for (size_t i = 0; i < w->pprof.n_sample_type; i++) {
        values[i] = w->types[i] == ET_MEASURE_COUNT ? entry->count : entry->value;
        any |= values[i];
    }
    if (!any) {
        return;
    }
    Perftools__Profiles__Sample *sample = et_alloc(1, sizeof *sample);
    perftools__profiles__sample__init(sample);
    w->pprof.sample = et_reserve(w->pprof.sample, &w->sample_capacity, w->pprof.n_sample + 1, sizeof *w->pprof.sample);
    w->pprof.sample[w->pprof.n_sample] = sample;
    sample->n_value = w->pprof.n_sample_type;
    sample->value = et_alloc(sample->n_value, sizeof *sample->value);
    memcpy(sample->value, values, sample->n_value * sizeof *sample->value);
    add_sample_stack(w, sample, entry->node);
    w->label_capacity = 0;
    et_labels_each(et_text(&w->profile->strings, entry->labels), add_label, w);
    w->pprof.n_sample++;
}

static Perftools__Profiles__ValueType *value_type(struct pprof_writer *w, const char *type, const char *unit)
{
    Perftools__Profiles__ValueType *made = et_alloc(1, sizeof *made);
    perftools__profiles__value_type__init(made);
    made->type = et_intern(&w->strings, type);
    made->unit = et_intern(&w->strings, *unit ? unit : "count");
    return made;
}

static void add_type(struct pprof_writer *w, enum et_measure measure, const char *type, const char *unit)
{
    if (!*type) {
        return;
    }
    size_t at = w->pprof.n_sample_type++;
    w->types[at] = measure;
    w->pprof.sample_type[at] = value_type(w, type, unit);
    if (w->own && w->profile->measure == measure) {
        w->pprof.default_sample_type = w->pprof.sample_type[at]->type;
    }
}

/* A comment for data without a pprof field; source.c reads it. */
static void add_note(struct pprof_writer *w, size_t *capacity, const char *name, const char *text)
{
    struct et_buf note = {0};
    et_buf_printf(&note, "edgeprof %s: %s", name, text);
    w->pprof.comment = et_reserve(w->pprof.comment, capacity, w->pprof.n_comment + 1, sizeof *w->pprof.comment);
    w->pprof.comment[w->pprof.n_comment++] = et_intern(&w->strings, note.data);
    et_buf_free(&note);
}

static void add_notes(struct pprof_writer *w)
{
    const struct et_profile *p = w->profile;
    size_t capacity = 0;
    char number[24];
    add_note(w, &capacity, "service", et_text(&p->strings, p->service));
    add_note(w, &capacity, "kind", et_text(&p->strings, p->kind));
    snprintf(number, sizeof number, "%llu", (unsigned long long)p->samples);
    add_note(w, &capacity, "samples", number);
    snprintf(number, sizeof number, "%llu", (unsigned long long)p->processes);
    add_note(w, &capacity, "processes", number);
}

/* The count comes first, as in other pprof files. */
static void write_header(struct pprof_writer *w)
{
    const struct et_profile *p = w->profile;
    w->pprof.sample_type = et_alloc(2, sizeof *w->pprof.sample_type);
    add_type(w, ET_MEASURE_COUNT, w->form->count, "count");
    const char *unit = w->form->unit ? w->form->unit : et_text(&p->strings, p->value_unit);
    add_type(w, ET_MEASURE_VALUE, w->form->value, unit);
    if (w->pprof.n_sample_type == 0) { /* an unnamed sample type from another sender */
        add_type(w, ET_MEASURE_VALUE, "value", unit);
    }
    w->pprof.period_type = value_type(w, w->form->period, w->form->period_unit);
    w->pprof.period = p->period && p->period <= INT64_MAX ? (int64_t)p->period : 1;
    w->pprof.time_nanos = p->start_ns + (int64_t)w->form->shift_ns;
    w->pprof.duration_nanos = w->form->level ? 0 : p->end_ns - p->start_ns;
}

static void pack(struct pprof_writer *w, struct et_buf *out)
{
    w->pprof.string_table = w->strings.text;
    w->pprof.n_string_table = w->strings.count;
    size_t size = perftools__profiles__profile__get_packed_size(&w->pprof);
    uint8_t *bytes = et_alloc(size, 1);
    perftools__profiles__profile__pack(&w->pprof, bytes);
    et_buf_add(out, bytes, size);
    free(bytes);

    /* The message consists of separate allocations, as a decoder makes them. A heap copy is freed in one call. */
    et_pprof *whole = et_alloc(1, sizeof *whole);
    *whole = w->pprof;
    whole->string_table = NULL;
    whole->n_string_table = 0;
    et_pprof_free(whole);
    et_strings_free(&w->strings);
    et_map_free(&w->functions);
    et_map_free(&w->mappings);
    free(w->locations);
}

static size_t encode_profile(const struct et_profile *profile, const struct et_pprof_form *form, bool own,
                             struct et_buf *out)
{
    struct pprof_writer w = {.profile = profile, .form = form, .own = own};
    perftools__profiles__profile__init(&w.pprof);
    et_intern(&w.strings, "");
    w.locations = et_alloc(profile->frame_count, sizeof *w.locations);
    write_header(&w);
    if (own) {
        add_notes(&w);
    }
    for (size_t i = form->first; i < form->first + form->entries; i++) {
        write_sample(&w, &profile->entries[i]);
    }
    size_t samples = w.pprof.n_sample;
    pack(&w, out);
    return samples;
}

size_t et_pprof_encode_form(const struct et_profile *profile, const struct et_pprof_form *form, struct et_buf *out)
{
    return encode_profile(profile, form, false, out);
}

static bool copy_label(void *context, const char *key, const char *value, struct et_pprof_label *out)
{
    (void)context;
    (void)value;
    snprintf(out->key, sizeof out->key, "%s", key);
    return true;
}

void et_pprof_encode(const struct et_profile *p, struct et_buf *out)
{
    const char *name = et_text(&p->strings, p->kind), *unit = et_text(&p->strings, p->value_unit);
    const struct et_kind *kind = et_kind_named(name);
    bool counted = kind && kind->counts[0] && (p->counts || p->measure == ET_MEASURE_COUNT);
    struct et_pprof_form form = {
        .count = counted ? kind->count : "",
        .value = !kind            ? name
                 : kind->value[0] ? kind->value
                                  : kind->count,
        .period = kind ? kind->period : name,
        .period_unit = kind ? kind->period_unit : unit,
        .entries = p->entry_count,
        .label = copy_label,
    };
    encode_profile(p, &form, true, out);
}
