/* See gzip.h. */
#include "tools/lib/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 65536, MAGIC = 2 };
static const char MAGIC_BYTES[] = "\037\213";

bool et_is_gzip(const void *bytes, size_t size)
{
    return size >= MAGIC && memcmp(bytes, MAGIC_BYTES, MAGIC) == 0;
}

struct et_inflater {
    et_inflated *write;
    void *context;
    size_t left;         /* of the limit */
    uint8_t head[MAGIC]; /* held back until there are so many */
    size_t head_size;
    enum { UNDECIDED, PLAIN, GZIP } form;
    bool complete; /* the last member */
    z_stream stream;
};

static int pass_on(struct et_inflater *inflater, const void *bytes, size_t size)
{
    if (size > inflater->left) {
        return -EFBIG;
    }
    inflater->left -= size;
    return size ? inflater->write(inflater->context, bytes, size) : 0;
}

static int inflate_part(struct et_inflater *inflater, const uint8_t *bytes, size_t size)
{
    uint8_t chunk[CHUNK];
    z_stream *stream = &inflater->stream;
    stream->next_in = (Bytef *)(uintptr_t)bytes;
    stream->avail_in = (uInt)size;
    int err = 0;
    do {
        if (inflater->complete) {
            inflateReset(stream); /* a gzip file may have several members */
        }
        stream->next_out = chunk;
        stream->avail_out = sizeof chunk;
        int code = inflate(stream, Z_NO_FLUSH);
        inflater->complete = code == Z_STREAM_END;
        err = code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR
                  ? pass_on(inflater, chunk, sizeof chunk - stream->avail_out)
                  : -EBADMSG;
    } while (!err && (stream->avail_in || (stream->avail_out == 0 && !inflater->complete)));
    return err;
}

static int add_part(struct et_inflater *inflater, const uint8_t *bytes, size_t size)
{
    int err = 0;
    if (inflater->form == PLAIN) {
        return pass_on(inflater, bytes, size);
    }
    while (size && !err) {
        size_t part = size < UINT32_MAX ? size : UINT32_MAX;
        err = inflate_part(inflater, bytes, part);
        bytes += part;
        size -= part;
    }
    return err;
}

struct et_inflater *et_inflater_new(size_t limit, et_inflated *write, void *context)
{
    struct et_inflater *inflater = et_alloc(1, sizeof *inflater);
    inflater->left = limit;
    inflater->write = write;
    inflater->context = context;
    return inflater;
}

/* By the first bytes, which it adds. */
static int decide(struct et_inflater *inflater)
{
    bool gzip = et_is_gzip(inflater->head, inflater->head_size);
    if (gzip && inflateInit2(&inflater->stream, 15 + 16) != Z_OK) {
        return -EBADMSG;
    }
    inflater->form = gzip ? GZIP : PLAIN;
    return add_part(inflater, inflater->head, inflater->head_size);
}

int et_inflater_add(struct et_inflater *inflater, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    if (inflater->form == UNDECIDED) {
        while (size && inflater->head_size < MAGIC) {
            inflater->head[inflater->head_size++] = *at++;
            size--;
        }
        int err = inflater->head_size == MAGIC ? decide(inflater) : 0;
        if (err) {
            return err;
        }
    }
    return size ? add_part(inflater, at, size) : 0;
}

int et_inflater_end(struct et_inflater *inflater)
{
    int err = inflater->form == UNDECIDED ? decide(inflater) : 0;
    return err ? err : inflater->form == PLAIN || inflater->complete ? 0 : -EBADMSG;
}

void et_inflater_free(struct et_inflater *inflater)
{
    if (inflater && inflater->form == GZIP) {
        inflateEnd(&inflater->stream);
    }
    free(inflater);
}

static int append(void *context, const void *bytes, size_t size)
{
    et_buf_add(context, bytes, size);
    return 0;
}

int et_gunzip(const void *bytes, size_t size, size_t limit, struct et_buf *out)
{
    if (!et_is_gzip(bytes, size)) {
        et_buf_add(out, bytes, size);
        return size > limit ? -EFBIG : 0;
    }
    struct et_inflater *inflater = et_inflater_new(limit, append, out);
    int err = et_inflater_add(inflater, bytes, size);
    err = err ? err : et_inflater_end(inflater);
    et_inflater_free(inflater);
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
