/*
 * See pprof_read.h: the writing half. Ids are 1..n in table order, as strict readers require. Tables have no unused
 * elements: write_sample() adds a location, its mapping and its functions when a sample first needs them.
 *
 * Frames with and without lines of one module have separate mappings, because servers treat a whole mapping as
 * symbolized or not.
 */
#include "tools/formats/pprof_read.h"
#include "tools/formats/protobuf.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_TYPE = 1, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING_TABLE };
enum { TIME_NANOS = 9, DURATION_NANOS, PERIOD_TYPE, PERIOD, COMMENT, DEFAULT_SAMPLE_TYPE };

struct pprof_writer {
    const struct et_profile *profile;
    const struct et_pprof_form *form;
    bool own; /* for edgeprof and `go tool pprof`: with notes, and mappings marked as symbolized */
    struct et_strings strings;
    struct et_buf types, samples, mappings, locations, functions, period_type; /* encoded */
    struct et_buf message, numbers, lines;                                     /* under way */
    size_t sample_count, mapping_count, location_count, function_count, type_count;
    struct et_map function_ids;  /* name << 32 | file -> function id */
    struct et_map mapping_ids;   /* module << 1 | has lines -> mapping id */
    uint64_t *location_ids;      /* of each frame; 0: not used yet */
    uint64_t root;               /* location id of form->root */
    enum et_measure measures[2]; /* of each sample type */
    uint64_t default_type;
    uint64_t *keys; /* of the sample's labels */
    size_t key_count, key_capacity;
    uint64_t sums[2]; /* of each type; a reader's have 63 bits */
};

static uint64_t add_text(struct pprof_writer *w, uint32_t number)
{
    return et_intern(&w->strings, et_text(&w->profile->strings, number));
}

/* Appends the message under way, and begins the next. */
static void end_message(struct pprof_writer *w, struct et_buf *out, unsigned field)
{
    et_put_message(out, field, &w->message);
    w->message.size = 0;
}

static uint64_t add_mapping(struct pprof_writer *w, uint32_t module, bool lines)
{
    uint64_t *id = et_map_at(&w->mapping_ids, (uint64_t)module << 1 | lines);
    if (module && !*id) {
        const struct et_module *from = &w->profile->modules[module - 1];
        *id = ++w->mapping_count;
        et_put_number(&w->message, 1, *id);
        et_put_number(&w->message, 5, add_text(w, from->path));
        et_put_number(&w->message, 6, add_text(w, from->build_id));
        et_put_number(&w->message, 7, lines);            /* all of its locations have a name */
        for (unsigned field = 8; field <= 10; field++) { /* files, lines, inlined calls */
            et_put_number(&w->message, field, w->own);
        }
        end_message(w, &w->mappings, MAPPING);
    }
    return *id;
}

static uint64_t add_function(struct pprof_writer *w, const char *name, const char *file)
{
    uint64_t name_at = et_intern(&w->strings, name), file_at = et_intern(&w->strings, file);
    uint64_t *id = et_map_at(&w->function_ids, name_at << 32 | file_at);
    if (!*id) {
        *id = ++w->function_count;
        et_put_number(&w->message, 1, *id);
        et_put_number(&w->message, 2, name_at);
        et_put_number(&w->message, 3, name_at); /* the system's name */
        et_put_number(&w->message, 4, file_at);
        end_message(w, &w->functions, FUNCTION);
    }
    return *id;
}

/* Adds to the lines of the location under way. */
static void add_line(void *context, const char *function, const char *file, uint32_t number)
{
    struct pprof_writer *w = context;
    uint64_t id = add_function(w, function, file);
    et_put_number(&w->message, 1, id);
    et_put_number(&w->message, 2, number);
    end_message(w, &w->lines, 4);
}

/* Ends the location under way. Returns its id. */
static uint64_t end_location(struct pprof_writer *w, uint64_t mapping, uint64_t address)
{
    et_put_number(&w->message, 1, ++w->location_count);
    et_put_number(&w->message, 2, mapping);
    et_put_number(&w->message, 3, address);
    et_buf_add(&w->message, w->lines.data, w->lines.size);
    end_message(w, &w->locations, LOCATION);
    w->lines.size = 0;
    return w->location_count;
}

static uint64_t add_root(struct pprof_writer *w)
{
    if (!w->root) {
        add_line(w, w->form->root, "", 0);
        w->root = end_location(w, 0, 0);
    }
    return w->root;
}

