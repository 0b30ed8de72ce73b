/* See wire.h. */
#include "wire.h"

#include <string.h>

struct wire wire_open(const void *data, size_t size)
{
    return (struct wire){.at = data, .end = (const uint8_t *)data + size};
}

bool wire_varint(struct wire *wire, uint64_t *value)
{
    *value = 0;
    if (wire->at == wire->end)
        return false;
    for (unsigned shift = 0; shift < 64 && wire->at < wire->end; shift += 7) {
        uint8_t byte = *wire->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    wire->bad = true;
    return false;
}

static bool fixed64(struct wire *wire, uint64_t *value)
{
    *value = 0;
    if (wire->end - wire->at < 8)
        return false;
    for (unsigned i = 0; i < 8; i++)
        *value |= (uint64_t)wire->at[i] << 8 * i;
    wire->at += 8;
    return true;
}

bool wire_next(struct wire *wire, struct wire_field *field)
{
    uint64_t key;
    bool good = false;

    *field = (struct wire_field){0};
    if (wire->bad || wire->at == wire->end || !wire_varint(wire, &key))
        return false;
    field->tag = (unsigned)(key >> 3);
    field->type = (unsigned)(key & 7);
    if (field->type == 0)
        good = wire_varint(wire, &field->number);
    else if (field->type == 1)
        good = fixed64(wire, &field->number);
    else if (field->type == 2 && wire_varint(wire, &field->number))
        good = field->number <= (uint64_t)(wire->end - wire->at);
    if (good && field->type == 2) {
        field->bytes = wire_open(wire->at, (size_t)field->number);
        wire->at += field->number;
    }
    wire->bad |= !good || field->tag == 0;
    return !wire->bad;
}

int64_t wire_zigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

void wire_pprof_comment(const void *data, size_t size, char *text, size_t room)
{
    struct wire wire = wire_open(data, size);
    struct wire_field field;
    uint64_t comment = 0, index = 0;

    while (wire_next(&wire, &field))
        comment = field.tag == 13 ? field.number : comment;
    text[0] = 0;
    wire = wire_open(data, size);
    while (comment && wire_next(&wire, &field))
        if (field.tag == 6 && index++ == comment && field.number < room) {
            memcpy(text, field.bytes.at, (size_t)field.number);
            text[field.number] = 0;
        }
}
