/* One HTTP request as a client, with libcurl. The size of the answer and the duration are limited. */
#ifndef ET_HTTP_CLIENT_H
#define ET_HTTP_CLIENT_H

#include "tools/lib/util.h"

#include <stdatomic.h>

/* Zeroed but for url and what takes the answer: a GET with sensible limits. Redirects are not followed. */
struct et_http_request {
    const char *url;           /* http or https */
    const char *token;         /* sent as bearer; NULL: none */
    const char *authority;     /* PEM file of who may sign the server's certificate; NULL: the system's */
    const struct et_buf *body; /* then it is a POST; NULL: a GET */
    long seconds;              /* for all of it; 0: 120 */
    size_t limit;              /* most bytes that are taken; 0: 256 MiB */
    struct et_buf *answer;     /* takes what comes */
    const atomic_bool *stop;   /* ends it within seconds when it becomes true; NULL: nothing does */
};

/* Returns the HTTP status. 0: no complete answer; *why (the caller frees it) says why. */
long et_http_send(const struct et_http_request *request, struct et_buf *why);

/* Sets what all requests have in common: only http and https, time limits, CA certificates (NULL: the system's). curl:
 * a CURL handle. */
void et_http_set_up(void *curl, const char *url, const char *authority, long seconds);

/* Appends "&name=value" to a URL, escaped. Appends nothing when the value is NULL or "". */
void et_url_parameter(struct et_buf *url, const char *name, const char *value);

#endif
