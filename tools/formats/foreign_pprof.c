/* See foreign_pprof.h. Ids are 1..n in the order of their tables. Locations of addresses are written last, when all
 * mappings are known. */
#include "tools/formats/foreign_pprof.h"
#include "tools/formats/protobuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_TYPE = 1, SAMPLE, MAPPING, LOCATION, FUNCTION, STRING_TABLE };
enum { DURATION_NANOS = 10, PERIOD_TYPE, PERIOD, COMMENT };

static uint32_t intern(struct et_foreign_pprof *out, const char *text)
{
    if (out->strings.count == 0) {
        et_intern(&out->strings, "");
    }
    return et_intern(&out->strings, text);
}

size_t et_foreign_type(struct et_foreign_pprof *out, const char *name, const char *unit)
{
    uint32_t name_at = intern(out, name), unit_at = intern(out, unit);
    for (size_t i = 0; i < out->type_count; i++) {
        if (out->types[i].name == name_at && out->types[i].unit == unit_at) {
            return i;
        }
    }
    if (out->type_count == ET_FOREIGN_TYPES) {
        return ET_FOREIGN_TYPES;
    }
    out->types[out->type_count].name = name_at;
    out->types[out->type_count].unit = unit_at;
    return out->type_count++;
}

static uint64_t function_of(struct et_foreign_pprof *out, const char *name, const char *file)
{
    uint32_t name_at = intern(out, name), file_at = intern(out, file);
    uint64_t *id = et_map_at(&out->functions, (uint64_t)name_at << 32 | file_at);
    if (!*id) {
        struct et_buf message = {0};
        *id = ++out->function_count;
        et_put_number(&message, 1, *id);
        et_put_number(&message, 2, name_at);
        et_put_number(&message, 3, name_at); /* the system's name */
        et_put_number(&message, 4, file_at);
        et_put_message(&out->function_bytes, FUNCTION, &message);
        et_buf_free(&message);
    }
    return *id;
}

uint64_t et_foreign_function(struct et_foreign_pprof *out, const char *name, size_t size, const char *file,
                             uint32_t line)
{
    char *clean = et_clean(size ? name : "?", size ? size : 1), *clean_file = et_clean(file, strlen(file));
    uint64_t function = function_of(out, clean, clean_file);
    uint64_t *id = et_map_at(&out->locations, function << 32 | line);
    if (!*id) {
        struct et_buf message = {0}, lines = {0};
        *id = ++out->location_count;
        et_put_number(&lines, 1, function);
        et_put_number(&lines, 2, line);
        et_put_number(&message, 1, *id);
        et_put_message(&message, 4, &lines);
        et_put_message(&out->location_bytes, LOCATION, &message);
        et_buf_free(&lines);
        et_buf_free(&message);
    }
    free(clean);
    free(clean_file);
    return *id;
}

uint64_t et_foreign_address(struct et_foreign_pprof *out, uint64_t address)
{
    uint64_t *id = et_map_at(&out->addresses, address);
    if (!*id) {
        *id = ++out->location_count;
        *et_map_at(&out->address_of, *id) = address;
    }
    return *id;
}

struct et_foreign_sample *et_foreign_sample(struct et_foreign_pprof *out)
{
    out->samples = et_reserve(out->samples, &out->sample_capacity, out->sample_count + 1, sizeof *out->samples);
    struct et_foreign_sample *sample = &out->samples[out->sample_count++];
    *sample = (struct et_foreign_sample){.first = out->stack_size};
    return sample;
}

void et_foreign_push(struct et_foreign_pprof *out, uint64_t location)
{
    struct et_foreign_sample *sample = &out->samples[out->sample_count - 1];
    if (sample->depth < ET_FOREIGN_DEPTH) {
        out->stacks = et_reserve(out->stacks, &out->stack_capacity, out->stack_size + 1, sizeof *out->stacks);
        out->stacks[out->stack_size++] = location;
        sample->depth++;
    }
}

/* ---- mappings ---- */

