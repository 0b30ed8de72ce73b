/* See otlp_group.h: makes the profiles of a group. */
#include "tools/formats/otlp_group.h"
#include "tools/lib/labels.h"
#include "tools/lib/native_name.h"
#include "tools/profile/node_finder.h"

#include <stdlib.h>
#include <string.h>

struct otlp_filler {
    const struct et_otlp_source *source;
    const struct et_otlp_group *group;
    struct et_profile *profile;
    uint32_t *frames;      /* of each place; 0: not made yet */
    struct et_map modules; /* mapping -> module */
    struct et_node_finder nodes;
};

/* OTLP requires one of these ids. The second is a hash of the file's ends. */
static void add_build_id(const struct et_otlp_source *source, const Otlp__Mapping *mapping, struct et_buf *id)
{
    static const char *const keys[] = {"process.executable.build_id.gnu", "process.executable.build_id.htlhash"};
    for (size_t k = 0; k < sizeof keys / sizeof *keys && id->size == 0; k++) {
        for (size_t i = 0; i < mapping->n_attribute_indices && id->size == 0; i++) {
            int32_t index = mapping->attribute_indices[i];
            if (strcmp(et_otlp_key(source, index), keys[k]) == 0) {
                et_otlp_value(source->d, source->d->attribute_table[index]->value, 0, id);
            }
        }
    }
}

static uint32_t module_of(struct otlp_filler *f, int32_t mapping)
{
    uint64_t *module = et_otlp_is_mapping(f->source, mapping) ? et_map_at(&f->modules, (uint64_t)mapping) : NULL;
    if (module && !*module) {
        const Otlp__Mapping *from = f->source->d->mapping_table[mapping];
        struct et_buf id = {0};
        et_buf_text(&id, "");
        add_build_id(f->source, from, &id);
        *module = et_profile_sent_module(f->profile, id.data, et_otlp_text(f->source, from->filename_strindex));
        et_buf_free(&id);
    }
    return module ? (uint32_t)*module : 0;
}

static uint32_t intern_clean(struct otlp_filler *f, int32_t index)
{
    const char *raw = et_otlp_text(f->source, index);
    size_t size = strlen(raw);
    char *clean = et_is_plain(raw, size) ? NULL : et_clean(raw, size);
    uint32_t number = et_intern(&f->profile->strings, clean ? clean : raw);
    free(clean);
    return number;
}

/* line: NULL for a location without lines. */
static uint32_t make_frame(struct otlp_filler *f, const Otlp__Location *location, const Otlp__Line *line)
{
    struct et_frame frame = {.module = module_of(f, location->mapping_index), .address = location->address};
    if (line) {
        const Otlp__Function *function = f->source->d->function_table[line->function_index];
        frame.name = et_sent_name(&f->profile->strings, et_otlp_text(f->source, function->name_strindex),
                                  et_otlp_text(f->source, function->system_name_strindex),
                                  et_otlp_text(f->source, function->filename_strindex));
        frame.file = intern_clean(f, function->filename_strindex);
        frame.line = line->line > 0 && line->line < UINT32_MAX ? (uint32_t)line->line : 0;
        frame.address = 0;
    } else if (et_otlp_is_mapping(f->source, location->mapping_index)) {
        const Otlp__Mapping *mapping = f->source->d->mapping_table[location->mapping_index];
        frame.address += mapping->file_offset - mapping->memory_start;
    }
    if (!frame.name && !frame.module) {
        frame.address = ET_FRAME_UNKNOWN;
    }
    return et_profile_frame(f->profile, frame);
}

/* Appends a frame. A stack that is too deep loses frames next to the root; a special frame replaces them. False: it is
 * full. */
static bool push_frame(struct otlp_filler *f, const Otlp__Location *location, const Otlp__Line *line, uint32_t *place,
                       uint32_t *stack, size_t *depth)
{
    if (*depth == ET_MAX_DEPTH - 1) {
        stack[(*depth)++] = et_profile_frame(f->profile, (struct et_frame){.address = ET_FRAME_DEEP});
        return false;
    }
    *place = *place ? *place : make_frame(f, location, line);
    stack[(*depth)++] = *place;
    return true;
}

/* Writes the frames, leaf first, and returns their number. */
static size_t read_stack(struct otlp_filler *f, const Otlp__Stack *from, uint32_t *stack)
{
    size_t depth = 0;
    bool room = true;
    for (size_t i = 0; i < from->n_location_indices && room; i++) {
        int32_t index = from->location_indices[i];
        const Otlp__Location *location = f->source->d->location_table[index];
        uint32_t *place = &f->frames[*et_map_find(&f->group->locations, (uint64_t)index) - 1];
        size_t lines = et_otlp_lines(f->source, location);
        if (!lines) {
            room = push_frame(f, location, NULL, place, stack, &depth);
        }
        for (size_t k = 0; lines && room; k++) {
            if (et_otlp_is_function(f->source, location->lines[k]->function_index)) {
                room = push_frame(f, location, location->lines[k], place++, stack, &depth);
                lines--;
            }
        }
    }
    return depth;
}

static void add_label(void *context, const char *key, const char *value)
{
    et_labels_add(context, strcmp(key, "profile_id") == 0 ? ET_SPAN_ID : key, value);
}

