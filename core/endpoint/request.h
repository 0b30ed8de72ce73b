/*
 * What the control and the pull endpoint have in common, without sockets: a request's bytes taken apart, who may make
 * it, and text written into a buffer. Part of HTTP/1.1 that curl, Prometheus and Go's clients speak: one request a
 * connection, no body is looked at.
 *
 * Only request.c, control.c, pull.c and metrics.c include this. Context of everything here: any thread.
 */
#ifndef EP_REQUEST_H
#define EP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/edgeprof.h"

/* ---- text on its way into a buffer: what does not fit is left out, and `full` says so ---- */

struct ep_text {
    char *at;
    size_t room, fill;
    bool full;
};

void ep_text_bytes(struct ep_text *text, const char *bytes, size_t size);
void ep_text_put(struct ep_text *text, const char *more);
void ep_text_number(struct ep_text *text, uint64_t value);

/* ---- requests ---- */

/* A stretch of the request. */
struct ep_part {
    const char *at;
    size_t size;
};

bool ep_part_is(struct ep_part part, const char *text);
/* Takes what is before `c` off the part, all of it when there is none. */
struct ep_part ep_part_before(struct ep_part *part, char c);

struct ep_request {
    struct ep_part method, path, query;
    struct ep_part host; /* of the header, without a port; size 0: there is none */
};

/* Takes it apart. token: what it must carry, as "Authorization: Bearer TOKEN" or as the password of "Basic"; NULL:
 * nothing. Whoever sends one that is not ours learns nothing: it is compared whole, and first. 0; -EINVAL: no HTTP;
 * -EACCES: not the token. */
int ep_request_read(const char *bytes, size_t size, const char *token, struct ep_request *request);

/* "200 OK" of an error, 0 included, with its headers. */
const char *ep_request_verdict(int error);

/* The control endpoint's requests; path as "/status". Errors are those that ep_request_verdict() knows; what a request
 * asks to be told is added to *out. */
int ep_control_act(struct ep_text *out, const struct ep_request *request);
const char *ep_control_reason(int error);

/* All statistics in Prometheus' text format, version 0.0.4. 0 or -ESRCH. */
int ep_metrics_put(struct ep_text *out);

#endif