static void add_mapping(struct et_foreign_pprof *out, const char *line)
{
    struct et_foreign_mapping mapping = {0};
    char rights[8];
    int path = 0;
    int read = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %n", &mapping.start, &mapping.end, rights,
                      &mapping.offset, &path);
    if (read == 4 && path && strchr(rights, 'x') && mapping.start < mapping.end && line[path]) {
        mapping.path = intern(out, line + path);
        out->mappings =
            et_reserve(out->mappings, &out->mapping_capacity, out->mapping_count + 1, sizeof *out->mappings);
        out->mappings[out->mapping_count++] = mapping;
    }
}

void et_foreign_maps(struct et_foreign_pprof *out, const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        char *line = et_clean(text + at, length);
        add_mapping(out, line);
        free(line);
        at += length + 1;
    }
}

static int compare_mappings(const void *left, const void *right)
{
    const struct et_foreign_mapping *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

/* The id of the mapping with the address; 0: none. */
static uint64_t mapping_at(const struct et_foreign_pprof *from, uint64_t address)
{
    size_t low = 0, high = from->mapping_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (from->mappings[middle].start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low && address < from->mappings[low - 1].end ? low : 0;
}

/* ---- equal stacks ---- */

static bool equal_stacks(const struct et_foreign_pprof *p, const struct et_foreign_sample *a,
                         const struct et_foreign_sample *b)
{
    return a->label == b->label && a->depth == b->depth &&
           (a->depth == 0 || memcmp(p->stacks + a->first, p->stacks + b->first, a->depth * sizeof *p->stacks) == 0);
}

/* FNV-1a. */
static uint64_t hash_stack(const struct et_foreign_pprof *p, const struct et_foreign_sample *sample)
{
    uint64_t hash = 14695981039346656037u ^ sample->label;
    for (size_t i = 0; i < sample->depth; i++) {
        hash = (hash ^ p->stacks[sample->first + i]) * 1099511628211u;
    }
    return hash;
}

/* Adds the values of samples with equal stacks, because a text of a gigabyte repeats few of them. Two stacks with one
 * hash stay apart. */
static void merge_samples(struct et_foreign_pprof *p)
{
    struct et_map first = {0};
    size_t kept = 0;
    for (size_t i = 0; i < p->sample_count; i++) {
        const struct et_foreign_sample *sample = &p->samples[i];
        uint64_t *known = et_map_at(&first, hash_stack(p, sample));
        if (!*known || !equal_stacks(p, &p->samples[*known - 1], sample)) {
            p->samples[kept++] = *sample;
            *known = *known ? *known : kept;
            continue;
        }
        for (size_t k = 0; k < ET_FOREIGN_TYPES; k++) {
            uint64_t *sum = &p->samples[*known - 1].values[k];
            *sum = sample->values[k] < INT64_MAX - *sum ? *sum + sample->values[k] : INT64_MAX;
        }
    }
    p->sample_count = kept;
    et_map_free(&first);
}

/* ---- encoding ---- */

/* The caller is done with *message. */
static void end_message(struct et_buf *out, unsigned field, struct et_buf *message)
{
    et_put_message(out, field, message);
    message->size = 0;
}

static void put_types(const struct et_foreign_pprof *from, struct et_buf *out)
{
    struct et_buf message = {0};
    for (size_t i = 0; i < from->type_count; i++) {
        et_put_number(&message, 1, from->types[i].name);
        et_put_number(&message, 2, from->types[i].unit);
        end_message(out, SAMPLE_TYPE, &message);
    }
    et_buf_free(&message);
}

static void put_sample(struct et_foreign_pprof *from, const struct et_foreign_sample *sample, struct et_buf *out)
{
    struct et_buf message = {0}, numbers = {0};
    for (size_t i = 0; i < sample->depth; i++) {
        et_varint_put(&numbers, from->stacks[sample->first + i]);
    }
    et_put_bytes(&message, 1, numbers.data, numbers.size);
    numbers.size = 0;
    for (size_t i = 0; i < from->type_count; i++) {
        et_varint_put(&numbers, sample->values[i]);
    }
    et_put_bytes(&message, 2, numbers.data, numbers.size);
    if (sample->label) {
        numbers.size = 0;
        et_put_number(&numbers, 1, intern(from, "thread"));
        et_put_number(&numbers, 2, sample->label);
        et_put_message(&message, 3, &numbers);
    }
    et_put_message(out, SAMPLE, &message);
    et_buf_free(&numbers);
    et_buf_free(&message);
}

static void put_mappings(const struct et_foreign_pprof *from, struct et_buf *out)
{
    struct et_buf message = {0};
    for (size_t i = 0; i < from->mapping_count; i++) {
        const struct et_foreign_mapping *mapping = &from->mappings[i];
        et_put_number(&message, 1, i + 1);
        et_put_number(&message, 2, mapping->start);
        et_put_number(&message, 3, mapping->end);
        et_put_number(&message, 4, mapping->offset);
        et_put_number(&message, 5, mapping->path);
        end_message(out, MAPPING, &message);
    }
    et_buf_free(&message);
}

static void put_addresses(const struct et_foreign_pprof *from, struct et_buf *out)
{
    struct et_buf message = {0};
    for (size_t i = 0; i < from->address_of.capacity; i++) {
        const struct et_map_entry *entry = &from->address_of.entries[i];
        if (entry->used) {
            et_put_number(&message, 1, entry->key);
            et_put_number(&message, 2, mapping_at(from, entry->value));
            et_put_number(&message, 3, entry->value);
            end_message(out, LOCATION, &message);
        }
    }
    et_buf_free(&message);
}

static void put_note(struct et_foreign_pprof *from, const char *name, const char *text, struct et_buf *numbers)
{
    struct et_buf note = {0};
    et_buf_printf(&note, "edgeprof %s: %s", name, text);
    et_varint_put(numbers, intern(from, note.data));
    et_buf_free(&note);
}

static void put_strings(const struct et_foreign_pprof *from, struct et_buf *out)
{
    for (size_t i = 0; i < from->strings.count; i++) {
        const struct et_buf text = {.data = from->strings.text[i], .size = strlen(from->strings.text[i])};
        et_put_message(out, STRING_TABLE, &text);
    }
}

void et_foreign_encode(struct et_foreign_pprof *from, struct et_buf *out)
{
    struct et_buf notes = {0}, period = {0};
    merge_samples(from);
    if (from->mapping_count) {
        qsort(from->mappings, from->mapping_count, sizeof *from->mappings, compare_mappings);
    }
    put_types(from, out);
    for (size_t i = 0; i < from->sample_count; i++) {
        put_sample(from, &from->samples[i], out);
    }
    put_mappings(from, out);
    et_buf_add(out, from->location_bytes.data, from->location_bytes.size);
    put_addresses(from, out);
    et_buf_add(out, from->function_bytes.data, from->function_bytes.size);
    if (from->service) {
        put_note(from, "service", from->service, &notes);
    }
    if (from->kind) {
        put_note(from, "kind", from->kind, &notes);
    }
    et_put_number(&period, 1, intern(from, from->period ? "cpu" : ""));
    et_put_number(&period, 2, intern(from, from->period ? "nanoseconds" : ""));
    put_strings(from, out);
    et_put_number(out, DURATION_NANOS, from->duration_ns);
    et_put_message(out, PERIOD_TYPE, &period);
    et_put_number(out, PERIOD, from->period);
    et_put_bytes(out, COMMENT, notes.data, notes.size);
    et_buf_free(&period);
    et_buf_free(&notes);
}

void et_foreign_free(struct et_foreign_pprof *p)
{
    et_strings_free(&p->strings);
    et_map_free(&p->functions);
    et_map_free(&p->locations);
    et_map_free(&p->addresses);
    et_map_free(&p->address_of);
    et_buf_free(&p->function_bytes);
    et_buf_free(&p->location_bytes);
    free(p->mappings);
    free(p->stacks);
    free(p->samples);
}
