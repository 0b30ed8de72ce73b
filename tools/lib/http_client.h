/* One HTTP request as a client, with libcurl. The size of the answer and the duration are limited. */
#ifndef ET_HTTP_CLIENT_H
#define ET_HTTP_CLIENT_H

#include "tools/lib/util.h"

#include <stdatomic.h>

/* With all other fields zero, url and a place for the answer make a GET with default limits. Redirects are not
 * followed. */
struct et_http_request {
    const char *url;           /* http or https */
    const char *token;         /* bearer token; NULL: none */
    const char *authority;     /* PEM file of trusted CA certificates; NULL: the system's */
    const struct et_buf *body; /* sent with POST; NULL: GET */
    long seconds;              /* for the whole request; 0: 120 */
    size_t limit;              /* largest answer in bytes; 0: 256 MiB */
    struct et_buf *answer;     /* receives the body */
    const atomic_bool *stop;   /* true cancels the request within seconds; may be NULL */
};

/* Returns the HTTP status. 0: no complete answer; *why (the caller frees it) says why. */
long et_http_send(const struct et_http_request *request, struct et_buf *why);

/* Sets what all requests have in common: only http and https, time limits, CA certificates (NULL: the system's). curl:
 * a CURL handle. */
void et_http_set_up(void *curl, const char *url, const char *authority, long seconds);

/* Appends "&name=value" to a URL, escaped. Appends nothing when the value is NULL or "". */
void et_url_parameter(struct et_buf *url, const char *name, const char *value);

#endif
