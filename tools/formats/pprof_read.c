/* See pprof_read.h: the reading half; pprof_write.c has the other. Decoding has a memory budget. */
#include "tools/formats/pprof_read.h"
#include "tools/formats/pprof_wire.h"
#include "tools/formats/protobuf_budget.h"
#include "tools/lib/labels.h"
#include "tools/profile/node_finder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t DECODE_BUDGET = (size_t)192 << 20;

void et_pprof_free(et_pprof *pprof)
{
    ProtobufCAllocator allocator = et_budget_allocator(NULL);
    perftools__profiles__profile__free_unpacked(pprof, &allocator);
}

/* ---- ids ---- */

/* Index + 1 of each id. Most senders count from 1. */
struct pprof_ids {
    uint32_t *dense;
    size_t size;
    struct et_map sparse; /* ids from `size` on */
};

static void begin_ids(struct pprof_ids *ids, size_t count)
{
    ids->size = count + count / 2 + 2;
    ids->dense = et_alloc(ids->size, sizeof *ids->dense);
}

static void free_ids(struct pprof_ids *ids)
{
    free(ids->dense);
    et_map_free(&ids->sparse);
}

/* Returns false for id 0, and for an id that is already there. */
static bool add_id(struct pprof_ids *ids, uint64_t id, size_t index)
{
    if (id < ids->size) {
        bool fresh = id != 0 && ids->dense[id] == 0;
        ids->dense[id] = (uint32_t)index + 1;
        return fresh;
    }
    uint64_t *at = et_map_at(&ids->sparse, id);
    bool fresh = *at == 0;
    *at = index + 1;
    return fresh;
}

/* Index + 1; 0: there is no such id. */
static inline size_t find_id(const struct pprof_ids *ids, uint64_t id)
{
    if (id < ids->size) {
        return ids->dense[id];
    }
    const uint64_t *at = et_map_find(&ids->sparse, id);
    return at ? (size_t)*at : 0;
}

/* ---- checks ---- */