static uint32_t read_labels(struct otlp_filler *f, const struct et_otlp_row *row)
{
    struct et_labels labels = {0};
    et_otlp_for_labels(f->source, row, add_label, &labels);
    char *lines = et_labels_join(&labels);
    uint32_t number = et_intern(&f->profile->strings, lines);
    free(lines);
    return number;
}

static uint64_t value_at(const struct et_otlp_group *g, int type, size_t row)
{
    return type >= 0 && row < g->capacity[type] ? g->values[type][row] : 0;
}

/* False: the values are too large. */
static bool fill_row(struct otlp_filler *f, const struct et_pprof_kind *kind, size_t row)
{
    uint32_t stack[ET_MAX_DEPTH];
    const struct et_otlp_row *from = &f->group->rows[row];
    struct et_entry entry = {.count = value_at(f->group, kind->count, row),
                             .value = value_at(f->group, kind->value, row)};
    if (!et_pprof_values(kind, &entry)) {
        return false;
    }
    if (entry.value || entry.count) {
        entry.node = et_node_find(&f->nodes, stack, read_stack(f, et_otlp_stack(f->source, from->sample), stack));
        entry.labels = read_labels(f, from);
        et_profile_entry(f->profile, &entry);
    }
    return f->profile->values <= INT64_MAX && f->profile->counts <= INT64_MAX;
}

#define BAD_ROWS "OTLP profiles: samples with too many frames or labels are left out"

/* The profile of one kind; NULL: its values are too large, or nothing is left of it. header: the group's types and
 * times. */
static struct et_profile *make_profile(struct et_otlp_source *source, const struct et_otlp_group *g,
                                       const et_pprof *header, const struct et_pprof_kind *kind)
{
    struct et_profile *profile = et_pprof_begin(header, kind);
    struct otlp_filler f = {.source = source,
                            .group = g,
                            .profile = profile,
                            .frames = et_alloc(g->places + 1, sizeof *f.frames),
                            .nodes = {.profile = profile}};
    int samples = et_pprof_samples_type(header, kind);
    size_t broken = 0;
    bool ok = true;
    for (size_t row = 0; row + 1 < g->keys.count && ok; row++) {
        broken += g->rows[row].broken;
        profile->samples += g->rows[row].broken ? 0 : value_at(g, samples, row);
        ok = g->rows[row].broken || (profile->samples <= INT64_MAX && fill_row(&f, kind, row));
    }
    free(f.frames);
    et_map_free(&f.modules);
    et_node_finder_free(&f.nodes);
    if (source->why->size == 0) {
        et_buf_text(source->why, !ok ? ET_PPROF_TOO_LARGE : broken ? BAD_ROWS : "");
    }
    if (!ok || (broken && !profile->entry_count)) {
        et_profile_free(profile);
        return NULL;
    }
    et_profile_show(profile, ET_MEASURE_DEFAULT);
    return profile;
}

/* The group's types and times as a pprof without samples, whose kinds pprof_read.h finds. */
struct otlp_header {
    et_pprof pprof;
    Perftools__Profiles__ValueType types[ET_PPROF_KINDS], period, *type_at[ET_PPROF_KINDS];
    char *texts[2 * ET_PPROF_KINDS + 3];
};

static int64_t put_text(struct otlp_header *header, const char *text)
{
    header->texts[header->pprof.n_string_table] = (char *)(uintptr_t)text;
    return (int64_t)header->pprof.n_string_table++;
}

static void begin_header(const struct et_otlp_source *source, const struct et_otlp_group *g, struct otlp_header *header)
{
    uint64_t factor;
    (void)et_otlp_period_unit(source, g->first, &factor);
    bool fits = g->first->period >= 0 && (uint64_t)g->first->period <= INT64_MAX / factor;
    *header = (struct otlp_header){.pprof = {.n_sample_type = g->type_count,
                                             .sample_type = header->type_at,
                                             .string_table = header->texts,
                                             .time_nanos = (int64_t)g->first->time_unix_nano,
                                             .duration_nanos = (int64_t)g->first->duration_nano,
                                             .period = fits ? g->first->period * (int64_t)factor : 0}};
    put_text(header, "");
    for (size_t i = 0; i < g->type_count; i++) {
        header->types[i].type = put_text(header, g->types[i].type);
        header->types[i].unit = put_text(header, g->types[i].unit);
        header->type_at[i] = &header->types[i];
    }
    if (g->types[0].period[0]) {
        header->period.type = put_text(header, g->types[0].period);
        header->period.unit = put_text(header, g->types[0].period_unit);
        header->pprof.period_type = &header->period;
    }
}

void et_otlp_finish_group(struct et_otlp_source *source, const struct et_otlp_group *g, const char *tags,
                          et_otlp_take *take, void *context)
{
    struct et_pprof_kind kinds[ET_PPROF_KINDS];
    struct otlp_header header;
    begin_header(source, g, &header);
    size_t count = et_pprof_sent_kinds(&header.pprof, g->types[0].family, kinds);
    for (size_t i = 0; i < count; i++) {
        struct et_profile *profile = make_profile(source, g, &header.pprof, &kinds[i]);
        if (profile) {
            take(context, g->service, tags, profile);
        } else {
            source->refused++;
        }
    }
}
