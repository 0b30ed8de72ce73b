/*
 * Included before mbedtls' ssl_tls13_keys.c (tls.mk). When memory ends while the keys of a TLS 1.3 connection are set
 * up, mbedtls 3.6 frees the structure that they are in and not the ciphers that hang on it: 256 bytes of the arena
 * would be lost each time. Here such a structure is freed with what hangs on it.
 */
#ifndef EP_MBEDTLS_LEAK_H
#define EP_MBEDTLS_LEAK_H

#include <ssl_misc.h> /* of mbedtls/library; first, it opens up structures */

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
