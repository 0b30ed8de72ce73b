/*
 * See tls_server.h. et_tls_open() and et_tls_reload() load the files as a new generation. Handshakes call
 * et_tls_retrieve() for the server's certificate and verify_client() for the client's.
 *
 * Generations are kept until the end, because a handshake may still use an old one; certificates are replaced rarely.
 */
#include "tools/serve/http/tls_server.h"
#include "tools/serve/http/rejections.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_MAX = 16, FILE_LIMIT = 4 << 20 };

struct tls_generation {
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned count;
    gnutls_privkey_t key;
    gnutls_x509_trust_list_t clients; /* NULL: no client certificates */
    struct tls_generation *before;
};

struct et_tls {
    char *certificate, *key, *client_ca, *client_crl;
    pthread_mutex_t lock;
    struct tls_generation *now;
};

static struct et_tls *current;

/* ---- files ---- */

static void free_generation(struct tls_generation *generation)
{
    for (unsigned i = 0; i < generation->count; i++) {
        gnutls_pcert_deinit(&generation->chain[i]);
    }
    if (generation->key) {
        gnutls_privkey_deinit(generation->key);
    }
    if (generation->clients) {
        gnutls_x509_trust_list_deinit(generation->clients, 1);
    }
    free(generation);
}

static bool read_pem(const char *path, struct et_buf *out, gnutls_datum_t *datum)
{
    int err = et_read_file(path, FILE_LIMIT, out);
    if (err) {
        et_error("TLS: %s: %s", path, strerror(-err));
    }
    et_buf_text(out, "");
    *datum = (gnutls_datum_t){.data = (unsigned char *)out->data, .size = (unsigned)out->size};
    return err == 0;
}

static bool report_failure(const char *path, const char *what, int code)
{
    et_error("TLS: %s: %s: %s", path, what, gnutls_strerror(code));
    return false;
}

static bool load_chain(const char *path, struct tls_generation *out)
{
    struct et_buf text = {0};
    gnutls_datum_t pem;
    out->count = CHAIN_MAX;
    bool ok = read_pem(path, &text, &pem);
    int code = ok ? gnutls_pcert_list_import_x509_raw(out->chain, &out->count, &pem, GNUTLS_X509_FMT_PEM, 0) : -1;
    out->count = code < 0 ? 0 : out->count;
    et_buf_free(&text);
    return ok && (code >= 0 || report_failure(path, "not a PEM certificate", code));
}

