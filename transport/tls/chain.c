/*
 * Prepares the server's chain for mbedtls, which looks for an issuer only behind a certificate and takes the first one
 * with the right name. Servers send chains in any order, and several issuers may have one name, so this sorts the
 * chain. It leaves out certificates whose algorithm this build lacks, and names the algorithm if the chain then fails.
 * ep_mbedtls_chain.h makes mbedtls call these functions.
 *
 *   ep_tls_chain_add    -> ep_tls_note_algorithm
 *   ep_tls_chain_verify -> chain_sort -> find_issuer -> ep_tls_issuer_is_better -> issuer_rank
 */
#include "internal.h"

#include <mbedtls/md.h>
#include <mbedtls/pk.h>
#include <string.h>

#include "ep_mbedtls_chain.h"

#define RANKS_MAX 64 /* maximum number of signatures that are checked to choose issuers, for each connection */

struct algorithm {
    const char *oid; /* with its tag and length */
    size_t size;
    const char *text;
};

#define LINE(name)                                                                                                     \
    "the certificates of the server or of its CA use " name ", which is unsupported: RSA, P-256, P-384 and P-521 work"
#define ALGORITHM(oid, name)                                                                                           \
    {                                                                                                                  \
        oid, sizeof oid - 1, LINE(name)                                                                                \
    }

/* A key for RSA-PSS comes late: its number is also that of a signature, which is supported. */
static const struct algorithm algorithms[] = {
    ALGORITHM("\x06\x03\x2b\x65\x70", "Ed25519"),
    ALGORITHM("\x06\x03\x2b\x65\x71", "Ed448"),
    ALGORITHM("\x06\x05\x2b\x81\x04\x00\x0a", "the curve secp256k1"),
    ALGORITHM("\x06\x09\x2b\x24\x03\x03\x02\x08\x01\x01", "a brainpool curve"),
    ALGORITHM("\x06\x08\x2a\x81\x1c\xcf\x55\x01", "SM2"),
    ALGORITHM("\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03", "SHA-3, DSA or a post-quantum signature"),
    ALGORITHM("\x06\x07\x2a\x86\x48\xce\x38\x04\x03", "DSA"),
    ALGORITHM("\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", "MD5"),
    ALGORITHM("\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a", "an RSA-PSS key"),
};

static bool has_bytes(const uint8_t *at, size_t size, const struct algorithm *algorithm)
{
    for (; size >= algorithm->size; at++, size--)
        if (memcmp(at, algorithm->oid, algorithm->size) == 0)
            return true;
    return false;
}

bool ep_tls_note_algorithm(struct ep_tls *tls, int result, const uint8_t *der, size_t size)
{
    const int kind = -(-result & ~0x7f); /* without the low-level part */

    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
        if (has_bytes(der, size, &algorithms[i])) {
            tls->unsupported = algorithms[i].text;
            return true;
        }
    if (kind != MBEDTLS_ERR_X509_UNKNOWN_SIG_ALG && kind != MBEDTLS_ERR_PK_UNKNOWN_PK_ALG &&
        kind != MBEDTLS_ERR_PK_UNKNOWN_NAMED_CURVE)
        return false;
    tls->unsupported = LINE("an algorithm");
    return true;
}

int ep_tls_chain_add(mbedtls_x509_crt *chain, const unsigned char *der, size_t size)
{
    const int result = mbedtls_x509_crt_parse_der(chain, der, size);

    if (result == 0 || result == MBEDTLS_ERR_X509_ALLOC_FAILED ||
        !ep_tls_note_algorithm(ep_tls_instance, result, der, size))
        return result;
    /* mbedtls would accept the next certificate as the server's own if the first one failed in a certain way. */
    return chain->version == 0 ? MBEDTLS_ERR_X509_UNKNOWN_SIG_ALG : 0;
}

static bool is_equal_letter(uint8_t a, uint8_t b)
{
    const uint8_t lower = a | 0x20;

    return a == b || (lower == (b | 0x20) && lower >= 'a' && lower <= 'z');
}

static bool is_text_tag(uint8_t tag)
{
    return tag == MBEDTLS_ASN1_UTF8_STRING || tag == MBEDTLS_ASN1_PRINTABLE_STRING;
}

