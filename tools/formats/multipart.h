/*
 * multipart/form-data bodies that are in memory as a whole. libmicrohttpd's own parser wants to see a body pass by on
 * its connection; ours has been collected, and perhaps inflated, before anybody asks what it is.
 */
#ifndef ET_MULTIPART_H
#define ET_MULTIPART_H

#include "tools/lib/util.h"

/* RFC 2046 allows 70 bytes. */
#define ET_BOUNDARY 71

/* The boundary of a Content-Type; false: it is none of multipart/form-data. */
bool et_multipart_boundary(const char *content_type, char boundary[ET_BOUNDARY]);

/* The field of that name: bytes of the body. 1; 0: there is none; -EBADMSG: not of this form. */
int et_multipart_field(const char *body, size_t size, const char *boundary, const char *name, const char **field,
                       size_t *field_size);

#endif