static uint64_t add_location(struct pprof_writer *w, uint32_t number)
{
    const struct et_frame *frame = &w->profile->frames[number];
    if (!w->location_ids[number]) {
        et_profile_lines(w->profile, frame, w->form->bare, add_line, w);
        uint64_t mapping = add_mapping(w, frame->module, w->lines.size > 0);
        w->location_ids[number] = end_location(w, mapping, frame->module ? frame->address : 0);
    }
    return w->location_ids[number];
}

/* Into the sample under way. */
static void add_label(void *context, const char *key, const char *value)
{
    struct pprof_writer *w = context;
    struct et_pprof_label wanted = {.text = value};
    struct et_buf label = {0};
    if (!w->form->label(w->form->context, key, value, &wanted)) {
        return;
    }
    uint64_t key_at = et_intern(&w->strings, wanted.key);
    for (size_t i = 0; i < w->key_count; i++) {
        if (w->keys[i] == key_at) {
            return;
        }
    }
    w->keys = et_reserve(w->keys, &w->key_capacity, w->key_count + 1, sizeof *w->keys);
    w->keys[w->key_count++] = key_at;
    et_put_number(&label, 1, key_at);
    et_put_number(&label, 2, wanted.text ? et_intern(&w->strings, wanted.text) : 0);
    et_put_number(&label, 3, wanted.text ? 0 : wanted.number);
    et_put_message(&w->message, 3, &label);
    et_buf_free(&label);
}

/* Appends to w->numbers, which has room for it. */
static inline void put_id(struct pprof_writer *w, uint64_t id)
{
    char *at = w->numbers.data + w->numbers.size;
    for (; id >= 0x80; id >>= 7) {
        *at++ = (char)(id | 0x80);
    }
    *at++ = (char)id;
    w->numbers.size = (size_t)(at - w->numbers.data);
}

/* The ids of a stack's locations, the leaf first, into w->numbers. */
static void add_stack(struct pprof_writer *w, uint32_t node)
{
    const struct et_profile *p = w->profile;
    const bool root = w->form->root != NULL;
    size_t depth = 0, at = 0, most = w->form->depth ? w->form->depth - root : 0;
    for (size_t up = node; up; up = p->nodes[up].parent) {
        depth++;
    }
    size_t skipped = most && depth > most ? depth - most : 0;
    enum { ID_BYTES = 10 };
    w->numbers.data = et_reserve(w->numbers.data, &w->numbers.capacity, (depth + 1) * ID_BYTES, 1);
    w->numbers.size = 0;
    for (size_t up = node; up; up = p->nodes[up].parent, at++) {
        if (at >= skipped) {
            uint64_t known = w->location_ids[p->nodes[up].frame];
            put_id(w, known ? known : add_location(w, p->nodes[up].frame));
        }
    }
    if (root) {
        put_id(w, add_root(w));
    }
}

static void write_sample(struct pprof_writer *w, const struct et_entry *entry)
{
    uint64_t values[2], any = 0;
    for (size_t i = 0; i < w->type_count; i++) {
        values[i] = w->measures[i] == ET_MEASURE_COUNT ? entry->count : entry->value;
        values[i] = values[i] < INT64_MAX - w->sums[i] ? values[i] : INT64_MAX - w->sums[i];
        w->sums[i] += values[i];
        any |= values[i];
    }
    if (!any) {
        return;
    }
    add_stack(w, entry->node);
    et_put_bytes(&w->message, 1, w->numbers.data, w->numbers.size);
    w->numbers.size = 0;
    for (size_t i = 0; i < w->type_count; i++) {
        et_varint_put(&w->numbers, values[i]);
    }
    et_put_bytes(&w->message, 2, w->numbers.data, w->numbers.size);
    w->key_count = 0;
    et_labels_each(et_text(&w->profile->strings, entry->labels), add_label, w);
    end_message(w, &w->samples, SAMPLE);
    w->sample_count++;
}

/* Appends a ValueType. Returns the number of its type. */
static uint64_t put_type(struct pprof_writer *w, struct et_buf *out, unsigned field, const char *type, const char *unit)
{
    uint64_t number = et_intern(&w->strings, type);
    et_put_number(&w->message, 1, number);
    et_put_number(&w->message, 2, et_intern(&w->strings, *unit ? unit : "count"));
    end_message(w, out, field);
    return number;
}

static void add_type(struct pprof_writer *w, enum et_measure measure, const char *type, const char *unit)
{
    if (!*type) {
        return;
    }
    uint64_t number = put_type(w, &w->types, SAMPLE_TYPE, type, unit);
    w->measures[w->type_count++] = measure;
    if (w->own && w->profile->measure == measure) {
        w->default_type = number;
    }
}

