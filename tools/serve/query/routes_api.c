/* Routes of the JSON API for the page and `--url`; api*.c make the answers. */
#include "tools/serve/query/api.h"
#include "tools/serve/query/versions.h"
#include "tools/serve/http/routes.h"
#include "tools/lib/time_text.h"
#include "tools/store/query_builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char JSON[] = "application/json; charset=utf-8";

struct query_arguments {
    struct et_query_builder wanted;
    const char *prefix; /* reads only arguments with this prefix, and removes it */
    const char *wrong;
};

static void read_argument(void *context, const char *key, const char *value)
{
    struct query_arguments *arguments = context;
    struct et_query_builder *wanted = &arguments->wanted;
    size_t skip = strlen(arguments->prefix);
    if (strncmp(key, arguments->prefix, skip) != 0) {
        return;
    }
    key += skip;
    if (strcmp(key, "service") == 0) {
        arguments->wrong = et_query_builder_name(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "tag") == 0) {
        arguments->wrong = et_query_builder_tag(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "kind") == 0) {
        et_query_builder_kind(wanted, value);
    } else if (strcmp(key, "label") == 0) {
        arguments->wrong = et_query_builder_label(wanted, value) ? arguments->wrong : wanted->why;
    } else if (strcmp(key, "group") == 0) {
        et_query_builder_group(wanted, value);
    } else if (strcmp(key, "depth") == 0) {
        wanted->query.groups_only = strcmp(value, "1") == 0;
    } else if (strcmp(key, "value") == 0) {
        arguments->wrong = et_query_builder_measure(wanted, value) ? arguments->wrong : "value must be value or count";
    } else if (strcmp(key, "labels") == 0) {
        wanted->query.keep_labels = strcmp(value, "no") != 0;
    } else if (strcmp(key, "from") == 0 && *value && !et_parse_time(value, &wanted->query.from_ns)) {
        arguments->wrong = "from must be now-10m, Unix seconds or 2026-01-31T12:00:00Z";
    } else if (strcmp(key, "to") == 0 && *value && !et_parse_time(value, &wanted->query.to_ns)) {
        arguments->wrong = "to must be now, Unix seconds or 2026-01-31T12:00:00Z";
    }
}

static void answer_services(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct et_store *store = et_server_read(server, request);
    answer->type = JSON;
    answer->status = et_api_services(store, et_argument(request, "tags-of"), &answer->body);
    et_server_read_done(server, store);
}

/* Adds to *arguments. False: the answer has the error. */
static bool read_arguments(const struct et_request *request, const char *prefix, struct query_arguments *arguments,
                           struct et_answer *answer)
{
    arguments->prefix = prefix;
    et_arguments_each(request, read_argument, arguments);
    answer->type = JSON;
    if (arguments->wrong) {
        answer->status = 400;
        et_api_error(&answer->body, arguments->wrong);
    }
    return !arguments->wrong;
}

#define EVERYTHING                                                                                                     \
    {                                                                                                                  \
        .wanted.query = {.to_ns = INT64_MAX, .keep_labels = true }                                                     \
    }

typedef unsigned api_call(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                          struct et_buf *out);

static void answer_query(struct et_server *server, const struct et_request *request, api_call *call, const char *type,
                         struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        answer->status = call(store, et_server_symbols(server), &arguments.wanted.query, &answer->body);
        et_server_read_done(server, store);
        answer->type = answer->status == 200 ? type : JSON;
    }
    et_query_builder_free(&arguments.wanted);
}

static void answer_stats(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_stats, JSON, answer);
}

static void answer_rates(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_rates, JSON, answer);
}

static void answer_profile(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_profile, JSON, answer);
}

/* A browser saves the file and does not show it: it is no part of the page. */
static void answer_as(struct et_server *server, const struct et_request *request, enum et_format format,
                      struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    arguments.wrong = format == ET_FORMAT_NONE ? "format must be " ET_FORMATS : NULL;
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        answer->status =
            et_api_export(store, et_server_symbols(server), &arguments.wanted.query, format, &answer->body);
        et_server_read_done(server, store);
        answer->type = answer->status == 200 ? "application/octet-stream" : JSON;
    }
    et_query_builder_free(&arguments.wanted);
}

static void answer_pprof(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_as(server, request, ET_FORMAT_PPROF, answer);
}

static void answer_export(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_as(server, request, et_format_named(et_argument(request, "format")), answer);
}

/* ---- only for the page ---- */

static size_t read_number(const struct et_request *request, const char *name, size_t usual)
{
    const char *text = et_argument(request, name);
    return *text ? strtoul(text, NULL, 10) : usual;
}

static void answer_timeline(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        const struct et_timeline_request wanted = {.buckets = read_number(request, "buckets", 240),
                                                   .series = read_number(request, "series", 8)};
        answer->status = et_api_timeline(store, &arguments.wanted.query, &wanted, &answer->body);
        et_server_read_done(server, store);
    }
    et_query_builder_free(&arguments.wanted);
}

/* "a-b" -> [a, b), in units of `scale`. Not such a text: everything. */
static void read_range(const struct et_request *request, const char *name, double scale, double range[2])
{
    double from, to;
    char after;
    bool ok = sscanf(et_argument(request, name), "%lf-%lf%c", &from, &to, &after) == 2 && from >= 0 && to > from;
    range[0] = ok ? from * scale : 0;
    range[1] = ok && to * scale < 9e18 ? to * scale : 9e18;
}

