/*
 * Routes that receive profiles: compact messages of devices and Pyroscope's push. routes_ingest.c has Pyroscope's older
 * /ingest; ingest_*.c decode the formats.
 */
#include "tools/store/bounds.h"
#include "tools/serve/http/connect.h"
#include "tools/lib/gzip.h"
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/serve/http/rejections.h"
#include "tools/serve/http/routes.h"
#include "tools/serve/ingest/keep_batch.h"
#include "tools/serve/http/limits.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static unsigned status_of(enum et_outcome outcome)
{
    switch (outcome) {
    case ET_ACCEPTED:
    case ET_REPEATED:
        return 200;
    case ET_MALFORMED:
        return 400;
    case ET_LIMITED:
        return 429;
    case ET_STALE:
        return 409;
    case ET_FORBIDDEN:
        return 403;
    default:
        return 503;
    }
}

/* The time between the end of a queued message and its delivery (core/FORMAT.md, section 9); 0 when it was not queued.
 * False: the device does not know it. */
static bool read_age(const struct et_request *request, int64_t *age_ns)
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

struct compact_message {
    const struct et_buf *body;
    struct et_compact_source source;
};

static enum et_outcome store_message(struct et_store *store, void *context, const char **why)
{
    const struct compact_message *message = context;
    return et_ingest_compact_from(store, message->body->data, message->body->size, &message->source, why);
}

static void store_compact(struct et_server *server, const struct et_request *request, const struct et_buf *body,
                          struct et_answer *answer)
{
    struct et_buf why = {0};
    int64_t age_ns;
    bool known = read_age(request, &age_ns);
    struct compact_message message = {.body = body,
                                      .source = {.now_ns = et_now() - age_ns,
                                                 .age_ns = age_ns,
                                                 .aged = known && et_header(request, "X-Edgeprof-Age"),
                                                 .undated = !known,
                                                 .scope = request->grant->scope}};
    enum et_outcome outcome = et_server_write(server, store_message, &message, &why);
    if (outcome == ET_LIMITED || outcome == ET_MALFORMED) {
        et_reject(outcome == ET_LIMITED ? ET_REJECTED_BOUNDS : ET_REJECTED_MALFORMED, "%s: %s", request->path,
                  why.data);
    } else if (outcome == ET_FORBIDDEN) {
        et_reject(ET_REJECTED_ACCESS, "%s, token in line %u: %s", request->path, request->grant->line, why.data);
    }
    et_answer_text(answer, status_of(outcome), why.data);
    et_buf_free(&why);
}

/* Devices send messages as they are; a proxy or a collector may compress them. */
static void push_compact(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct et_buf inflated = {0};
    if (!et_header(request, "Content-Encoding")) {
        store_compact(server, request, &request->body, answer);
    } else if (et_body(request, ET_MESSAGE_LIMIT, &inflated, answer) == 0) {
        store_compact(server, request, &inflated, answer);
    }
    et_buf_free(&inflated);
}

/* ---- Pyroscope's push ---- */

/* Connect's answers: an empty message, or an error with its code. why: one line. */
static void answer_connect(struct et_answer *answer, unsigned status, bool json, const char *why)
{
    if (status == 200) {
        answer->status = status;
        answer->type = json ? "application/json" : "application/proto";
        et_buf_text(&answer->body, json ? "{}" : "");
    } else {
        et_connect_error(answer, status, why);
    }
}

static enum et_outcome store_batch(struct et_store *store, void *context, const char **why)
{
    return et_batch_store(store, context, why);
}

/* Lists the items that bounds refused. Returns their number. */
static size_t list_refused(const struct et_batch *batch, struct et_buf *why)
{
    size_t refused = 0;
    const char *last = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->items[i].refused) {
            if (batch->items[i].refused != last) {
                et_buf_printf(why, "%s%s: %s", why->size ? "; " : "", batch->items[i].service, batch->items[i].refused);
            }
            last = batch->items[i].refused;
            refused++;
        }
    }
    return refused;
}

