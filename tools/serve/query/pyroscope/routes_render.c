/*
 * Pyroscope's plain routes: flame graphs of one or two queries as JSON, folded text and pprof, and label values.
 * Arguments are Pyroscope's; without times the range is unlimited.
 */
#include "tools/serve/http/connect.h"
#include "tools/lib/gzip.h"
#include "tools/lib/json_write.h"
#include "tools/serve/query/pyroscope/pyroscope.h"
#include "tools/formats/report.h"
#include "tools/serve/http/routes.h"
#include "tools/formats/pprof_read.h"
#include "tools/store/query_builder.h"
#include "tools/lib/time_text.h"

#include <stdlib.h>
#include <string.h>

static const int64_t SECOND = 1000000000, MS = 1000000;

/* Argument names of one query. */
struct argument_names {
    const char *query, *from, *until;
};

/* Times are milliseconds, and the last one belongs to the range. */
static void include_end(struct et_query *query)
{
    query->from_ns -= query->from_ns % MS;
    query->to_ns = query->to_ns < INT64_MAX - MS ? query->to_ns - query->to_ns % MS + 1 : INT64_MAX;
}

/* False: the answer has the error. */
static bool read_query(const struct et_request *request, const struct argument_names *names,
                       struct et_query_builder *wanted, struct et_answer *answer)
{
    const char *query = et_argument(request, names->query), *from = et_argument(request, names->from);
    const char *until = et_argument(request, names->until);
    struct et_buf text = {0};
    if (!*query && strcmp(names->query, "query") == 0) {
        query = et_argument(request, "name");
    }
    wanted->query.to_ns = INT64_MAX;
    if (!*query) {
        et_buf_printf(&text, "%s is required: service.cpu{key=value} or a profile type with a selector", names->query);
    } else if (!et_wanted_query(wanted, query)) {
        et_buf_printf(&text, "%s: %s", names->query, wanted->why);
    } else if ((*from && !et_parse_time(from, &wanted->query.from_ns)) ||
               (*until && !et_parse_time(until, &wanted->query.to_ns))) {
        et_buf_printf(&text, "%s and %s must be now-10m, Unix seconds or 2026-01-31T12:00:00Z", names->from,
                      names->until);
    } else if (*from && *until && wanted->query.from_ns > wanted->query.to_ns) {
        et_buf_printf(&text, "%s is after %s", names->from, names->until);
    } else {
        include_end(&wanted->query);
    }
    bool ok = text.size == 0;
    if (!ok) {
        et_connect_error(answer, 400, text.data);
    }
    et_buf_free(&text);
    return ok;
}

static uint64_t max_nodes(const struct et_request *request)
{
    const char *text = et_argument(request, "max-nodes");
    text = *text ? text : et_argument(request, "maxNodes");
    return strtoull(text, NULL, 10);
}

/* ---- JSON ---- */

/* Pyroscope's names of units; nanoseconds of CPU time are samples of 1 ns. */
static void add_metadata(const struct et_profile *profile, const char *format, struct et_buf *out)
{
    struct et_type type;
    et_pyroscope_type(profile, &type);
    bool cpu = strcmp(type.sample, "cpu") == 0;
    const char *units = cpu ? "samples" : strcmp(type.unit, "count") == 0 ? "objects" : type.unit;
    et_buf_printf(out, ",\"metadata\":{\"format\":\"%s\",\"spyName\":\"\",\"sampleRate\":%d,\"units\":", format,
                  cpu ? 1000000000 : 100);
    et_json_string(out, units);
    et_buf_text(out, ",\"name\":");
    et_json_string(out, type.sample);
    et_buf_char(out, '}');
    et_type_free(&type);
}

/* Seconds per point: at most 1500 points, at least 15 s. */
static int64_t choose_step(int64_t range_ns)
{
    static const int64_t steps[] = {15,   20,   30,    60,    120,   300,   600,    900,     1200,    1800,
                                    3600, 7200, 10800, 21600, 43200, 86400, 604800, 2592000, 31536000};
    size_t i = 0;
    while (i + 1 < sizeof steps / sizeof *steps && steps[i] * SECOND < range_ns / 1500) {
        i++;
    }
    return steps[i];
}

static void write_timeline_line(const struct et_timeline *timeline, const struct et_timeline_line *line,
                                struct et_buf *out)
{
    et_buf_printf(out, "{\"startTime\":%lld,\"samples\":[", (long long)(timeline->from_ns / SECOND));
    for (size_t i = 0; i < timeline->steps; i++) {
        et_buf_printf(out, "%s%llu", i ? "," : "", line ? (unsigned long long)line->sums[i] : 0);
    }
    et_buf_printf(out, "],\"durationDelta\":%lld,\"watermarks\":null}", (long long)(timeline->step_ns / SECOND));
}

