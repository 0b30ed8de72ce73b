/*
 * A profile's stacks as bytes. Three packings are read, of which the first is no longer written:
 *
 *   ET_PACK_ROWS     for each stack varints node, then value, count, context as far as the columns go
 *   ET_PACK_COLUMNS  varints: sizes of the first three columns; then the columns node (difference to the one before,
 *                    zigzag), value, count, context, each a varint a stack
 *   ET_PACK_DEFLATED varint: size of ET_PACK_COLUMNS; that as a zlib stream
 *
 * Contexts are varints too: labels, span id, trace id high and low of each; the first has the number 1.
 */
#ifndef ET_STORE_PACK_H
#define ET_STORE_PACK_H

#include "tools/store/store.h"

enum et_packing { ET_PACK_ROWS, ET_PACK_COLUMNS, ET_PACK_DEFLATED };

struct et_packed {
    uint64_t node, value, count; /* value in quanta */
    uint32_t context;            /* 0: none */
};

/* Zeroed: empty. Used again, it keeps its memory. */
struct et_unpacked {
    struct et_packed *stacks;
    size_t count, capacity;
    struct et_buf bytes;
};

/* Appends the stacks to *out. deflate: as long as that is smaller. Returns how they are packed. */
enum et_packing et_pack(const struct et_stacks *stacks, bool deflate, struct et_buf *out);

/* 0, or -EIO: that is no packing of those columns. */
int et_unpack(struct et_unpacked *out, enum et_packing packing, int columns, const void *bytes, size_t size);
void et_unpacked_free(struct et_unpacked *unpacked);

/* The next of a profile's contexts; false at the end. ids: span, trace high, trace low. */
bool et_context_next(const uint8_t **at, const uint8_t *end, uint64_t *labels, uint64_t ids[3]);

/* Labels (lines) with the span and the trace as labels like others. free() the result. */
char *et_context_text(const char *lines, const uint64_t ids[3]);

/* A stack's count. CPU samples are not counted by their sender: as many as periods fit in. value in units. */
uint64_t et_packed_count(bool cpu, int columns, uint64_t value, uint64_t count, uint64_t period);

#endif
