/*
 * One TLS connection as an ep_stream, over ep_stream_tcp; and https as a transport: http.c over that stream.
 *
 * Nothing waits beyond the deadline: only ep_stream_tcp waits, and the deadline is checked before each step of a
 * handshake. A step is the arithmetic of one message (README.md has the longest time). The session is kept for the
 * next connection, for a day at most: then the server must show its certificate again. TLS 1.3 may send the session at
 * any time after the handshake, so reads look for it.
 *
 *   tls_connect -> prepare_connection -> handshake -> keep_session
 *   tls_read, tls_write -> handle_result -> keep_session
 */
#include <errno.h>
#include <string.h>

#include "internal.h"
#include <edgeprof/port.h>

#define SESSION_MAX_NS (UINT64_C(86400) * 1000000000u)
#define LATE_MAX       64     /* limits reads of available bytes after the deadline, in case the server floods */
#define RECORD_TYPES   20, 24 /* change_cipher_spec to heartbeat */

struct stream {
    uint64_t tcp[16];
};

struct ep_tls *ep_tls_instance;

/* ---- I/O functions for mbedtls ---- */

static int from_tcp(void *context, unsigned char *bytes, size_t size)
{
    static const unsigned char types[] = {RECORD_TYPES};
    struct ep_tls *tls = context;

    const bool late = ep_deadline_passed(tls->deadline) && ++tls->late > LATE_MAX;
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

/* mbedtls also returns WANT_READ after it has handled a message by itself; then it must be called again. */
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

/* If there is no room for the session, the next handshake is a full one: not an error. */
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

/* Sets up the connection's buffers, the session to resume, and the name. */
static int prepare_connection(struct ep_tls *tls, const char *host)
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
        result = ep_deadline_passed(tls->deadline) ? MBEDTLS_ERR_SSL_TIMEOUT : mbedtls_ssl_handshake_step(&tls->ssl);
    if (result == 0 && !tls->verified && !tls->has_session)
        result = MBEDTLS_ERR_SSL_BAD_CERTIFICATE; /* defensive: no certificate was verified */
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

static void use_stream(struct ep_tls *tls, struct stream *stream, const struct ep_deadline *deadline)
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
        use_stream(tls, stream, &past);
        (void)mbedtls_ssl_close_notify(&tls->ssl); /* sent only if possible without waiting */
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
    use_stream(tls, stream, deadline);
    tls->broken = 0;
    tls->heard = tls->alien = false;
    tls->ranked = 0;
    tls->unsupported = NULL;
    (void)ep_tls_arena_short();
    int result = prepare_connection(tls, host);
    if (result == 0)
        result = handshake(tls);
    if (result == 0) {
        count_handshake(tls);
        return 0;
    }
    error = ep_tls_failed(tls, result);
    ep_tls_forget(tls); /* the session may be the cause */
    tls_close(state);
    return error;
}

/* ---- read and write ---- */

/* Handles a result of mbedtls. Returns 1: call it again; else an errno value. */
static int handle_result(struct ep_tls *tls, int result)
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

/* Prepares a read or write with this deadline. NULL: this stream is not connected. */
static struct ep_tls *connected(struct stream *stream, const struct ep_deadline *deadline)
{
    struct ep_tls *tls = ep_tls_instance;

    if (!tls || tls->tcp != stream->tcp)
        return NULL;
    use_stream(tls, stream, deadline);
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
        next = handle_result(tls, got == 0 ? MBEDTLS_ERR_SSL_CONN_EOF : got);
    }
    return next;
}

/* After -ETIMEDOUT a record may have been sent in part: only the same bytes may be written then, or close called. */
static long tls_write(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline)
{
    struct ep_tls *tls = connected(state, deadline);
    int next = tls ? 1 : -ENOTCONN;

    while (next > 0) {
        int put = mbedtls_ssl_write(&tls->ssl, bytes, size);
        if (put > 0)
            return put;
        next = handle_result(tls, put);
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

/* Forgets the session, since it may be with an earlier profiler's server. */
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

static unsigned tls_answer(const void *state, const char **why)
{
    const unsigned status = ep_transport_http.answer(state, why);

    if (status == 0)
        *why = ep_tls_error();
    return status;
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
    .answer = tls_answer,
};
