/*
 * Writing protobuf by hand, where messages are put together from pieces that were encoded before. Numbers that are 0
 * and empty bytes are left out, as proto3 does.
 */
#ifndef ET_PROTOBUF_H
#define ET_PROTOBUF_H

#include "tools/lib/util.h"

void et_put_number(struct et_buf *out, unsigned field, uint64_t value);
void et_put_fixed64(struct et_buf *out, unsigned field, uint64_t value);
void et_put_text(struct et_buf *out, unsigned field, const char *text);
void et_put_bytes(struct et_buf *out, unsigned field, const void *bytes, size_t size);
/* A nested message or an element of a repeated field: written even when it is empty. */
void et_put_message(struct et_buf *out, unsigned field, const struct et_buf *message);

#endif
