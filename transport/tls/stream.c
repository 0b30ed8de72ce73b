/*
 * One TLS connection as an ep_stream, over ep_stream_tcp, and https as a transport: http.c over that stream.
 *
 * Nothing waits beyond the deadline: whoever waits is ep_stream_tcp, and before each step of a handshake the deadline
 * is looked at. A step is arithmetic of one message at most: README.md has the time that the longest takes.
 *
 * A session is kept for the next connection, for a day at most: then the server has to show its certificate again.
 * TLS 1.3 sends it after the handshake, whenever it likes: so it is looked for in reads.
 *
 *   tls_connect -> begin -> handshake -> keep_session
 *   tls_read    -> settle -> keep_session
 *   tls_write   -> settle
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "port.h"

#define SESSION_MAX_NS (UINT64_C(86400) * 1000000000u)
#define LATE_MAX       64     /* reads after the deadline, of bytes that are there: a flood is no reason to stay */
#define RECORD_TYPES   20, 24 /* change_cipher_spec to heartbeat */

struct stream {
    uint64_t tcp[16];
};

struct ep_tls *ep_tls_instance;

/* ---- what mbedtls reads and writes through ---- */

static bool is_over(const struct ep_deadline *deadline)
{
    return ep_port_uptime_ns() >= ep_deadline_ns(deadline);
}

static int from_tcp(void *context, unsigned char *bytes, size_t size)
{
    static const unsigned char types[] = {RECORD_TYPES};
    struct ep_tls *tls = context;

    const bool late = is_over(tls->deadline) && ++tls->late > LATE_MAX;
    const long got = late ? -ETIMEDOUT : ep_stream_tcp.read(tls->tcp, bytes, size, tls->deadline);

    tls->waited = got == -ETIMEDOUT;
    if (tls->waited)
        return MBEDTLS_ERR_SSL_WANT_READ;
    if (got < 0) {
        tls->broken = (int)got;
        return MBEDTLS_ERR_SSL_CONN_EOF;
    }
    if (got > 0 && !tls->heard) {
        tls->heard = true;
        tls->alien = bytes[0] < types[0] || bytes[0] > types[1];
    }
    return (int)got;
}

static int to_tcp(void *context, const unsigned char *bytes, size_t size)
{
    struct ep_tls *tls = context;
    const long put = ep_stream_tcp.write(tls->tcp, bytes, size, tls->deadline);

    tls->waited = put == -ETIMEDOUT;
    if (tls->waited)
        return MBEDTLS_ERR_SSL_WANT_WRITE;
    if (put < 0) {
        tls->broken = (int)put;
        return MBEDTLS_ERR_SSL_CONN_EOF;
    }
    return (int)put;
}

/* mbedtls also says that it wants more where it has done away with a message; then it is to be called again. */
static bool is_only_wanting(const struct ep_tls *tls, int result)
{
    return (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE) && !tls->waited;
}

/* ---- sessions ---- */

void ep_tls_forget(struct ep_tls *tls)
{
    mbedtls_ssl_session_free(&tls->session);
    mbedtls_ssl_session_init(&tls->session);
    tls->has_session = false;
}

/* Without room for it the next handshake is a full one: no error. */
static void keep_session(struct ep_tls *tls)
{
    ep_tls_forget(tls);
    tls->has_session = mbedtls_ssl_get_session(&tls->ssl, &tls->session) == 0;
    if (!tls->has_session)
        (void)ep_tls_arena_short();
    if (tls->verified)
        tls->session_since_ns = ep_port_uptime_ns();
}

static int resume_session(struct ep_tls *tls)
{
    if (tls->has_session && ep_port_uptime_ns() - tls->session_since_ns > SESSION_MAX_NS)
        ep_tls_forget(tls);
    return tls->has_session ? mbedtls_ssl_set_session(&tls->ssl, &tls->session) : 0;
}

/* ---- connect ---- */

/* The connection's state: buffers, the session to go on with, the name. */
static int begin(struct ep_tls *tls, const char *host)
{
    const char *name = ep_tls_expect(tls, host);
    int result = mbedtls_ssl_setup(&tls->ssl, &tls->config);

    if (result == 0)
        result = mbedtls_ssl_set_hostname(&tls->ssl, name);
    if (result == 0)
        result = resume_session(tls);
    mbedtls_ssl_set_bio(&tls->ssl, tls, to_tcp, from_tcp, NULL);
    return result;
}

static int handshake(struct ep_tls *tls)
{
    int result = 0;

    while ((result == 0 || is_only_wanting(tls, result)) && !mbedtls_ssl_is_handshake_over(&tls->ssl))
        result = is_over(tls->deadline) ? MBEDTLS_ERR_SSL_TIMEOUT : mbedtls_ssl_handshake_step(&tls->ssl);
    if (result == 0 && !tls->verified && !tls->has_session)
        result = MBEDTLS_ERR_SSL_BAD_CERTIFICATE; /* nobody has looked at a certificate: cannot be */
    return result;
}

