/*
 * A pprof message as it leaves: strings are made valid UTF-8, and locations that are nothing but an address get a
 * function with a name. This is done while it is being sent, not when it is encoded: names take room that an outbox and
 * a spool have for stacks; and what was spooled before a restart is named as well, for a module is known by its build
 * id, wherever it lies now.
 *
 * A message is a protobuf, so what is added can follow it: locations are copied with a line more, functions and strings
 * are appended. Functions that have no name of their own any more, for there are EP_NAMED_MOST, share their module's.
 * What is no pprof goes out as it is.
 *
 *   ep_pprof_prepare -> survey: what the message has
 *                    -> describe: paths and build ids of its mappings
 *                    -> name_all -> names->find
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
    const uint8_t *start; /* of its tag */
    uint64_t value;       /* of a number */
    struct reader inner;  /* of bytes */
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

/* False at the end, and with reader->at where it was at what is no field. */
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

/* A message of nothing but numbers. */
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

/* A mapping; texts are numbers first. */
struct mapping {
    uint64_t filename, build_id;
    struct ep_place place;
};

struct mappings {
    unsigned count;
    struct mapping at[EP_MAX_MODULES];
};

static void take_mapping(struct mappings *mappings, struct reader reader)
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

static void survey(struct ep_named *named, struct mappings *mappings, const struct ep_message *message)
{
    struct reader reader = reader_of(message);
    struct field field;

    mappings->count = 0;
    named->functions = named->strings = 0;
    while (field_next(&reader, &field)) {
        named->functions += field.number == PROFILE_FUNCTION;
        named->strings += field.number == PROFILE_STRING;
        if (field.number == PROFILE_MAPPING)
            take_mapping(mappings, field.inner);
    }
}

static void describe(struct mappings *mappings, const struct ep_message *message)
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

/* The function, one of those that are added, for a name; 1 is the first. */
static unsigned added(struct ep_named *named, unsigned name)
{
    if (!named->added[name]) {
        named->name[named->count] = (uint16_t)name;
        named->added[name] = (uint16_t)++named->count;
    }
    return named->added[name];
}

/* The function that a location beyond those that are kept is given, or one without a name. */
static unsigned of_module(const struct location *location)
{
    return EP_NAMED_MOST + (unsigned)location->mapping;
}

static void name_all(const struct ep_names *names, struct mappings *mappings, const struct ep_message *message)
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
            function = added(named, name ? name : of_module(&location));
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
    survey(names->memory, &mappings, message);
    describe(&mappings, message);
    for (unsigned i = 0; i < mappings.count; i++)
        names->memory->filename[i] = mappings.at[i].filename;
    name_all(names, &mappings, message);
}

/* ---- the message ---- */

/* The location with a line more. False: it has none to get. */
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
        function = location.line || location.mapping > EP_MAX_MODULES ? 0 : named->added[of_module(&location)];
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

/* The functions that are added, then their strings. A module's is called by the path that its mapping has. */
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

/* The field in another form; false: it stays as it is, and so do those around it. */
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
    const uint8_t *told = reader.at;
    unsigned locations = 0;
    struct field field;

    while (field_next(&reader, &field)) {
        struct ep_sink size = {0};
        unsigned index = locations;
        if (!put_changed(named, &locations, &field, &size))
            continue;
        ep_sink_put(sink, told, (size_t)(field.start - told));
        (void)put_changed(named, &index, &field, sink);
        told = reader.at;
    }
    ep_sink_put(sink, told, (size_t)(reader.end - told));
    if (names)
        put_added(names, sink);
}
