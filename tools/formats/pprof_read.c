/* See pprof_read.h: from a pprof to a profile; pprof_write.c has the other direction. */
#include "tools/formats/pprof_drop.h"
#include "tools/formats/pprof_ids.h"
#include "tools/formats/pprof_read.h"
#include "tools/lib/labels.h"
#include "tools/lib/native_name.h"
#include "tools/profile/node_finder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- conversion ---- */

struct pprof_reader {
    const et_pprof *p;
    struct et_profile *profile;
    struct et_pprof_ids mappings, functions, locations;
    uint32_t *texts;       /* string -> string number of the profile + 1 */
    uint32_t *names;       /* function index -> the same for its name */
    size_t *dropped;       /* et_pprof_dropped() */
    size_t *first;         /* location index -> the first of its places in `frames` */
    uint32_t *frames;      /* of each line of each location, or of the location; 0: not made yet */
    struct et_map modules; /* mapping id -> module */
    struct et_node_finder nodes;
};

static uint32_t clean_text(struct pprof_reader *r, int64_t text)
{
    uint32_t *known = &r->texts[text];
    if (!*known) {
        const char *raw = r->p->string_table[text];
        size_t size = strlen(raw);
        char *clean = et_is_plain(raw, size) ? NULL : et_clean(raw, size);
        *known = et_intern(&r->profile->strings, clean ? clean : raw) + 1;
        free(clean);
    }
    return *known - 1;
}

static uint32_t function_name(struct pprof_reader *r, size_t index)
{
    char **texts = r->p->string_table;
    const Perftools__Profiles__Function *function = r->p->function[index];
    if (!r->names[index]) {
        bool system = (uint64_t)function->system_name < r->p->n_string_table; /* not checked: most have no use for it */
        r->names[index] = et_sent_name(&r->profile->strings, texts[function->name],
                                       system ? texts[function->system_name] : "", texts[function->filename]) +
                          1;
    }
    return r->names[index] - 1;
}

static const Perftools__Profiles__Mapping *find_mapping(const struct pprof_reader *r, uint64_t id)
{
    return r->p->mapping[et_pprof_ids_find(&r->mappings, id) - 1];
}

static uint32_t module_of(struct pprof_reader *r, uint64_t mapping_id)
{
    uint64_t *module = mapping_id ? et_map_at(&r->modules, mapping_id) : NULL;
    if (module && !*module) {
        const Perftools__Profiles__Mapping *mapping = find_mapping(r, mapping_id);
        *module = et_profile_sent_module(r->profile, r->p->string_table[mapping->build_id],
                                         r->p->string_table[mapping->filename]);
    }
    return module ? (uint32_t)*module : 0;
}

uint64_t et_pprof_elf_address(const Perftools__Profiles__Mapping *mapping, uint64_t address)
{
    return address - mapping->memory_start + mapping->file_offset;
}

static uint64_t elf_address(struct pprof_reader *r, const Perftools__Profiles__Location *location)
{
    if (!location->mapping_id) {
        return location->address;
    }
    return et_pprof_elf_address(find_mapping(r, location->mapping_id), location->address);
}

/* A location without lines is a frame, too. */
static size_t lines_of(const Perftools__Profiles__Location *location)
{
    enum { MOST = 1 << 16 };
    return location->n_line == 0 ? 1 : location->n_line < MOST ? location->n_line : MOST;
}

static uint32_t make_frame(struct pprof_reader *r, const Perftools__Profiles__Location *location, size_t line)
{
    struct et_frame frame = {.module = module_of(r, location->mapping_id), .address = elf_address(r, location)};
    if (line < location->n_line) {
        const Perftools__Profiles__Line *from = location->line[line];
        size_t function = et_pprof_ids_find(&r->functions, from->function_id) - 1;
        frame.name = function_name(r, function);
        frame.file = clean_text(r, r->p->function[function]->filename);
        frame.line = from->line > 0 && from->line < UINT32_MAX ? (uint32_t)from->line : 0;
        frame.address = 0;
    }
    if (!frame.name && !frame.module) {
        frame.address = ET_FRAME_UNKNOWN;
    }
    return et_profile_frame(r->profile, frame);
}

