/*
 * HTTP/1.1 client: each message is one POST; compact as it is, pprof as the configured ep_push wraps it. One connection
 * is kept alive and checked before it is used again. If the receiver closes it at that moment, the request is repeated
 * once on a new connection. Works on any ep_stream. Not here: TLS, redirects, proxies, cookies, name resolution, and
 * retries, which are the caller's. A message may arrive twice if its answer was lost: compact messages carry (segment,
 * sequence) for that.
 *
 *   http_send -> exchange -> connection_open -> is_idle
 *                         -> write_request -> put...     through the buffer, so a head may have any length
 *                         -> read_response -> ep_http_response_feed
 *             -> result_of_status
 */
#include "transport/http.h"

#include <errno.h>
#include <string.h>

#define STREAM_BYTES 256
#define BUFFER_BYTES 768

struct http {
    const struct ep_stream *stream;
    const struct ep_target *target;
    struct ep_http_url url;
    struct ep_http_response response;
    bool connected;
    int error;                          /* of the request being written; after an error the rest is skipped */
    const struct ep_deadline *deadline; /* of the message being sent */
    size_t fill;
    uint8_t buffer[BUFFER_BYTES]; /* holds the request while it is written, then the response */
    uint64_t stream_state[STREAM_BYTES / sizeof(uint64_t)];
};

_Static_assert(sizeof(struct http) <= EP_TRANSPORT_BYTES, "EP_TRANSPORT_BYTES is too small for HTTP");

/* ---- connection ---- */

static void connection_close(struct http *http)
{
    http->stream->close(http->stream_state);
    http->connected = false;
}

/* A connection without pending bytes. If the receiver has closed it, or has sent something unasked (a 408), it must
 * not be used for the next request. */
static bool is_idle(struct http *http)
{
    struct ep_deadline past = {0};
    uint8_t byte;
    return http->stream->read(http->stream_state, &byte, 1, &past) == -ETIMEDOUT;
}

static int connection_open(struct http *http)
{
    if (http->connected && is_idle(http))
        return 0;
    if (http->connected)
        connection_close(http);
    int err = http->stream->connect(http->stream_state, http->url.host, http->url.port, http->deadline);
    http->connected = err == 0;
    if (err)
        http->stream->close(http->stream_state);
    return err;
}

static void write_all(struct http *http, const uint8_t *bytes, size_t size)
{
    while (size > 0 && !http->error) {
        long n = http->stream->write(http->stream_state, bytes, size, http->deadline);
        if (n <= 0 || (size_t)n > size) {
            http->error = n < 0 ? (int)n : -EIO;
            return;
        }
        bytes += n;
        size -= (size_t)n;
    }
}

/* ---- writing a request ---- */

static void buffer_flush(struct http *http)
{
    write_all(http, http->buffer, http->fill);
    http->fill = 0;
}

static void put_bytes(struct http *http, const void *bytes, size_t size)
{
    if (size > BUFFER_BYTES - http->fill)
        buffer_flush(http);
    if (size > BUFFER_BYTES) {
        write_all(http, bytes, size);
        return;
    }
    memcpy(http->buffer + http->fill, bytes, size);
    http->fill += size;
}

static void put_text(struct http *http, const char *text)
{
    put_bytes(http, text, strlen(text));
}

static void put_number(struct http *http, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    put_bytes(http, digits + at, sizeof digits - at);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes the next byte off a percent-encoded part and decodes it. */
static uint8_t decoded_byte(struct ep_http_part *part)
{
    const char *text = part->text;
    size_t size = 1;
    uint8_t byte = (uint8_t)*text;

    if (*text == '%' && part->size >= 3 && hex_digit(text[1]) >= 0 && hex_digit(text[2]) >= 0) {
        byte = (uint8_t)(hex_digit(text[1]) * 16 + hex_digit(text[2]));
        size = 3;
    }
    part->text += size;
    part->size -= size;
    return byte;
}

static void put_base64(struct http *http, struct ep_http_part part)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    while (part.size > 0) {
        uint32_t bits = 0;
        int bytes = 0;
        for (; bytes < 3 && part.size > 0; bytes++)
            bits |= (uint32_t)decoded_byte(&part) << (16 - 8 * bytes);
        char out[4] = {alphabet[bits >> 18], alphabet[bits >> 12 & 63], bytes > 1 ? alphabet[bits >> 6 & 63] : '=',
                       bytes > 2 ? alphabet[bits & 63] : '='};
        put_bytes(http, out, sizeof out);
    }
}

/* Writes the configured headers; ep_start() has checked that they are valid lines. */
static void put_headers(struct http *http, const char *headers)
{
    for (size_t size; headers && *headers; headers += size + (headers[size] == '\n')) {
        size = strcspn(headers, "\n");
        put_text(http, "\r\n");
        put_bytes(http, headers, size);
    }
}

/* For receivers that date the message by its arrival, or that find its date wrong. */
static void put_age(struct http *http, uint64_t age_ns)
{
    if (!age_ns)
        return;
    put_text(http, "\r\nX-Edgeprof-Age: ");
    if (age_ns == UINT64_MAX)
        put_text(http, "unknown");
    else
        put_number(http, age_ns / 1000000u);
}

