/*
 * Converts a pprof message while it is sent: makes strings valid UTF-8, and gives locations that have only an address a
 * function with a name. Not done when encoding, because names would take room from stacks in the outbox and the spool;
 * and so messages spooled before a restart get names too, as build ids identify modules.
 *
 * Additions follow the message, which is a protobuf: locations get a line, functions and strings are appended. Beyond
 * EP_NAMED_MOST names, functions share their module's name. A message that is not pprof is sent unchanged.
 *
 *   ep_pprof_prepare -> survey_message, describe_mappings, find_names -> names->find
 *   ep_pprof_write   -> put_location, put_added
 */
#include "push.h"

#include <stdbool.h>
#include <string.h>

/* Field numbers of perftools.profiles. */
enum { PROFILE_MAPPING = 3, PROFILE_LOCATION = 4, PROFILE_FUNCTION = 5, PROFILE_STRING = 6 };
enum { MAPPING_FILENAME = 5, MAPPING_BUILD_ID = 6 };
enum { LOCATION_MAPPING = 2, LOCATION_ADDRESS = 3, LOCATION_LINE = 4, LINE_FUNCTION = 1 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3 };
enum { WIRE_NUMBER = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
};

struct field {
    unsigned number;
    const uint8_t *start; /* start of its tag */
    uint64_t value;       /* if it is a number */
    struct reader inner;  /* if it is bytes */
};

static bool number_next(struct reader *reader, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* Reads the next field. False: the end, or an invalid field; then reader->at stays in front of it. */
static bool field_next(struct reader *reader, struct field *field)
{
    uint64_t tag, size = 0;

    *field = (struct field){.start = reader->at};
    bool good = number_next(reader, &tag) && tag >> 3 != 0 && tag >> 3 <= UINT16_MAX;
    if (good && (tag & 7) == WIRE_NUMBER)
        good = number_next(reader, &field->value);
    else if (good && (tag & 7) == WIRE_BYTES)
        good = number_next(reader, &size);
    else if (good)
        size = (tag & 7) == WIRE_64 ? 8 : (tag & 7) == WIRE_32 ? 4 : UINT64_MAX;
    if (!good || size > (uint64_t)(reader->end - reader->at)) {
        reader->at = field->start;
        return false;
    }
    field->number = (unsigned)(tag >> 3);
    field->inner = (struct reader){reader->at, reader->at + ((tag & 7) == WIRE_BYTES ? size : 0)};
    reader->at += size;
    return true;
}

static struct reader reader_of(const struct ep_message *message)
{
    return (struct reader){message->data, message->data + message->size};
}

/* ---- writing ---- */

void ep_put_utf8(struct ep_sink *sink, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t run = ep_utf8_run(bytes, size);
        ep_sink_put(sink, bytes, run);
        if (run < size)
            ep_sink_put(sink, "?", 1);
        run += run < size;
        bytes += run;
        size -= run;
    }
}

static size_t put_varint(uint8_t *bytes, uint64_t value)
{
    size_t count = 0;

    for (; value > 0x7f; value >>= 7)
        bytes[count++] = (uint8_t)(value | 0x80);
    bytes[count++] = (uint8_t)value;
    return count;
}

void ep_put_head(struct ep_sink *sink, unsigned field, uint64_t size)
{
    uint8_t bytes[11] = {(uint8_t)(field << 3 | WIRE_BYTES)};

    ep_sink_put(sink, bytes, 1 + put_varint(bytes + 1, size));
}

/* Writes a message that consists of numbers. */
static void put_numbers(struct ep_sink *sink, unsigned field, const unsigned *fields, const uint64_t *values,
                        unsigned count)
{
    uint8_t bytes[4 * 11];
    size_t size = 0;

    for (unsigned i = 0; i < count; i++) {
        bytes[size++] = (uint8_t)(fields[i] << 3 | WIRE_NUMBER);
        size += put_varint(bytes + size, values[i]);
    }
    ep_put_head(sink, field, size);
    ep_sink_put(sink, bytes, size);
}

