/*
 * A profile's stacks as bytes. Reads three packings; writes only the last two:
 *
 *   ET_PACK_ROWS     for each stack varints node, then value, count, context as far as the columns go
 *   ET_PACK_COLUMNS  varints: sizes of the first three columns; then the columns node (zigzag difference to the
 * previous one), value, count, context, one varint per stack ET_PACK_DEFLATED varint: size of ET_PACK_COLUMNS; then
 * that as a zlib stream
 *
 * Contexts are varints too: labels, span id, trace id high and low; the first context has number 1.
 */
#ifndef ET_STORE_PACK_H
#define ET_STORE_PACK_H

#include "tools/store/store.h"

enum et_packing { ET_PACK_ROWS, ET_PACK_COLUMNS, ET_PACK_DEFLATED };

struct et_packed {
    uint64_t node, value, count; /* value in quanta */
    uint32_t context;            /* 0: none */
};

/* Zeroed: empty. Reuse keeps its memory. */
struct et_unpacked {
    struct et_packed *stacks;
    size_t count, capacity;
    struct et_buf bytes;
};

/* Appends the stacks to *out. deflate: compress if that is smaller. Returns the packing used. */
enum et_packing et_pack(const struct et_stacks *stacks, bool deflate, struct et_buf *out);

/* Returns 0, or -EIO for malformed bytes. */
int et_unpack(struct et_unpacked *out, enum et_packing packing, int columns, const void *bytes, size_t size);
void et_unpacked_free(struct et_unpacked *unpacked);

/* Reads the next context; false at the end. ids: span, trace high, trace low. */
bool et_context_next(const uint8_t **at, const uint8_t *end, uint64_t *labels, uint64_t ids[3]);

/* The label lines, with the span and trace added as labels. free() the result. */
char *et_context_text(const char *lines, const uint64_t ids[3]);

/* A stack's count. Senders do not count CPU samples, so for CPU it is the number of periods in the value. value in
 * units. */
uint64_t et_packed_count(bool cpu, int columns, uint64_t value, uint64_t count, uint64_t period);

#endif
