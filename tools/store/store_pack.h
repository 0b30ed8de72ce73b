/*
 * A profile's stacks as bytes, in one of two packings:
 *
 *   ET_PACK_COLUMNS   varints: sizes of the first three columns; then the columns node (zigzag difference to the
 *                     previous one), value, count, label set, one varint per stack
 *   ET_PACK_DEFLATED  varint: size of ET_PACK_COLUMNS; then that as a zlib stream
 *
 * Label sets are varints too: labels, span id, trace id high and low; the first label set has number 1.
 */
#ifndef ET_STORE_PACK_H
#define ET_STORE_PACK_H

#include "tools/store/store.h"

#include <errno.h>

enum et_packing { ET_PACK_COLUMNS, ET_PACK_DEFLATED };

struct et_packed {
    uint64_t node, value, count; /* value in quanta */
    uint32_t label_set;          /* 0: none */
};

/* Zeroed: empty. Reuse keeps its memory. */
struct et_unpacked {
    struct et_packed *stacks;
    size_t count, capacity;
    struct et_buf bytes;
};

/* Appends the stacks to *out. deflate: compress if that is smaller. Returns the packing used. */
enum et_packing et_pack(const struct et_stacks *stacks, bool deflate, struct et_buf *out);

/* Reads the stacks of a block one after the other. The block stays where it is; `bytes` has it when it was deflated.
 *
 *   et_stacks_read(&reader, ...);  while ((got = et_stack_next(&reader, &stack)) == 1) ...
 */
struct et_stack_reader {
    const uint8_t *at[4], *end[4]; /* of each column */
    uint64_t node;
    int columns;
};

/* Returns 0, or -EIO for malformed bytes. */
int et_stacks_read(struct et_stack_reader *reader, struct et_buf *inflated, enum et_packing packing, int columns,
                   const void *bytes, size_t size);
bool et_stack_number(struct et_stack_reader *reader, int column, uint64_t *value);

/* Most numbers have one byte. */
static inline bool et_stack_column(struct et_stack_reader *reader, int column, uint64_t *value)
{
    const uint8_t *at = reader->at[column];
    if (at < reader->end[column] && *at < 0x80) {
        *value = *at;
        reader->at[column] = at + 1;
        return true;
    }
    return et_stack_number(reader, column, value);
}

/* Returns 1: *out is filled; 0: there are no more; -EIO: malformed bytes. */
static inline int et_stack_next(struct et_stack_reader *reader, struct et_packed *out)
{
    uint64_t step, label_set = 0;
    if (reader->at[0] == reader->end[0]) { /* then no other column may have more */
        return reader->at[1] == reader->end[1] && reader->at[2] == reader->end[2] && reader->at[3] == reader->end[3]
                   ? 0
                   : -EIO;
    }
    *out = (struct et_packed){0};
    bool ok = et_stack_column(reader, 0, &step) &&
              (!(reader->columns & ET_COLUMN_VALUE) || et_stack_column(reader, 1, &out->value)) &&
              (!(reader->columns & ET_COLUMN_COUNT) || et_stack_column(reader, 2, &out->count)) &&
              (!(reader->columns & ET_COLUMN_LABEL_SET) || et_stack_column(reader, 3, &label_set));
    if (!ok) {
        return -EIO;
    }
    reader->node += step >> 1 ^ (0 - (step & 1));
    out->node = reader->node;
    out->label_set = (uint32_t)label_set;
    return 1;
}

/* All stacks at once. Returns 0, or -EIO for malformed bytes. */
int et_unpack(struct et_unpacked *out, enum et_packing packing, int columns, const void *bytes, size_t size);
void et_unpacked_free(struct et_unpacked *unpacked);

/* Reads the next label set; false at the end. ids: span, trace high, trace low. */
bool et_label_set_next(const uint8_t **at, const uint8_t *end, uint64_t *labels, uint64_t ids[3]);

/* The label lines, with the span and trace added as labels. free() the result. */
char *et_label_set_text(const char *lines, const uint64_t ids[3]);

/* A stack's count. Senders do not count CPU samples, so for CPU it is the number of periods in the value. value in
 * units. */
uint64_t et_packed_count(bool cpu, int columns, uint64_t value, uint64_t count, uint64_t period);

#endif
