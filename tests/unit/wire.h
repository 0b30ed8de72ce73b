/*
 * An independent reader of protobuf's wire format, for checking what the encoders write: fields one after another,
 * nothing generated, nothing of nanopb. Anything malformed sets `bad` and ends the reading.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire {
    const uint8_t *at, *end;
    bool bad;
};

/* One field: the number when it is a varint or fixed64, bytes when it has a length. */
struct wire_field {
    unsigned tag, type;
    uint64_t number;
    struct wire bytes;
};

struct wire wire_open(const void *data, size_t size);

/* False at the end or when the rest makes no sense (wire->bad). */
bool wire_next(struct wire *wire, struct wire_field *field);

/* The next varint of a packed column. */
bool wire_varint(struct wire *wire, uint64_t *value);

int64_t wire_zigzag(uint64_t value);

#endif
