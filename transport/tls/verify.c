/*
 * Checks of the server beyond mbedtls' own: pins, names that are addresses, and dates on a device without a clock.
 * mbedtls calls this with its flags set; this adds and removes some:
 *
 *   a pin alone          issuer and host name are ignored; the key and the dates are checked
 *   EP_TLS_NO_CLOCK      dates are ignored while the date is not known
 */
#include <arpa/inet.h>
#include <errno.h>
#include <mbedtls/base64.h>
#include <mbedtls/sha256.h>
#include <string.h>

#include "internal.h"

#define ADDRESS_NAME 7 /* GeneralName's iPAddress */

static int pin_parse(uint8_t pin[32], const char *text, size_t size)
{
    static const char prefix[] = "sha256//";
    const size_t skip = sizeof prefix - 1;
    uint8_t bytes[33];
    size_t got;

    if (size <= skip || memcmp(text, prefix, skip) != 0)
        return -EINVAL;
    if (mbedtls_base64_decode(bytes, sizeof bytes, &got, (const unsigned char *)text + skip, size - skip) != 0 ||
        got != 32)
        return -EINVAL;
    memcpy(pin, bytes, 32);
    return 0;
}

int ep_tls_pins_parse(struct ep_tls *tls, const char *text)
{
    for (const char *end; *text; text = end + (*end == ';')) {
        end = text + strcspn(text, ";");
        if (tls->pins == EP_TLS_PINS || pin_parse(tls->pin[tls->pins], text, (size_t)(end - text)) != 0)
            return -EINVAL;
        tls->pins++;
    }
    return tls->pins > 0 ? 0 : -EINVAL;
}

const char *ep_tls_expect(struct ep_tls *tls, const char *host)
{
    tls->name = tls->server_name ? tls->server_name : host;
    tls->verified = false;
    tls->address_size = 0;
    if (inet_pton(AF_INET, tls->name, tls->address) == 1)
        tls->address_size = 4;
    else if (inet_pton(AF_INET6, tls->name, tls->address) == 1)
        tls->address_size = 16;
    return tls->address_size > 0 ? NULL : tls->name;
}

static bool has_address(const struct ep_tls *tls, const mbedtls_x509_crt *cert)
{
    for (const mbedtls_x509_sequence *name = &cert->subject_alt_names; name; name = name->next)
        if ((name->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK) == ADDRESS_NAME && name->buf.len == tls->address_size &&
            memcmp(name->buf.p, tls->address, tls->address_size) == 0)
            return true;
    return false;
}

/* Returns 1 or 0; -1: the hash failed. */
static int is_pinned(const struct ep_tls *tls, const mbedtls_x509_crt *cert)
{
    uint8_t hash[32];

    if (mbedtls_sha256(cert->pk_raw.p, cert->pk_raw.len, hash, 0) != 0)
        return -1;
    for (unsigned i = 0; i < tls->pins; i++)
        if (memcmp(hash, tls->pin[i], sizeof hash) == 0)
            return 1;
    return 0;
}

/* A self-signed certificate of a server may be trusted itself, though it is no authority. */
static void check_own_trust(const struct ep_tls *tls, const mbedtls_x509_crt *cert, uint32_t *flags)
{
    if ((*flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) && cert->issuer_raw.len == cert->subject_raw.len &&
        memcmp(cert->issuer_raw.p, cert->subject_raw.p, cert->issuer_raw.len) == 0 &&
        ep_tls_authority_has(&tls->authority, cert))
        *flags &= ~(uint32_t)MBEDTLS_X509_BADCERT_NOT_TRUSTED;
    if (tls->address_size > 0 && !has_address(tls, cert))
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
}

int ep_tls_verify(void *context, mbedtls_x509_crt *cert, int depth, uint32_t *flags)
{
    struct ep_tls *tls = context;

    if ((tls->flags & EP_TLS_NO_CLOCK) && !ep_tls_has_clock())
        *flags &= ~(uint32_t)(MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE);
    if (!tls->authority.file && !tls->authority.bytes)
        *flags &= depth == 0 ? ~(uint32_t)(MBEDTLS_X509_BADCERT_NOT_TRUSTED | MBEDTLS_X509_BADCERT_CN_MISMATCH |
                                           MBEDTLS_X509_BADCERT_BAD_MD)
                             : 0;
    else if (depth == 0)
        check_own_trust(tls, cert, flags);
    if (depth > 0)
        return 0;
    tls->verified = true;
    if (tls->pins > 0 && is_pinned(tls, cert) != 1)
        *flags |= MBEDTLS_X509_BADCERT_OTHER;
    return 0;
}
