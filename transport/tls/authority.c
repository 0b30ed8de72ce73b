/*
 * Trusted certificates, one at a time: for each certificate of a server's chain the whole file is read, and only
 * certificates with the name of its issuer are parsed. So a large bundle needs no more memory than two certificates.
 * Accepts PEM with any number of certificates, or DER with one. Does not support hashed directories.
 *
 *   ep_tls_authority_find, ep_tls_authority_has, ep_tls_authority_check -> next_certificate -> next_line -> next_byte
 *                                                                                          -> decode_pem
 *                                                                       -> subject_of
 */
#include <errno.h>
#include <fcntl.h>
#include <mbedtls/asn1.h>
#include <mbedtls/platform.h>
#include <mbedtls/x509_crt.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define CERTIFICATE_MAX 4096 /* maximum size of a certificate in DER; longer ones are skipped */
#define PEM_LINE_MAX    96   /* PEM lines have 64 characters */

struct reader {
    int fd; /* -1: from memory */
    int error;
    bool begun;
    const uint8_t *at, *end;
    char line[PEM_LINE_MAX];
    uint8_t der[CERTIFICATE_MAX];
    size_t der_size;
    uint8_t buffer[1024];
};

static int open_reader(struct reader *reader, const struct ep_tls_authority *authority)
{
    reader->fd = -1;
    reader->error = 0;
    reader->begun = false;
    reader->at = authority->bytes;
    reader->end = authority->bytes ? authority->bytes + authority->size : NULL;
    if (!authority->file)
        return 0;
    reader->fd =
        open(authority->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: opening a pipe must not wait */
    return reader->fd < 0 ? -errno : 0;
}

static void close_reader(struct reader *reader)
{
    if (reader->fd >= 0)
        (void)close(reader->fd);
}

/* The next byte; -1: the end, or an error. */
static int next_byte(struct reader *reader)
{
    if (reader->at == reader->end && reader->fd >= 0) {
        ssize_t got = read(reader->fd, reader->buffer, sizeof reader->buffer);
        if (got < 0)
            reader->error = -errno;
        reader->at = reader->buffer;
        reader->end = reader->buffer + (got > 0 ? got : 0);
    }
    return reader->at == reader->end ? -1 : *reader->at++;
}

/* Reads a line without its end and trailing blanks; cuts long lines. False: no more. */
static bool next_line(struct reader *reader)
{
    size_t size = 0;
    int byte = next_byte(reader);

    if (byte < 0)
        return false;
    for (; byte >= 0 && byte != '\n'; byte = next_byte(reader))
        if (size < sizeof reader->line - 1)
            reader->line[size++] = (char)byte;
    while (size > 0 && (reader->line[size - 1] == '\r' || reader->line[size - 1] == ' '))
        size--;
    reader->line[size] = 0;
    return true;
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes lines of base64 up to a line that begins with "-----". False: not base64, or too long. */
static bool decode_pem(struct reader *reader)
{
    unsigned bits = 0, count = 0;
    bool good = true;

    reader->der_size = 0;
    while (next_line(reader) && strncmp(reader->line, "-----", 5) != 0) {
        for (const char *c = reader->line; *c && *c != '='; c++) {
            int digit = digit_of(*c);
            good = good && digit >= 0;
            bits = bits << 6 | ((unsigned)digit & 63);
            if (++count % 4 == 1)
                continue;
            if (reader->der_size == sizeof reader->der)
                good = false;
            else
                reader->der[reader->der_size++] = (uint8_t)(bits >> (6 - 2 * ((count - 1) % 4)));
        }
    }
    return good;
}

/* Reads a DER certificate up to the end of the file. */
static bool read_der(struct reader *reader, int first)
{
    reader->der_size = 0;
    for (int byte = first; byte >= 0; byte = next_byte(reader)) {
        if (reader->der_size == sizeof reader->der)
            return false;
        reader->der[reader->der_size++] = (uint8_t)byte;
    }
    return true;
}

static bool next_certificate(struct reader *reader)
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----";

    if (!reader->begun) {
        int first = next_byte(reader);
        reader->begun = true;
        if (first == (MBEDTLS_ASN1_SEQUENCE | MBEDTLS_ASN1_CONSTRUCTED))
            return read_der(reader, first);
        if (first >= 0)
            reader->at--;
    }
    while (next_line(reader))
        if (strcmp(reader->line, begin) == 0 && decode_pem(reader))
            return true;
    return false;
}

static bool skip_element(unsigned char **at, const unsigned char *end, int tag)
{
    size_t size;

    if (mbedtls_asn1_get_tag(at, end, &size, tag) != 0)
        return false;
    *at += size;
    return true;
}

/* The encoded subject of the certificate; size 0: not a certificate. */
static mbedtls_x509_buf subject_of(struct reader *reader)
{
    const int sequence = MBEDTLS_ASN1_SEQUENCE | MBEDTLS_ASN1_CONSTRUCTED;
    unsigned char *at = reader->der, *end = at + reader->der_size;
    size_t size;

    if (mbedtls_asn1_get_tag(&at, end, &size, sequence) != 0 || mbedtls_asn1_get_tag(&at, end, &size, sequence) != 0)
        return (mbedtls_x509_buf){0};
    (void)skip_element(&at, end, MBEDTLS_ASN1_CONTEXT_SPECIFIC | MBEDTLS_ASN1_CONSTRUCTED); /* version */
    if (!skip_element(&at, end, MBEDTLS_ASN1_INTEGER) || !skip_element(&at, end, sequence) ||
        !skip_element(&at, end, sequence) ||
        !skip_element(&at, end, sequence)) /* serial number, algorithm, issuer, validity */
        return (mbedtls_x509_buf){0};
    unsigned char *subject = at;
    if (!skip_element(&at, end, sequence))
        return (mbedtls_x509_buf){0};
    return (mbedtls_x509_buf){.tag = sequence, .len = (size_t)(at - subject), .p = subject};
}

int ep_tls_authority_check(const struct ep_tls_authority *authority)
{
    struct reader reader;
    int error = open_reader(&reader, authority);
    bool found = false;

    if (error)
        return error;
    while (!found && next_certificate(&reader))
        found = subject_of(&reader).len > 0;
    close_reader(&reader);
    return found ? 0 : reader.error ? reader.error : -EINVAL;
}

static void candidate_free(mbedtls_x509_crt *candidate)
{
    mbedtls_x509_crt_free(candidate);
    mbedtls_free(candidate);
}

/* Parses the certificate. *candidate is NULL if this build does not support it; fails only if memory is short. */
static int candidate_parse(struct ep_tls *tls, const struct reader *reader, mbedtls_x509_crt **candidate)
{
    *candidate = mbedtls_calloc(1, sizeof **candidate);
    if (!*candidate)
        return MBEDTLS_ERR_X509_ALLOC_FAILED;
    mbedtls_x509_crt_init(*candidate);
    int result = mbedtls_x509_crt_parse_der(*candidate, reader->der, reader->der_size);
    if (result == 0)
        return 0;
    candidate_free(*candidate);
    *candidate = NULL;
    if (result == MBEDTLS_ERR_X509_ALLOC_FAILED)
        return result;
    (void)ep_tls_note_algorithm(tls, result, reader->der, reader->der_size);
    return 0;
}

/* Keeps the better one of *best and the candidate. */
static void candidate_choose(struct ep_tls *tls, const mbedtls_x509_crt *child, mbedtls_x509_crt *candidate,
                             mbedtls_x509_crt **best, int *rank)
{
    mbedtls_x509_crt *worse = candidate;
    if (ep_tls_issuer_is_better(tls, child, *best, candidate, rank)) {
        worse = *best;
        *best = candidate;
    }
    if (worse)
        candidate_free(worse);
}

int ep_tls_authority_find(void *context, const mbedtls_x509_crt *child, mbedtls_x509_crt **found)
{
    struct ep_tls *tls = context;
    mbedtls_x509_crt *candidate;
    struct reader reader;
    int result = 0, rank = -1;

    *found = NULL;
    if ((!tls->authority.file && !tls->authority.bytes) || open_reader(&reader, &tls->authority) != 0)
        return 0;
    while (result == 0 && rank < EP_TLS_RANK_BEST && next_certificate(&reader)) {
        mbedtls_x509_buf subject = subject_of(&reader);
        if (!ep_tls_name_may_match(&subject, &child->issuer_raw))
            continue;
        result = candidate_parse(tls, &reader, &candidate);
        if (candidate)
            candidate_choose(tls, child, candidate, found, &rank);
    }
    close_reader(&reader);
    if (result != 0 && *found) {
        candidate_free(*found);
        *found = NULL;
    }
    return result;
}

bool ep_tls_authority_has(const struct ep_tls_authority *authority, const mbedtls_x509_crt *cert)
{
    struct reader reader;
    bool found = false;

    if ((!authority->file && !authority->bytes) || open_reader(&reader, authority) != 0)
        return false;
    while (!found && next_certificate(&reader))
        found = reader.der_size == cert->raw.len && memcmp(reader.der, cert->raw.p, reader.der_size) == 0;
    close_reader(&reader);
    return found;
}