static void answer_spans(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    double begin[2], length[2];
    read_range(request, "begin", 1e9, begin);
    read_range(request, "length", 1, length);
    const struct et_spans_request wanted = {.begin_ns = {(int64_t)begin[0], (int64_t)begin[1]},
                                            .length = {(uint64_t)length[0], (uint64_t)length[1]}};
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        answer->status = et_api_spans(store, &arguments.wanted.query, &wanted, &answer->body);
        et_server_read_done(server, store);
    }
    et_query_builder_free(&arguments.wanted);
}

static void answer_callers(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        answer->status = et_api_callers(store, et_server_symbols(server), &arguments.wanted.query,
                                        et_argument(request, "function"), &answer->body);
        et_server_read_done(server, store);
    }
    et_query_builder_free(&arguments.wanted);
}

static void answer_source(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    const struct et_source_request wanted = {.function = et_argument(request, "function"),
                                             .folders = et_server_sources(server)};
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        answer->status =
            et_api_source(store, et_server_symbols(server), &arguments.wanted.query, &wanted, &answer->body);
        et_server_read_done(server, store);
    }
    et_query_builder_free(&arguments.wanted);
}

/* The baseline's service, filter and time have the prefix base_; its kind is the same. */
static void answer_diff(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct query_arguments compared = EVERYTHING, base = EVERYTHING;
    if (read_arguments(request, "", &compared, answer) && read_arguments(request, "base_", &base, answer)) {
        et_query_builder_kind(&base.wanted, et_argument(request, "kind"));
        (void)et_query_builder_measure(&base.wanted, et_argument(request, "value"));
        struct et_store *store = et_server_read(server, request);
        answer->status =
            et_api_diff(store, et_server_symbols(server), &base.wanted.query, &compared.wanted.query, &answer->body);
        et_server_read_done(server, store);
    }
    et_query_builder_free(&compared.wanted);
    et_query_builder_free(&base.wanted);
}

/* "3%" or "3": parts of 1. */
static bool read_threshold(const char *text, double *threshold)
{
    char *end;
    double percent = strtod(text, &end);
    end += *end == '%';
    *threshold = percent / 100;
    return !*text || (text[0] >= '0' && text[0] <= '9' && !*end && percent > 0 && percent <= 100);
}

static void answer_verdict(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    struct et_versions_request wanted = {.version = et_argument(request, "version"),
                                         .baseline = et_argument(request, "baseline")};
    if (!read_threshold(et_argument(request, "threshold"), &wanted.threshold)) {
        arguments.wrong = "threshold must be a percentage such as 3%";
    }
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        answer->status =
            et_api_verdict(store, et_server_symbols(server), &arguments.wanted.query, &wanted, &answer->body);
        et_server_read_done(server, store);
    }
    et_query_builder_free(&arguments.wanted);
}

static void answer_leaks(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_leaks, JSON, answer);
}

static unsigned query_devices(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                              struct et_buf *out)
{
    (void)symbols;
    return et_api_devices(store, query, out);
}

static void answer_devices(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, query_devices, JSON, answer);
}

static void answer_crashes(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_crashes, JSON, answer);
}

static void answer_incidents(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    answer_query(server, request, et_api_incidents, JSON, answer);
}

static void answer_incident(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    struct query_arguments arguments = EVERYTHING;
    const char *format = et_argument(request, "format");
    const struct et_incident_request wanted = {.id = et_argument(request, "id"),
                                               .firefox = strcmp(format, "firefox") == 0};
    if (*format && !wanted.firefox) {
        arguments.wrong = "format must be firefox";
    }
    if (read_arguments(request, "", &arguments, answer)) {
        struct et_store *store = et_server_read(server, request);
        answer->status =
            et_api_incident(store, et_server_symbols(server), &arguments.wanted.query, &wanted, &answer->body);
        et_server_read_done(server, store);
    }
    et_query_builder_free(&arguments.wanted);
}

const struct et_route et_routes_api[] = {
    {.method = "GET", .path = "/api/services", .handle = answer_services},
    {.method = "GET", .path = "/api/stats", .handle = answer_stats},
    {.method = "GET", .path = "/api/rates", .handle = answer_rates},
    {.method = "GET", .path = "/api/profile", .handle = answer_profile},
    {.method = "GET", .path = "/api/pprof", .handle = answer_pprof},
    {.method = "GET", .path = "/api/export", .handle = answer_export},
    {.method = "GET", .path = "/api/timeline", .handle = answer_timeline},
    {.method = "GET", .path = "/api/spans", .handle = answer_spans},
    {.method = "GET", .path = "/api/callers", .handle = answer_callers},
    {.method = "GET", .path = "/api/source", .handle = answer_source},
    {.method = "GET", .path = "/api/diff", .handle = answer_diff},
    {.method = "GET", .path = "/api/verdict", .handle = answer_verdict},
    {.method = "GET", .path = "/api/leaks", .handle = answer_leaks},
    {.method = "GET", .path = "/api/devices", .handle = answer_devices},
    {.method = "GET", .path = "/api/crashes", .handle = answer_crashes},
    {.method = "GET", .path = "/api/incidents", .handle = answer_incidents},
    {.method = "GET", .path = "/api/incident", .handle = answer_incident},
    {0},
};