/* ---- finding names ---- */

/* A mapping; its texts are first known by their numbers in the string table. */
struct mapping {
    uint64_t filename, build_id;
    struct ep_place place;
};

struct mappings {
    unsigned count;
    struct mapping at[EP_MAX_MODULES];
};

static void mapping_add(struct mappings *mappings, struct reader reader)
{
    struct field field;

    if (mappings->count == EP_MAX_MODULES)
        return;
    struct mapping *mapping = &mappings->at[mappings->count++];
    *mapping = (struct mapping){0};
    while (field_next(&reader, &field)) {
        if (field.number == MAPPING_FILENAME)
            mapping->filename = field.value;
        else if (field.number == MAPPING_BUILD_ID)
            mapping->build_id = field.value;
    }
}

static void survey_message(struct ep_named *named, struct mappings *mappings, const struct ep_message *message)
{
    struct reader reader = reader_of(message);
    struct field field;

    mappings->count = 0;
    named->functions = named->strings = 0;
    while (field_next(&reader, &field)) {
        named->functions += field.number == PROFILE_FUNCTION;
        named->strings += field.number == PROFILE_STRING;
        if (field.number == PROFILE_MAPPING)
            mapping_add(mappings, field.inner);
    }
}

static void describe_mappings(struct mappings *mappings, const struct ep_message *message)
{
    struct reader reader = reader_of(message);
    struct field field;

    for (uint64_t number = 0; field_next(&reader, &field);) {
        if (field.number != PROFILE_STRING)
            continue;
        for (unsigned i = 0; i < mappings->count; i++) {
            struct mapping *mapping = &mappings->at[i];
            size_t size = (size_t)(field.inner.end - field.inner.at);
            if (mapping->filename == number) {
                mapping->place.path = (const char *)field.inner.at;
                mapping->place.path_size = size;
            }
            if (mapping->build_id == number) {
                mapping->place.build_id = (const char *)field.inner.at;
                mapping->place.build_id_size = size;
            }
        }
        number++;
    }
}

struct location {
    uint64_t mapping, address;
    bool line;
};

static struct location location_of(struct reader reader)
{
    struct location location = {0};
    struct field field;

    while (field_next(&reader, &field)) {
        if (field.number == LOCATION_MAPPING)
            location.mapping = field.value;
        else if (field.number == LOCATION_ADDRESS)
            location.address = field.value;
        else if (field.number == LOCATION_LINE)
            location.line = true;
    }
    return location;
}

/* Returns the added function for a name, and adds it if needed; 1 is the first. */
static unsigned function_add(struct ep_named *named, unsigned name)
{
    if (!named->added[name]) {
        named->name[named->count] = (uint16_t)name;
        named->added[name] = (uint16_t)++named->count;
    }
    return named->added[name];
}

/* The name number of a location's module, for locations without a name of their own. */
static unsigned module_name(const struct location *location)
{
    return EP_NAMED_MOST + (unsigned)location->mapping;
}

static void find_names(const struct ep_names *names, struct mappings *mappings, const struct ep_message *message)
{
    struct ep_named *named = names->memory;
    struct reader reader = reader_of(message);
    struct field field;

    for (named->locations = 0; field_next(&reader, &field);) {
        if (field.number != PROFILE_LOCATION)
            continue;
        struct location location = location_of(field.inner);
        unsigned index = named->locations++, function = 0;
        if (!location.line && location.mapping >= 1 && location.mapping <= mappings->count) {
            struct ep_place *place = &mappings->at[location.mapping - 1].place;
            place->address = location.address;
            unsigned name = index < EP_NAMED_LOCATIONS ? names->find(place) : 0;
            function = function_add(named, name ? name : module_name(&location));
        }
        if (index < EP_NAMED_LOCATIONS)
            named->of[index] = (uint16_t)function;
    }
}

