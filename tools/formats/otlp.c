/*
 * See otlp.h. A table is the bytes of its elements and a set of texts that say what is in it: the text's number in
 * the set is the element's index. Text "" is number 0, the zero value that every table begins with.
 *
 *   et_otlp_add -> add_profile -> add_sample -> stack_of -> location_of -> mapping_of, function_of
 *                                            -> on_label -> attribute, link
 */
#include "tools/formats/otlp.h"
#include "tools/lib/labels.h"
#include "tools/formats/protobuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAPPINGS = 1, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES }; /* fields of the dictionary */

struct table {
    struct et_strings known;
    struct et_buf bytes;
};

struct et_otlp {
    bool bare;
    struct table tables[TABLES];
    struct et_buf resources; /* of the request */
    /* while a profile is added: */
    const struct et_profile *profile;
    uint32_t *locations; /* of each frame; 0: not used yet */
    struct et_buf key, lines, attributes;
    struct et_strings keys; /* of the sample's labels */
    const char *span, *trace;
    bool thread; /* the sample has the thread's name already */
};

/* The element that the text says, made of the message when there is none. */
static uint32_t element(struct et_otlp *o, unsigned field, const char *text, const struct et_buf *message)
{
    struct table *table = &o->tables[field];
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

static uint32_t string(struct et_otlp *o, const char *text)
{
    return element(o, STRINGS, text, &(struct et_buf){.data = (char *)(uintptr_t)text, .size = strlen(text)});
}

static uint32_t attribute(struct et_otlp *o, const char *key, const char *value)
{
    struct et_buf message = {0}, any = {0}, text = {0};
    et_buf_printf(&text, "%s=%s", key, value);
    et_put_number(&message, 1, string(o, key));
    et_put_text(&any, 1, value);
    et_put_message(&message, 2, &any);
    uint32_t index = element(o, ATTRIBUTES, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&any);
    et_buf_free(&text);
    return index;
}

/* A mapping without a build id may not be: 0 then. */
static uint32_t mapping_of(struct et_otlp *o, uint32_t module)
{
    const struct et_module *from = &o->profile->modules[module - 1];
    const char *id = et_text(&o->profile->strings, from->build_id), *path = et_text(&o->profile->strings, from->path);
    struct et_buf message = {0}, indices = {0}, text = {0};
    if (!*id) {
        return 0;
    }
    et_buf_printf(&text, "%s %s", id, path);
    et_varint_put(&indices, attribute(o, "process.executable.build_id.gnu", id));
    et_put_number(&message, 4, string(o, path));
    et_put_bytes(&message, 5, indices.data, indices.size);
    uint32_t index = element(o, MAPPINGS, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&indices);
    et_buf_free(&text);
    return index;
}

static uint32_t function_of(struct et_otlp *o, const char *name, const char *file)
{
    struct et_buf message = {0}, text = {0};
    uint32_t name_at = string(o, name), file_at = string(o, file);
    et_buf_printf(&text, "%u %u", name_at, file_at);
    et_put_number(&message, 1, name_at);
    et_put_number(&message, 2, name_at);
    et_put_number(&message, 3, file_at);
    uint32_t index = element(o, FUNCTIONS, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&text);
    return index;
}

static void on_line(void *context, const char *function, const char *file, uint32_t number)
{
    struct et_otlp *o = context;
    struct et_buf line = {0};
    uint32_t index = function_of(o, function, file);
    et_buf_printf(&o->key, " %u:%u", index, number);
    et_put_number(&line, 1, index);
    et_put_number(&line, 2, number);
    et_put_message(&o->lines, 3, &line);
    et_buf_free(&line);
}

static uint32_t location_of(struct et_otlp *o, uint32_t number)
{
    const struct et_frame *frame = &o->profile->frames[number];
    if (!o->locations[number]) {
        struct et_buf message = {0};
        uint32_t mapping = frame->module ? mapping_of(o, frame->module) : 0;
        uint64_t address = mapping ? frame->address : 0;
        o->key.size = o->lines.size = 0;
        et_buf_printf(&o->key, "%u %llx", mapping, (unsigned long long)address);
        et_profile_lines(o->profile, frame, o->bare && mapping, on_line, o);
        et_put_number(&message, 1, mapping);
        et_put_number(&message, 2, address);
        et_buf_add(&message, o->lines.data, o->lines.size);
        o->locations[number] = element(o, LOCATIONS, o->key.data, &message);
        et_buf_free(&message);
    }
    return o->locations[number];
}

static uint32_t stack_of(struct et_otlp *o, uint32_t node)
{
    const struct et_profile *p = o->profile;
    struct et_buf indices = {0}, message = {0}, text = {0};
    for (size_t up = node; up; up = p->nodes[up].parent) {
        uint32_t index = location_of(o, p->nodes[up].frame);
        et_varint_put(&indices, index);
        et_buf_printf(&text, "%u ", index);
    }
    et_put_bytes(&message, 1, indices.data, indices.size);
    uint32_t index = text.size ? element(o, STACKS, text.data, &message) : 0;
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

/* A span without a trace has one of zeros, for both have their length or there is none. */
static uint32_t link_of(struct et_otlp *o)
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
    uint32_t index = element(o, LINKS, text.data, &message);
    et_buf_free(&message);
    et_buf_free(&text);
    return index;
}

static void on_label(void *context, const char *key, const char *value)
{
    struct et_otlp *o = context;
    if (strcmp(key, ET_SPAN_ID) == 0) {
        o->span = et_text(&o->keys, et_intern(&o->keys, value));
    } else if (strcmp(key, ET_TRACE_ID) == 0) {
        o->trace = et_text(&o->keys, et_intern(&o->keys, value));
    } else if (*key && *value) {
        bool thread = strcmp(key, "thread") == 0 || strcmp(key, "thread.name") == 0;
        if (!thread || !o->thread) {
            et_varint_put(&o->attributes, attribute(o, thread ? "thread.name" : key, value));
        }
        o->thread |= thread;
    }
}

static void add_sample(struct et_otlp *o, const struct et_entry *entry, uint64_t value, struct et_buf *profile)
{
    struct et_buf sample = {0}, values = {0};
    o->attributes.size = 0;
    o->span = o->trace = NULL;
    o->thread = false;
    et_put_number(&sample, 1, stack_of(o, entry->node));
    et_labels_each(et_text(&o->profile->strings, entry->labels), on_label, o);
    et_put_bytes(&sample, 2, o->attributes.data, o->attributes.size);
    et_put_number(&sample, 3, link_of(o));
    et_varint_put(&values, value);
    et_put_bytes(&sample, 4, values.data, values.size);
    et_put_message(profile, 2, &sample);
    et_buf_free(&sample);
    et_buf_free(&values);
}

static void put_type(struct et_otlp *o, struct et_buf *profile, unsigned field, const char *type, const char *unit)
{
    struct et_buf message = {0};
    et_put_number(&message, 1, string(o, type));
    et_put_number(&message, 2, string(o, *unit ? unit : "count"));
    et_put_message(profile, field, &message);
    et_buf_free(&message);
}

/* false: it has no sample. */
static bool add_profile(struct et_otlp *o, const struct et_otlp_type *type, struct et_buf *scope)
{
    const struct et_profile *p = o->profile;
    struct et_buf profile = {0};
    size_t samples = 0;
    for (size_t i = 0; i < p->entry_count; i++) {
        uint64_t value = type->count ? p->entries[i].count : p->entries[i].value;
        if (value) {
            add_sample(o, &p->entries[i], value, &profile);
            samples++;
        }
    }
    if (samples) {
        put_type(o, &profile, 1, type->type, type->unit);
        et_put_fixed64(&profile, 3, (uint64_t)p->start_ns);
        et_put_number(&profile, 4, (uint64_t)(p->end_ns - p->start_ns));
        put_type(o, &profile, 5, type->period, type->period_unit);
        et_put_number(&profile, 6, p->period && p->period <= INT64_MAX ? p->period : 1);
        et_put_bytes(&profile, 7, type->id, sizeof type->id);
        et_put_message(scope, 2, &profile);
    }
    et_buf_free(&profile);
    return samples > 0;
}

/* ---- whose it is ---- */

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

/* Tags under their own names; those that OpenTelemetry has a name for under that as well, unless a tag has it. */
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
                   const struct et_otlp_type *types, size_t count)
{
    struct et_buf scope = {0}, named = {0}, resource = {0}, whole = {0};
    size_t added = 0;
    o->profile = profile;
    o->locations = et_alloc(profile->frame_count, sizeof *o->locations);
    et_put_text(&named, 1, "edgeprof");
    et_put_text(&named, 2, EP_VERSION_TEXT);
    et_put_message(&scope, 1, &named);
    for (size_t i = 0; i < count; i++) {
        added += add_profile(o, &types[i], &scope);
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

size_t et_otlp_size(const struct et_otlp *o)
{
    size_t size = o->resources.size;
    for (unsigned field = MAPPINGS; field < TABLES; field++) {
        size += o->tables[field].bytes.size;
    }
    return size;
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
