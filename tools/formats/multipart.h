/*
 * Fields of a complete multipart/form-data body in memory. libmicrohttpd's parser works only while a body arrives; here
 * the body is complete, and perhaps inflated.
 */
#ifndef ET_MULTIPART_H
#define ET_MULTIPART_H

#include "tools/lib/util.h"

/* RFC 2046 allows 70 bytes. */
#define ET_BOUNDARY 71

/* Extracts the boundary of a Content-Type. False: not multipart/form-data. */
bool et_multipart_boundary(const char *content_type, char boundary[ET_BOUNDARY]);

/* Finds the field by name; *field points into the body. Returns 1; 0: no such field; -EBADMSG: malformed. */
int et_multipart_field(const char *body, size_t size, const char *boundary, const char *name, const char **field,
                       size_t *field_size);

#endif