static void count_handshake(struct ep_tls *tls)
{
    ep_tls_fine();
    tls->handshakes++;
    tls->resumed += !tls->verified;
    tls->version = mbedtls_ssl_get_version_number(&tls->ssl) == MBEDTLS_SSL_VERSION_TLS1_3 ? 13 : 12;
    if (tls->version == 12)
        keep_session(tls);
}

static void take(struct ep_tls *tls, struct stream *stream, const struct ep_deadline *deadline)
{
    tls->tcp = stream->tcp;
    tls->deadline = deadline;
    tls->late = 0;
    tls->waited = false;
}

static void tls_close(void *state)
{
    struct stream *stream = state;
    struct ep_tls *tls = ep_tls_instance;
    const struct ep_deadline past = {0};

    if (tls && tls->tcp == stream->tcp) {
        take(tls, stream, &past);
        (void)mbedtls_ssl_close_notify(&tls->ssl); /* if there is room for it now */
        mbedtls_ssl_free(&tls->ssl);
        mbedtls_ssl_init(&tls->ssl);
        tls->tcp = NULL;
    }
    ep_stream_tcp.close(stream->tcp);
}

static int tls_connect(void *state, const char *host, const char *port, const struct ep_deadline *deadline)
{
    struct ep_tls *tls = ep_tls_instance;
    struct stream *stream = state;

    tls_close(state);
    if (!tls || tls->tcp)
        return tls ? -EBUSY : -ENOTCONN;
    if (!ep_tls_has_clock() && !(tls->flags & EP_TLS_NO_CLOCK))
        return ep_tls_fail(tls, -ETIME,
                           "the clock is not set, so the dates of certificates cannot be checked: set it, or see "
                           "EP_TLS_NO_CLOCK");
    int error = ep_stream_tcp.connect(stream->tcp, host, port, deadline);
    if (error)
        return ep_tls_fail(tls, error, "the server cannot be reached");
    take(tls, stream, deadline);
    tls->broken = 0;
    tls->heard = tls->alien = false;
    (void)ep_tls_arena_short();
    int result = begin(tls, host);
    if (result == 0)
        result = handshake(tls);
    if (result == 0) {
        count_handshake(tls);
        return 0;
    }
    error = ep_tls_failed(tls, result);
    ep_tls_forget(tls); /* it may have been the session's fault */
    tls_close(state);
    return error;
}

/* ---- read and write ---- */

/* 1: what stood in the way is done with, once more; else an errno value. */
static int settle(struct ep_tls *tls, int result)
{
    if (result == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
        keep_session(tls);
        return 1;
    }
    if (is_only_wanting(tls, result))
        return 1;
    if (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE)
        return -ETIMEDOUT;
    return ep_tls_failed(tls, result);
}

/* Ready to read or write until then; NULL: this stream is not connected. */
static struct ep_tls *connected(struct stream *stream, const struct ep_deadline *deadline)
{
    struct ep_tls *tls = ep_tls_instance;

    if (!tls || tls->tcp != stream->tcp)
        return NULL;
    take(tls, stream, deadline);
    return tls;
}

static long tls_read(void *state, void *bytes, size_t size, const struct ep_deadline *deadline)
{
    struct ep_tls *tls = connected(state, deadline);
    int next = tls ? 1 : -ENOTCONN;

    while (next > 0) {
        int got = mbedtls_ssl_read(&tls->ssl, bytes, size);
        if (got > 0)
            return got;
        if (got == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
            return 0;
        next = settle(tls, got == 0 ? MBEDTLS_ERR_SSL_CONN_EOF : got);
    }
    return next;
}

/* After -ETIMEDOUT a record may be under way in part: nothing but the same bytes, or close, makes sense then. */
static long tls_write(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline)
{
    struct ep_tls *tls = connected(state, deadline);
    int next = tls ? 1 : -ENOTCONN;

    while (next > 0) {
        int put = mbedtls_ssl_write(&tls->ssl, bytes, size);
        if (put > 0)
            return put;
        next = settle(tls, put);
    }
    return next;
}

static const struct ep_stream stream_tls = {
    .state_size = sizeof(struct stream),
    .connect = tls_connect,
    .read = tls_read,
    .write = tls_write,
    .close = tls_close,
};

/* ---- the transport ---- */

/* A session with another server, of a profiler before this, is nothing for this one. */
static int tls_open(void *state, const struct ep_target *target)
{
    if (!ep_tls_instance || ep_stream_tcp.state_size > sizeof(struct stream))
        return -EINVAL;
    ep_tls_forget(ep_tls_instance);
    return ep_http_open_over(state, target, &stream_tls);
}

static int tls_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    return ep_transport_http.send(state, message, deadline, retry_ns);
}

static void tls_shut(void *state)
{
    ep_transport_http.close(state);
}

const struct ep_transport ep_transport_tls = {
    .name = "https",
    .state_size = EP_TRANSPORT_BYTES,
    .open = tls_open,
    .send = tls_send,
    .close = tls_shut,
};
