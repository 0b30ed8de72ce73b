/* See encoding.h. Files of the page are compressed once. */
#include "tools/serve/http/encoding.h"
#include "tools/lib/gzip.h"

#include <ctype.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Shorter answers fit into a packet or two. */
/* TAG_MOST: bytes of an answer that is hashed, or compressed. */
enum { GZIP_LEAST = 1024, TAG_MOST = 64 << 20, TAG_BYTES = 16, TAG_SIZE = 2 * TAG_BYTES + 5 };

/* A file of the page. Never freed: there are as many as the page has files. */
struct packed_file {
    const void *bytes;
    char tag[TAG_SIZE];
    struct et_buf gzip;
    struct packed_file *next;
};

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct packed_file *files;

/* ---- headers ---- */

/* The next element of a comma-separated list, without blanks around it. */
static bool next_element(const char **at, const char **element, size_t *size)
{
    const char *from = *at + strspn(*at, ", \t");
    *element = from;
    *size = strcspn(from, ",");
    *at = from + *size;
    while (*size && strchr(" \t", from[*size - 1])) {
        --*size;
    }
    return *size > 0;
}

/* Whether the parameters of an element, from ';' on, have a q of 0. */
static bool is_refused(const char *parameters, size_t size)
{
    const char *end = parameters + size, *q = memchr(parameters, '=', size);
    if (!q) {
        return false;
    }
    for (q++; q < end && (*q == '0' || *q == '.' || *q == ' '); q++) {
    }
    return q == end;
}

/* Whether an Accept-Encoding header takes gzip. */
static bool takes_gzip(const char *accept)
{
    const char *element;
    size_t size;
    bool any = false;
    while (accept && next_element(&accept, &element, &size)) {
        size_t name = 0;
        while (name < size && element[name] != ';' && element[name] != ' ') {
            name++;
        }
        bool refused = is_refused(element + name, size - name);
        if (name == 4 && strncasecmp(element, "gzip", 4) == 0) {
            return !refused;
        }
        any |= name == 1 && *element == '*' && !refused;
    }
    return any;
}

/* Whether an If-None-Match header has the tag. */
static bool has_tag(const char *none_match, const char *tag)
{
    const char *element;
    size_t size, own = strlen(tag);
    while (none_match && next_element(&none_match, &element, &size)) {
        if (size > 2 && strncmp(element, "W/", 2) == 0) {
            element += 2;
            size -= 2;
        }
        if ((size == own && memcmp(element, tag, own) == 0) || (size == 1 && *element == '*')) {
            return true;
        }
    }
    return false;
}

/* ---- answers ---- */

static void make_tag(const void *bytes, size_t size, char tag[TAG_SIZE])
{
    struct sha256_ctx context;
    uint8_t digest[TAG_BYTES];
    sha256_init(&context);
    sha256_update(&context, size, bytes);
    sha256_digest(&context, sizeof digest, digest);
    tag[0] = '"';
    for (size_t i = 0; i < sizeof digest; i++) {
        snprintf(tag + 1 + 2 * i, 3, "%02x", digest[i]);
    }
    memcpy(tag + 1 + 2 * sizeof digest, "\"", 2);
}

static const struct packed_file *find_file(const void *bytes, size_t size)
{
    pthread_mutex_lock(&files_lock);
    struct packed_file *file = files;
    while (file && file->bytes != bytes) {
        file = file->next;
    }
    if (!file) {
        file = et_alloc(1, sizeof *file);
        file->bytes = bytes;
        make_tag(bytes, size, file->tag);
        et_gzip(bytes, size, &file->gzip);
        file->next = files;
        files = file;
    }
    pthread_mutex_unlock(&files_lock);
    return file;
}

/* Pprof is gzip, pictures gain nothing. */
static bool is_text(const char *type)
{
    return !type || strncmp(type, "text/", 5) == 0 || strncmp(type, "application/json", 16) == 0 ||
           strcmp(type, "application/proto") == 0 || strncmp(type, "image/svg", 9) == 0;
}

/* Weak: gzip and plain bytes of an answer have the same tag. */
static bool is_known(struct et_answer *answer, const struct et_encoding_request *request, const char *tag)
{
    char weak[TAG_SIZE + 2];
    snprintf(weak, sizeof weak, "W/%s", tag);
    et_answer_header(answer, "ETag", weak);
    if (!has_tag(request->none_match, tag)) {
        return false;
    }
    answer->status = 304;
    answer->fixed = NULL;
    et_buf_free(&answer->body);
    return true;
}

void et_answer_encode(struct et_answer *answer, const struct et_encoding_request *request)
{
    size_t size = answer->fixed ? answer->fixed_size : answer->body.size;
    bool text = is_text(answer->type), gzip = text && size >= GZIP_LEAST && takes_gzip(request->accept);
    char tag[TAG_SIZE];
    if (answer->status != 200 || size > TAG_MOST || answer->has_file) {
        return;
    }
    if (text) {
        et_answer_header(answer, "Vary", "Accept-Encoding");
    }
    const struct packed_file *file = answer->fixed ? find_file(answer->fixed, size) : NULL;
    if (request->get && !file) {
        make_tag(answer->body.data ? answer->body.data : "", size, tag);
    }
    if ((request->get && is_known(answer, request, file ? file->tag : tag)) || !gzip) {
        return;
    }
    et_answer_header(answer, "Content-Encoding", "gzip");
    if (file) {
        answer->fixed = file->gzip.data;
        answer->fixed_size = file->gzip.size;
        return;
    }
    struct et_buf plain = answer->body;
    answer->body = (struct et_buf){0};
    et_gzip_fast(plain.data, plain.size, &answer->body);
    et_buf_free(&plain);
}