static void add_groups(const struct et_timeline *timeline, struct et_buf *out)
{
    et_buf_char(out, '{');
    for (size_t i = 0; i < timeline->line_count; i++) {
        const char *name = timeline->lines[i].name;
        et_buf_text(out, i ? "," : "");
        et_json_string(out, *name ? name : "*");
        et_buf_char(out, ':');
        write_timeline_line(timeline, &timeline->lines[i], out);
    }
    et_buf_char(out, '}');
}

/* Makes an empty line for an empty range. As at Pyroscope, the points are those of the range, the first one included,
 * shown from a multiple of the step to another. False: the answer has the error. */
static bool load_timeline(struct et_server *server, const struct et_request *request, const struct et_query *query,
                          const char *group, struct et_timeline *timeline, struct et_answer *answer)
{
    struct et_query own = *query;
    int64_t step_ns = choose_step(own.to_ns - own.from_ns) * SECOND;
    struct et_points points = {.step_ms = step_ns / MS};
    points.start_ms = own.from_ns / MS;
    points.end_ms = own.to_ns / step_ns * points.step_ms - 1;
    own.group = *group ? group : NULL;
    if (points.end_ms < points.start_ms) {
        *timeline = (struct et_timeline){.step_ns = step_ns};
    } else if (!et_pyroscope_timeline(server, request, &own, &points, timeline, answer)) {
        return false;
    }
    timeline->from_ns = own.from_ns / step_ns * step_ns;
    return true;
}

/* With groups, the timeline is that of the only group, as at Pyroscope. */
static bool add_timeline(struct et_server *server, const struct et_request *request, const struct et_query *query,
                         const struct et_profile *profile, struct et_answer *answer)
{
    struct et_buf *out = &answer->body;
    struct et_query own = *query;
    struct et_timeline timeline;
    const char *group = et_argument(request, "groupBy");
    own.from_ns = query->from_ns > 0 ? query->from_ns : profile->start_ns;
    own.to_ns = query->to_ns < INT64_MAX ? query->to_ns : profile->end_ns;
    if (!load_timeline(server, request, &own, group, &timeline, answer)) {
        return false;
    }
    et_buf_text(out, ",\"timeline\":");
    write_timeline_line(&timeline, timeline.line_count == 1 ? &timeline.lines[0] : NULL, out);
    et_buf_text(out, ",\"groups\":");
    if (*group) {
        add_groups(&timeline, out);
    } else {
        et_buf_text(out, "null");
    }
    et_timeline_free(&timeline);
    et_buf_text(out, ",\"heatmap\":null");
    return true;
}

static void render_json(struct et_server *server, const struct et_request *request, const struct et_query *query,
                        const struct et_profile *profile, struct et_answer *answer)
{
    struct et_flamebearer flamebearer;
    et_flamebearer_make(profile, max_nodes(request), &flamebearer);
    answer->type = "application/json";
    et_buf_text(&answer->body, "{\"version\":1,\"flamebearer\":");
    et_flamebearer_json(&flamebearer, &answer->body);
    et_flamebearer_free(&flamebearer);
    add_metadata(profile, "single", &answer->body);
    if (add_timeline(server, request, query, profile, answer)) {
        et_buf_text(&answer->body, "}\n");
    }
}

/* ---- one query ---- */

static void render_pprof(const struct et_profile *profile, struct et_answer *answer)
{
    struct et_buf raw = {0};
    et_pprof_encode(profile, &raw);
    et_gzip(raw.data, raw.size, &answer->body);
    et_buf_free(&raw);
    answer->type = "application/octet-stream";
}

static void answer_render(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    static const struct argument_names names = {"query", "from", "until"};
    struct et_query_builder wanted = {0};
    const char *format = et_argument(request, "format");
    bool pprof = strcmp(format, "pprof") == 0;
    bool folded = strcmp(format, "collapsed") == 0 || strcmp(format, "folded") == 0;
    bool dot = strcmp(format, "dot") == 0;
    if (!pprof && !folded && !dot && *format && strcmp(format, "json") != 0) {
        et_connect_error(answer, 400, "format must be json, collapsed, dot or pprof");
        return;
    }
    wanted.query.keep_labels = pprof;
    struct et_profile *profile = read_query(request, &names, &wanted, answer)
                                     ? et_pyroscope_profile(server, request, &wanted.query, answer)
                                     : NULL;
    if (profile && pprof) {
        render_pprof(profile, answer);
    } else if (profile && folded) {
        et_report_folded(profile, &answer->body);
    } else if (profile && dot) {
        int64_t end_ns = wanted.query.to_ns < INT64_MAX ? wanted.query.to_ns - 1 : profile->end_ns;
        et_pyroscope_dot(profile, end_ns, (int64_t)max_nodes(request), &answer->body);
    } else if (profile) {
        render_json(server, request, &wanted.query, profile, answer);
    }
    et_profile_free(profile);
    et_query_builder_free(&wanted);
}

/* ---- two queries ---- */

