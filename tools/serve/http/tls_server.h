/*
 * TLS certificates for libmicrohttpd (GnuTLS): the server's own, and the CA for client certificates. They can be
 * reloaded at run time; a handshake in progress keeps its certificates.
 *
 * Only one object per process: GnuTLS's callbacks have no user context.
 */
#ifndef ET_TLS_SERVER_H
#define ET_TLS_SERVER_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>

struct et_tls_files {
    const char *certificate; /* PEM, with its chain */
    const char *key;         /* PEM, not encrypted */
    const char *client_ca;   /* PEM; NULL: no client certificates */
    const char *client_crl;  /* PEM: revoked client certificates, one list for each CA; NULL: none */
};

struct et_tls;

/* NULL: invalid files, which was reported. Copies the file names. */
struct et_tls *et_tls_open(const struct et_tls_files *files);
void et_tls_close(struct et_tls *tls);

/* Reads the files again. False: an error was reported, and the old certificates stay in use. Context: any thread. */
bool et_tls_reload(struct et_tls *tls);

/* Returns a session's certificate and key, and requests a client certificate if a CA is configured. For
 * MHD_OPTION_HTTPS_CERT_CALLBACK. */
int et_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **certificates,
                    unsigned *certificate_count, gnutls_privkey_t *key);

/* Whether a client certificate is required and the client sent none. An untrusted one ends the handshake instead. */
bool et_tls_is_bare(const struct et_tls *tls, gnutls_session_t session);

#endif