/* A comment for data without a pprof field, into w->numbers; source.c reads it. */
static void add_note(struct pprof_writer *w, const char *name, const char *text)
{
    struct et_buf note = {0};
    et_buf_printf(&note, "edgeprof %s: %s", name, text);
    et_varint_put(&w->numbers, et_intern(&w->strings, note.data));
    et_buf_free(&note);
}

static void add_notes(struct pprof_writer *w)
{
    const struct et_profile *p = w->profile;
    add_note(w, "service", et_text(&p->strings, p->service));
    add_note(w, "kind", et_text(&p->strings, p->kind));
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"samples", p->samples},
                   {"processes", p->processes},
                   {"end", (uint64_t)p->end_ns},
                   {"names-pending", p->names_pending}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char number[24];
        snprintf(number, sizeof number, "%llu", (unsigned long long)numbers[i].value);
        add_note(w, numbers[i].name, number);
    }
}

/* Several processes run longer than the clock: their values are to be divided by what they ran in all. A profile whose
 * sender gave no duration is stored with 1 ns, which would make percentages of the values. */
static int64_t duration_of(const struct pprof_writer *w)
{
    const struct et_profile *p = w->profile;
    int64_t duration = w->form->level ? 0 : w->own && p->ran_ns ? p->ran_ns : p->end_ns - p->start_ns;
    return duration > 1 ? duration : 0;
}

/* The count comes first, as in other pprof files. */
static void write_types(struct pprof_writer *w)
{
    const struct et_profile *p = w->profile;
    add_type(w, ET_MEASURE_COUNT, w->form->count, "count");
    const char *unit = w->form->unit ? w->form->unit : et_text(&p->strings, p->value_unit);
    add_type(w, ET_MEASURE_VALUE, w->form->value, unit);
    if (w->type_count == 0) { /* an unnamed sample type from another sender */
        add_type(w, ET_MEASURE_VALUE, "value", unit);
    }
    put_type(w, &w->period_type, PERIOD_TYPE, w->form->period, w->form->period_unit);
}

/* The fields in their order, as other writers do. */
static void join_fields(struct pprof_writer *w, struct et_buf *out, const struct et_buf *notes)
{
    const struct et_profile *p = w->profile;
    const struct et_buf *const parts[] = {&w->types, &w->samples, &w->mappings, &w->locations, &w->functions};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        et_buf_add(out, parts[i]->data, parts[i]->size);
    }
    for (size_t i = 0; i < w->strings.count; i++) {
        struct et_buf text = {.data = w->strings.text[i], .size = strlen(w->strings.text[i])};
        et_put_message(out, STRING_TABLE, &text);
    }
    et_put_number(out, TIME_NANOS, (uint64_t)p->start_ns + w->form->shift_ns);
    et_put_number(out, DURATION_NANOS, (uint64_t)duration_of(w));
    et_buf_add(out, w->period_type.data, w->period_type.size);
    et_put_number(out, PERIOD, p->period && p->period <= INT64_MAX ? p->period : 1);
    et_put_bytes(out, COMMENT, notes->data, notes->size);
    et_put_number(out, DEFAULT_SAMPLE_TYPE, w->default_type);
}

static void free_writer(struct pprof_writer *w)
{
    struct et_buf *const bufs[] = {&w->types,       &w->samples, &w->mappings, &w->locations, &w->functions,
                                   &w->period_type, &w->message, &w->numbers,  &w->lines};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) {
        et_buf_free(bufs[i]);
    }
    et_strings_free(&w->strings);
    et_map_free(&w->function_ids);
    et_map_free(&w->mapping_ids);
    free(w->location_ids);
    free(w->keys);
}

static size_t encode_profile(const struct et_profile *profile, const struct et_pprof_form *form, bool own,
                             struct et_buf *out)
{
    struct pprof_writer w = {.profile = profile, .form = form, .own = own};
    struct et_buf notes = {0};
    et_intern(&w.strings, "");
    w.location_ids = et_alloc(profile->frame_count, sizeof *w.location_ids);
    write_types(&w);
    if (own) {
        add_notes(&w);
        et_buf_add(&notes, w.numbers.data, w.numbers.size);
    }
    for (size_t i = form->first; i < form->first + form->entries; i++) {
        write_sample(&w, &profile->entries[i]);
    }
    join_fields(&w, out, &notes);
    size_t samples = w.sample_count;
    et_buf_free(&notes);
    free_writer(&w);
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
