/*
 * An independent reader of protobuf's wire format, to check the encoders: field by field, without generated code or
 * nanopb. Malformed input sets `bad` and ends the reading.
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

/* A field: a number for varint and fixed64, bytes for length-delimited fields. */
struct wire_field {
    unsigned tag, type;
    uint64_t number;
    struct wire bytes;
};

struct wire wire_open(const void *data, size_t size);

/* False at the end, or for malformed input (wire->bad). */
bool wire_next(struct wire *wire, struct wire_field *field);

/* The next varint of a packed column. */
bool wire_varint(struct wire *wire, uint64_t *value);

int64_t wire_zigzag(uint64_t value);

/* The last comment of a pprof without compression, "" if it has none. */
void wire_pprof_comment(const void *data, size_t size, char *text, size_t room);

#endif
