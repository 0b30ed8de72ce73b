/*
 * See otlp.h. A table is the encoded elements and a set of texts that identify them: a text's number in the set is its
 * element's index. Text "" has number 0, the zero value that every table begins with. For each sample, encode_sample()
 * adds the stack with its locations, mappings and functions, and the labels as attributes and a link.
 */
#include "tools/formats/otlp.h"
#include "tools/lib/labels.h"
#include "tools/formats/protobuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAPPINGS = 1, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES }; /* fields of the dictionary */

struct otlp_table {
    struct et_strings known;
    struct et_buf bytes;
};

struct et_otlp {
    bool bare;
    struct otlp_table tables[TABLES];
    struct et_buf resources; /* of the request */
    /* while a profile is being added: */
    const struct et_profile *profile;
    uint32_t *locations; /* of each frame; 0: not used yet */
    struct et_buf key, lines, attributes;
    struct et_strings keys; /* keys of the sample's labels */
    const char *span, *trace;
    bool thread; /* the sample has the thread's name */
};

/* The index of the element identified by the text. Adds the message when it is new. */
static uint32_t add_element(struct et_otlp *o, unsigned field, const char *text, const struct et_buf *message)
{
    struct otlp_table *table = &o->tables[field];
    size_t before = table->known.count;
    uint32_t index = et_intern(&table->known, text);
    if (index >= before) {
        et_put_message(&table->bytes, field, message);
    }
    return index;
}

struct et_otlp *et_otlp_new(bool bare)
{
    struct et_otlp *o = et_alloc(1, sizeof *o);
    o->bare = bare;
    for (unsigned field = MAPPINGS; field < TABLES; field++) {
        et_intern(&o->tables[field].known, "");
        et_put_message(&o->tables[field].bytes, field, &(struct et_buf){0});
    }
    return o;
}

static uint32_t add_string(struct et_otlp *o, const char *text)
{
    return add_element(o, STRINGS, text, &(struct et_buf){.data = (char *)(uintptr_t)text, .size = strlen(text)});
}

static uint32_t add_attribute(struct et_otlp *o, const char *key, const char *value)
{
    struct et_buf message = {0}, any = {0}, text = {0};
    et_buf_printf(&text, "%s=%s", key, value);
    et_put_number(&message, 1, add_string(o, key));
    et_put_text(&any, 1, value);
    et_put_message(&message, 2, &any);
    uint32_t index = add_element(o, ATTRIBUTES, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&any);
    et_buf_free(&text);
    return index;
}

/* Returns 0 without a build id: OTLP does not allow such a mapping. */
static uint32_t add_mapping(struct et_otlp *o, uint32_t module)
{
    const struct et_module *from = &o->profile->modules[module - 1];
    const char *id = et_text(&o->profile->strings, from->build_id), *path = et_text(&o->profile->strings, from->path);
    struct et_buf message = {0}, indices = {0}, text = {0};
    if (!*id) {
        return 0;
    }
    et_buf_printf(&text, "%s %s", id, path);
    et_varint_put(&indices, add_attribute(o, "process.executable.build_id.gnu", id));
    et_put_number(&message, 4, add_string(o, path));
    et_put_bytes(&message, 5, indices.data, indices.size);
    uint32_t index = add_element(o, MAPPINGS, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&indices);
    et_buf_free(&text);
    return index;
}

static uint32_t add_function(struct et_otlp *o, const char *name, const char *file)
{
    struct et_buf message = {0}, text = {0};
    uint32_t name_at = add_string(o, name), file_at = add_string(o, file);
    et_buf_printf(&text, "%u %u", name_at, file_at);
    et_put_number(&message, 1, name_at);
    et_put_number(&message, 2, name_at);
    et_put_number(&message, 3, file_at);
    uint32_t index = add_element(o, FUNCTIONS, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&text);
    return index;
}

static void add_line(void *context, const char *function, const char *file, uint32_t number)
{
    struct et_otlp *o = context;
    struct et_buf line = {0};
    uint32_t index = add_function(o, function, file);
    et_buf_printf(&o->key, " %u:%u", index, number);
    et_put_number(&line, 1, index);
    et_put_number(&line, 2, number);
    et_put_message(&o->lines, 3, &line);
    et_buf_free(&line);
}

