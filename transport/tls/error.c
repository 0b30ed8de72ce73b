/*
 * Errors for people: one line, and an errno value that a transport may return (without special meaning there, unlike
 * EAGAIN). Lines about connections are constants, but for one with a size, whose last byte is always 0: any thread may
 * read them at any time. Lines about the configuration are composed at setup. They contain no secrets.
 */
#include <errno.h>
#include <mbedtls/error.h>
#include <stdatomic.h>
#include <string.h>

#include "internal.h"

static char setup_line[200];
static char large_line[112];
static _Atomic(const char *) line;

const char *ep_tls_error(void)
{
    const char *said = atomic_load_explicit(&line, memory_order_acquire);

    return said ? said : "";
}

int ep_tls_refuse(int error, const char *what, const char *name)
{
    size_t at = strlen(what), size = strlen(name);

    memcpy(setup_line, what, at); /* a short constant */
    if (size > sizeof setup_line - 1 - at)
        size = sizeof setup_line - 1 - at;
    memcpy(setup_line + at, name, size);
    setup_line[at + size] = 0;
    atomic_store_explicit(&line, setup_line, memory_order_release);
    return error;
}

/* Writes the number's digits before `end`. */
static char *put_digits(char *end, size_t number)
{
    do
        *--end = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return end;
}

int ep_tls_refuse_size(int error, const char *what, size_t figure, const char *limit)
{
    char text[64];
    size_t size = strlen(limit);
    char *end = text + sizeof text - 1 - size;

    memcpy(end, limit, size + 1); /* a short constant */
    return ep_tls_refuse(error, what, put_digits(end, figure));
}

void ep_tls_fine(void)
{
    atomic_store_explicit(&line, NULL, memory_order_release);
}

int ep_tls_fail(struct ep_tls *tls, int error, const char *text)
{
    atomic_store_explicit(&line, text, memory_order_release);
    tls->failed++;
    return error;
}

struct reason {
    int code; /* verification flag, alert, or result of mbedtls */
    int error;
    const char *text;
};

/* Most important first: only one error of a certificate is reported. */
static const struct reason certificate_reasons[] = {
    {MBEDTLS_X509_BADCERT_OTHER, -EKEYREJECTED, "the server's public key is not the pinned one"},
    {MBEDTLS_X509_BADCERT_NOT_TRUSTED, -EKEYREJECTED,
     "unknown CA: no trusted authority has signed the server's certificate"},
    {MBEDTLS_X509_BADCERT_BAD_KEY, -EKEYREJECTED,
     "key too weak in the server's certificates: RSA requires 2048 bits, EC 256"},
    {MBEDTLS_X509_BADCERT_BAD_MD, -EKEYREJECTED, "the server's certificate is signed with a weak hash (SHA-1 or MD5)"},
    {MBEDTLS_X509_BADCERT_BAD_PK, -EKEYREJECTED, "the server's certificate has an unsupported kind of key"},
    {MBEDTLS_X509_BADCERT_CN_MISMATCH, -EKEYREJECTED,
     "host name does not match: the server's certificate is for another"},
    {MBEDTLS_X509_BADCERT_EXPIRED, -EKEYEXPIRED, "the server's certificate has expired, by this device's clock"},
    {MBEDTLS_X509_BADCERT_FUTURE, -EKEYEXPIRED, "the server's certificate is not yet valid, by this device's clock"},
    {MBEDTLS_X509_BADCERT_KEY_USAGE, -EKEYREJECTED, "the server's certificate is not meant for this use"},
    {MBEDTLS_X509_BADCERT_EXT_KEY_USAGE, -EKEYREJECTED, "the server's certificate is not meant for servers"},
    {0, -EKEYREJECTED, "the server's certificate was refused"},
};

static const struct reason alert_reasons[] = {
    {MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION, -EPROTONOSUPPORT, "the server speaks neither TLS 1.3 nor 1.2"},
    {MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE, -EPROTO,
     "the server refused the handshake: no common parameters (its key must be RSA, P-256, P-384 or P-521), or it "
     "requires a client certificate"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_REQUIRED, -EACCES, "the server requires a client certificate"},
    {MBEDTLS_SSL_ALERT_MSG_BAD_CERT, -EACCES, "the server refused our client certificate"},
    {MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT, -EACCES, "the server refused our client certificate: unsupported"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED, -EACCES, "the server refused our client certificate: revoked"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED, -EACCES, "the server refused our client certificate: expired"},
    {MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN, -EACCES, "the server refused our client certificate"},
    {MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA, -EACCES, "the server refused our client certificate: unknown CA"},
    {MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED, -EACCES, "the server refused our client certificate: access denied"},
    {MBEDTLS_SSL_ALERT_MSG_UNRECOGNIZED_NAME, -EPROTO, "the server does not know this host name"},
    {0, -EPROTO, "the server ended the connection with a fatal alert"},
};

