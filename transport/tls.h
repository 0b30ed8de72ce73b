/*
 * HTTPS: TLS 1.3 and 1.2 for the endpoints "https://host[:port][/prefix]", with a private copy of mbedtls. A program
 * that does not call ep_tls_setup() links none of it; one that does links libedgeprof-tls.a beside libedgeprof.a.
 *
 *     static uint8_t tls_memory[EP_TLS_MEMORY];
 *     struct ep_tls_config tls = {.memory = tls_memory, .memory_size = sizeof tls_memory};
 *
 *     if (ep_tls_setup(&tls) != 0)
 *         fprintf(stderr, "no https: %s\n", ep_tls_error());
 *
 * With nothing but memory the server is verified by the system's authorities. All memory is the caller's; nothing is
 * allocated elsewhere. An mbedtls that the program has of its own is another one, with its own names and allocator.
 */
#ifndef EP_TLS_H
#define EP_TLS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory for one connection: records of 16 KiB, a session to resume, and certificates whose chain is as long as a
 * message may be. Usual chains need less than 48 KiB: ep_tls_info.memory_peak says what it was. Handshakes also want
 * some 24 KiB of stack. */
#define EP_TLS_MEMORY 98304

enum ep_tls_flags {
    /* While the device does not know the date, certificates are accepted whatever their dates say. Only with a pin or
     * with an authority of one's own: among the system's there is always one whose key has leaked since it expired. */
    EP_TLS_NO_CLOCK = 1,
};

/* Strings, `cert` and `key` are copied; `ca` is not and must stay valid until ep_tls_end(). */
struct ep_tls_config {
    void *memory; /* any alignment; must stay valid until ep_tls_end() */
    size_t memory_size;

    /* Whose signature makes a server's certificate good: PEM with any number of certificates, or DER with one. The file
     * is read during handshakes, one certificate at a time, so a bundle of hundreds needs the memory of one. Neither:
     * the system's bundle, unless there is a pin. */
    const char *ca_file;
    const void *ca;
    size_t ca_size;

    /* "sha256//BASE64", several with ';' between: the SHA-256 of the server's public key (SubjectPublicKeyInfo), as
     * `curl --pinnedpubkey` takes it. With an authority both must be right. Alone the key is the server's identity:
     * who signed its certificate, and for which name, is not asked. */
    const char *pin;

    /* This device's own certificate, with its chain, and its key: PEM or DER, not encrypted. */
    const char *cert_file, *key_file;
    const void *cert, *key;
    size_t cert_size, key_size;

    /* Name that the certificate must have, and that the server is told; default: the endpoint's host. */
    const char *server_name;

    uint32_t flags; /* enum ep_tls_flags */
};

/* Makes https endpoints known to ep_start(). Not while a profiler runs that has one. What was set up before is wiped.
 * Returns 0; -EINVAL: a field makes no sense; -ENOMEM: memory_size is too small; -EBUSY: a connection is open; else why
 * a file cannot be read. ep_tls_error() says it in words. Context: init. */
int ep_tls_setup(const struct ep_tls_config *config);

/* Reads EDGEPROF_TLS_CA (a file), EDGEPROF_TLS_PIN, EDGEPROF_TLS_CERT and EDGEPROF_TLS_KEY (files), EDGEPROF_TLS_NAME
 * and EDGEPROF_TLS_NO_CLOCK (1, 0) into the fields of *config that are not set; SSL_CERT_FILE where nothing else says
 * whom to trust. Strings point into the environment. Returns 0, or -EINVAL (ep_tls_error()). Context: init. */
int ep_tls_config_from_env(struct ep_tls_config *config);

/* Wipes keys and sessions; https endpoints are unknown again. Not while a profiler runs that has one. Context: init. */
void ep_tls_end(void);

/* One line about what failed, setup or a connection, "the server's certificate has expired"; "" when nothing has since
 * the last connection was made. Context: any thread. */
const char *ep_tls_error(void);

struct ep_tls_info {
    size_t memory_peak;  /* of memory_size, the farthest byte that was ever used */
    uint64_t handshakes; /* that were complete */
    uint64_t resumed;    /* of these, sessions that went on: no certificate, no signature */
    uint64_t failed;     /* connections that were refused, by either side */
    unsigned version;    /* of the last: 12 or 13; 0: none yet */
};

/* All zero before setup and after the end. Context: any thread, but during neither of these two. */
void ep_tls_info_get(struct ep_tls_info *info);

#ifdef __cplusplus
}
#endif

#endif