/* Names are equal in any case of letters and in both types of text. This may take different names for equal ones;
 * mbedtls compares them once more. */
bool ep_tls_name_may_match(const mbedtls_x509_buf *a, const mbedtls_x509_buf *b)
{
    size_t at = 0;

    if (a->len != b->len)
        return false;
    while (at < a->len && (is_equal_letter(a->p[at], b->p[at]) || (is_text_tag(a->p[at]) && is_text_tag(b->p[at]))))
        at++;
    return at == a->len;
}

static bool is_signed_by(const mbedtls_x509_crt *child, mbedtls_x509_crt *parent)
{
    const mbedtls_md_info_t *md = mbedtls_md_info_from_type(child->sig_md);
    uint8_t hash[MBEDTLS_MD_MAX_SIZE];

    return mbedtls_pk_can_do(&parent->pk, child->sig_pk) && mbedtls_md(md, child->tbs.p, child->tbs.len, hash) == 0 &&
           mbedtls_pk_verify_ext(child->sig_pk, child->sig_opts, &parent->pk, child->sig_md, hash,
                                 mbedtls_md_get_size(md), child->sig.p, child->sig.len) == 0;
}

static bool may_sign(const mbedtls_x509_crt *parent)
{
    return parent->version < 3 ||
           (parent->ca_istrue && mbedtls_x509_crt_check_key_usage(parent, MBEDTLS_X509_KU_KEY_CERT_SIGN) == 0);
}

/* EP_TLS_RANK_BEST, 1 if only the parent's dates are wrong, 0 if it has not signed the child or was not checked,
 * because there are too many or the deadline has passed. */
static int issuer_rank(struct ep_tls *tls, const mbedtls_x509_crt *child, mbedtls_x509_crt *parent)
{
    if (!may_sign(parent) || tls->ranked == RANKS_MAX || ep_deadline_passed(tls->deadline))
        return 0;
    tls->ranked++;
    if (!is_signed_by(child, parent))
        return 0;
    const bool outdated =
        mbedtls_x509_time_is_past(&parent->valid_to) || mbedtls_x509_time_is_future(&parent->valid_from);
    return outdated ? 1 : EP_TLS_RANK_BEST;
}

bool ep_tls_issuer_is_better(struct ep_tls *tls, const mbedtls_x509_crt *child, mbedtls_x509_crt *best,
                             mbedtls_x509_crt *candidate, int *rank)
{
    if (best && *rank < 0)
        *rank = issuer_rank(tls, child, best);
    const int other = best ? issuer_rank(tls, child, candidate) : -1;
    if (best && other <= *rank)
        return false;
    *rank = other;
    return true;
}

/* The pointer to the best issuer behind the certificate; NULL: there is none. */
static mbedtls_x509_crt **find_issuer(struct ep_tls *tls, mbedtls_x509_crt *child)
{
    mbedtls_x509_crt **best = NULL;
    int rank = -1;

    for (mbedtls_x509_crt **link = &child->next; *link; link = &(*link)->next) {
        if (!ep_tls_name_may_match(&(*link)->subject_raw, &child->issuer_raw))
            continue;
        if (ep_tls_issuer_is_better(tls, child, best ? *best : NULL, *link, &rank))
            best = link;
    }
    return best;
}

/* Moves the issuer of each certificate behind it. */
static void chain_sort(struct ep_tls *tls, mbedtls_x509_crt *child)
{
    for (mbedtls_x509_crt **link; child && (link = find_issuer(tls, child)) != NULL; child = child->next) {
        mbedtls_x509_crt *issuer = *link;
        *link = issuer->next;
        issuer->next = child->next;
        child->next = issuer;
    }
}

int ep_tls_chain_verify(mbedtls_x509_crt *chain, mbedtls_x509_crt_ca_cb_t find, void *context,
                        const mbedtls_x509_crt_profile *profile, const char *name, uint32_t *flags,
                        int (*verify)(void *, mbedtls_x509_crt *, int, uint32_t *), void *verify_context)
{
    chain_sort(ep_tls_instance, chain);
    return mbedtls_x509_crt_verify_with_ca_cb(chain, find, context, profile, name, flags, verify, verify_context);
}
