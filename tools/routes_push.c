/*
 * Addresses that profiles are sent to: devices' compact messages, Pyroscope's push and its older /ingest. The formats
 * are ingest_*.c's.
 */
#include "gzip.h"
#include "json.h"
#include "routes.h"
#include "when.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { INFLATED_LIMIT = 32 << 20 };

static unsigned status_of(enum et_verdict verdict)
{
    switch (verdict) {
    case ET_ACCEPTED:
    case ET_REPEATED:
        return 200;
    case ET_MALFORMED:
        return 400;
    case ET_STALE:
        return 409;
    default:
        return 503;
    }
}

/* How long ago a message that waited on the device ended (core/FORMAT.md, section 9); 0 when it did not wait. False:
 * the device does not know. */
static bool age_of(const struct et_request *request, int64_t *age_ns)
{
    const char *text = et_header(request, "X-Edgeprof-Age");
    char *end = NULL;
    *age_ns = 0;
    if (!text) {
        return true;
    }
    errno = 0;
    long long ms = strtoll(text, &end, 10);
    if (errno || end == text || *end || ms < 0 || ms > INT64_MAX / 4000000) {
        return false;
    }
    *age_ns = ms * 1000000;
    return *age_ns < et_now();
}

/* ---- compact ---- */

typedef enum et_verdict take(struct et_store *store, const void *bytes, size_t size, int64_t now_ns, const char **why);

struct message {
    take *take;
    const struct et_buf *body;
    int64_t now_ns;
};

static enum et_verdict take_message(struct et_store *store, void *context, const char **why)
{
    const struct message *message = context;
    return message->take(store, message->body->data, message->body->size, message->now_ns, why);
}

static void push_compact(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct et_buf why = {0};
    int64_t age_ns;
    bool known = age_of(request, &age_ns);
    struct message message = {.take = known ? et_ingest_compact : et_ingest_compact_undated,
                              .body = &request->body,
                              .now_ns = et_now() - age_ns};
    enum et_verdict verdict = et_server_write(server, take_message, &message, &why);
    et_answer_text(answer, status_of(verdict), why.data);
    et_buf_free(&why);
}

/* ---- pprof ---- */

static enum et_verdict take_pprof(struct et_store *store, void *context, const char **why)
{
    return et_ingest_pprof(store, context, et_now(), why);
}

static void ingest(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    const char *format = et_argument(request, "format");
    const char *from = et_argument(request, "from"), *until = et_argument(request, "until");
    struct et_pprof_push push = {.name = et_argument(request, "name")};
    if (*format && strcmp(format, "pprof") != 0) {
        et_answer_text(answer, 400, "the only format is pprof");
        return;
    }
    if ((*from && !et_parse_time(from, &push.from_ns)) || (*until && !et_parse_time(until, &push.until_ns))) {
        et_answer_text(answer, 400, "from and until are Unix times");
        return;
    }
    struct et_buf inflated = {0}, why = {0};
    if (et_body(request, INFLATED_LIMIT, &inflated, answer) == 0) {
        push.bytes = inflated.data;
        push.size = inflated.size;
        enum et_verdict verdict = et_server_write(server, take_pprof, &push, &why);
        et_answer_text(answer, status_of(verdict), why.data);
    }
    et_buf_free(&inflated);
    et_buf_free(&why);
}

/* ---- Pyroscope's push ---- */

/* Connect's answers: an empty message, or an error with its code. why: a line. */
static void answer_connect(struct et_answer *answer, unsigned status, const char *why)
{
    answer->status = status;
    answer->type = status == 200 ? "application/proto" : "application/json";
    answer->body.size = 0;
    if (status != 200) {
        et_buf_text(&answer->body, "{\"code\":");
        et_json_string(&answer->body, status == 503   ? "unavailable"
                                      : status == 413 ? "resource_exhausted"
                                                      : "invalid_argument");
        et_buf_text(&answer->body, ",\"message\":");
        et_json_string(&answer->body, why);
        et_buf_char(&answer->body, '}');
    }
}

static void push_pyroscope(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    const char *type = et_header(request, "Content-Type");
    struct et_buf inflated = {0}, why = {0};
    unsigned status;
    if (!type || strcmp(type, "application/proto") != 0) {
        et_answer_text(answer, 415, "the only content type is application/proto");
        return;
    }
    if (et_body(request, INFLATED_LIMIT, &inflated, answer) == 0) {
        int64_t age_ns;
        (void)age_of(request, &age_ns);
        struct message message = {.take = et_ingest_push, .body = &inflated, .now_ns = et_now() - age_ns};
        status = status_of(et_server_write(server, take_message, &message, &why));
    } else {
        status = answer->status;
        et_buf_add(&why, answer->body.data, answer->body.size - 1); /* without its end of line */
    }
    answer_connect(answer, status, why.data);
    et_buf_free(&inflated);
    et_buf_free(&why);
}

const struct et_route et_routes_push[] = {
    {.method = "POST", .path = "/edgeprof/v1/push", .handle = push_compact},
    {.method = "POST", .path = "/push.v1.PusherService/Push", .handle = push_pyroscope},
    {.method = "POST", .path = "/ingest", .handle = ingest},
    {0},
};
