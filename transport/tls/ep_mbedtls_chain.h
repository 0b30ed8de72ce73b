/*
 * Included before mbedtls' ssl_tls.c and ssl_tls13_generic.c (tls.mk). It puts the functions of chain.c in front of
 * those that parse and verify the server's certificates. chain.c itself includes it for their types only.
 */
#ifndef EP_MBEDTLS_CHAIN_H
#define EP_MBEDTLS_CHAIN_H

#ifndef EP_TLS_INTERNAL_H
#include <ssl_misc.h> /* of mbedtls/library; must come first */
#define mbedtls_x509_crt_parse_der         ep_tls_chain_add
#define mbedtls_x509_crt_verify_with_ca_cb ep_tls_chain_verify
#endif

/* Parses a certificate of the server behind those of the chain. Returns mbedtls' result; 0 also for one that was left
 * out. Context: deliver. */
int ep_tls_chain_add(mbedtls_x509_crt *chain, const unsigned char *der, size_t size);

/* Sorts the chain, and verifies it as mbedtls does. Context: deliver. */
int ep_tls_chain_verify(mbedtls_x509_crt *chain, mbedtls_x509_crt_ca_cb_t find, void *context,
                        const mbedtls_x509_crt_profile *profile, const char *name, uint32_t *flags,
                        int (*verify)(void *, mbedtls_x509_crt *, int, uint32_t *), void *verify_context);

#endif
