/*
 * Setup of TLS from the configuration. Everything is in the caller's memory: struct ep_tls, then the arena. Files with
 * keys are read into the arena, which wipes freed memory.
 *
 *   ep_tls_setup -> memory_init, setup_trust, setup_identity -> blob_load -> read_file
 *                -> ssl_configure
 */
#include <errno.h>
#include <fcntl.h>
#include <mbedtls/pk.h>
#include <mbedtls/platform.h>
#include <psa/crypto.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define FILE_MAX      16384 /* maximum size of the file of a client certificate with its chain, or of a key */
#define CHAIN_HEAD    8     /* of the message with the client certificates, in TLS 1.3, which needs more than TLS 1.2 */
#define CHAIN_OF_EACH 5

/* ---- memory ---- */

static void *aligned(void *memory, size_t *size)
{
    size_t skip = -(uintptr_t)memory & 15;

    *size = *size > skip ? *size - skip : 0;
    return (uint8_t *)memory + skip;
}

/* Size of struct ep_tls, in front of the arena. */
static size_t own_size(void)
{
    return (sizeof(struct ep_tls) + 15) / 16 * 16;
}

static struct ep_tls *memory_init(const struct ep_tls_config *config)
{
    size_t size = config->memory_size;
    struct ep_tls *tls = config->memory ? aligned(config->memory, &size) : NULL;

    if (!tls || size < own_size())
        return NULL;
    memset(tls, 0, size);
    ep_tls_arena_set((uint8_t *)tls + own_size(), size - own_size());
    mbedtls_ssl_config_init(&tls->config);
    mbedtls_ssl_init(&tls->ssl);
    mbedtls_x509_crt_init(&tls->cert);
    mbedtls_pk_init(&tls->key);
    mbedtls_ssl_session_init(&tls->session);
    return tls;
}

static void tls_release(struct ep_tls *tls)
{
    mbedtls_ssl_session_free(&tls->session);
    mbedtls_ssl_free(&tls->ssl);
    mbedtls_ssl_config_free(&tls->config);
    mbedtls_pk_free(&tls->key);
    mbedtls_x509_crt_free(&tls->cert);
    mbedtls_free(tls->authority.file);
    mbedtls_free(tls->server_name);
    mbedtls_psa_crypto_free();
    ep_tls_arena_set(NULL, 0);
    ep_tls_wipe(tls, sizeof *tls);
}

static char *text_dup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *to = mbedtls_calloc(1, size);

    return to ? memcpy(to, text, size) : NULL;
}

/* ---- trust ---- */

static const char *system_bundle(void)
{
    static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                          "/etc/ssl/cert.pem"};

    for (size_t i = 0; i < sizeof bundles / sizeof bundles[0]; i++)
        if (access(bundles[i], R_OK) == 0)
            return bundles[i];
    return NULL;
}

static int setup_authority(struct ep_tls *tls, const struct ep_tls_config *config)
{
    const char *file = config->ca_file;

    if (file && config->ca)
        return ep_tls_refuse(-EINVAL, "use ca_file or ca, not both", "");
    tls->authority = (struct ep_tls_authority){.bytes = config->ca, .size = config->ca_size};
    if (!file && !config->ca && config->pin)
        return 0;
    if (!file && !config->ca && !(file = system_bundle()))
        return ep_tls_refuse(-ENOENT, "this system has no CA bundle: set ca_file or pin", "");
    if (file && !(tls->authority.file = text_dup(file)))
        return -ENOMEM;
    int error = ep_tls_authority_check(&tls->authority);
    if (error == -EINVAL)
        return ep_tls_refuse(error, "no certificate (PEM or DER) in ", file ? file : "ca");
    return error ? ep_tls_refuse(error, "cannot read certificate authorities: ", file ? file : "ca") : 0;
}