static const struct reason result_reasons[] = {
    {MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION, -EPROTONOSUPPORT, "the server speaks neither TLS 1.3 nor 1.2"},
    {MBEDTLS_ERR_SSL_CONN_EOF, -ECONNRESET, "the server closed the connection without a TLS close_notify"},
    {MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL, -EPROTO, "a TLS message is larger than 16 KiB, or one of ours than 4 KiB"},
    {MBEDTLS_ERR_X509_FATAL_ERROR, -EKEYREJECTED,
     "the server's certificate chain has more than 8 intermediates, the limit"},
    {MBEDTLS_ERR_SSL_INVALID_MAC, -EPROTO, "a TLS record was corrupted in transit"},
    {MBEDTLS_ERR_PLATFORM_HW_ACCEL_FAILED, -EIO, "the kernel has no random numbers yet"},
    {0, -EPROTO, "the server violated the TLS protocol"},
};

static const struct reason *reason_of(const struct reason *list, int code)
{
    while (list->code != 0 && list->code != code)
        list++;
    return list;
}

static const struct reason *certificate_reason(uint32_t flags)
{
    const struct reason *reason = certificate_reasons;

    while (reason->code != 0 && !(flags & (uint32_t)reason->code))
        reason++;
    return reason;
}

/* The size of a handshake message that exceeds the limit; 0: the failure has another reason. */
static size_t large_message(struct ep_tls *tls)
{
    return !mbedtls_ssl_is_handshake_over(&tls->ssl) && tls->ssl.in_hslen > MBEDTLS_SSL_IN_CONTENT_LEN
               ? tls->ssl.in_hslen
               : 0;
}

static int fail_large(struct ep_tls *tls, size_t size)
{
    static const char begin[] = "a handshake message of the server has ";
    static const char end[] = " bytes, the limit is 16384: its certificate chain is too long";
    char digits[8], *first = put_digits(digits + sizeof digits, size); /* TLS has 24 bits */
    char *at = large_line;

    _Static_assert(MBEDTLS_SSL_IN_CONTENT_LEN == 16384, "the line has the limit");
    _Static_assert(sizeof begin + sizeof digits + sizeof end < sizeof large_line, "the last byte stays 0");
    memcpy(at, begin, sizeof begin - 1);
    at += sizeof begin - 1;
    memcpy(at, first, (size_t)(digits + sizeof digits - first));
    at += digits + sizeof digits - first;
    memcpy(at, end, sizeof end);
    return ep_tls_fail(tls, -EPROTO, large_line);
}

int ep_tls_failed(struct ep_tls *tls, int result)
{
    const struct reason *reason;

    if (tls->broken)
        return ep_tls_fail(tls, tls->broken, "the connection broke");
    if (tls->alien)
        return ep_tls_fail(tls, -EPROTO, "the answer is not TLS: is this an http port?");
    if (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE ||
        result == MBEDTLS_ERR_SSL_TIMEOUT)
        return ep_tls_fail(tls, -ETIMEDOUT, "the server did not answer in time");
    if (ep_tls_arena_short()) /* whatever error mbedtls returned */
        return ep_tls_fail(tls, -ENOMEM, "TLS memory is too small: use EP_TLS_MEMORY or more");
    if (large_message(tls) > 0)
        return fail_large(tls, large_message(tls));
    if (result == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED || result == MBEDTLS_ERR_SSL_BAD_CERTIFICATE)
        reason = certificate_reason(mbedtls_ssl_get_verify_result(&tls->ssl));
    else if (result == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE)
        reason = reason_of(alert_reasons, tls->ssl.in_msg[1]);
    else
        reason = reason_of(result_reasons, result);
    if (tls->unsupported &&
        (reason->code == MBEDTLS_X509_BADCERT_NOT_TRUSTED || result == MBEDTLS_ERR_X509_UNKNOWN_SIG_ALG))
        return ep_tls_fail(tls, -EKEYREJECTED, tls->unsupported);
    return ep_tls_fail(tls, reason->error, reason->text);
}
