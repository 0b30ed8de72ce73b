/* See pprof_read.h: from a pprof to a profile; pprof_write.c has the other direction. */
#include "tools/formats/pprof_ids.h"
#include "tools/formats/pprof_read.h"
#include "tools/lib/labels.h"
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
        const Perftools__Profiles__Function *function =
            r->p->function[et_pprof_ids_find(&r->functions, from->function_id) - 1];
        frame.name = clean_text(r, function->name);
        frame.file = clean_text(r, function->filename);
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
    size_t depth = 0;
    for (size_t i = 0; i < sample->n_location_id; i++) {
        size_t index = et_pprof_ids_find(&r->locations, sample->location_id[i]) - 1;
        const Perftools__Profiles__Location *location = r->p->location[index];
        uint32_t *frames = &r->frames[r->first[index]];
        for (size_t line = 0; line < lines_of(location); line++) {
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
    if (kind->scale && entry->count > INT64_MAX / kind->scale) {
        return false;
    }
    entry->value = kind->scale ? entry->count * kind->scale : entry->value;
    return true;
}

static bool read_sample(struct pprof_reader *r, const Perftools__Profiles__Sample *sample,
                        const struct et_pprof_kind *kind)
{
    uint32_t stack[ET_MAX_DEPTH];
    struct et_entry entry = {.count = kind->count >= 0 ? (uint64_t)sample->value[kind->count] : 0,
                             .value = kind->value >= 0 ? (uint64_t)sample->value[kind->value] : 0};
    if (!et_pprof_values(kind, &entry)) {
        return false;
    }
    if (entry.value || entry.count) {
        entry.node = et_node_find(&r->nodes, stack, stack_of(r, sample, stack));
        entry.labels = labels_of(r, sample);
        et_profile_entry(r->profile, &entry);
    }
    return r->profile->values <= INT64_MAX && r->profile->counts <= INT64_MAX;
}

struct et_profile *et_pprof_begin(const et_pprof *p, const struct et_pprof_kind *kind)
{
    struct et_profile *profile = et_profile_new();
    profile->kind = et_intern(&profile->strings, kind->name);
    profile->value_unit = et_intern(&profile->strings, kind->unit);
    profile->period = p->period > 0 ? (uint64_t)p->period : 0;
    profile->start_ns = p->time_nanos;
    int64_t end = strtoll(et_pprof_note(p, "end"), NULL, 10), usual = p->time_nanos + p->duration_nanos;
    profile->ran_ns = p->duration_nanos;
    profile->end_ns = end >= p->time_nanos && end <= INT64_MAX / 2 ? end : usual;
    profile->profiles = 1;
    return profile;
}

static void begin_tables(struct pprof_reader *r)
{
    const et_pprof *p = r->p;
    size_t lines = 0;
    et_pprof_ids_begin(&r->mappings, p->n_mapping);
    et_pprof_ids_begin(&r->functions, p->n_function);
    et_pprof_ids_begin(&r->locations, p->n_location);
    r->texts = et_alloc(p->n_string_table, sizeof *r->texts);
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
}

static void free_tables(struct pprof_reader *r)
{
    et_pprof_ids_free(&r->mappings);
    et_pprof_ids_free(&r->functions);
    et_pprof_ids_free(&r->locations);
    et_map_free(&r->modules);
    free(r->texts);
    free(r->first);
    free(r->frames);
    et_node_finder_free(&r->nodes);
}

struct et_profile *et_pprof_profile(const et_pprof *p, const struct et_pprof_kind *kind, const char **why)
{
    struct et_profile *profile = et_pprof_begin(p, kind);
    struct pprof_reader r = {.p = p, .profile = profile, .nodes = {.profile = profile}};
    bool ok = true;
    begin_tables(&r);
    int samples = et_pprof_samples_type(p, kind);
    for (size_t i = 0; i < p->n_sample && ok; i++) {
        profile->samples += samples >= 0 ? (uint64_t)p->sample[i]->value[samples] : 0;
        ok = read_sample(&r, p->sample[i], kind);
    }
    free_tables(&r);
    if (!ok) {
        *why = ET_PPROF_TOO_LARGE;
        et_profile_free(r.profile);
        return NULL;
    }
    et_profile_show(r.profile, ET_MEASURE_DEFAULT);
    return r.profile;
}
