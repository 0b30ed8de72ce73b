/*
 * Trusted certificates, one at a time: for each certificate of a server's chain the whole file is read through and only
 * those are parsed that bear the name of its issuer. So a bundle with all the world's authorities takes no more memory
 * than one of them. What is read is PEM with any number of certificates, or DER with one; names are compared byte by
 * byte, as authorities copy them.
 *
 *   ep_tls_authority_find, ep_tls_authority_check -> next_certificate -> next_line -> next_byte -> read
 *                                                                     -> decode
 *                                                 -> subject_of
 *
 * Not here: hashed folders. Whoever has one has the bundle as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <mbedtls/asn1.h>
#include <mbedtls/platform.h>
#include <mbedtls/x509_crt.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define CERTIFICATE_MAX 4096 /* bytes of one in DER; longer ones are passed over */
#define PEM_LINE_MAX    96   /* PEM has 64 */
#define CANDIDATES_MAX  4    /* of one name, that are tried */

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
    reader->fd = open(authority->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whoever names a pipe shall not wait */
    return reader->fd < 0 ? -errno : 0;
}

static void close_reader(struct reader *reader)
{
    if (reader->fd >= 0)
        (void)close(reader->fd);
}

/* -1: the end, or an error. */
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

/* Without its end and trailing blanks; what is too long is cut. */
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

/* Lines of base64 up to the line that begins with "-----". False: not base64, or too long. */
static bool decode(struct reader *reader)
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

/* DER begins with a SEQUENCE; its end is the file's. */
static bool whole_file(struct reader *reader, int first)
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
            return whole_file(reader, first);
        if (first >= 0)
            reader->at--;
    }
    while (next_line(reader))
        if (strcmp(reader->line, begin) == 0 && decode(reader))
            return true;
    return false;
}

static bool skip(unsigned char **at, const unsigned char *end, int tag)
{
    size_t size;

    if (mbedtls_asn1_get_tag(at, end, &size, tag) != 0)
        return false;
    *at += size;
    return true;
}

/* The subject's name as it stands in the certificate; size 0: this is none. */
static mbedtls_x509_buf subject_of(struct reader *reader)
{
    const int sequence = MBEDTLS_ASN1_SEQUENCE | MBEDTLS_ASN1_CONSTRUCTED;
    unsigned char *at = reader->der, *end = at + reader->der_size;
    size_t size;

    if (mbedtls_asn1_get_tag(&at, end, &size, sequence) != 0 || mbedtls_asn1_get_tag(&at, end, &size, sequence) != 0)
        return (mbedtls_x509_buf){0};
    (void)skip(&at, end, MBEDTLS_ASN1_CONTEXT_SPECIFIC | MBEDTLS_ASN1_CONSTRUCTED); /* version */
    if (!skip(&at, end, MBEDTLS_ASN1_INTEGER) || !skip(&at, end, sequence) || !skip(&at, end, sequence) ||
        !skip(&at, end, sequence)) /* serial number, algorithm, issuer, validity */
        return (mbedtls_x509_buf){0};
    unsigned char *subject = at;
    if (!skip(&at, end, sequence))
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

/* One that mbedtls cannot parse is as good as not there; memory that is short is said. */
static int add(mbedtls_x509_crt **list, const struct reader *reader)
{
    if (!*list) {
        *list = mbedtls_calloc(1, sizeof **list);
        if (!*list)
            return MBEDTLS_ERR_X509_ALLOC_FAILED;
        mbedtls_x509_crt_init(*list);
    }
    int result = mbedtls_x509_crt_parse_der(*list, reader->der, reader->der_size);
    return result == MBEDTLS_ERR_X509_ALLOC_FAILED ? result : 0;
}

int ep_tls_authority_find(void *context, const mbedtls_x509_crt *child, mbedtls_x509_crt **found)
{
    const struct ep_tls_authority *authority = context;
    struct reader reader;
    int result = 0;

    *found = NULL;
    if ((!authority->file && !authority->bytes) || open_reader(&reader, authority) != 0)
        return 0;
    for (int count = 0; result == 0 && count < CANDIDATES_MAX && next_certificate(&reader);) {
        mbedtls_x509_buf subject = subject_of(&reader);
        if (subject.len != child->issuer_raw.len || memcmp(subject.p, child->issuer_raw.p, subject.len) != 0)
            continue;
        result = add(found, &reader);
        count++;
    }
    close_reader(&reader);
    if (result != 0 && *found) {
        mbedtls_x509_crt_free(*found);
        mbedtls_free(*found);
        *found = NULL;
    }
    return result;
}
