/*
 * Common code of the control and the pull endpoint, without sockets: request parsing, authorization, and text in a
 * buffer. Supports the part of HTTP/1.1 that curl, Prometheus and Go's clients use: one request a connection, bodies
 * ignored.
 *
 * Only request.c, control.c, tasks.c, pull.c and metrics.c include this. Context of everything here: any thread.
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
};

/* Parses a request. token: what it must carry, as "Authorization: Bearer TOKEN" or as the password of "Basic"; NULL:
 * no check. A client without the token learns nothing: the whole token is compared, before anything else happens.
 * Returns 0; -EINVAL: not HTTP; -EACCES: no valid token. */
int ep_request_read(const char *bytes, size_t size, const char *token, struct ep_request *request);

/* The HTTP status line of an error (0: "200 OK"), with its special headers. */
const char *ep_request_verdict(int error);

/* Serves a request of the control endpoint; path: "/status" and the like. Adds the answer's body to *out, or sets
 * answer->list: then ep_tasks_look() has it later. Returns 0 or an error that ep_request_verdict() knows. */
int ep_control_act(struct ep_text *out, const struct ep_request *request, struct ep_answer *answer);
/* Where that has failed, the body is the reason; without a body, that it is done. A body that does not fit has failed,
 * too. head: bytes before the body. Returns the error to answer with; 0: none. */
int ep_control_settle(struct ep_text *body, size_t head, int error);

/* Adds the part of a list of pending work that begins at `next`, from the answer before. Returns 0; -ENOSYS: this
 * program has none; or an error of the runtime's. */
int ep_tasks_put(struct ep_text *out, struct ep_part next);

/* Asks for a list. Returns 0, and sets answer->list and ->look_ns; -EUSERS: enough clients wait; -ENOSYS.
 * ep_tasks_look() adds its first part as soon as it is made. It returns -EAGAIN and sets answer->look_ns while it is
 * not; 0 or an error ends the wait. ep_tasks_done() is for a client that waits no more, and does nothing else to an
 * answer. */
int ep_tasks_ask(struct ep_answer *answer);
int ep_tasks_look(struct ep_text *out, struct ep_answer *answer);
void ep_tasks_done(struct ep_answer *answer);

/* Writes all statistics in Prometheus' text format, version 0.0.4. Returns 0 or -ESRCH. */
int ep_metrics_put(struct ep_text *out);

#endif
