/*
 * Included before mbedtls' ssl_tls12_client.c (tls.mk). A client with TLS 1.3 also offers RSA-PSS, which a server may
 * then use in TLS 1.2. mbedtls 3.6 can check such a signature, but lacks it in its list for TLS 1.2 and ends the
 * handshake. This adds it to the list. mbedtls still checks that it was offered.
 */
#ifndef EP_MBEDTLS_PSS_H
#define EP_MBEDTLS_PSS_H

#include <ssl_misc.h> /* of mbedtls/library */

#define mbedtls_ssl_sig_alg_is_supported(ssl, sig_alg)                                                                 \
    ((sig_alg) == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256 || (sig_alg) == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA384 ||     \
     (sig_alg) == MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA512 || mbedtls_ssl_sig_alg_is_supported(ssl, sig_alg))

#endif
