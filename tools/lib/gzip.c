/* See gzip.h. */
#include "tools/lib/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* WINDOW_LOG: a frame of zstd says how much memory it needs; 32 MiB is the most that levels of usual encoders ask for.
 */
enum { CHUNK = 65536, MAGIC = 4, WINDOW_LOG = 25 };
static const char GZIP_MAGIC[] = "\037\213", ZSTD_MAGIC[] = "\050\265\057\375";

bool et_is_gzip(const void *bytes, size_t size)
{
    return size >= sizeof GZIP_MAGIC - 1 && memcmp(bytes, GZIP_MAGIC, sizeof GZIP_MAGIC - 1) == 0;
}

bool et_is_zstd(const void *bytes, size_t size)
{
    return size >= MAGIC && memcmp(bytes, ZSTD_MAGIC, MAGIC) == 0;
}

struct et_inflater {
    et_inflated *write;
    void *context;
    size_t left;         /* of the limit */
    uint8_t head[MAGIC]; /* held back until there are so many */
    size_t head_size;
    enum { UNDECIDED, PLAIN, ZLIB, ZSTD } form;
    bool complete; /* the last member or frame */
    z_stream stream;
    ZSTD_DCtx *zstd;
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

static int unpack_zstd(struct et_inflater *inflater, const uint8_t *bytes, size_t size)
{
    uint8_t chunk[CHUNK];
    ZSTD_inBuffer in = {.src = bytes, .size = size};
    ZSTD_outBuffer out;
    int err;
    do {
        out = (ZSTD_outBuffer){.dst = chunk, .size = sizeof chunk};
        size_t wanted = ZSTD_decompressStream(inflater->zstd, &out, &in);
        inflater->complete = wanted == 0;
        err = ZSTD_isError(wanted) ? -EBADMSG : pass_on(inflater, chunk, out.pos);
    } while (!err && (in.pos < in.size || (out.pos == out.size && !inflater->complete)));
    return err;
}

static int add_part(struct et_inflater *inflater, const uint8_t *bytes, size_t size)
{
    int err = 0;
    if (inflater->form != ZLIB) {
        return inflater->form == ZSTD ? unpack_zstd(inflater, bytes, size) : pass_on(inflater, bytes, size);
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

static bool begin_zlib(struct et_inflater *inflater, int window)
{
    inflater->form = inflateInit2(&inflater->stream, window) == Z_OK ? ZLIB : PLAIN;
    return inflater->form == ZLIB;
}

static bool begin_zstd(struct et_inflater *inflater)
{
    inflater->form = ZSTD;
    inflater->zstd = ZSTD_createDCtx();
    return inflater->zstd && !ZSTD_isError(ZSTD_DCtx_setParameter(inflater->zstd, ZSTD_d_windowLogMax, WINDOW_LOG));
}

/* By the first bytes, which it adds. */
static int decide(struct et_inflater *inflater)
{
    inflater->form = PLAIN;
    if ((et_is_gzip(inflater->head, inflater->head_size) && !begin_zlib(inflater, 15 + 16)) ||
        (et_is_zstd(inflater->head, inflater->head_size) && !begin_zstd(inflater))) {
        return -EBADMSG;
    }
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
    if (inflater && inflater->form == ZLIB) {
        inflateEnd(&inflater->stream);
    }
    if (inflater) {
        ZSTD_freeDCtx(inflater->zstd);
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
    if (!et_is_gzip(bytes, size) && !et_is_zstd(bytes, size)) {
        et_buf_add(out, bytes, size);
        return size > limit ? -EFBIG : 0;
    }
    struct et_inflater *inflater = et_inflater_new(limit, append, out);
    int err = et_inflater_add(inflater, bytes, size);
    err = err ? err : et_inflater_end(inflater);
    et_inflater_free(inflater);
    return err;
}

/* zlib's format begins with a number that 31 divides, whose first byte ends in 8. */
int et_inflate(const void *bytes, size_t size, size_t limit, struct et_buf *out)
{
    const uint8_t *head = bytes;
    bool wrapped = size >= 2 && (head[0] & 15) == 8 && (head[0] << 8 | head[1]) % 31 == 0;
    struct et_inflater *inflater = et_inflater_new(limit, append, out);
    int err = begin_zlib(inflater, wrapped ? 15 : -15) ? add_part(inflater, bytes, size) : -EBADMSG;
    err = err || inflater->complete ? err : -EBADMSG;
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
