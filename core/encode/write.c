/*
 * Helpers between the encoders and nanopb; see write.h.
 */
#include "core/encode/write.h"
#include <edgeprof/transport.h>

#include <string.h>

bool ep_put_number(pb_ostream_t *stream, uint32_t tag, uint64_t value)
{
    return value == 0 || (pb_encode_tag(stream, PB_WT_VARINT, tag) && pb_encode_varint(stream, value));
}

bool ep_put_fixed64(pb_ostream_t *stream, uint32_t tag, uint64_t value)
{
    return value == 0 || (pb_encode_tag(stream, PB_WT_64BIT, tag) && pb_encode_fixed64(stream, &value));
}

bool ep_put_bytes(pb_ostream_t *stream, uint32_t tag, const void *bytes, size_t size)
{
    return size == 0 || (pb_encode_tag(stream, PB_WT_STRING, tag) && pb_encode_string(stream, bytes, size));
}

bool ep_put_text(pb_ostream_t *stream, uint32_t tag, const char *text)
{
    return !text || ep_put_bytes(stream, tag, text, strlen(text));
}

bool ep_put_element(pb_ostream_t *stream, uint32_t tag, const char *text)
{
    size_t size = strlen(text);
    bool good = pb_encode_tag(stream, PB_WT_STRING, tag) && pb_encode_varint(stream, size);

    while (good && size) {
        size_t run = ep_utf8_run(text, size);
        good = pb_write(stream, (const pb_byte_t *)text, run) &&
               (run == size || pb_write(stream, (const pb_byte_t *)"?", 1));
        run += run < size;
        text += run;
        size -= run;
    }
    return good;
}

bool ep_put_nested(pb_ostream_t *stream, uint32_t tag, ep_writer *writer, const struct ep_source *source)
{
    pb_ostream_t sizing = PB_OSTREAM_SIZING;

    if (!writer(&sizing, source) || !pb_encode_tag(stream, PB_WT_STRING, tag) ||
        !pb_encode_varint(stream, sizing.bytes_written))
        return false;
    /* A stream that only counts need not see the bytes, else each level of nesting doubles the work. */
    return stream->callback ? writer(stream, source) : pb_write(stream, NULL, sizing.bytes_written);
}
