/*
 * One destination's requests over libcurl: its connection is kept, its secrets are read from files and are in no
 * message. Used by one thread at a time.
 */
#ifndef ET_RELAY_HTTP_H
#define ET_RELAY_HTTP_H

#include "tools/lib/util.h"

#include <stdatomic.h>

/* Strings may be NULL but url; files are PEM. All live as long as what is made of it. */
struct et_relay_target {
    const char *url;
    const char *token_file; /* sent as bearer */
    const char *user;       /* HTTP basic, with: */
    const char *password_file;
    const char *api_key_file; /* DD-API-KEY */
    const char *org_id;       /* X-Scope-OrgID */
    const char *ca, *cert, *key;
    char **headers; /* "Name: value" */
    size_t header_count;
    unsigned timeout_s;
};

struct et_relay_http;

/* NULL: a secret cannot be read, *why (to be freed) says which. */
struct et_relay_http *et_relay_http_new(const struct et_relay_target *target, struct et_buf *why);
void et_relay_http_free(struct et_relay_http *http);

struct et_relay_reply {
    long status;           /* 0: there was no answer */
    int64_t retry_after_s; /* 0: it does not say */
    struct et_buf words;   /* a line: what went wrong, or the beginning of the answer */
};

/* stop: ends the request early. Secrets are read again after a 401 or 403. */
void et_relay_http_post(struct et_relay_http *http, const struct et_buf *body, const char *type, bool gzip,
                        const atomic_bool *stop, struct et_relay_reply *reply);

#endif
