/*
 * See pprof_wire.h. Accepts exactly what protobuf-c accepts, repeated numbers packed or not. Elements of one kind are
 * in one array, in the order of their pointers.
 *
 *   et_pprof_unpack  count_profile(), then the arrays, then read_profile()
 *   read_profile     each element by read_numbers() if it has only numbers, else read_sample() or read_location()
 */
#include "tools/formats/pprof_wire.h"
#include "tools/formats/wire.h"

#include <stddef.h>
#include <string.h>

/* ---- memory ---- */

struct elements {
    char *items, *pointers;
    size_t item_size, count;
    const ProtobufCMessageDescriptor *type;
};

/* Returns NULL when there is no room; not for 0 elements. */
static void *take(struct et_arena *arena, size_t count, size_t size)
{
    ProtobufCAllocator allocator = et_arena_allocator(arena);
    return count <= arena->left / size ? allocator.alloc(allocator.allocator_data, count ? count * size : 1) : NULL;
}

/* Returns the array of pointers; NULL: no room. */
static void *begin_elements(struct et_arena *arena, const ProtobufCMessageDescriptor *type, size_t count,
                            struct elements *elements)
{
    *elements = (struct elements){.type = type, .item_size = type->sizeof_message};
    elements->items = take(arena, count, type->sizeof_message);
    elements->pointers = elements->items ? take(arena, count, sizeof(void *)) : NULL;
    return elements->pointers;
}

static void *next_element(struct elements *elements)
{
    void *item = elements->items + elements->count * elements->item_size;
    memcpy(elements->pointers + elements->count++ * sizeof item, &item, sizeof item);
    memset(item, 0, elements->item_size);
    ((ProtobufCMessage *)item)->descriptor = elements->type;
    return item;
}

/* ---- messages that have only numbers ---- */

enum { SHAPE_FIELDS = 7 };

/* Where the number of each field goes; 0: it is not read. */
struct shape {
    uint16_t at[SHAPE_FIELDS];
};

#define AT(type, field) offsetof(Perftools__Profiles__##type, field)
static const struct shape VALUE_TYPE = {{[1] = AT(ValueType, type), AT(ValueType, unit)}},
                          LABEL = {{[1] = AT(Label, key), AT(Label, str), AT(Label, num), AT(Label, num_unit)}},
                          MAPPING = {{[1] = AT(Mapping, id),
                                      AT(Mapping, memory_start),
                                      AT(Mapping, memory_limit),
                                      AT(Mapping, file_offset),
                                      AT(Mapping, filename),
                                      AT(Mapping, build_id)}},
                          LOCATION = {{[1] = AT(Location, id), AT(Location, mapping_id), AT(Location, address)}},
                          LINE = {{[1] = AT(Line, function_id), AT(Line, line), AT(Line, column)}},
                          FUNCTION = {{[1] = AT(Function, id),
                                       AT(Function, name),
                                       AT(Function, system_name),
                                       AT(Function, filename),
                                       AT(Function, start_line)}};

/* False: the field has a number here, but is none. */
static bool set_number(const struct shape *shape, const struct field *field, void *message)
{
    uint16_t at = field->number < SHAPE_FIELDS ? shape->at[field->number] : 0;
    if (at && field->type == VARINT) {
        memcpy((char *)message + at, &field->value, sizeof field->value);
    }
    return !at || field->type == VARINT;
}

static bool read_numbers(const struct field *field, const struct shape *shape, void *message)
{
    struct wire wire = field->inside;
    struct field inner;
    while (next_field(&wire, &inner)) {
        if (!set_number(shape, &inner, message)) {
            return false;
        }
    }
    return !wire.broken;
}

/* ---- samples and locations ---- */

enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES, SAMPLE_LABELS, SAMPLE_FIELDS, LOCATION_LINES = 4 };

static bool count_sample(struct wire wire, size_t counts[SAMPLE_FIELDS])
{
    struct field field;
    while (next_field(&wire, &field)) {
        if (field.number == SAMPLE_LABELS) {
            counts[SAMPLE_LABELS]++;
        } else if (field.number == SAMPLE_LOCATIONS || field.number == SAMPLE_VALUES) {
            counts[field.number] += count_values(&field);
        }
    }
    return !wire.broken;
}