static bool load_key(const char *path, struct tls_generation *out)
{
    struct et_buf text = {0};
    gnutls_datum_t pem;
    bool ok = read_pem(path, &text, &pem);
    int code = ok ? gnutls_privkey_init(&out->key) : -1;
    code = code < 0 ? code : gnutls_privkey_import_x509_raw(out->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(text.data, 0, text.size);
    et_buf_free(&text);
    return ok && (code >= 0 || report_failure(path, "not an unencrypted PEM private key", code));
}

static bool load_clients(const char *path, struct tls_generation *out)
{
    struct et_buf text = {0};
    gnutls_datum_t pem;
    bool ok = read_pem(path, &text, &pem);
    int code = ok ? gnutls_x509_trust_list_init(&out->clients, 0) : -1;
    code = code < 0 ? code : gnutls_x509_trust_list_add_trust_mem(out->clients, &pem, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    et_buf_free(&text);
    return ok && (code > 0 || report_failure(path, "not a PEM CA certificate", code));
}

/* A list that none of the CAs signed is an error: it would revoke nothing. */
static bool load_revoked(const char *path, struct tls_generation *out)
{
    struct et_buf text = {0};
    gnutls_datum_t pem;
    bool ok = read_pem(path, &text, &pem);
    int code = ok ? gnutls_x509_trust_list_add_trust_mem(out->clients, NULL, &pem, GNUTLS_X509_FMT_PEM,
                                                         GNUTLS_TL_VERIFY_CRL | GNUTLS_TL_FAIL_ON_INVALID_CRL, 0)
                  : -1;
    et_buf_free(&text);
    return ok && (code > 0 || report_failure(path, "not a PEM revocation list of one of the client CAs", code));
}

/* Whether certificate and key match: verifies a signature of the key with the certificate. */
static bool key_matches_certificate(const struct et_tls *tls, const struct tls_generation *generation)
{
    static const unsigned char text[] = "edgeprof";
    gnutls_datum_t data = {.data = (unsigned char *)(uintptr_t)text, .size = sizeof text}, signature = {0};
    gnutls_pubkey_t public = generation->chain[0].pubkey;
    gnutls_digest_algorithm_t hash = GNUTLS_DIG_SHA256;
    int code = gnutls_pubkey_get_preferred_hash_algorithm(public, &hash, NULL);
    code = code < 0 ? code : gnutls_privkey_sign_data(generation->key, hash, 0, &data, &signature);
    int pk = gnutls_pubkey_get_pk_algorithm(public, NULL);
    code = code < 0 ? code
                    : gnutls_pubkey_verify_data2(public, gnutls_pk_to_sign((gnutls_pk_algorithm_t)pk, hash), 0, &data,
                                                 &signature);
    gnutls_free(signature.data);
    return code >= 0 || report_failure(tls->key, "does not match the certificate", code);
}

static struct tls_generation *load_generation(const struct et_tls *tls)
{
    struct tls_generation *generation = et_alloc(1, sizeof *generation);
    if (!load_chain(tls->certificate, generation) || !load_key(tls->key, generation) ||
        !key_matches_certificate(tls, generation) || (tls->client_ca && !load_clients(tls->client_ca, generation)) ||
        (tls->client_crl && !load_revoked(tls->client_crl, generation))) {
        free_generation(generation);
        return NULL;
    }
    return generation;
}

struct et_tls *et_tls_open(const struct et_tls_files *files)
{
    struct et_tls *tls = et_alloc(1, sizeof *tls);
    tls->certificate = et_strdup(files->certificate);
    tls->key = et_strdup(files->key);
    tls->client_ca = files->client_ca ? et_strdup(files->client_ca) : NULL;
    tls->client_crl = files->client_crl ? et_strdup(files->client_crl) : NULL;
    pthread_mutex_init(&tls->lock, NULL);
    tls->now = load_generation(tls);
    if (!tls->now) {
        et_tls_close(tls);
        return NULL;
    }
    current = tls;
    return tls;
}

bool et_tls_reload(struct et_tls *tls)
{
    struct tls_generation *generation = load_generation(tls);
    if (generation) {
        pthread_mutex_lock(&tls->lock);
        generation->before = tls->now;
        tls->now = generation;
        pthread_mutex_unlock(&tls->lock);
    }
    return generation != NULL;
}

void et_tls_close(struct et_tls *tls)
{
    if (!tls) {
        return;
    }
    current = current == tls ? NULL : current;
    while (tls->now) {
        struct tls_generation *generation = tls->now;
        tls->now = generation->before;
        free_generation(generation);
    }
    pthread_mutex_destroy(&tls->lock);
    free(tls->certificate);
    free(tls->key);
    free(tls->client_ca);
    free(tls->client_crl);
    free(tls);
}

/* ---- handshakes ---- */

static struct tls_generation *newest_generation(void)
{
    pthread_mutex_lock(&current->lock);
    struct tls_generation *generation = current->now;
    pthread_mutex_unlock(&current->lock);
    return generation;
}

/* Imports the client's certificates. Returns their number. */
static unsigned import_chain(const gnutls_datum_t *raw, unsigned count, gnutls_x509_crt_t *chain)
{
    unsigned done = 0;
    while (done < count && done < CHAIN_MAX && gnutls_x509_crt_init(&chain[done]) >= 0) {
        if (gnutls_x509_crt_import(chain[done], &raw[done], GNUTLS_X509_FMT_DER) < 0) {
            gnutls_x509_crt_deinit(chain[done]);
            break;
        }
        done++;
    }
    return done;
}

/* Returns 0: trusted. Otherwise the handshake ends. */
static int verify_client(gnutls_session_t session)
{
    const struct tls_generation *generation = newest_generation();
    unsigned count = 0, status = GNUTLS_CERT_INVALID, done;
    const gnutls_datum_t *raw = gnutls_certificate_get_peers(session, &count);
    gnutls_x509_crt_t chain[CHAIN_MAX];
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    if (!raw || count == 0 || !generation->clients) {
        return 0; /* et_tls_is_bare() answers such requests with an explanation */
    }
    done = import_chain(raw, count, chain);
    if (done == count) {
        gnutls_x509_trust_list_verify_crt2(generation->clients, chain, done, &purpose, 1, 0, &status, NULL);
    }
    for (unsigned i = 0; i < done; i++) {
        gnutls_x509_crt_deinit(chain[i]);
    }
    if (status) {
        gnutls_datum_t text = {0};
        gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0);
        et_reject(ET_REJECTED_CERTIFICATE, "a client's certificate: %s", text.data ? (const char *)text.data : "");
        gnutls_free(text.data);
    }
    return status ? GNUTLS_E_CERTIFICATE_ERROR : 0;
}

int et_tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                    const gnutls_pk_algorithm_t *algorithms, int algorithm_count, gnutls_pcert_st **certificates,
                    unsigned *certificate_count, gnutls_privkey_t *key)
{
    struct tls_generation *generation = newest_generation();
    (void)authorities;
    (void)count;
    (void)algorithms;
    (void)algorithm_count;
    if (generation->clients) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUEST);
        gnutls_session_set_verify_function(session, verify_client);
    }
    *certificates = generation->chain;
    *certificate_count = generation->count;
    *key = generation->key;
    return 0;
}

bool et_tls_is_bare(const struct et_tls *tls, gnutls_session_t session)
{
    unsigned count = 0;
    return tls && tls->client_ca && (!gnutls_certificate_get_peers(session, &count) || count == 0);
}