static void put_head(struct http *http, const struct ep_message *message, const char *path_and_type, uint64_t length)
{
    put_text(http, "POST ");
    put_bytes(http, http->url.prefix.text, http->url.prefix.size);
    put_text(http, path_and_type);
    put_text(http, " HTTP/1.1\r\nHost: ");
    put_bytes(http, http->url.authority.text, http->url.authority.size);
    put_text(http, "\r\nUser-Agent: edgeprof/" EP_VERSION "\r\nContent-Type: ");
    put_text(http, path_and_type + strlen(path_and_type) + 1);
    put_text(http, "\r\nContent-Length: ");
    put_number(http, length);
    if (http->url.userinfo.size > 0) {
        put_text(http, "\r\nAuthorization: Basic ");
        put_base64(http, http->url.userinfo);
    }
    put_age(http, message->age_ns);
    put_headers(http, http->target->headers);
    put_text(http, "\r\n\r\n");
}

static void sink_write(void *http, const void *bytes, size_t size)
{
    put_bytes(http, bytes, size);
}

static void put_push(struct http *http, const struct ep_push *push, const struct ep_message *message)
{
    struct ep_sink sink = {.write = sink_write, .to = http}, size = {0};

    push->write(http->target, message, &size);
    put_head(http, message, push->path_and_type, size.size);
    push->write(http->target, message, &sink);
}

static int write_request(struct http *http, const struct ep_message *message)
{
    const struct ep_push *push = message->format == EP_FORMAT_PPROF ? http->target->push : NULL;

    http->error = 0;
    http->fill = 0;
    if (push) {
        put_push(http, push, message);
    } else {
        put_head(http, message, "/edgeprof/v1/push\0application/x-edgeprof", message->size);
        put_bytes(http, message->data, message->size);
    }
    buffer_flush(http);
    return http->error;
}

/* ---- the answer ---- */

/* Returns 0 as soon as the status is known, even if the body then fails. */
static int read_response(struct http *http)
{
    struct ep_http_response *response = &http->response;
    int more = 1;

    while (more > 0) {
        long n = http->stream->read(http->stream_state, http->buffer, BUFFER_BYTES, http->deadline);
        if (n <= 0 || n > BUFFER_BYTES) {
            response->close = true;
            more = n < 0 ? (int)n : n == 0 ? -ECONNRESET : -EIO;
            break;
        }
        size_t used;
        more = ep_http_response_feed(response, http->buffer, (size_t)n, &used);
        if (used < (size_t)n)
            response->close = true; /* unrequested bytes: do not use this connection again */
    }
    return response->known ? 0 : more;
}

/* A receiver may answer (too large, not allowed) and close before it has read everything. Its answer then counts,
 * not the write's error. */
static int exchange(struct http *http, const struct ep_message *message)
{
    ep_http_response_start(&http->response);
    int err = connection_open(http);
    if (err)
        return err;
    int write_err = write_request(http, message);
    if (write_err != -ETIMEDOUT)
        err = read_response(http);
    if (!write_err && err == -ETIMEDOUT)
        err = -ETIME;
    if (write_err || err || http->response.close)
        connection_close(http);
    if (http->response.known)
        return 0;
    return write_err ? write_err : err;
}

/* A reused connection that broke before any byte of the answer: the receiver had closed it meanwhile, which is no
 * error. */
static bool was_stale(const struct http *http, bool reused, int err)
{
    return reused && http->response.bytes == 0 && (err == -ECONNRESET || err == -EPIPE || err == -ENOTCONN);
}

/* Converts a status to send()'s result. Only 400, 413, 415, 422 and 501 judge the message: sent again, it would be
 * refused again. All others judge the sender (its token), the network (a proxy, a captive portal), or the moment, and
 * the message waits until a person or time corrects that. Connect's error codes, as Pyroscope sends them:
 * resource_exhausted is 429, invalid_argument 400, unavailable 503, unimplemented 501. A web page is not a receiver's
 * answer. */
static int result_of_status(const struct ep_http_response *response, enum ep_format format, uint64_t *retry_ns)
{
    switch (response->status) {
    case 400:
    case 415:
    case 422:
    case 501:
        return -EBADMSG;
    case 413:
        return -EMSGSIZE;
    case 401:
    case 403:
    case 407:
        return -EACCES;
    case 408:
        return -ETIMEDOUT;
    case 409:
        return format == EP_FORMAT_COMPACT ? -ESTALE : -EIO;
    case 429:
    case 503:
        *retry_ns = response->retry_s * UINT64_C(1000000000);
        return -EAGAIN;
    case 204:
        return 0;
    default:
        if (response->status <= 299)
            return response->page ? -EPROTO : 0;
        return response->status <= 599 ? -EIO : -EPROTO;
    }
}

/* ---- the transport ---- */

int ep_http_open_over(void *state, const struct ep_target *target, const struct ep_stream *stream)
{
    struct http *http = state;

    if (!target->endpoint || stream->state_size > STREAM_BYTES)
        return -EINVAL;
    http->stream = stream;
    http->target = target;
    return ep_http_url_parse(&http->url, target->endpoint);
}

static int http_open(void *state, const struct ep_target *target)
{
    int err = ep_http_open_over(state, target, &ep_stream_tcp);
    return err == 0 && ((struct http *)state)->url.secure ? -EINVAL : err; /* https must not be sent unencrypted */
}

static int http_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                     uint64_t *retry_ns)
{
    struct http *http = state;
    bool reused = http->connected;

    http->deadline = deadline;
    int err = exchange(http, message);
    if (was_stale(http, reused, err))
        err = exchange(http, message);
    return err ? err : result_of_status(&http->response, message->format, retry_ns);
}

static unsigned http_answer(const void *state, const char **why)
{
    const struct http *http = state;

    *why = "";
    return http->response.known ? http->response.status : 0;
}

static void http_close(void *state)
{
    connection_close(state);
}

const struct ep_transport ep_transport_http = {
    .name = "http",
    .state_size = sizeof(struct http),
    .open = http_open,
    .send = http_send,
    .close = http_close,
    .answer = http_answer,
};
