/*
 * Writes protobuf by hand, for messages built from pieces encoded earlier. Numbers that are 0 and empty bytes are
 * omitted, as in proto3.
 */
#ifndef ET_PROTOBUF_H
#define ET_PROTOBUF_H

#include "tools/lib/util.h"

void et_put_number(struct et_buf *out, unsigned field, uint64_t value);
void et_put_fixed64(struct et_buf *out, unsigned field, uint64_t value);
void et_put_text(struct et_buf *out, unsigned field, const char *text);
void et_put_bytes(struct et_buf *out, unsigned field, const void *bytes, size_t size);
/* A nested message or an element of a repeated field. Written even when empty. */
void et_put_message(struct et_buf *out, unsigned field, const struct et_buf *message);

#endif
