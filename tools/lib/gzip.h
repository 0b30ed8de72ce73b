/* gzip compression with zlib. */
#ifndef ET_GZIP_H
#define ET_GZIP_H

#include "tools/lib/util.h"

/* Appends the inflated bytes; appends bytes that are not gzip unchanged. Returns 0, -EFBIG (more than limit bytes) or
 * -EBADMSG. */
int et_gunzip(const void *bytes, size_t size, size_t limit, struct et_buf *out);

void et_gzip(const void *bytes, size_t size, struct et_buf *out);

#endif
