/* See otlp_group.h: the rows of a group, and what they count against the limit. */
#include "tools/formats/otlp_group.h"
#include "tools/lib/labels.h"

#include <stdlib.h>
#include <string.h>

void et_otlp_value(const Otlp__ProfilesDictionary *d, const Otlp__AnyValue *value, int32_t unit, struct et_buf *out)
{
    const char *unit_text = d->string_table[unit];
    switch (value ? value->value_case : OTLP__ANY_VALUE__VALUE__NOT_SET) {
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE:
        et_buf_text(out, value->string_value);
        return;
    case OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX:
        et_buf_text(out, d->string_table[value->string_value_strindex]);
        return;
    case OTLP__ANY_VALUE__VALUE_BOOL_VALUE:
        et_buf_text(out, value->bool_value ? "true" : "false");
        return;
    case OTLP__ANY_VALUE__VALUE_INT_VALUE:
        et_buf_printf(out, "%lld", (long long)value->int_value);
        break;
    case OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE:
        et_buf_printf(out, "%.15g", value->double_value);
        break;
    default:
        return;
    }
    et_buf_printf(out, "%s%s", *unit_text ? " " : "", unit_text);
}

const char *et_otlp_key(const struct et_otlp_source *source, int32_t index)
{
    return source->d->n_attribute_table ? et_otlp_text(source, source->d->attribute_table[index]->key_strindex) : "";
}

/* ---- rows ---- */

/* Bytes that an element takes besides its texts, about. */
enum { ELEMENT = 12, LINE = 6, LABEL = 8, STEP = 2 };

size_t et_otlp_lines(const struct et_otlp_source *source, const Otlp__Location *location)
{
    size_t lines = 0;
    for (size_t i = 0; i < location->n_lines && lines < ET_PPROF_FRAMES; i++) {
        lines += et_otlp_is_function(source, location->lines[i]->function_index);
    }
    return lines;
}

/* Returns true for the first call with an element of the group. */
static bool is_new(struct et_map *elements, int32_t index)
{
    uint64_t *known = et_map_at(elements, (uint64_t)index);
    bool fresh = !*known;
    *known = 1;
    return fresh;
}

/* Counts the functions of a location and its mapping against the limit. */
static void count_location(struct et_otlp_source *source, struct et_otlp_group *g, const Otlp__Location *location)
{
    et_otlp_use(source, ELEMENT + LINE * location->n_lines);
    for (size_t i = 0; i < location->n_lines; i++) {
        int32_t index = location->lines[i]->function_index;
        if (et_otlp_is_function(source, index) && is_new(&g->functions, index)) {
            const Otlp__Function *function = source->d->function_table[index];
            et_otlp_use(source, ELEMENT + strlen(et_otlp_text(source, function->name_strindex)) +
                                    strlen(et_otlp_text(source, function->filename_strindex)));
        }
    }
    int32_t mapping = location->mapping_index;
    if (et_otlp_is_mapping(source, mapping) && is_new(&g->mappings, mapping)) {
        et_otlp_use(source,
                    ELEMENT + strlen(et_otlp_text(source, source->d->mapping_table[mapping]->filename_strindex)));
    }
}

static void add_locations(struct et_otlp_source *source, struct et_otlp_group *g, const Otlp__Stack *stack)
{
    for (size_t i = 0; i < stack->n_location_indices && source->left; i++) {
        int32_t index = stack->location_indices[i];
        uint64_t *place = et_map_at(&g->locations, (uint64_t)index);
        if (!*place) {
            const Otlp__Location *location = source->d->location_table[index];
            size_t lines = et_otlp_lines(source, location);
            *place = g->places + 1;
            g->places += lines ? lines : 1;
            count_location(source, g, location);
        }
        et_otlp_use(source, STEP);
    }
}

const Otlp__Stack *et_otlp_stack(const struct et_otlp_source *source, const Otlp__Sample *sample)
{
    static const Otlp__Stack none = {0};
    return source->d->n_stack_table ? source->d->stack_table[sample->stack_index] : &none;
}

