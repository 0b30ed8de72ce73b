/*
 * OTLP profiles over HTTP: /v1development/profiles, protobuf or JSON, for senders that have OpenTelemetry's exporter:
 * the collector, eBPF agents, relays of other servers. What breaks a rule is left out, and the answer names it
 * (partial_success); 400 when nothing is left.
 */
#include "tools/serve/http/connect.h"
#include "tools/serve/http/limits.h"
#include "tools/serve/http/rejections.h"
#include "tools/serve/http/routes.h"
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/serve/ingest/keep_batch.h"
#include "tools/formats/protobuf.h"
#include "tools/lib/json_write.h"
#include "tools/lib/time_text.h"

#include <errno.h>

/* Counts the profiles that bounds.h refused. */
static size_t count_refused(const struct et_batch *batch)
{
    size_t refused = 0;
    for (size_t i = 0; i < batch->count; i++) {
        refused += batch->items[i].refused != NULL;
    }
    return refused;
}

/* Returns the status; *why: the error, or with 200 what was left out, *refused profiles among it. */
static unsigned store_otlp(struct et_server *server, const struct et_request *request, const struct et_buf *bytes,
                           bool json, struct et_buf *why, size_t *refused)
{
    struct et_batch batch = {0};
    et_otlp_request *profiles = json ? et_otlp_decode_json(bytes->data, bytes->size, why, refused)
                                     : et_otlp_decode(bytes->data, bytes->size, why, refused);
    int err = profiles ? et_batch_otlp(&batch, profiles, et_server_limits(server)->inflated, et_now(), why, refused)
                       : -EINVAL;
    unsigned status = err == -EFBIG ? 413 : 400;
    if (why->size) {
        et_reject(err == -EFBIG ? ET_REJECTED_SIZE : ET_REJECTED_MALFORMED, "%s: %s", request->path, why->data);
    }
    if (!err && (batch.count || !*refused)) {
        et_server_charge(server, request, batch.count ? batch.count - 1 : 0);
        status = et_server_keep_batch(server, request, &batch, why);
        size_t beyond = count_refused(&batch);
        *refused += beyond;
        status = status == 400 && beyond < batch.count ? 200 : status;
    }
    if (profiles) {
        et_otlp_free(profiles);
    }
    et_batch_free(&batch);
    return status;
}

/* An ExportProfilesServiceResponse; with partial_success if something was left out. */
static void answer_stored(struct et_answer *answer, bool json, const char *why, size_t refused)
{
    struct et_buf *out = &answer->body;
    answer->type = json ? "application/json" : "application/x-protobuf";
    et_buf_text(out, json ? "{" : "");
    if (*why && json) {
        et_buf_printf(out, "\"partialSuccess\":{\"rejectedProfiles\":\"%zu\",\"errorMessage\":", refused);
        et_json_string(out, why);
        et_buf_text(out, "}");
    } else if (*why) {
        struct et_buf partial = {0};
        et_put_number(&partial, 1, refused);
        et_put_text(&partial, 2, why);
        et_put_message(out, 1, &partial);
        et_buf_free(&partial);
    }
    et_buf_text(out, json ? "}" : "");
}

static void push_otlp(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct et_buf body = {0}, why = {0};
    bool json = et_content_type_is(request, "application/json");
    if (!json && !et_content_type_is(request, "application/x-protobuf") &&
        !et_content_type_is(request, "application/protobuf")) {
        et_answer_text(answer, 415, "content type must be application/x-protobuf or application/json");
        return;
    }
    et_buf_text(&body, "");
    if (et_body(request, et_server_limits(server)->inflated, &body, answer) == 0) {
        size_t refused = 0;
        unsigned status = store_otlp(server, request, &body, json, &why, &refused);
        if (status == 200) {
            answer_stored(answer, json, why.size ? why.data : "", refused);
        } else {
            et_answer_text(answer, status, why.data);
        }
    }
    et_buf_free(&body);
    et_buf_free(&why);
}

const struct et_route et_routes_otlp[] = {
    {.method = "POST", .path = "/v1development/profiles", .handle = push_otlp},
    {0},
};