/* Writes the sample's frames, leaf first, and returns their number. A stack that is too deep loses frames next to the
 * root; a special frame replaces them. */
static size_t stack_of(struct pprof_reader *r, const Perftools__Profiles__Sample *sample, uint32_t *stack)
{
    size_t depth = 0, first = et_pprof_first_location(r->p, &r->locations, r->dropped, sample);
    for (size_t i = first; i < sample->n_location_id; i++) {
        size_t index = et_pprof_ids_find(&r->locations, sample->location_id[i]) - 1;
        const Perftools__Profiles__Location *location = r->p->location[index];
        uint32_t *frames = &r->frames[r->first[index]];
        size_t dropped = r->dropped && r->dropped[index] < location->n_line ? r->dropped[index] : 0;
        for (size_t line = dropped; line < lines_of(location); line++) {
            if (depth == ET_MAX_DEPTH - 1) {
                stack[depth++] = et_profile_frame(r->profile, (struct et_frame){.address = ET_FRAME_DEEP});
                return depth;
            }
            frames[line] = frames[line] ? frames[line] : make_frame(r, location, line);
            stack[depth++] = frames[line];
        }
    }
    return depth;
}

/* ---- samples ---- */

static void add_label(const et_pprof *p, const Perftools__Profiles__Label *label, struct et_labels *labels)
{
    const char *key = p->string_table[label->key], *text = p->string_table[label->str];
    struct et_buf value = {0};
    if (!*key || (!*text && !label->num)) {
        return;
    }
    et_buf_text(&value, text);
    if (!*text) {
        const char *unit = p->string_table[label->num_unit];
        et_buf_printf(&value, "%lld%s%s", (long long)label->num, *unit ? " " : "", unit);
    }
    et_labels_add(labels, strcmp(key, "profile_id") == 0 ? ET_SPAN_ID : key, value.data);
    et_buf_free(&value);
}

static uint32_t labels_of(struct pprof_reader *r, const Perftools__Profiles__Sample *sample)
{
    struct et_labels labels = {0};
    if (sample->n_label == 0) {
        return 0;
    }
    for (size_t i = 0; i < sample->n_label; i++) {
        add_label(r->p, sample->label[i], &labels);
    }
    char *lines = et_labels_join(&labels);
    uint32_t number = et_intern(&r->profile->strings, lines);
    free(lines);
    return number;
}

bool et_pprof_values(const struct et_pprof_kind *kind, struct et_entry *entry)
{
    uint64_t number = kind->scale ? entry->count : entry->value, factor = kind->scale ? kind->scale : kind->factor;
    bool fits = number <= INT64_MAX / factor;
    entry->value = fits ? number * factor : 0;
    return fits;
}

/* The sample's value of the type, -1: none. A value below zero becomes UINT64_MAX, which no sum can have. */
static uint64_t value_of(const Perftools__Profiles__Sample *sample, int type)
{
    return type < 0 ? 0 : sample->value[type] < 0 ? UINT64_MAX : (uint64_t)sample->value[type];
}

/* Returns NULL or an error. */
static const char *read_sample(struct pprof_reader *r, const Perftools__Profiles__Sample *sample,
                               const struct et_pprof_kind *kind, int samples)
{
    uint32_t stack[ET_MAX_DEPTH];
    struct et_entry entry = {.count = value_of(sample, kind->count), .value = value_of(sample, kind->value)};
    uint64_t number = value_of(sample, samples);
    if (entry.count == UINT64_MAX || entry.value == UINT64_MAX || number == UINT64_MAX) {
        return ET_PPROF_BELOW_ZERO;
    }
    if (!et_pprof_values(kind, &entry)) {
        return ET_PPROF_TOO_LARGE;
    }
    r->profile->samples += number;
    if (entry.value || entry.count) {
        entry.node = et_node_find(&r->nodes, stack, stack_of(r, sample, stack));
        entry.labels = labels_of(r, sample);
        et_profile_entry(r->profile, &entry);
    }
    bool fits = r->profile->values <= INT64_MAX && r->profile->counts <= INT64_MAX && r->profile->samples <= INT64_MAX;
    return fits ? NULL : ET_PPROF_TOO_LARGE;
}

