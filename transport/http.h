/*
 * Private to the files of the HTTP/1.1 client. Users have it as ep_transport_http.
 *
 *   http.c           request, connection, meaning of a status
 *   http_url.c       endpoint -> its parts
 *   http_response.c  bytes of a response -> status, end of the response
 */
#ifndef EP_HTTP_H
#define EP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/transport.h>

/* Longest host name or address (RFC 1035: 253), with its NUL. */
#define EP_HTTP_HOST 256

/* Maximum bytes of one response, including interim responses and body. A longer body is cut by closing the
 * connection; a longer head is an error. */
#define EP_HTTP_RESPONSE_MAX 65536U

/* Maximum length of a line; only this much of a longer line is kept. */
#define EP_HTTP_LINE 96

/* Maximum Retry-After, seconds. */
#define EP_HTTP_RETRY_MAX 86400U

/* ---- http_url.c ---- */

/* A part of the endpoint string. */
struct ep_http_part {
    const char *text;
    size_t size;
};

struct ep_http_url {
    char host[EP_HTTP_HOST];       /* for connecting: IPv6 literals without brackets */
    char port[6];                  /* decimal */
    bool secure;                   /* https */
    struct ep_http_part authority; /* host[:port] as written, for the Host line */
    struct ep_http_part userinfo;  /* percent-encoded; "": none */
    struct ep_http_part prefix;    /* path without trailing slashes, "" or "/..." */
};

/* Parses "http://[user[:password]@]host[:port][/prefix]", or the same with https. The parts point into `endpoint`.
 * Returns 0 or -EINVAL. Context: init. */
int ep_http_url_parse(struct ep_http_url *url, const char *endpoint);

/* ---- http_response.c ---- */

struct ep_http_response {
    uint32_t bytes;      /* seen so far, interim responses included */
    uint32_t retry_s;    /* Retry-After in seconds, 0: none */
    uint64_t left;       /* remaining bytes of the body or chunk */
    uint16_t status;     /* 0: not known yet */
    uint8_t state;       /* enum state of http_response.c */
    bool known;          /* the final response's head is complete: status counts */
    bool close;          /* the connection cannot be used after this response */
    bool chunked, sized; /* how the body's length is given */
    bool page;           /* the body is HTML */
    bool line_cut;       /* line[] has only the start of the line */
    uint8_t line_size;
    char line[EP_HTTP_LINE];
};

/* Prepares *response for the first byte of a response. Context: deliver. */
void ep_http_response_start(struct ep_http_response *response);

/* Parses the next `size` bytes of the connection; *used: how many belong to this response.
 * Returns 1: more is needed; 0: the response is complete, or all of it that matters (response->close: the rest is
 * unread); -EPROTO: not an HTTP response. Context: deliver. */
int ep_http_response_feed(struct ep_http_response *response, const uint8_t *bytes, size_t size, size_t *used);

/* ---- find.c ---- */

/* The transport for https, set by tls/setup.c; NULL without TLS. */
extern const struct ep_transport *ep_transport_https;

/* ---- http.c ---- */

/* Opens as ep_transport_http.open() does, over the given stream. It accepts https as well; the stream must be a secure
 * one then.
 * Context: init. */
int ep_http_open_over(void *state, const struct ep_target *target, const struct ep_stream *stream);

#endif
