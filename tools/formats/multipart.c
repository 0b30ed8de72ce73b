/* See multipart.h. Lines "--BOUNDARY" separate the parts. Each part begins with headers up to an empty line. */
#include "tools/formats/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool et_multipart_boundary(const char *content_type, char boundary[ET_BOUNDARY])
{
    static const char type[] = "multipart/form-data", key[] = "boundary=";
    if (strncasecmp(content_type, type, sizeof type - 1) != 0) {
        return false;
    }
    const char *at = strcasestr(content_type + sizeof type - 1, key);
    if (!at) {
        return false;
    }
    at += sizeof key - 1;
    bool quoted = *at == '"';
    size_t size = strcspn(at + quoted, quoted ? "\"" : "; \t");
    snprintf(boundary, ET_BOUNDARY, "%.*s", (int)(size < ET_BOUNDARY ? size : 0), at + quoted);
    return boundary[0] != '\0';
}

/* Whether a Content-Disposition names the field: form-data; name="x"; filename="y". */
static bool has_name(const char *line, const char *end, const char *name)
{
    char wanted[64];
    size_t size = (size_t)snprintf(wanted, sizeof wanted, "name=\"%s\"", name);
    const char *at = memmem(line, (size_t)(end - line), wanted, size);
    while (at && at > line && at[-1] != ' ' && at[-1] != ';') {
        at = memmem(at + 1, (size_t)(end - at) - 1, wanted, size);
    }
    return at != NULL;
}

static bool is_named(const char *headers, const char *end, const char *name)
{
    static const char header[] = "content-disposition:";
    while (headers < end) {
        const char *stop = memmem(headers, (size_t)(end - headers), "\r\n", 2);
        stop = stop ? stop : end;
        if ((size_t)(stop - headers) > sizeof header && strncasecmp(headers, header, sizeof header - 1) == 0) {
            return has_name(headers, stop, name);
        }
        headers = stop == end ? end : stop + 2;
    }
    return false;
}

/* The text after the first boundary, which may be at the start of the body or after a preamble's line end. */
static const char *find_first_part(const char *body, size_t size, const char *line, size_t line_size)
{
    if (size >= line_size - 2 && memcmp(body, line + 2, line_size - 2) == 0) {
        return body + line_size - 2;
    }
    const char *found = size ? memmem(body, size, line, line_size) : NULL;
    return found ? found + line_size : NULL;
}

int et_multipart_field(const char *body, size_t size, const char *boundary, const char *name, const char **field,
                       size_t *field_size)
{
    char line[ET_BOUNDARY + 4];
    size_t line_size = (size_t)snprintf(line, sizeof line, "\r\n--%s", boundary);
    const char *end = body + size, *at = find_first_part(body, size, line, line_size);
    while (at && (end - at < 2 || memcmp(at, "--", 2) != 0)) {
        const char *headers = memmem(at, (size_t)(end - at), "\r\n", 2);
        const char *blank = headers ? memmem(headers, (size_t)(end - headers), "\r\n\r\n", 4) : NULL;
        const char *next = blank ? memmem(blank + 4, (size_t)(end - blank) - 4, line, line_size) : NULL;
        if (!next) {
            return -EBADMSG;
        }
        if (blank > headers && is_named(headers + 2, blank, name)) {
            *field = blank + 4;
            *field_size = (size_t)(next - blank) - 4;
            return 1;
        }
        at = next + line_size;
    }
    return at ? 0 : -EBADMSG;
}
