/* Routes for the status of scrape targets and for the numbers of rejected requests. */
#include "tools/formats/json.h"
#include "tools/serve/http/rejections.h"
#include "tools/serve/http/routes.h"
#include "tools/serve/scrape/scrape.h"

static void answer_targets(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    (void)request;
    answer->type = "application/json; charset=utf-8";
    et_scraper_json(et_server_scraper(server), &answer->body);
}

static void answer_refusals(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    (void)server;
    (void)request;
    answer->type = "application/json; charset=utf-8";
    et_buf_text(&answer->body, "{\"refused\":{");
    for (int i = 0; i < ET_REJECTIONS; i++) {
        et_buf_printf(&answer->body, "%s\"%s\":%llu", i ? "," : "", et_rejection_name((enum et_rejection)i),
                      (unsigned long long)et_rejection_count((enum et_rejection)i));
    }
    et_buf_text(&answer->body, "}}");
}

const struct et_route et_routes_targets[] = {
    {.method = "GET", .path = "/api/targets", .handle = answer_targets},
    {.method = "GET", .path = "/api/refused", .handle = answer_refusals},
    {0},
};