/* Adds attributes under the names that the database has for them. Notes of pprof's converters are no labels. */
static void add_attributes(const struct et_otlp_source *source, const int32_t *indices, size_t count,
                           et_otlp_label *add, void *context)
{
    for (size_t i = 0; i < count; i++) {
        const char *key = et_otlp_key(source, indices[i]);
        struct et_buf value = {0};
        if (*key && strcmp(key, "service.name") != 0 && strncmp(key, "pprof.", 6) != 0) {
            const Otlp__KeyValueAndUnit *attribute = source->d->attribute_table[indices[i]];
            et_otlp_value(source->d, attribute->value, attribute->unit_strindex, &value);
        }
        if (value.size) {
            add(context, strcmp(key, "thread.name") == 0 ? "thread" : key, value.data);
        }
        et_buf_free(&value);
    }
}

/* Omits an id that is 0. */
static void add_link_id(const ProtobufCBinaryData *id, const char *key, et_otlp_label *add, void *context)
{
    struct et_buf hex = {0};
    bool some = false;
    for (size_t i = 0; i < id->len; i++) {
        et_buf_printf(&hex, "%02x", id->data[i]);
        some |= id->data[i] != 0;
    }
    if (some) {
        add(context, key, hex.data);
    }
    et_buf_free(&hex);
}

void et_otlp_for_labels(const struct et_otlp_source *source, const struct et_otlp_row *row, et_otlp_label *add,
                        void *context)
{
    const Otlp__Sample *sample = row->sample;
    add_attributes(source, row->profile->attribute_indices, row->profile->n_attribute_indices, add, context);
    add_attributes(source, sample->attribute_indices, sample->n_attribute_indices, add, context);
    const Otlp__Link *link = source->d->n_link_table ? source->d->link_table[sample->link_index] : NULL;
    if (link) { /* element 0 has zeros, as a rule, which are no ids */
        add_link_id(&link->span_id, ET_SPAN_ID, add, context);
        add_link_id(&link->trace_id, ET_TRACE_ID, add, context);
    }
}

struct label_size {
    size_t count, bytes;
};

static void add_size(void *context, const char *key, const char *value)
{
    struct label_size *size = context;
    size->count++;
    size->bytes += strlen(key) + strlen(value);
}

size_t et_otlp_add_row(struct et_otlp_source *source, struct et_otlp_group *g, const Otlp__Profile *profile,
                       const Otlp__Sample *sample)
{
    struct et_buf key = {0};
    size_t before = g->keys.count, key_size;
    et_buf_printf(&key, "%d %d", sample->stack_index, sample->link_index);
    for (size_t i = 0; i < sample->n_attribute_indices; i++) {
        et_buf_printf(&key, " %d", sample->attribute_indices[i]);
    }
    for (size_t i = 0; i < profile->n_attribute_indices; i++) {
        et_buf_printf(&key, "%s%d", i ? " " : "+", profile->attribute_indices[i]);
    }
    uint32_t number = et_intern(&g->keys, key.data);
    key_size = key.size;
    et_buf_free(&key);
    if (number >= before) {
        struct et_otlp_row row = {profile, sample, false};
        struct label_size labels = {0};
        et_otlp_for_labels(source, &row, add_size, &labels);
        et_otlp_use(source, key_size + LABEL * labels.count + labels.bytes);
        row.broken = labels.count > ET_PPROF_LABELS || labels.bytes > ET_PPROF_LABEL_BYTES ||
                     et_otlp_stack(source, sample)->n_location_indices > ET_PPROF_FRAMES;
        g->rows = et_reserve(g->rows, &g->row_capacity, number, sizeof *g->rows);
        g->rows[number - 1] = row;
        add_locations(source, g, et_otlp_stack(source, sample));
    }
    return number - 1;
}

void et_otlp_free_group(struct et_otlp_group *g)
{
    struct et_map *maps[] = {&g->mappings, &g->functions, &g->locations};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        et_map_free(maps[i]);
    }
    for (size_t i = 0; i < g->type_count; i++) {
        free(g->values[i]);
    }
    free(g->service);
    free(g->rows);
    et_strings_free(&g->keys);
    *g = (struct et_otlp_group){0};
}
