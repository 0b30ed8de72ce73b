/*
 * The configuration of the private copy of mbedtls 3.6 (MBEDTLS_CONFIG_FILE): a TLS client. What is not named here is
 * not compiled: no server, DTLS, CBC, RSA key exchange or renegotiation; no text output, no files or sockets, and no
 * allocation outside the arena.
 */
#ifndef EP_MBEDTLS_CONFIG_H
#define EP_MBEDTLS_CONFIG_H

#include <stddef.h>
#include <stdint.h>

/* ---- the platform: arena.c, host.c ---- */

#define MBEDTLS_HAVE_ASM
#define MBEDTLS_HAVE_TIME
#define MBEDTLS_HAVE_TIME_DATE
#define MBEDTLS_PLATFORM_C
#define MBEDTLS_PLATFORM_MEMORY
#define MBEDTLS_PLATFORM_CALLOC_MACRO    ep_tls_calloc
#define MBEDTLS_PLATFORM_FREE_MACRO      ep_tls_free
#define MBEDTLS_PLATFORM_TIME_TYPE_MACRO int64_t /* time_t of 32-bit ARM ends in 2038 */
#define MBEDTLS_PLATFORM_TIME_MACRO      ep_tls_time
#define MBEDTLS_PLATFORM_GMTIME_R_ALT    /* glibc's gmtime_r reads the time zone's file, using malloc */
#define MBEDTLS_PLATFORM_MS_TIME_ALT
#define MBEDTLS_PLATFORM_SNPRINTF_MACRO ep_tls_no_text
#define MBEDTLS_PSA_CRYPTO_EXTERNAL_RNG

void *ep_tls_calloc(size_t count, size_t size);
void ep_tls_free(void *block);
int64_t ep_tls_time(int64_t *time);
int ep_tls_no_text(char *text, size_t size, const char *format, ...);

/* ---- ciphers and hashes ---- */

#define MBEDTLS_AES_C
#define MBEDTLS_AES_ROM_TABLES
#define MBEDTLS_AES_FEWER_TABLES
#define MBEDTLS_GCM_C
#define MBEDTLS_CHACHA20_C
#define MBEDTLS_POLY1305_C
#define MBEDTLS_CHACHAPOLY_C
#define MBEDTLS_CIPHER_C
#define MBEDTLS_MD_C
#define MBEDTLS_SHA1_C /* for self-signed roots only (mbedtls_x509_crt_profile_default) */
#define MBEDTLS_SHA224_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_SHA384_C
#define MBEDTLS_SHA512_C
#define MBEDTLS_HKDF_C
#define MBEDTLS_PSA_CRYPTO_C
#define MBEDTLS_PSA_KEY_SLOT_COUNT 12

/* ---- public keys ---- */

#define MBEDTLS_BIGNUM_C
#define MBEDTLS_MPI_MAX_SIZE 1024 /* RSA of 8192 bits */
#define MBEDTLS_ECP_C
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_DP_SECP384R1_ENABLED
#define MBEDTLS_ECP_DP_SECP521R1_ENABLED
#define MBEDTLS_ECP_DP_CURVE25519_ENABLED
#define MBEDTLS_ECDH_C
#define MBEDTLS_ECDSA_C
#define MBEDTLS_RSA_C
#define MBEDTLS_PKCS1_V15
#define MBEDTLS_PKCS1_V21
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#define MBEDTLS_OID_C
#define MBEDTLS_BASE64_C
#define MBEDTLS_PEM_PARSE_C
#define MBEDTLS_PK_C
#define MBEDTLS_PK_PARSE_C

/* ---- certificates ---- */

#define MBEDTLS_X509_USE_C
#define MBEDTLS_X509_CRT_PARSE_C
#define MBEDTLS_X509_RSASSA_PSS_SUPPORT
#define MBEDTLS_X509_REMOVE_INFO
#define MBEDTLS_X509_TRUSTED_CERTIFICATE_CALLBACK

/* ---- TLS ---- */

#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_PROTO_TLS1_2
#define MBEDTLS_SSL_PROTO_TLS1_3
#define MBEDTLS_SSL_TLS1_3_COMPATIBILITY_MODE
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ENABLED
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED
#define MBEDTLS_KEY_EXCHANGE_ECDHE_RSA_ENABLED
#define MBEDTLS_KEY_EXCHANGE_ECDHE_ECDSA_ENABLED
#define MBEDTLS_SSL_EXTENDED_MASTER_SECRET
#define MBEDTLS_SSL_KEEP_PEER_CERTIFICATE
#define MBEDTLS_SSL_SERVER_NAME_INDICATION
#define MBEDTLS_SSL_SESSION_TICKETS
#define MBEDTLS_SSL_ALL_ALERT_MESSAGES
/* A server may send records of 16 KiB whatever it was asked for. Sent records may be smaller, but a client
 * certificate with its chain must fit into one. */
#define MBEDTLS_SSL_IN_CONTENT_LEN  16384
#define MBEDTLS_SSL_OUT_CONTENT_LEN 4096

#endif