static int setup_trust(struct ep_tls *tls, const struct ep_tls_config *config)
{
    if (config->flags & ~(uint32_t)EP_TLS_NO_CLOCK)
        return ep_tls_refuse(-EINVAL, "flags: unknown", "");
    if ((config->flags & EP_TLS_NO_CLOCK) && !config->pin && !config->ca && !config->ca_file)
        return ep_tls_refuse(-EINVAL, "EP_TLS_NO_CLOCK requires pin, ca or ca_file", "");
    tls->flags = config->flags;
    if (config->pin && ep_tls_pins_parse(tls, config->pin) != 0)
        return ep_tls_refuse(-EINVAL, "pin: must be sha256//BASE64 with 44 characters, at most four separated by ;",
                             "");
    if (config->server_name && !(tls->server_name = text_dup(config->server_name)))
        return -ENOMEM;
    return setup_authority(tls, config);
}

/* ---- the client's identity ---- */

struct blob {
    const uint8_t *bytes;
    uint8_t *file; /* allocated copy, to be freed */
    size_t size;   /* for PEM includes the NUL, as mbedtls requires */
};

static int read_all(int fd, uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t got = read(fd, bytes, size);
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        bytes += got;
        size -= (size_t)got;
    }
    return 0;
}

static int read_file(const char *path, struct blob *blob)
{
    struct stat file;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    int error = fstat(fd, &file) == 0 ? 0 : -errno;
    if (!error && (!S_ISREG(file.st_mode) || file.st_size <= 0))
        error = -EINVAL;
    blob->size = !error ? (size_t)file.st_size : 0;
    if (!error && file.st_size > FILE_MAX)
        error = -EFBIG;
    if (!error) {
        blob->size = (size_t)file.st_size + 1;
        blob->bytes = blob->file = mbedtls_calloc(1, blob->size);
        error = blob->file ? read_all(fd, blob->file, blob->size - 1) : -ENOMEM;
    }
    (void)close(fd);
    return error;
}

/* Loads a file or a copy from memory, with a NUL after PEM, without one after DER. */
static int blob_load(struct blob *blob, const char *path, const void *bytes, size_t size)
{
    *blob = (struct blob){.bytes = bytes, .size = size};
    if (!path && size > FILE_MAX)
        return -EFBIG;
    if (path) {
        int error = read_file(path, blob);
        if (error)
            return error;
    } else if (size > 0) {
        blob->bytes = blob->file = mbedtls_calloc(1, size + 1);
        if (!blob->file)
            return -ENOMEM;
        memcpy(blob->file, bytes, size);
        blob->size = size + 1;
    } else
        return -EINVAL;
    if (blob->bytes[0] == 0x30)
        blob->size--;
    return 0;
}

static int refuse_large(int error, const struct blob *blob)
{
    return ep_tls_refuse_size(error, "the file of a client certificate or key has ", blob->size,
                              " bytes, the limit is 16384");
}

/* Checks that the certificate with its chain fits into a message. */
static int check_chain_size(const struct ep_tls *tls)
{
    size_t size = CHAIN_HEAD;

    for (const mbedtls_x509_crt *cert = &tls->cert; cert; cert = cert->next)
        size += CHAIN_OF_EACH + cert->raw.len;
    if (size <= MBEDTLS_SSL_OUT_CONTENT_LEN)
        return 0;
    return ep_tls_refuse_size(-EFBIG, "the client certificate is too large: its chain makes a message of ", size,
                              " bytes, the limit is 4096");
}

_Static_assert(FILE_MAX == 16384 && MBEDTLS_SSL_OUT_CONTENT_LEN == 4096, "lines name the limits");

static int setup_cert(struct ep_tls *tls, const struct ep_tls_config *config)
{
    const char *name = config->cert_file ? config->cert_file : "cert";
    struct blob blob;
    int error = blob_load(&blob, config->cert_file, config->cert, config->cert_size);

    if (!error && mbedtls_x509_crt_parse(&tls->cert, blob.bytes, blob.size) != 0)
        error = -EINVAL;
    mbedtls_free(blob.file);
    if (error == -EFBIG)
        return refuse_large(error, &blob);
    return error ? ep_tls_refuse(
                       error, "cannot read a client certificate (PEM or DER; RSA, P-256, P-384 or P-521) from ", name)
                 : check_chain_size(tls);
}