struct et_profile *et_pprof_begin(const et_pprof *p, const struct et_pprof_kind *kind)
{
    struct et_profile *profile = et_profile_new();
    profile->kind = et_intern(&profile->strings, kind->name);
    profile->value_unit = et_intern(&profile->strings, kind->unit);
    profile->period = et_pprof_period(p);
    profile->start_ns = p->time_nanos;
    int64_t end = strtoll(et_pprof_note(p, "end"), NULL, 10), usual = p->time_nanos + p->duration_nanos;
    profile->ran_ns = p->duration_nanos;
    profile->end_ns = end >= p->time_nanos && end <= INT64_MAX / 2 ? end : usual;
    profile->profiles = 1;
    return profile;
}

static const char *name_to_match(void *context, size_t function)
{
    struct pprof_reader *r = context;
    return et_text(&r->profile->strings, function_name(r, function));
}

static void begin_tables(struct pprof_reader *r)
{
    const et_pprof *p = r->p;
    size_t lines = 0;
    et_pprof_ids_begin(&r->mappings, p->n_mapping);
    et_pprof_ids_begin(&r->functions, p->n_function);
    et_pprof_ids_begin(&r->locations, p->n_location);
    r->texts = et_alloc(p->n_string_table, sizeof *r->texts);
    r->names = et_alloc(p->n_function, sizeof *r->names);
    r->first = et_alloc(p->n_location, sizeof *r->first);
    for (size_t i = 0; i < p->n_mapping; i++) {
        et_pprof_ids_add(&r->mappings, p->mapping[i]->id, i);
    }
    for (size_t i = 0; i < p->n_function; i++) {
        et_pprof_ids_add(&r->functions, p->function[i]->id, i);
    }
    for (size_t i = 0; i < p->n_location; i++) {
        et_pprof_ids_add(&r->locations, p->location[i]->id, i);
        r->first[i] = lines;
        lines += lines_of(p->location[i]);
    }
    r->frames = et_alloc(lines, sizeof *r->frames);
    r->dropped = et_pprof_dropped(p, &r->functions, name_to_match, r);
}

static void free_tables(struct pprof_reader *r)
{
    et_pprof_ids_free(&r->mappings);
    et_pprof_ids_free(&r->functions);
    et_pprof_ids_free(&r->locations);
    et_map_free(&r->modules);
    free(r->texts);
    free(r->names);
    free(r->dropped);
    free(r->first);
    free(r->frames);
    et_node_finder_free(&r->nodes);
}

struct et_profile *et_pprof_profile(const et_pprof *p, const struct et_pprof_kind *kind, const char **why)
{
    struct et_profile *profile = et_pprof_begin(p, kind);
    struct pprof_reader r = {.p = p, .profile = profile, .nodes = {.profile = profile}};
    const char *wrong = NULL;
    begin_tables(&r);
    int samples = et_pprof_samples_type(p, kind);
    for (size_t i = 0; i < p->n_sample && !wrong; i++) {
        wrong = p->sample[i]->n_value ? read_sample(&r, p->sample[i], kind, samples) : NULL;
    }
    free_tables(&r);
    if (wrong) {
        *why = wrong;
        et_profile_free(r.profile);
        return NULL;
    }
    et_profile_show(r.profile, ET_MEASURE_DEFAULT);
    return r.profile;
}
