/* Addresses of the JSON API that the page and `--url` ask; their answers are api.c's. */
#include "api.h"
#include "routes.h"
#include "when.h"

#include <string.h>

struct arguments {
    struct et_wanted wanted;
    const char *wrong;
};

static void read_argument(void *context, const char *key, const char *value)
{
    struct arguments *arguments = context;
    struct et_wanted *wanted = &arguments->wanted;
    if (strcmp(key, "service") == 0) {
        arguments->wrong = et_wanted_name(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "tag") == 0) {
        arguments->wrong = et_wanted_tag(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "kind") == 0) {
        et_wanted_kind(wanted, value);
    } else if (strcmp(key, "label") == 0) {
        arguments->wrong = et_wanted_label(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "group") == 0) {
        et_wanted_group(wanted, value);
    } else if (strcmp(key, "value") == 0) {
        arguments->wrong = et_wanted_measure(wanted, value) ? arguments->wrong : "value is value or count";
    } else if (strcmp(key, "labels") == 0) {
        wanted->query.keep_labels = strcmp(value, "no") != 0;
    } else if (strcmp(key, "from") == 0 && *value && !et_parse_time(value, &wanted->query.from_ns)) {
        arguments->wrong = "from is now-10m, Unix seconds or 2026-01-31T12:00:00Z";
    } else if (strcmp(key, "to") == 0 && *value && !et_parse_time(value, &wanted->query.to_ns)) {
        arguments->wrong = "to is now, Unix seconds or 2026-01-31T12:00:00Z";
    }
}

static void services(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct et_store *store = et_server_read(server);
    (void)request;
    answer->type = "application/json; charset=utf-8";
    answer->status = et_api_services(store, &answer->body);
    et_server_read_done(server, store);
}

typedef unsigned ask(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                     struct et_buf *out);

static void answer_query(struct et_server *server, const struct et_request *request, ask *call, const char *type,
                         struct et_answer *answer)
{
    struct arguments arguments = {.wanted.query = {.to_ns = INT64_MAX, .keep_labels = true}};
    et_arguments_each(request, read_argument, &arguments);
    if (arguments.wrong) {
        answer->status = 400;
        et_api_error(&answer->body, arguments.wrong);
    } else {
        struct et_store *store = et_server_read(server);
        answer->status = call(store, et_server_symbols(server), &arguments.wanted.query, &answer->body);
        et_server_read_done(server, store);
    }
    answer->type = answer->status == 200 ? type : "application/json; charset=utf-8";
    et_wanted_free(&arguments.wanted);
}

static void stats(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_stats, "application/json; charset=utf-8", answer);
}

static void profile(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_profile, "application/json; charset=utf-8", answer);
}

static void pprof(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_pprof, "application/octet-stream", answer);
}

const struct et_route et_routes_api[] = {
    {.method = "GET", .path = "/api/services", .handle = services},
    {.method = "GET", .path = "/api/stats", .handle = stats},
    {.method = "GET", .path = "/api/profile", .handle = profile},
    {.method = "GET", .path = "/api/pprof", .handle = pprof},
    {0},
};