static bool fill_sample(struct wire wire, Perftools__Profiles__Sample *sample, struct elements *labels)
{
    struct field field;
    bool ok = true;
    while (ok && next_field(&wire, &field)) {
        if (field.number == SAMPLE_LOCATIONS) {
            ok = add_values(&field, sample->location_id, &sample->n_location_id);
        } else if (field.number == SAMPLE_VALUES) {
            ok = add_values(&field, (uint64_t *)sample->value, &sample->n_value);
        } else if (field.number == SAMPLE_LABELS) {
            ok = field.type == BYTES && read_numbers(&field, &LABEL, next_element(labels));
        }
    }
    sample->n_label = labels->count;
    return ok && !wire.broken;
}

static bool read_sample(struct et_arena *arena, const struct field *field, Perftools__Profiles__Sample *sample)
{
    struct elements labels = {0};
    size_t counts[SAMPLE_FIELDS] = {0};
    if (!count_sample(field->inside, counts)) {
        return false;
    }
    sample->location_id = take(arena, counts[SAMPLE_LOCATIONS], sizeof *sample->location_id);
    sample->value = take(arena, counts[SAMPLE_VALUES], sizeof *sample->value);
    if (counts[SAMPLE_LABELS]) {
        sample->label = begin_elements(arena, &perftools__profiles__label__descriptor, counts[SAMPLE_LABELS], &labels);
    }
    bool there = sample->location_id && sample->value && (sample->label || !counts[SAMPLE_LABELS]);
    return there && fill_sample(field->inside, sample, &labels);
}

static bool read_location(struct et_arena *arena, const struct field *field, Perftools__Profiles__Location *location)
{
    struct elements lines = {0};
    struct field inner;
    size_t count = 0;
    for (struct wire wire = field->inside; next_field(&wire, &inner);) {
        count += inner.number == LOCATION_LINES;
    }
    location->line = begin_elements(arena, &perftools__profiles__line__descriptor, count, &lines);
    struct wire wire = field->inside;
    bool ok = location->line;
    while (ok && next_field(&wire, &inner)) {
        ok = inner.number == LOCATION_LINES ? inner.type == BYTES && read_numbers(&inner, &LINE, next_element(&lines))
                                            : set_number(&LOCATION, &inner, location);
    }
    location->n_line = lines.count;
    return ok && !wire.broken;
}

/* ---- the profile ---- */

enum {
    SAMPLE_TYPE = 1,
    SAMPLE,
    MAPPINGS,
    LOCATIONS,
    FUNCTIONS,
    STRINGS,
    DROP_FRAMES,
    KEEP_FRAMES,
    TIME,
    DURATION,
    PERIOD_TYPE,
    PERIOD,
    COMMENT,
    DEFAULT_TYPE,
    FIELDS
};

struct profile_reader {
    struct et_arena *arena;
    Perftools__Profiles__Profile *p;
    size_t counts[FIELDS];
    size_t text_size; /* of all strings with their ends */
    char *text;       /* the rest of the room for them */
    struct elements elements[STRINGS];
};

static bool count_profile(struct profile_reader *r, struct wire wire)
{
    struct field field;
    while (next_field(&wire, &field)) {
        if (field.number == COMMENT) {
            r->counts[COMMENT] += count_values(&field);
        } else if (field.number >= SAMPLE_TYPE && field.number <= STRINGS) {
            r->counts[field.number]++;
            r->text_size +=
                field.number == STRINGS && field.type == BYTES ? (size_t)(field.inside.end - field.inside.at) + 1 : 0;
        }
    }
    return !wire.broken;
}

static void *begin_field(struct profile_reader *r, int field, const ProtobufCMessageDescriptor *type)
{
    return begin_elements(r->arena, type, r->counts[field], &r->elements[field]);
}

