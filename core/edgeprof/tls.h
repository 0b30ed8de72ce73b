/*
 * HTTPS: TLS 1.3 and 1.2 for endpoints "https://host[:port][/prefix]", by a private copy of mbedtls. A program that
 * does not call ep_tls_setup() links none of it; one that does links libedgeprof-tls.a in addition to libedgeprof.a.
 *
 *     static uint8_t tls_memory[EP_TLS_MEMORY];
 *     struct ep_tls_config tls = {.memory = tls_memory, .memory_size = sizeof tls_memory};
 *
 *     if (ep_tls_setup(&tls) != 0)
 *         fprintf(stderr, "no https: %s\n", ep_tls_error());
 *
 * By default the system CA bundle is trusted. All memory is the caller's; nothing else is allocated. The private copy
 * does not interfere with the program's own mbedtls: it has other symbol names and another allocator.
 */
#ifndef EP_TLS_H
#define EP_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The memory for one connection: records of 16 KiB, a session to resume, and the longest certificate chain that fits
 * into a message. Usual chains need less than 48 KiB; ep_tls_info.memory_peak has the actual need. A handshake also
 * uses about 24 KiB of stack. */
#define EP_TLS_MEMORY 98304

enum ep_tls_flags {
    /* Ignores the validity dates of certificates while the device does not know the date. The flag needs a pin or your
     * own CA, because the system's CAs always include an expired certificate whose key has leaked. */
    EP_TLS_NO_CLOCK = 1,
};

/* The settings of TLS. ep_tls_setup() copies strings, `cert` and `key`; it does not copy `ca`, which must stay valid
 * until ep_tls_end(). */
struct ep_tls_config {
    void *memory; /* any alignment; must stay valid until ep_tls_end() */
    size_t memory_size;

    /* The trusted CAs: PEM with any number of certificates, or DER with one. The file is read during handshakes, one
     * certificate at a time, so a large bundle needs no more memory than one certificate. With neither ca_file nor ca,
     * the system CA bundle is trusted, unless a pin is set. */
    const char *ca_file;
    const void *ca;
    size_t ca_size;

    /* "sha256//BASE64", several separated by ';': the SHA-256 of the server's public key (SubjectPublicKeyInfo), as
     * for `curl --pinnedpubkey`. With a CA, both are checked. With a pin alone, only the public key is checked;
     * issuer and host name are ignored. */
    const char *pin;

    /* This device's certificate with its chain, and its key: PEM or DER, not encrypted. The certificates may have about
     * 4,000 bytes together; docs/security.md has the limits. */
    const char *cert_file, *key_file;
    const void *cert, *key;
    size_t cert_size, key_size;

    /* The name that the certificate must have and that is sent to the server (SNI); default: the endpoint's host. */
    const char *server_name;

    uint32_t flags; /* enum ep_tls_flags */
};

/* Makes https endpoints available to ep_start(), and wipes an earlier setup. Do not call it while a profiler with an
 * https endpoint runs. ep_tls_error() explains a failure.
 *
 * Returns
 *   0        https endpoints are available
 *   -EINVAL  a field is invalid
 *   -ENOMEM  memory_size is too small
 *   -EFBIG   a client certificate, its chain or a key is too large
 *   -EBUSY   a connection is open
 *   others   the error of reading a file
 * Context: init. */
int ep_tls_setup(const struct ep_tls_config *config);

/* Fills the fields of *config that are not set from EDGEPROF_TLS_CA (a file), EDGEPROF_TLS_PIN, EDGEPROF_TLS_CERT
 * and EDGEPROF_TLS_KEY (files), EDGEPROF_TLS_NAME and EDGEPROF_TLS_NO_CLOCK (1, 0). SSL_CERT_FILE is the CA file if
 * neither a CA nor a pin is set. Strings point into the environment. Returns 0, or -EINVAL (ep_tls_error()).
 * Context: init. */
int ep_tls_config_from_env(struct ep_tls_config *config);

/* Returns true if the endpoint, or that of EDGEPROF_ENDPOINT_OLD, is https. endpoint may be NULL. Context: init. */
bool ep_tls_is_needed(const char *endpoint);

/* Wipes keys and sessions and disables https endpoints. Do not call it while a profiler with an https endpoint runs.
 * Context: init. */
void ep_tls_end(void);

/* Explains the failure of setup or of the last connection in one line, such as "the server's certificate has
 * expired"; "" after a successful connection. Context: any thread. */
const char *ep_tls_error(void);

struct ep_tls_info {
    size_t memory_peak;  /* highest number of bytes of memory_size ever needed */
    uint64_t handshakes; /* completed handshakes */
    uint64_t resumed;    /* those that resumed a session, without a certificate or signature */
    uint64_t failed;     /* failed connections */
    unsigned version;    /* TLS version of the last connection: 12 or 13; 0: none yet */
};

/* Fills *info; all zero before setup and after the end. Do not call it during these two. Context: any thread. */
void ep_tls_info_get(struct ep_tls_info *info);

#ifdef __cplusplus
}
#endif

#endif
