/*
 * Common code of the control and the pull endpoint, without sockets: request parsing, authorization, and text in a
 * buffer. Supports the part of HTTP/1.1 that curl, Prometheus and Go's clients use: one request a connection, bodies
 * ignored.
 *
 * Context of everything here: any thread.
 */
#ifndef EP_REQUEST_H
#define EP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/port_calls.h>
#include "core/features/endpoint/answer.h"

/* ---- text in a buffer: text that does not fit is dropped, and `full` is set ---- */

struct ep_text {
    char *at;
    size_t room, fill;
    bool full;
};

void ep_text_bytes(struct ep_text *text, const char *bytes, size_t size);
void ep_text_put(struct ep_text *text, const char *more);
void ep_text_number(struct ep_text *text, uint64_t value);

/* ---- requests ---- */

/* A part of the request. */
struct ep_part {
    const char *at;
    size_t size;
};

bool ep_part_is(struct ep_part part, const char *text);
/* Takes the text before `c` off the part, and `c` with it; all of the part if it has no `c`. */
struct ep_part ep_part_before(struct ep_part *part, char c);

struct ep_request {
    struct ep_part method, path, query;
    struct ep_part host; /* of the Host header, without a port; size 0: none */
    bool foreign;        /* a web page of another site has caused it */
};

/* Parses a request. token: what it must carry, as "Authorization: Bearer TOKEN" or as the password of "Basic"; NULL:
 * no check. A client without the token learns nothing: the whole token is compared, before anything else happens.
 * Returns 0; -EINVAL: not HTTP; -EACCES: no valid token; -EXDEV: a web page of another site has caused the request. */
int ep_request_read(const char *bytes, size_t size, const char *token, struct ep_request *request);

/* The HTTP status line of an error (0: "200 OK"), with its special headers. */
const char *ep_request_verdict(int error);

#endif
