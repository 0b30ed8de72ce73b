/* gzip compression with zlib. */
#ifndef ET_GZIP_H
#define ET_GZIP_H

#include "tools/lib/util.h"

/* Appends the inflated bytes; appends bytes that are not gzip unchanged. Returns 0, -EFBIG (more than limit bytes) or
 * -EBADMSG. */
int et_gunzip(const void *bytes, size_t size, size_t limit, struct et_buf *out);

/* For files that are kept. */
void et_gzip(const void *bytes, size_t size, struct et_buf *out);
/* For answers that are sent once: larger by about a quarter, in a third of the time. */
void et_gzip_fast(const void *bytes, size_t size, struct et_buf *out);

#endif