/* False: no room. */
static bool make_room(struct profile_reader *r)
{
    Perftools__Profiles__Profile *p = r->p;
    return (p->sample_type = begin_field(r, SAMPLE_TYPE, &perftools__profiles__value_type__descriptor)) &&
           (p->sample = begin_field(r, SAMPLE, &perftools__profiles__sample__descriptor)) &&
           (p->mapping = begin_field(r, MAPPINGS, &perftools__profiles__mapping__descriptor)) &&
           (p->location = begin_field(r, LOCATIONS, &perftools__profiles__location__descriptor)) &&
           (p->function = begin_field(r, FUNCTIONS, &perftools__profiles__function__descriptor)) &&
           (p->string_table = take(r->arena, r->counts[STRINGS], sizeof *p->string_table)) &&
           (p->comment = take(r->arena, r->counts[COMMENT], sizeof *p->comment)) &&
           (r->text = take(r->arena, r->text_size, 1));
}

static void add_string(struct profile_reader *r, const struct wire *bytes)
{
    size_t size = (size_t)(bytes->end - bytes->at);
    memcpy(r->text, bytes->at, size);
    r->text[size] = '\0';
    r->p->string_table[r->p->n_string_table++] = r->text;
    r->text += size + 1;
}

/* The last one counts. */
static bool read_period_type(struct profile_reader *r, const struct field *field)
{
    Perftools__Profiles__ValueType *type = take(r->arena, 1, sizeof *type);
    if (!type || field->type != BYTES) {
        return false;
    }
    perftools__profiles__value_type__init(type);
    r->p->period_type = type;
    return read_numbers(field, &VALUE_TYPE, type);
}

static bool read_number(const struct field *field, int64_t *number)
{
    *number = (int64_t)field->value;
    return field->type == VARINT;
}

static bool read_element(struct profile_reader *r, const struct field *field)
{
    if (field->type != BYTES) {
        return false;
    }
    if (field->number == STRINGS) {
        add_string(r, &field->inside);
        return true;
    }
    static const struct shape *const shapes[STRINGS] = {
        [SAMPLE_TYPE] = &VALUE_TYPE, [MAPPINGS] = &MAPPING, [FUNCTIONS] = &FUNCTION};
    void *element = next_element(&r->elements[field->number]);
    return field->number == SAMPLE      ? read_sample(r->arena, field, element)
           : field->number == LOCATIONS ? read_location(r->arena, field, element)
                                        : read_numbers(field, shapes[field->number], element);
}

static bool read_field(struct profile_reader *r, const struct field *field)
{
    Perftools__Profiles__Profile *p = r->p;
    switch (field->number) {
    case SAMPLE_TYPE:
    case SAMPLE:
    case MAPPINGS:
    case LOCATIONS:
    case FUNCTIONS:
    case STRINGS:
        return read_element(r, field);
    case DROP_FRAMES:
        return read_number(field, &p->drop_frames);
    case KEEP_FRAMES:
        return read_number(field, &p->keep_frames);
    case TIME:
        return read_number(field, &p->time_nanos);
    case DURATION:
        return read_number(field, &p->duration_nanos);
    case PERIOD_TYPE:
        return read_period_type(r, field);
    case PERIOD:
        return read_number(field, &p->period);
    case COMMENT:
        return add_values(field, (uint64_t *)p->comment, &p->n_comment);
    case DEFAULT_TYPE:
        return read_number(field, &p->default_sample_type);
    default:
        return true;
    }
}

static bool read_profile(struct profile_reader *r, struct wire wire)
{
    struct field field;
    bool ok = true;
    while (ok && next_field(&wire, &field)) {
        ok = read_field(r, &field);
    }
    r->p->n_sample_type = r->elements[SAMPLE_TYPE].count;
    r->p->n_sample = r->elements[SAMPLE].count;
    r->p->n_mapping = r->elements[MAPPINGS].count;
    r->p->n_location = r->elements[LOCATIONS].count;
    r->p->n_function = r->elements[FUNCTIONS].count;
    return ok && !wire.broken;
}

Perftools__Profiles__Profile *et_pprof_unpack(struct et_arena *arena, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    const struct wire wire = {.at = at, .end = size ? at + size : at};
    struct profile_reader r = {.arena = arena, .p = take(arena, 1, sizeof *r.p)};
    if (!r.p) {
        return NULL;
    }
    perftools__profiles__profile__init(r.p);
    return count_profile(&r, wire) && make_room(&r) && read_profile(&r, wire) ? r.p : NULL;
}