struct pprof_check {
    const et_pprof *p;
    struct pprof_ids mappings, functions, locations;
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
        if (!add_id(&c->mappings, mapping->id, i) || !text_ok(c->p, mapping->filename) ||
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
        if (!add_id(&c->functions, function->id, i) || !text_ok(c->p, function->name) ||
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
        if (!add_id(&c->locations, location->id, i) ||
            (location->mapping_id && !find_id(&c->mappings, location->mapping_id))) {
            return false;
        }
        for (size_t k = 0; k < location->n_line; k++) {
            if (!find_id(&c->functions, location->line[k]->function_id)) {
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

static bool samples_ok(struct pprof_check *c)
{
    for (size_t i = 0; i < c->p->n_sample; i++) {
        const Perftools__Profiles__Sample *sample = c->p->sample[i];
        if (sample->n_value != c->p->n_sample_type || sample->n_location_id > ET_PPROF_FRAMES ||
            !labels_ok(c->p, sample)) {
            return false;
        }
        for (size_t k = 0; k < sample->n_location_id; k++) {
            if (!find_id(&c->locations, sample->location_id[k])) {
                return false;
            }
        }
        for (size_t k = 0; k < sample->n_value; k++) {
            if (sample->value[k] < 0) {
                return false;
            }
        }
    }
    return true;
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
           : !samples_ok(c)   ? ET_PPROF_BAD_SAMPLE
                              : NULL;
}

/* Returns NULL, or what is wrong. */
static const char *check_pprof(const et_pprof *pprof)
{
    struct pprof_check check = {.p = pprof};
    begin_ids(&check.mappings, pprof->n_mapping);
    begin_ids(&check.functions, pprof->n_function);
    begin_ids(&check.locations, pprof->n_location);
    const char *wrong = find_error(&check);
    free_ids(&check.mappings);
    free_ids(&check.functions);
    free_ids(&check.locations);
    return wrong;
}

static const char NOT_PPROF[] = "not a pprof profile";

et_pprof *et_pprof_decode(const void *bytes, size_t size, const char **why)
{
    size_t left = DECODE_BUDGET;
    ProtobufCAllocator allocator = et_budget_allocator(&left);
    et_pprof *pprof = size ? perftools__profiles__profile__unpack(&allocator, size, bytes) : NULL;
    const char *wrong = pprof ? check_pprof(pprof) : NOT_PPROF;
    *why = wrong ? wrong : *why;
    if (wrong && pprof) {
        et_pprof_free(pprof);
    }
    return wrong ? NULL : pprof;
}

et_pprof *et_pprof_decode_in(struct et_arena *arena, const void *bytes, size_t size, const char **why)
{
    arena->left = DECODE_BUDGET;
    et_pprof *pprof = size ? et_pprof_unpack(arena, bytes, size) : NULL;
    const char *wrong = pprof ? check_pprof(pprof) : NOT_PPROF;
    *why = wrong ? wrong : *why;
    return wrong ? NULL : pprof;
}

/* ---- kinds ---- */

static const char *type_name(const et_pprof *p, size_t type)
{
    return p->string_table[p->sample_type[type]->type];
}

static const char *unit_name(const et_pprof *p, size_t type)
{
    return p->string_table[p->sample_type[type]->unit];
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

/* The value per sample where only samples were counted. */
static uint64_t sample_period(const et_pprof *p)
{
    bool cpu = p->period_type && strcmp(p->string_table[p->period_type->type], "cpu") == 0 &&
               strcmp(p->string_table[p->period_type->unit], "nanoseconds") == 0;
    return cpu && p->period > 0 ? (uint64_t)p->period : 0;
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
    kind->value = (int)type;
}

static struct et_pprof_kind *kind_entry(struct et_pprof_kind *kinds, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++) {
        if (name && strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    kinds[*count] = (struct et_pprof_kind){.value = -1, .count = -1};
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
    kind->value = (int)type;
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
    int *place = counts ? &kind->count : &kind->value;
    snprintf(kind->unit, sizeof kind->unit, "%s", known->unit);
    *place = *place < 0 ? (int)type : *place;
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

/* ---- conversion ---- */

struct pprof_reader {
    const et_pprof *p;
    struct et_profile *profile;
    struct pprof_ids mappings, functions, locations;
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
    return r->p->mapping[find_id(&r->mappings, id) - 1];
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
        const Perftools__Profiles__Function *function = r->p->function[find_id(&r->functions, from->function_id) - 1];
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
        size_t index = find_id(&r->locations, sample->location_id[i]) - 1;
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
    profile->end_ns = p->time_nanos + p->duration_nanos;
    profile->profiles = 1;
    return profile;
}

static void begin_tables(struct pprof_reader *r)
{
    const et_pprof *p = r->p;
    size_t lines = 0;
    begin_ids(&r->mappings, p->n_mapping);
    begin_ids(&r->functions, p->n_function);
    begin_ids(&r->locations, p->n_location);
    r->texts = et_alloc(p->n_string_table, sizeof *r->texts);
    r->first = et_alloc(p->n_location, sizeof *r->first);
    for (size_t i = 0; i < p->n_mapping; i++) {
        add_id(&r->mappings, p->mapping[i]->id, i);
    }
    for (size_t i = 0; i < p->n_function; i++) {
        add_id(&r->functions, p->function[i]->id, i);
    }
    for (size_t i = 0; i < p->n_location; i++) {
        add_id(&r->locations, p->location[i]->id, i);
        r->first[i] = lines;
        lines += lines_of(p->location[i]);
    }
    r->frames = et_alloc(lines, sizeof *r->frames);
}

static void free_tables(struct pprof_reader *r)
{
    free_ids(&r->mappings);
    free_ids(&r->functions);
    free_ids(&r->locations);
    et_map_free(&r->modules);
    free(r->texts);
    free(r->first);
    free(r->frames);
    et_node_finder_free(&r->nodes);
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
