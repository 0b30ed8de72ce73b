/*
 * Included before mbedtls' ssl_tls13_keys.c (tls.mk). It corrects a leak of mbedtls 3.6: if memory runs out during the
 * set-up of a TLS 1.3 connection's keys, it frees their structure but not the ciphers in it. Each time that would lose
 * 256 bytes of the arena. This frees the structure with its contents.
 */
#ifndef EP_MBEDTLS_LEAK_H
#define EP_MBEDTLS_LEAK_H

#include <ssl_misc.h> /* of mbedtls/library; must come first */

#include <mbedtls/platform.h>

static inline void ep_tls_free_transform(mbedtls_ssl_transform *transform)
{
    mbedtls_ssl_transform_free(transform);
    ep_tls_free(transform);
}

#undef mbedtls_free
#define mbedtls_free(block)                                                                                            \
    _Generic((block), mbedtls_ssl_transform * : ep_tls_free_transform, default : ep_tls_free)(block)

#endif
