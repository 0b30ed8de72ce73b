/*
 * HTTP requests of one destination, with libcurl. The connection is reused. Secrets are read from files and never
 * appear in messages. Context: one thread at a time.
 */
#ifndef ET_RELAY_HTTP_H
#define ET_RELAY_HTTP_H

#include "tools/lib/util.h"

#include <stdatomic.h>

/* All strings but url may be NULL; files are PEM. They must outlive the et_relay_http. */
struct et_relay_target {
    const char *url;
    const char *token_file; /* for a bearer token */
    const char *user;       /* HTTP basic authentication */
    const char *password_file;
    const char *api_key_file; /* DD-API-KEY */
    const char *org_id;       /* X-Scope-OrgID */
    const char *ca, *cert, *key;
    char **headers; /* "Name: value" */
    size_t header_count;
    unsigned timeout_s;
    bool grpc; /* HTTP/2; the status is that of the trailers, as an HTTP status */
};

struct et_relay_http;

/* NULL: a secret cannot be read; *why (the caller frees it) says which. */
struct et_relay_http *et_relay_http_new(const struct et_relay_target *target, struct et_buf *why);
void et_relay_http_free(struct et_relay_http *http);

struct et_relay_reply {
    long status;           /* 0: no answer */
    bool strange;          /* a success in HTML, or gRPC without a status: not from the expected server */
    bool cut;              /* words are incomplete */
    int64_t retry_after_s; /* 0: not sent */
    struct et_buf words;   /* one line: the error, or the answer */
};

/* stop: true cancels the request. Secrets are read again after a 401 or 403. */
void et_relay_http_post(struct et_relay_http *http, const struct et_buf *body, const char *type, bool gzip,
                        const atomic_bool *stop, struct et_relay_reply *reply);

#endif
