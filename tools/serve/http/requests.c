/* See http.h and requests.h: arguments, headers and bodies of requests, and answers. */
#include "tools/serve/http/requests.h"
#include "tools/lib/gzip.h"
#include "tools/serve/http/memory_budget.h"
#include "tools/serve/http/rejections.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* DECODED: what an inflated body becomes, times its size. */
enum { DECODED = 6, DEFLATE_AT_MOST = 1032 };

static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* ---- requests ---- */

const char *et_argument(const struct et_request *request, const char *name)
{
    const char *value = MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
    return value ? value : "";
}

const char *et_header(const struct et_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

struct each {
    void (*call)(void *context, const char *name, const char *value);
    void *context;
};

static enum MHD_Result on_argument(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    const struct each *each = context;
    (void)kind;
    each->call(each->context, name, value ? value : "");
    return MHD_YES;
}

void et_arguments_each(const struct et_request *request,
                       void (*call)(void *context, const char *name, const char *value), void *context)
{
    struct each each = {call, context};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_argument, &each);
}

bool et_body_encoding(const struct et_request *request, struct et_answer *answer)
{
    const char *encoding = et_header(request, "Content-Encoding");
    static const char *const known_ones[] = {"gzip", "x-gzip", "zstd", "deflate", "identity"}; /* RFC 9110, 8.4.1 */
    bool known = !encoding;
    for (size_t i = 0; i < sizeof known_ones / sizeof *known_ones && !known; i++) {
        known = strcasecmp(encoding, known_ones[i]) == 0;
    }
    if (!known) {
        et_answer_text(answer, 415, "the content encoding must be gzip, zstd or deflate");
    }
    return known;
}

/* The others tell themselves by their first bytes. */
static bool is_deflate(const struct et_request *request)
{
    const char *encoding = et_header(request, "Content-Encoding");
    return encoding && strcasecmp(encoding, "deflate") == 0;
}

void et_body_broken(const struct et_request *request, size_t limit, int err, struct et_answer *answer)
{
    struct et_buf why = {0};
    if (err == -EFBIG) {
        et_buf_printf(&why, "larger than %zu bytes when inflated", limit);
    } else {
        const struct et_buf *body = &request->body;
        et_buf_printf(&why, "broken %s data",
                      is_deflate(request)                  ? "deflate"
                      : et_is_zstd(body->data, body->size) ? "zstd"
                                                           : "gzip");
    }
    et_reject(err == -EFBIG ? ET_REJECTED_SIZE : ET_REJECTED_MALFORMED, "%s: %s", request->path, why.data);
    et_answer_text(answer, err == -EFBIG ? 413 : 400, why.data);
    et_buf_free(&why);
}

void et_body_no_room(struct et_answer *answer)
{
    et_answer_text(answer, 503, "busy: too many requests from other senders");
}

/* The most that the body can have when it is inflated. */
static size_t inflated_most(const struct et_request *request, size_t limit)
{
    const struct et_buf *body = &request->body;
    bool deflated = is_deflate(request) || et_is_gzip(body->data, body->size);
    if (!deflated) {
        return et_is_zstd(body->data, body->size) ? limit : body->size;
    }
    return body->size < limit / DEFLATE_AT_MOST ? body->size * DEFLATE_AT_MOST : limit;
}

static int inflate_bytes(const struct et_request *request, size_t limit, struct et_buf *out)
{
    const struct et_buf *body = &request->body;
    return is_deflate(request) ? et_inflate(body->data, body->size, limit, out)
                               : et_gunzip(body->data, body->size, limit, out);
}

/* Inflates within memory for the inflated body alone, since a bomb is never decoded. If there is no room for decoding
 * then, it gives back what it has before it waits, so that two requests do not wait for each other. */
static int inflate_body(const struct et_request *request, size_t limit, struct et_buf *out)
{
    struct et_memory_budget *budget = request->work->budget;
    et_memory_reserve(budget, request->work, inflated_most(request, limit));
    int err = inflate_bytes(request, limit, out);
    size_t size = err ? 0 : out->size;
    et_memory_shrink(request->work, size);
    if (!err && !et_memory_try_reserve(budget, request->work, size * (DECODED - 1))) {
        et_buf_free(out);
        et_memory_shrink(request->work, 0);
        et_memory_reserve(budget, request->work, size * DECODED);
        err = inflate_bytes(request, limit, out);
    }
    return err;
}

int et_body(const struct et_request *request, size_t limit, struct et_buf *out, struct et_answer *answer)
{
    if (!et_body_encoding(request, answer)) {
        return -EINVAL;
    }
    int err = inflate_body(request, limit, out);
    if (err) {
        et_buf_free(out);
        et_body_broken(request, limit, err, answer);
    }
    return err;
}

/* ---- answers ---- */

void et_answer_header(struct et_answer *answer, const char *name, const char *value)
{
    if (answer->header_count < ET_ANSWER_HEADERS) {
        answer->headers[answer->header_count].name = name;
        answer->headers[answer->header_count++].value = et_strdup(value);
    }
}

void et_answer_text(struct et_answer *answer, unsigned status, const char *text)
{
    answer->status = status;
    answer->type = NULL;
    answer->body.size = 0;
    et_buf_printf(&answer->body, "%s\n", text);
}

static void add_headers(struct MHD_Response *response, const struct et_answer *answer)
{
    const char *type = answer->type ? answer->type : "text/plain; charset=utf-8";
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Content-Security-Policy", POLICY);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    if (answer->status == 405) {
        MHD_add_response_header(response, "Allow", "GET, HEAD, POST");
    }
    if (answer->status == 503 || answer->status == 429) {
        MHD_add_response_header(response, "Retry-After", "5");
    }
    for (size_t i = 0; i < answer->header_count; i++) {
        MHD_add_response_header(response, answer->headers[i].name, answer->headers[i].value);
    }
}

/* Owns what the answer sends; NULL: nothing does. */
static struct MHD_Response *make_response(const struct et_answer *answer)
{
    if (answer->has_file) {
        return MHD_create_response_from_fd64(answer->file_size, answer->file);
    }
    if (answer->fixed) {
        return MHD_create_response_from_buffer(answer->fixed_size, (void *)(uintptr_t)answer->fixed,
                                               MHD_RESPMEM_PERSISTENT);
    }
    return MHD_create_response_from_buffer(answer->body.size, answer->body.data, MHD_RESPMEM_MUST_FREE);
}

enum MHD_Result et_reply(struct MHD_Connection *connection, struct et_answer *answer)
{
    enum MHD_Result result = MHD_NO;
    et_buf_text(&answer->body, "");
    struct MHD_Response *response = make_response(answer);
    if (response) {
        add_headers(response, answer);
        result = MHD_queue_response(connection, answer->status, response);
        MHD_destroy_response(response);
    }
    if (answer->fixed || answer->has_file || !response) {
        et_buf_free(&answer->body);
    }
    if (answer->has_file && !response) {
        close(answer->file);
    }
    for (size_t i = 0; i < answer->header_count; i++) {
        free(answer->headers[i].value);
    }
    return result;
}

enum MHD_Result et_reply_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
    struct et_answer answer = {0};
    et_answer_text(&answer, status, text);
    return et_reply(connection, &answer);
}