void ep_pprof_prepare(const struct ep_names *names, const struct ep_message *message,
                      const struct ep_deadline *deadline)
{
    struct mappings mappings;

    if (!names)
        return;
    names->begin(deadline);
    names->memory->count = 0;
    memset(names->memory->added, 0, sizeof names->memory->added);
    survey_message(names->memory, &mappings, message);
    describe_mappings(&mappings, message);
    for (unsigned i = 0; i < mappings.count; i++)
        names->memory->filename[i] = mappings.at[i].filename;
    find_names(names, &mappings, message);
}

/* ---- the message ---- */

/* Writes the location with an additional line. False: it needs none. */
static bool put_location(const struct ep_named *named, unsigned index, const struct field *field, struct ep_sink *sink)
{
    static const unsigned line[] = {LINE_FUNCTION};
    size_t size = (size_t)(field->inner.end - field->inner.at);
    struct ep_sink inner = {0};
    unsigned function;

    if (index < EP_NAMED_LOCATIONS) {
        function = named->of[index];
    } else {
        struct location location = location_of(field->inner);
        function = location.line || location.mapping > EP_MAX_MODULES ? 0 : named->added[module_name(&location)];
    }
    if (!function)
        return false;
    const uint64_t id = (uint64_t)named->functions + function;
    put_numbers(&inner, LOCATION_LINE, line, &id, 1);
    ep_put_head(sink, PROFILE_LOCATION, size + inner.size);
    ep_sink_put(sink, field->inner.at, size);
    put_numbers(sink, LOCATION_LINE, line, &id, 1);
    return true;
}

/* Writes the added functions, then their names. A module's name is the path of its mapping. */
static void put_added(const struct ep_names *names, struct ep_sink *sink)
{
    static const unsigned function[] = {FUNCTION_ID, FUNCTION_NAME, FUNCTION_SYSTEM_NAME};
    const struct ep_named *named = names->memory;
    uint64_t string = named->strings;

    for (unsigned i = 0; i < named->count; i++) {
        bool module = named->name[i] > EP_NAMED_MOST;
        uint64_t text = module ? named->filename[named->name[i] - EP_NAMED_MOST - 1] : string++;
        put_numbers(sink, PROFILE_FUNCTION, function, (const uint64_t[]){named->functions + i + 1, text, text}, 3);
    }
    for (unsigned i = 0; i < named->count; i++) {
        const char *text = named->name[i] > EP_NAMED_MOST ? NULL : names->text(named->name[i]);
        size_t size = text ? strlen(text) : 0;
        if (!text)
            continue;
        ep_put_head(sink, PROFILE_STRING, size);
        ep_put_utf8(sink, text, size);
    }
}

/* Writes the field if it has to be changed. False: it is sent unchanged. */
static bool put_changed(const struct ep_named *named, unsigned *locations, const struct field *field,
                        struct ep_sink *sink)
{
    size_t size = (size_t)(field->inner.end - field->inner.at);

    if (field->number == PROFILE_LOCATION)
        return named && put_location(named, (*locations)++, field, sink);
    if (field->number != PROFILE_STRING || ep_utf8_run((const char *)field->inner.at, size) == size)
        return false;
    ep_put_head(sink, PROFILE_STRING, size);
    ep_put_utf8(sink, (const char *)field->inner.at, size);
    return true;
}

void ep_pprof_write(const struct ep_names *names, const struct ep_message *message, struct ep_sink *sink)
{
    const struct ep_named *named = names ? names->memory : NULL;
    struct reader reader = reader_of(message);
    const uint8_t *written = reader.at;
    unsigned locations = 0;
    struct field field;

    while (field_next(&reader, &field)) {
        struct ep_sink size = {0};
        unsigned index = locations;
        if (!put_changed(named, &locations, &field, &size))
            continue;
        ep_sink_put(sink, written, (size_t)(field.start - written));
        (void)put_changed(named, &index, &field, sink);
        written = reader.at;
    }
    ep_sink_put(sink, written, (size_t)(reader.end - written));
    if (names)
        put_added(names, sink);
}
