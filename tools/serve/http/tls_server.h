/*
 * Certificates of the server, for libmicrohttpd's TLS (GnuTLS): its own, and who may sign those of clients. They can be
 * read anew while it runs; a handshake that is under way keeps what it began with.
 *
 * One at a time in a process: GnuTLS' callbacks have no context of their user's.
 */
#ifndef ET_TLS_SERVER_H
#define ET_TLS_SERVER_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>

struct et_tls_files {
    const char *certificate; /* PEM, with its chain */
    const char *key;         /* PEM, not encrypted */
    const char *client_ca;   /* PEM; NULL: clients need no certificate */
};

struct et_tls;

/* NULL: wrong, and said. The files' names are copied. */
struct et_tls *et_tls_open(const struct et_tls_files *files);
void et_tls_close(struct et_tls *tls);

/* Reads the files again. False: something is wrong, which is said, and all stays as it was. Context: any thread. */
bool et_tls_reload(struct et_tls *tls);

/* What a session uses; asks the client for a certificate when there is an authority for it. For
 * MHD_OPTION_HTTPS_CERT_CALLBACK. */
int et_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **certificates,
                    unsigned *certificate_count, gnutls_privkey_t *key);

/* Whether the client needs a certificate and has shown none; one that is not trusted ends the handshake. */
bool et_tls_is_bare(const struct et_tls *tls, gnutls_session_t session);

#endif
