/*
 * OTLP profiles over HTTP: /v1development/profiles, protobuf or JSON, for senders that have OpenTelemetry's exporter:
 * the collector, eBPF agents, relays of other servers. A request is kept entirely or, when it breaks a rule, not at
 * all.
 */
#include "tools/serve/http/connect.h"
#include "tools/serve/http/limits.h"
#include "tools/serve/http/rejections.h"
#include "tools/serve/http/routes.h"
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/serve/ingest/keep_batch.h"
#include "tools/lib/time_text.h"

#include <errno.h>

/* Returns the status; *why: the error. */
static unsigned store_otlp(struct et_server *server, const struct et_request *request, const struct et_buf *bytes,
                           bool json, struct et_buf *why)
{
    struct et_batch batch = {0};
    et_otlp_request *profiles =
        json ? et_otlp_decode_json(bytes->data, bytes->size, why) : et_otlp_decode(bytes->data, bytes->size, why);
    int err = profiles ? et_batch_otlp(&batch, profiles, et_server_limits(server)->inflated, et_now(), why) : -EINVAL;
    unsigned status = err == -EFBIG ? 413 : 400;
    if (err) {
        et_reject(err == -EFBIG ? ET_REJECTED_SIZE : ET_REJECTED_MALFORMED, "%s: %s", request->path, why->data);
    } else {
        et_server_charge(server, request, batch.count ? batch.count - 1 : 0);
        status = et_server_keep_batch(server, request, &batch, why);
    }
    if (profiles) {
        et_otlp_free(profiles);
    }
    et_batch_free(&batch);
    return status;
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
        unsigned status = store_otlp(server, request, &body, json, &why);
        if (status == 200) { /* an ExportProfilesServiceResponse without partial_success */
            answer->type = json ? "application/json" : "application/x-protobuf";
            et_buf_text(&answer->body, json ? "{}" : "");
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
