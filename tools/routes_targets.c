/* What serve does of its own accord, and what it refuses: targets that it asks, refusals by reason. */
#include "json.h"
#include "refused.h"
#include "routes.h"
#include "scrape.h"

static void targets(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    (void)request;
    answer->type = "application/json; charset=utf-8";
    et_scraper_json(et_server_scraper(server), &answer->body);
}

static void refusals(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    (void)server;
    (void)request;
    answer->type = "application/json; charset=utf-8";
    et_buf_text(&answer->body, "{\"refused\":{");
    for (int i = 0; i < ET_REFUSALS; i++) {
        et_buf_printf(&answer->body, "%s\"%s\":%llu", i ? "," : "", et_refused_name((enum et_refusal)i),
                      (unsigned long long)et_refused_count((enum et_refusal)i));
    }
    et_buf_text(&answer->body, "}}");
}

const struct et_route et_routes_targets[] = {
    {.method = "GET", .path = "/api/targets", .handle = targets},
    {.method = "GET", .path = "/api/refused", .handle = refusals},
    {0},
};
