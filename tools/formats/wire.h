/* Protobuf's encoding, field by field, for readers that protobuf-c is too slow for. */
#ifndef ET_WIRE_H
#define ET_WIRE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };
enum { TAG_MOST = 5, VARINT_MOST = 10 };

struct wire {
    const uint8_t *at, *end;
    bool broken;
};

struct field {
    uint32_t number;
    unsigned type;
    uint64_t value;     /* VARINT */
    struct wire inside; /* BYTES */
};

/* ---- fields ---- */

static inline uint64_t long_varint(struct wire *wire, int most)
{
    uint64_t value = 0;
    const uint8_t *at = wire->at;
    for (int i = 0; i < most && at < wire->end; i++) {
        value |= (uint64_t)(*at & 0x7f) << 7 * i;
        if (*at++ < 0x80) {
            wire->at = at;
            return value;
        }
    }
    wire->broken = true;
    return 0;
}

/* Most have one byte. */
static inline uint64_t next_varint(struct wire *wire, int most)
{
    return wire->at < wire->end && *wire->at < 0x80 ? *wire->at++ : long_varint(wire, most);
}

static inline void skip(struct wire *wire, uint64_t size)
{
    if (size > (uint64_t)(wire->end - wire->at)) {
        wire->broken = true;
    } else {
        wire->at += size;
    }
}

/* False: at the end, or the wire is broken, as it is by a field 0. */
static inline bool next_field(struct wire *wire, struct field *field)
{
    if (wire->at == wire->end || wire->broken) {
        return false;
    }
    uint64_t tag = next_varint(wire, TAG_MOST), size;
    field->value = 0;
    field->inside = (struct wire){0};
    field->number = (uint32_t)(tag >> 3);
    field->type = tag & 7;
    switch (field->type) {
    case VARINT:
        field->value = next_varint(wire, VARINT_MOST);
        break;
    case BYTES:
        size = next_varint(wire, TAG_MOST);
        field->inside = (struct wire){.at = wire->at};
        skip(wire, size <= INT_MAX ? size : UINT64_MAX);
        field->inside.end = wire->at;
        break;
    case FIXED64:
        skip(wire, 8);
        break;
    case FIXED32:
        skip(wire, 4);
        break;
    default:
        wire->broken = true;
    }
    wire->broken |= !field->number;
    return !wire->broken;
}

/* ---- repeated numbers ---- */

static inline size_t count_values(const struct field *field)
{
    size_t count = 0;
    if (field->type != BYTES) {
        return 1;
    }
    for (const uint8_t *at = field->inside.at; at < field->inside.end; at++) {
        count += *at < 0x80;
    }
    return count;
}

/* Appends the field's numbers to an array that has room for count_values(). */
static inline bool add_values(const struct field *field, uint64_t *values, size_t *count)
{
    struct wire packed = field->inside;
    if (field->type == VARINT) {
        values[(*count)++] = field->value;
    }
    while (field->type == BYTES && packed.at < packed.end && !packed.broken) {
        uint64_t value = next_varint(&packed, VARINT_MOST);
        if (!packed.broken) {
            values[(*count)++] = value;
        }
    }
    return field->type == VARINT || (field->type == BYTES && !packed.broken);
}

#endif
