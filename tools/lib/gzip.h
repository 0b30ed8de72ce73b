/* Compression: gzip, and what others send, zstd and deflate. */
#ifndef ET_GZIP_H
#define ET_GZIP_H

#include "tools/lib/util.h"

/* By the first two bytes. */
bool et_is_gzip(const void *bytes, size_t size);

/* The same for zstd. */
bool et_is_zstd(const void *bytes, size_t size);

/* Appends the inflated bytes of gzip or zstd; appends other bytes unchanged. Returns 0, -EFBIG (more than limit bytes)
 * or -EBADMSG. */
int et_gunzip(const void *bytes, size_t size, size_t limit, struct et_buf *out);

/* The same for HTTP's content coding deflate: zlib's format, or without its head, as some clients send it. */
int et_inflate(const void *bytes, size_t size, size_t limit, struct et_buf *out);

/* The same for bytes that come in parts. write() gets the inflated bytes; a result other than 0 ends it. */
struct et_inflater;
typedef int et_inflated(void *context, const void *bytes, size_t size);

struct et_inflater *et_inflater_new(size_t limit, et_inflated *write, void *context);
/* Returns 0, -EFBIG, -EBADMSG or what write() returned. After an error nothing more may be added. */
int et_inflater_add(struct et_inflater *inflater, const void *bytes, size_t size);
/* After the last part; as et_inflater_add(). */
int et_inflater_end(struct et_inflater *inflater);
/* NULL is ignored. */
void et_inflater_free(struct et_inflater *inflater);

/* For files that are kept. */
void et_gzip(const void *bytes, size_t size, struct et_buf *out);
/* For answers that are sent once: larger by about a quarter, in a third of the time. */
void et_gzip_fast(const void *bytes, size_t size, struct et_buf *out);

#endif