/* NULL, or why the token may not send labels of the profile's stacks. */
static const char *stacks_refused(const char *scope, const struct et_profile *profile)
{
    uint32_t last = 0;
    const char *refused = NULL;
    for (size_t i = 0; scope && i < profile->entry_count && !refused; i++) {
        uint32_t labels = profile->entries[i].labels;
        refused = labels == last ? NULL : et_scope_refuses_stacks(scope, et_text(&profile->strings, labels));
        last = labels;
    }
    return refused;
}

/* Whether the token may send the batch; otherwise *why has the reason. */
static bool in_scope(const struct et_request *request, const struct et_batch *batch, struct et_buf *why)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct et_batch_item *item = &batch->items[i];
        const char *refused = et_scope_refuses(request->grant->scope, item->service, item->tags);
        refused = refused ? refused : stacks_refused(request->grant->scope, item->profile);
        if (refused) {
            et_buf_printf(why, "%s%s: %s", why->size ? "; " : "", item->service, refused);
            et_reject(ET_REJECTED_ACCESS, "%s, token in line %u: %s", request->path, request->grant->line, why->data);
            return false;
        }
    }
    return true;
}

unsigned et_server_keep_batch(struct et_server *server, const struct et_request *request, struct et_batch *batch,
                              struct et_buf *why)
{
    if (!in_scope(request, batch, why)) {
        return 403;
    }
    struct et_buf text = {0};
    enum et_outcome outcome = batch->count ? et_server_write(server, store_batch, batch, &text) : ET_ACCEPTED;
    unsigned status = status_of(outcome);
    if (outcome == ET_UNAVAILABLE) {
        et_buf_printf(why, "%s%s", why->size ? "; " : "", text.data);
    } else if (list_refused(batch, why) > 0) {
        et_reject(ET_REJECTED_BOUNDS, "%s", why->data);
        status = 400; /* final: a part may be stored, and a limit stays; OTLP's senders try again after 429 for ever */
    }
    et_buf_free(&text);
    return status;
}

/* Returns the status; *why: the error. */
static unsigned store_push(struct et_server *server, const struct et_request *request, const struct et_buf *bytes,
                           bool json, struct et_buf *why)
{
    struct et_batch batch = {0};
    int64_t age_ns;
    (void)read_age(request, &age_ns);
    et_push *push =
        json ? et_push_decode_json(bytes->data, bytes->size, why) : et_push_decode(bytes->data, bytes->size, why);
    if (!push) {
        et_reject(ET_REJECTED_MALFORMED, "%s: %s", request->path, why->data);
        return 400;
    }
    size_t refused = et_batch_push(&batch, push, et_server_limits(server)->inflated, et_now() - age_ns, why);
    et_push_free(push);
    if (refused) {
        et_reject(ET_REJECTED_MALFORMED, "%s: %s", request->path, why->data);
    }
    et_server_charge(server, request, batch.count ? batch.count - 1 : 0);
    unsigned status = et_server_keep_batch(server, request, &batch, why);
    et_batch_free(&batch);
    return refused && status == 200 ? 400 : status;
}

static void push_pyroscope(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct et_buf inflated = {0}, why = {0};
    unsigned status;
    bool json = et_content_type_is(request, "application/json");
    if (!json && !et_content_type_is(request, "application/proto")) {
        et_answer_text(answer, 415, "content type must be application/proto or application/json");
        return;
    }
    if (et_body(request, et_server_limits(server)->inflated, &inflated, answer) == 0) {
        status = store_push(server, request, &inflated, json, &why);
    } else {
        status = answer->status;
        et_buf_add(&why, answer->body.data, answer->body.size - 1); /* without the line end */
    }
    answer_connect(answer, status, json, why.size ? why.data : "ok");
    et_buf_free(&inflated);
    et_buf_free(&why);
}

const struct et_route et_routes_push[] = {
    {.method = "POST", .path = "/edgeprof/v1/push", .handle = push_compact, .limit = ET_MESSAGE_LIMIT},
    {.method = "POST", .path = "/push.v1.PusherService/Push", .handle = push_pyroscope},
    {0},
};
