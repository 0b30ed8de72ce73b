/*
 * What the files of the HTTP/1.1 client share. Not for users: they get it as ep_transport_http.
 *
 *   http.c           request, connection, what a status means
 *   http_url.c       endpoint -> its parts
 *   http_response.c  bytes of a response -> status, where it ends
 */
#ifndef EP_HTTP_H
#define EP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport.h"

/* Longest host name or address (RFC 1035: 253), with its NUL. */
#define EP_HTTP_HOST 256

/* Most bytes of one response that are looked at, interim responses and body included. A longer body is cut by closing
 * the connection, a longer head is an error. */
#define EP_HTTP_RESPONSE_MAX 65536U

/* Longest line of which all is looked at. Of a longer one, only the start is. */
#define EP_HTTP_LINE 96

/* Longest Retry-After that is believed, seconds. */
#define EP_HTTP_RETRY_MAX 86400U

/* ---- http_url.c ---- */

/* A stretch of the endpoint string. */
struct ep_http_part {
    const char *text;
    size_t size;
};

struct ep_http_url {
    char host[EP_HTTP_HOST];       /* for connecting: IPv6 literals without brackets */
    char port[6];                  /* decimal */
    bool secure;                   /* https */
    struct ep_http_part authority; /* host[:port] as written, for the Host line */
    struct ep_http_part userinfo;  /* percent-encoded, "" when there is none */
    struct ep_http_part prefix;    /* path without its last slashes, "" or "/..." */
};

/* Takes "http://[user[:password]@]host[:port][/prefix]", or the same with https, apart. Parts point into endpoint.
 * Returns 0 or -EINVAL. Context: init. */
int ep_http_url_parse(struct ep_http_url *url, const char *endpoint);

/* ---- http_response.c ---- */

struct ep_http_response {
    uint32_t bytes;      /* seen so far, interim responses included */
    uint32_t retry_s;    /* Retry-After in seconds, 0: none */
    uint64_t left;       /* bytes of the body, or of the chunk, that are to come */
    uint16_t status;     /* 0: not known yet */
    uint8_t state;       /* enum state of http_response.c */
    bool known;          /* the final response's head is complete: status counts */
    bool close;          /* the connection cannot be used after this response */
    bool chunked, sized; /* how the body's length is told */
    bool line_cut;       /* line[] holds only the start of the line */
    uint8_t line_size;
    char line[EP_HTTP_LINE];
};

/* Gets *response ready for the first byte of a response. Context: deliver. */
void ep_http_response_start(struct ep_http_response *response);

/* Takes the next size bytes of the connection; *used tells how many belonged to this response.
 * Returns 1: more is needed; 0: the response is complete, or as much of it as matters (response->close then says that
 * the rest is unread); -EPROTO: this is no HTTP response. Context: deliver. */
int ep_http_response_feed(struct ep_http_response *response, const uint8_t *bytes, size_t size, size_t *used);

/* ---- find.c ---- */

/* What https is, in programs that have set up TLS: tls/setup.c sets it, others do not link it. */
extern const struct ep_transport *ep_transport_https;

/* ---- http.c ---- */

/* As ep_transport_http.open, over the given stream; https as well, so that stream had better be a secure one.
 * Context: init. */
int ep_http_open_over(void *state, const struct ep_target *target, const struct ep_stream *stream);

#endif