static int setup_key(struct ep_tls *tls, const struct ep_tls_config *config)
{
    const char *name = config->key_file ? config->key_file : "key";
    struct blob blob;
    int error = blob_load(&blob, config->key_file, config->key, config->key_size);

    if (!error && mbedtls_pk_parse_key(&tls->key, blob.bytes, blob.size, NULL, 0, ep_tls_random, NULL) != 0)
        error = -EINVAL;
    mbedtls_free(blob.file);
    if (error == -EFBIG)
        return refuse_large(error, &blob);
    if (error)
        return ep_tls_refuse(
            error, "cannot read an unencrypted private key (PEM or DER; RSA, P-256, P-384 or P-521) from ", name);
    if (mbedtls_pk_check_pair(&tls->cert.pk, &tls->key, ep_tls_random, NULL) != 0)
        return ep_tls_refuse(-EINVAL, "client certificate and key do not match: ", name);
    return 0;
}

static int setup_identity(struct ep_tls *tls, const struct ep_tls_config *config)
{
    const bool cert = config->cert || config->cert_file, key = config->key || config->key_file;

    if ((config->cert && config->cert_file) || (config->key && config->key_file))
        return ep_tls_refuse(-EINVAL, "client certificate, key: use a file or memory, not both", "");
    if (cert != key)
        return ep_tls_refuse(-EINVAL, "client certificate and key require each other", "");
    if (!cert)
        return 0;
    int error = setup_cert(tls, config);
    return error ? error : setup_key(tls, config);
}

static int ssl_configure(struct ep_tls *tls)
{
    mbedtls_ssl_config *config = &tls->config;
    int result = mbedtls_ssl_config_defaults(config, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                             MBEDTLS_SSL_PRESET_DEFAULT);

    if (result == 0 && tls->cert.version != 0)
        result = mbedtls_ssl_conf_own_cert(config, &tls->cert, &tls->key);
    mbedtls_ssl_conf_rng(config, ep_tls_random, NULL);
    mbedtls_ssl_conf_authmode(config, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_verify(config, ep_tls_verify, tls);
    mbedtls_ssl_conf_ca_cb(config, ep_tls_authority_find, tls);
    mbedtls_ssl_conf_session_tickets(config, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(config,
                                                             MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
    return result == 0 ? 0 : -ENOMEM;
}

int ep_tls_setup(const struct ep_tls_config *config)
{
    if (ep_tls_instance && ep_tls_instance->tcp)
        return ep_tls_refuse(-EBUSY, "a connection is open: set TLS up before ep_start()", "");
    ep_tls_end();
    struct ep_tls *tls = memory_init(config);
    if (!tls)
        return ep_tls_refuse(-ENOMEM, "TLS memory is too small: use EP_TLS_MEMORY or more", "");
    psa_status_t status = psa_crypto_init();
    int error = status == PSA_SUCCESS ? setup_trust(tls, config) : -EIO;
    if (!error)
        error = setup_identity(tls, config);
    if (!error)
        error = ssl_configure(tls);
    if (ep_tls_arena_short())
        error = ep_tls_refuse(-ENOMEM, "TLS memory is too small: use EP_TLS_MEMORY or more", "");
    if (status != PSA_SUCCESS)
        (void)ep_tls_refuse(error, "the kernel has no random numbers yet", "");
    if (error) {
        tls_release(tls);
        return error;
    }
    ep_tls_instance = tls;
    ep_transport_https = &ep_transport_tls;
    return 0;
}

void ep_tls_end(void)
{
    ep_transport_https = NULL;
    if (ep_tls_instance)
        tls_release(ep_tls_instance);
    ep_tls_instance = NULL;
}

void ep_tls_info_get(struct ep_tls_info *info)
{
    const struct ep_tls *tls = ep_tls_instance;

    *info = (struct ep_tls_info){0};
    if (tls)
        *info = (struct ep_tls_info){.memory_peak = own_size() + ep_tls_arena_peak(),
                                     .handshakes = tls->handshakes,
                                     .resumed = tls->resumed,
                                     .failed = tls->failed,
                                     .version = tls->version};
}