static uint32_t add_location(struct et_otlp *o, uint32_t number)
{
    const struct et_frame *frame = &o->profile->frames[number];
    if (!o->locations[number]) {
        struct et_buf message = {0};
        uint32_t mapping = frame->module ? add_mapping(o, frame->module) : 0;
        uint64_t address = mapping ? frame->address : 0;
        o->key.size = o->lines.size = 0;
        et_buf_printf(&o->key, "%u %llx", mapping, (unsigned long long)address);
        et_profile_lines(o->profile, frame, o->bare && mapping, add_line, o);
        et_put_number(&message, 1, mapping);
        et_put_number(&message, 2, address);
        et_buf_add(&message, o->lines.data, o->lines.size);
        o->locations[number] = add_element(o, LOCATIONS, o->key.data, &message);
        et_buf_free(&message);
    }
    return o->locations[number];
}

static uint32_t add_otlp_stack(struct et_otlp *o, uint32_t node)
{
    const struct et_profile *p = o->profile;
    struct et_buf indices = {0}, message = {0}, text = {0};
    for (size_t up = node; up; up = p->nodes[up].parent) {
        uint32_t index = add_location(o, p->nodes[up].frame);
        et_varint_put(&indices, index);
        et_buf_printf(&text, "%u ", index);
    }
    et_put_bytes(&message, 1, indices.data, indices.size);
    uint32_t index = text.size ? add_element(o, STACKS, text.data, &message) : 0;
    et_buf_free(&indices);
    et_buf_free(&message);
    et_buf_free(&text);
    return index;
}

static void put_hex(struct et_buf *out, unsigned field, const char *hex, size_t size)
{
    uint8_t bytes[16] = {0};
    for (size_t i = 0; i < size; i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        bytes[i] = (uint8_t)byte;
    }
    et_put_bytes(out, field, bytes, size);
}

/* A span without a trace gets a zero trace id, because both ids must have their full length. */
static uint32_t add_link(struct et_otlp *o)
{
    static const char none[] = "00000000000000000000000000000000";
    struct et_buf message = {0}, text = {0};
    const char *trace = o->trace && et_is_hex(o->trace, 32) ? o->trace : none,
               *span = o->span && et_is_hex(o->span, 16) ? o->span : none + 16;
    if (trace == none && span == none + 16) {
        return 0;
    }
    et_buf_printf(&text, "%s %s", trace, span);
    put_hex(&message, 1, trace, 16);
    put_hex(&message, 2, span, 8);
    uint32_t index = add_element(o, LINKS, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&text);
    return index;
}

static void add_label(void *context, const char *key, const char *value)
{
    struct et_otlp *o = context;
    if (strcmp(key, ET_SPAN_ID) == 0) {
        o->span = et_text(&o->keys, et_intern(&o->keys, value));
    } else if (strcmp(key, ET_TRACE_ID) == 0) {
        o->trace = et_text(&o->keys, et_intern(&o->keys, value));
    } else if (*key && *value) {
        bool thread = strcmp(key, "thread") == 0 || strcmp(key, "thread.name") == 0;
        if (!thread || !o->thread) {
            et_varint_put(&o->attributes, add_attribute(o, thread ? "thread.name" : key, value));
        }
        o->thread |= thread;
    }
}

static void encode_sample(struct et_otlp *o, const struct et_entry *entry, uint64_t value, struct et_buf *profile)
{
    struct et_buf sample = {0}, values = {0};
    o->attributes.size = 0;
    o->span = o->trace = NULL;
    o->thread = false;
    et_put_number(&sample, 1, add_otlp_stack(o, entry->node));
    et_labels_each(et_text(&o->profile->strings, entry->labels), add_label, o);
    et_put_bytes(&sample, 2, o->attributes.data, o->attributes.size);
    et_put_number(&sample, 3, add_link(o));
    et_varint_put(&values, value);
    et_put_bytes(&sample, 4, values.data, values.size);
    et_put_message(profile, 2, &sample);
    et_buf_free(&sample);
    et_buf_free(&values);
}

static void put_type(struct et_otlp *o, struct et_buf *profile, unsigned field, const char *type, const char *unit)
{
    struct et_buf message = {0};
    et_put_number(&message, 1, add_string(o, type));
    et_put_number(&message, 2, add_string(o, *unit ? unit : "count"));
    et_put_message(profile, field, &message);
    et_buf_free(&message);
}

