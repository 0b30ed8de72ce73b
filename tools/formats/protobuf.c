/* See protobuf.h. */
#include "tools/formats/protobuf.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };

static void put_tag(struct et_buf *out, unsigned field, unsigned type)
{
    et_varint_put(out, (uint64_t)field << 3 | type);
}

void et_put_number(struct et_buf *out, unsigned field, uint64_t value)
{
    if (value) {
        put_tag(out, field, VARINT);
        et_varint_put(out, value);
    }
}

void et_put_fixed64(struct et_buf *out, unsigned field, uint64_t value)
{
    if (value) {
        put_tag(out, field, FIXED64);
        for (unsigned shift = 0; shift < 64; shift += 8) {
            et_buf_char(out, (char)(value >> shift));
        }
    }
}

void et_put_bytes(struct et_buf *out, unsigned field, const void *bytes, size_t size)
{
    if (size) {
        put_tag(out, field, BYTES);
        et_varint_put(out, size);
        et_buf_add(out, bytes, size);
    }
}

void et_put_text(struct et_buf *out, unsigned field, const char *text)
{
    et_put_bytes(out, field, text, strlen(text));
}

void et_put_message(struct et_buf *out, unsigned field, const struct et_buf *message)
{
    put_tag(out, field, BYTES);
    et_varint_put(out, message->size);
    et_buf_add(out, message->data, message->size);
}
