/*
 * Included before mbedtls' ssl_tls12_client.c (tls.mk). A client that speaks TLS 1.3 as well offers RSA-PSS, and a
 * server may take it up in TLS 1.2; mbedtls 3.6 can check such a signature, but its list of what TLS 1.2 allows does
 * not have it and it ends the handshake. Here the list has it; that it was offered is checked all the same.
 */
#ifndef EP_MBEDTLS_PSS_H
#define EP_MBEDTLS_PSS_H

#include <ssl_misc.h> /* of mbedtls/library */

#define mbedtls_ssl_sig_alg_is_supported(ssl, sig_alg)                                                                 \
    ((sig_alg) == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256 || (sig_alg) == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA384 ||     \
     (sig_alg) == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA512 || mbedtls_ssl_sig_alg_is_supported(ssl, sig_alg))

#endif