/* False: the profile has no sample. */
static bool add_profile(struct et_otlp *o, const struct et_otlp_range *range, const struct et_otlp_type *type,
                        struct et_buf *scope)
{
    const struct et_profile *p = o->profile;
    struct et_buf profile = {0};
    size_t samples = 0;
    uint64_t left = INT64_MAX; /* a reader's sum has 63 bits */
    for (size_t i = range->first; i < range->first + range->entries; i++) {
        uint64_t value = type->count ? p->entries[i].count : p->entries[i].value;
        value = value < left ? value : left;
        left -= value;
        if (value) {
            encode_sample(o, &p->entries[i], value, &profile);
            samples++;
        }
    }
    if (samples) {
        put_type(o, &profile, 1, type->type, type->unit);
        et_put_fixed64(&profile, 3, (uint64_t)p->start_ns + range->shift_ns);
        et_put_number(&profile, 4, type->level ? 0 : (uint64_t)(p->end_ns - p->start_ns));
        put_type(o, &profile, 5, type->period, type->period_unit);
        et_put_number(&profile, 6, p->period && p->period <= INT64_MAX ? p->period : 1);
        et_put_bytes(&profile, 7, type->id, sizeof type->id);
        et_put_message(scope, 2, &profile);
    }
    et_buf_free(&profile);
    return samples > 0;
}

/* ---- resources ---- */

static void put_resource(void *context, const char *key, const char *value)
{
    struct et_buf any = {0}, pair = {0};
    if (*key && *value) {
        et_put_text(&any, 1, value);
        et_put_text(&pair, 1, key);
        et_put_message(&pair, 2, &any);
        et_put_message(context, 1, &pair);
    }
    et_buf_free(&any);
    et_buf_free(&pair);
}

/* Writes tags under their own names, and known ones also under OpenTelemetry's name unless a tag has that name. */
static void put_process(struct et_buf *resource, const struct et_otlp_process *process)
{
    size_t size;
    const char *version = et_labels_value(process->tags, "version", &size);
    const struct {
        const char *key, *value;
    } more[] = {{"service.version", version ? version : ""},
                {"host.name", process->host},
                {"process.executable.path", process->executable},
                {"host.arch", process->arch}};
    put_resource(resource, "service.name", process->service);
    struct et_labels tags = {0};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char *value = et_clean(more[i].value, strcspn(more[i].value, "\n"));
        et_labels_add(&tags, more[i].key, value);
        free(value);
    }
    et_labels_add_lines(&tags, process->tags);
    et_labels_add(&tags, "service.name", "");
    char *lines = et_labels_join(&tags);
    et_labels_each(lines, put_resource, resource);
    free(lines);
}

size_t et_otlp_add(struct et_otlp *o, const struct et_otlp_process *process, const struct et_profile *profile,
                   const struct et_otlp_range *range, const struct et_otlp_type *types, size_t count)
{
    struct et_buf scope = {0}, named = {0}, resource = {0}, whole = {0};
    size_t added = 0;
    o->profile = profile;
    o->locations = et_alloc(profile->frame_count, sizeof *o->locations);
    et_put_text(&named, 1, process->scope);
    et_put_text(&named, 2, EP_VERSION_TEXT);
    et_put_message(&scope, 1, &named);
    for (size_t i = 0; i < count; i++) {
        added += add_profile(o, range, &types[i], &scope);
    }
    if (added) {
        put_process(&resource, process);
        et_put_message(&whole, 1, &resource);
        et_put_message(&whole, 2, &scope);
        et_put_message(&o->resources, 1, &whole);
    }
    free(o->locations);
    et_strings_free(&o->keys);
    struct et_buf *bufs[] = {&scope, &named, &resource, &whole};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) {
        et_buf_free(bufs[i]);
    }
    return added;
}

void et_otlp_finish(struct et_otlp *o, struct et_buf *out)
{
    struct et_buf dictionary = {0};
    for (unsigned field = MAPPINGS; field < TABLES; field++) {
        et_buf_add(&dictionary, o->tables[field].bytes.data, o->tables[field].bytes.size);
        et_buf_free(&o->tables[field].bytes);
        et_strings_free(&o->tables[field].known);
    }
    et_buf_add(out, o->resources.data, o->resources.size);
    et_put_message(out, 2, &dictionary);
    struct et_buf *bufs[] = {&dictionary, &o->resources, &o->key, &o->lines, &o->attributes};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++) {
        et_buf_free(bufs[i]);
    }
    free(o);
}