static void answer_diff(const struct et_request *request, const struct et_profile *left, const struct et_profile *right,
                        struct et_answer *answer)
{
    struct et_flamebearer flamebearer;
    struct et_type types[ET_SIDES];
    et_pyroscope_type(left, &types[ET_LEFT]);
    et_pyroscope_type(right, &types[ET_RIGHT]);
    if (strcmp(types[ET_LEFT].id, types[ET_RIGHT].id) != 0) {
        et_connect_error(answer, 400, "both queries must have the same profile type");
    } else {
        et_flamebearer_diff(left, right, max_nodes(request), &flamebearer);
        answer->type = "application/json";
        et_buf_text(&answer->body, "{\"version\":1,\"flamebearer\":");
        et_flamebearer_json(&flamebearer, &answer->body);
        add_metadata(left, "double", &answer->body);
        et_buf_printf(&answer->body,
                      ",\"timeline\":null,\"groups\":null,\"heatmap\":null,\"leftTicks\":%llu,\"rightTicks\":%llu}\n",
                      (unsigned long long)flamebearer.total[ET_LEFT], (unsigned long long)flamebearer.total[ET_RIGHT]);
        et_flamebearer_free(&flamebearer);
    }
    et_type_free(&types[ET_LEFT]);
    et_type_free(&types[ET_RIGHT]);
}

static void answer_render_diff(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    static const struct argument_names names[ET_SIDES] = {{"leftQuery", "leftFrom", "leftUntil"},
                                                          {"rightQuery", "rightFrom", "rightUntil"}};
    struct et_query_builder wanted[ET_SIDES] = {0};
    struct et_profile *profiles[ET_SIDES] = {0};
    bool ok = read_query(request, &names[ET_LEFT], &wanted[ET_LEFT], answer) &&
              read_query(request, &names[ET_RIGHT], &wanted[ET_RIGHT], answer);
    for (enum et_side side = ET_LEFT; side < ET_SIDES && ok; side++) {
        profiles[side] = et_pyroscope_profile(server, request, &wanted[side].query, answer);
        ok = profiles[side] != NULL;
    }
    if (ok) {
        answer_diff(request, profiles[ET_LEFT], profiles[ET_RIGHT], answer);
    }
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        et_profile_free(profiles[side]);
        et_query_builder_free(&wanted[side]);
    }
}

/* ---- labels ---- */

static void answer_list(struct et_server *server, const struct et_request *request, enum et_listing what, char *name,
                        struct et_answer *answer)
{
    struct et_query_builder wanted = {.query.to_ns = INT64_MAX};
    struct et_strings found = {0};
    char *query = et_strdup(et_argument(request, "query"));
    const char *from = et_argument(request, "from"), *until = et_argument(request, "until");
    if ((*from && !et_parse_time(from, &wanted.query.from_ns)) ||
        (*until && !et_parse_time(until, &wanted.query.to_ns))) {
        et_connect_error(answer, 400, "from and until must be now-10m, Unix seconds or 2026-01-31T12:00:00Z");
    } else if (et_pyroscope_list(server, request, what,
                                 &(struct et_listed){.selectors = &query,
                                                     .selector_count = *query ? 1 : 0,
                                                     .names = &name,
                                                     .name_count = *name ? 1 : 0,
                                                     .from_ns = wanted.query.from_ns,
                                                     .to_ns = wanted.query.to_ns},
                                 &found, answer)) {
        answer->type = "application/json";
        et_buf_char(&answer->body, '[');
        for (uint32_t i = 1; i < found.count; i++) {
            et_buf_text(&answer->body, i > 1 ? "," : "");
            et_json_string(&answer->body, et_text(&found, i));
        }
        et_buf_text(&answer->body, "]\n");
    }
    et_strings_free(&found);
    free(query);
}

static void answer_label_names(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    char none[1] = "";
    answer_list(server, request, ET_LIST_NAMES, none, answer);
}

static void answer_label_values(struct et_server *server, const struct et_request *request, struct et_answer *answer)
{
    char *name = et_strdup(et_argument(request, "label"));
    if (!*name) {
        et_connect_error(answer, 400, "label is required");
    } else {
        /* Pyroscope's label for profile types */
        answer_list(server, request, strcmp(name, "__name__") == 0 ? ET_LIST_TYPES : ET_LIST_VALUES, name, answer);
    }
    free(name);
}

const struct et_route et_routes_render[] = {
    {.method = "GET", .path = "/render", .handle = answer_render},
    {.method = "GET", .path = "/pyroscope/render", .handle = answer_render},
    {.method = "GET", .path = "/render-diff", .handle = answer_render_diff},
    {.method = "GET", .path = "/render/diff", .handle = answer_render_diff},
    {.method = "GET", .path = "/pyroscope/render-diff", .handle = answer_render_diff},
    {.method = "GET", .path = "/label-names", .handle = answer_label_names},
    {.method = "GET", .path = "/labels", .handle = answer_label_names},
    {.method = "GET", .path = "/pyroscope/label-names", .handle = answer_label_names},
    {.method = "GET", .path = "/label-values", .handle = answer_label_values},
    {.method = "GET", .path = "/pyroscope/label-values", .handle = answer_label_values},
    {0},
};
