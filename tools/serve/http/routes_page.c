/* The page's files, built into the tool, and the health checks. */
#include "tools/web/assets.h"
#include "tools/serve/http/routes.h"

static void answer_health(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    (void)server;
    (void)request;
    et_answer_text(answer, 200, "ok");
}

/* Pyroscope's health check, which profilecli asks. */
static void answer_ready(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    (void)server;
    (void)request;
    et_answer_text(answer, 200, "ready");
}

static void answer_file(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    const struct et_asset *asset = et_asset(request->path);
    (void)server;
    if (!asset) {
        et_answer_text(answer, 404, "not found");
        return;
    }
    answer->type = asset->type;
    answer->fixed = asset->start;
    answer->fixed_size = (size_t)(asset->end - asset->start);
}

const struct et_route et_routes_page[] = {
    {.method = "GET", .path = "/healthz", .handle = answer_health, .need = ET_NEED_NOTHING},
    {.method = "GET", .path = "/ready", .handle = answer_ready, .need = ET_NEED_NOTHING},
    {.method = "GET", .path = "/*", .handle = answer_file},
    {0},
};
