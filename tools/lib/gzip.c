/* See gzip.h. */
#include "tools/lib/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static int inflate_all(z_stream *stream, size_t limit, struct et_buf *out)
{
    uint8_t chunk[65536];
    int code = Z_OK;
    while (code == Z_OK) {
        stream->next_out = chunk;
        stream->avail_out = sizeof chunk;
        code = inflate(stream, Z_NO_FLUSH);
        size_t got = sizeof chunk - stream->avail_out;
        if (out->size + got > limit) {
            return -EFBIG;
        }
        et_buf_add(out, chunk, got);
        if (code == Z_STREAM_END && stream->avail_in > 0) {
            code = inflateReset(stream); /* a gzip file may have several members */
        }
    }
    return code == Z_STREAM_END ? 0 : -EBADMSG;
}

int et_gunzip(const void *bytes, size_t size, size_t limit, struct et_buf *out)
{
    if (size < 2 || memcmp(bytes, "\037\213", 2) != 0) {
        et_buf_add(out, bytes, size);
        return size > limit ? -EFBIG : 0;
    }
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)size};
    if (size > UINT32_MAX || inflateInit2(&stream, 15 + 16) != Z_OK) {
        return -EBADMSG;
    }
    int err = inflate_all(&stream, limit, out);
    inflateEnd(&stream);
    return err;
}

static void deflate_all(const void *bytes, size_t size, int level, struct et_buf *out)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)size};
    if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        et_error("out of memory");
        exit(ET_FAILED);
    }
    uint8_t chunk[65536];
    int code = Z_OK;
    while (code == Z_OK) {
        stream.next_out = chunk;
        stream.avail_out = sizeof chunk;
        code = deflate(&stream, Z_FINISH);
        et_buf_add(out, chunk, sizeof chunk - stream.avail_out);
    }
    deflateEnd(&stream);
}

void et_gzip(const void *bytes, size_t size, struct et_buf *out)
{
    deflate_all(bytes, size, 6, out);
}

void et_gzip_fast(const void *bytes, size_t size, struct et_buf *out)
{
    deflate_all(bytes, size, 1, out);
}
