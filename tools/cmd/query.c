/*
 * edgeprof query, devices: answers of the API as tables or JSON, the same from a database and from a server.
 * run_query() fetches the answer and prints the JSON, or calls the print function of the subject.
 */
#include "tools/serve/query/api.h"
#include "tools/lib/text_table.h"
#include "tools/cmd/commands.h"
#include "tools/lib/kinds.h"
#include "tools/cmd/profile_file.h"
#include "tools/formats/output.h"
#include "tools/lib/progress.h"
#include "tools/formats/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct et_help et_help_query = {
    .usage = "[services|labels|series|timeline|profile] [options]\n"
             "profile [options] FILE",
    .about = "Prints stored data as a table or as JSON:\n"
             "\n"
             "  services   the services and their kinds\n"
             "  labels     the names and values of process tags\n"
             "  series     the sets of tags\n"
             "  timeline   sums over time, with --group-by a column for each value\n"
             "  profile    the functions of a profile (the default), also of a file\n"
             "\n" ET_FILE_FORMATS,
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no data",
    .words = "services labels series timeline profile",
};

const struct et_help et_help_devices = {
    .usage = "[options]",
    .about = "Prints the devices that sent profiles: last seen, versions, losses, cost of profiling, and messages in "
             "the spool. The tag `device` names a device; without it, the host does.",
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no data",
    .words = "",
};

enum { BUCKETS = 60 };

/* ---- values ---- */

static const char *json_text(const json_t *object, const char *name)
{
    const char *text = et_json_text(object, name);
    return text ? text : "";
}

static long long json_number(const json_t *object, const char *name)
{
    return (long long)json_number_value(json_object_get(object, name));
}

/* Adds a cell with Unix seconds as "2026-01-31 12:00:00". */
static void add_time_cell(struct et_text_table *columns, const json_t *object, const char *name)
{
    time_t seconds = (time_t)json_number(object, name);
    struct tm parts;
    char text[32] = "";
    if (gmtime_r(&seconds, &parts)) {
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    }
    et_text_table_cell(columns, "%s", text);
}

/* Adds a cell with an array's strings, separated by commas. */
static void add_list_cell(struct et_text_table *columns, const json_t *array)
{
    struct et_buf text = {0};
    const json_t *item;
    size_t i;
    json_array_foreach(array, i, item)
    {
        et_buf_printf(&text, "%s%s", i ? ", " : "", json_string_value(item) ? json_string_value(item) : "");
    }
    et_text_table_cell(columns, "%s", text.data ? text.data : "");
    et_buf_free(&text);
}

/* ---- tables: each function returns the number of rows ---- */

/* Whether the query selects processes with this set of tags of a row's service and kind. */
static bool is_wanted_set(const struct et_query *query, const json_t *row, const json_t *set)
{
    const char *service = json_text(row, "service");
    bool wanted = (!query->service || !*query->service || strcmp(query->service, service) == 0) &&
                  (!query->kind || !*query->kind || strcmp(query->kind, json_text(row, "kind")) == 0);
    for (size_t i = 0; i < query->matcher_count && wanted; i++) {
        const struct et_matcher *matcher = &query->matchers[i];
        const char *value = strcmp(matcher->name, ET_SERVICE_NAME) == 0 ? service : json_text(set, matcher->name);
        wanted = et_matcher_matches(matcher, value, strlen(value));
    }
    return wanted;
}

static bool has_wanted_set(const struct et_query *query, const json_t *row)
{
    const json_t *set;
    size_t i;
    bool wanted = false;
    json_array_foreach(json_object_get(row, "tags"), i, set)
    {
        wanted |= is_wanted_set(query, row, set);
    }
    return wanted;
}

static size_t print_services(const json_t *document, const struct et_query *query, struct et_buf *out)
{
    static const char *const heads[] = {"service", "kind", ">profiles", "first", "last", NULL};
    struct et_text_table columns = {.heads = heads};
    const json_t *row;
    size_t i, count = 0;
    json_array_foreach(json_object_get(document, "services"), i, row)
    {
        if (!has_wanted_set(query, row)) {
            continue;
        }
        et_text_table_cell(&columns, "%s", json_text(row, "service"));
        et_text_table_cell(&columns, "%s", json_text(row, "kind"));
        et_text_table_cell(&columns, "%lld", json_number(row, "profiles"));
        add_time_cell(&columns, row, "first");
        add_time_cell(&columns, row, "last");
        count++;
    }
    et_text_table_print(&columns, out);
    return count;
}

/* Prints a line only once, although several kinds may have it. */
static void add_once(struct et_strings *seen, struct et_buf *line, struct et_buf *out)
{
    size_t before = seen->count;
    char *clean = et_clean(line->data, line->size);
    et_intern(seen, clean);
    if (seen->count > before) {
        et_buf_printf(out, "%s\n", clean);
    }
    free(clean);
    et_buf_free(line);
}

static void write_set_line(const json_t *set, struct et_buf *line)
{
    const char *key, *comma = "";
    json_t *value;
    et_buf_char(line, '{');
    json_object_foreach((json_t *)(uintptr_t)set, key, value)
    {
        et_buf_printf(line, "%s%s=\"%s\"", comma, key, json_string_value(value) ? json_string_value(value) : "");
        comma = ",";
    }
    et_buf_char(line, '}');
}

static size_t print_sets(const json_t *document, const struct et_query *query, bool series, struct et_buf *out)
{
    struct et_strings seen = {0};
    const json_t *row, *set;
    size_t i, k;
    et_intern(&seen, "");
    json_array_foreach(json_object_get(document, "services"), i, row)
    {
        json_array_foreach(json_object_get(row, "tags"), k, set)
        {
            struct et_buf line = {0};
            const char *key;
            json_t *value;
            if (!is_wanted_set(query, row, set)) {
                continue;
            }
            if (series) {
                et_buf_text(&line, json_text(row, "service"));
                write_set_line(set, &line);
                add_once(&seen, &line, out);
                continue;
            }
            json_object_foreach((json_t *)(uintptr_t)set, key, value)
            {
                et_buf_printf(&line, "%s=%s", key, json_string_value(value) ? json_string_value(value) : "");
                add_once(&seen, &line, out);
            }
        }
    }
    size_t count = seen.count - 1;
    et_strings_free(&seen);
    return count;
}

static size_t print_labels(const json_t *document, const struct et_query *query, struct et_buf *out)
{
    return print_sets(document, query, false, out);
}

static size_t print_series(const json_t *document, const struct et_query *query, struct et_buf *out)
{
    return print_sets(document, query, true, out);
}

static size_t print_timeline(const json_t *document, const struct et_query *query, struct et_buf *out)
{
    (void)query; /* unused: all tables have the same signature */
    const json_t *all = json_object_get(document, "series");
    const char *unit = json_text(document, "unit"), *heads[ET_TEXT_TABLE_MOST] = {"time"};
    struct et_buf names[ET_TEXT_TABLE_MOST] = {{0}};
    struct et_text_table columns = {.heads = heads};
    size_t lines = json_array_size(all), buckets = (size_t)json_number(document, "buckets"), sum = 0;
    lines = lines < ET_TEXT_TABLE_MOST - 2 ? lines : ET_TEXT_TABLE_MOST - 2;
    for (size_t i = 0; i < lines; i++) {
        const char *name = json_text(json_array_get(all, i), "name");
        et_buf_printf(&names[i], ">%s", *name ? name : "all");
        heads[i + 1] = names[i].data;
    }
    for (size_t i = 0; i < buckets; i++) {
        json_t *at = json_pack("{s:f}", "at",
                               json_number_value(json_object_get(document, "from")) +
                                   (double)i * json_number_value(json_object_get(document, "step")));
        add_time_cell(&columns, at, "at");
        json_decref(at);
        for (size_t k = 0; k < lines; k++) {
            char text[32];
            const json_t *values = json_object_get(json_array_get(all, k), "values");
            uint64_t value = (uint64_t)json_number_value(json_array_get(values, i));
            et_value_text(value, unit, text);
            et_text_table_cell(&columns, "%s", text);
            sum += value > 0;
        }
    }
    et_text_table_print(&columns, out);
    for (size_t i = 0; i < lines; i++) {
        et_buf_free(&names[i]);
    }
    return sum;
}

/* Adds a cell like "ring full 12, no timer 3". */
static void add_losses_cell(struct et_text_table *columns, const json_t *device)
{
    struct et_buf text = {0};
    const json_t *loss;
    size_t i;
    json_array_foreach(json_object_get(device, "losses"), i, loss)
    {
        et_buf_printf(&text, "%s%s %lld", text.size ? ", " : "", json_text(loss, "reason"), json_number(loss, "count"));
    }
    et_text_table_cell(columns, "%s", text.data ? text.data : "-");
    et_buf_free(&text);
}

static size_t print_devices(const json_t *document, const struct et_query *query, struct et_buf *out)
{
    (void)query;
    static const char *const heads[] = {"device", "service", "versions", "last seen", ">cost",
                                        ">spool", ">bytes",  "lost",     "agents",    NULL};
    struct et_text_table columns = {.heads = heads};
    const json_t *row;
    size_t i, count = 0;
    json_array_foreach(json_object_get(document, "devices"), i, row)
    {
        et_text_table_cell(&columns, "%s", json_text(row, "device"));
        et_text_table_cell(&columns, "%s", json_text(row, "service"));
        add_list_cell(&columns, json_object_get(row, "versions"));
        add_time_cell(&columns, row, "last");
        et_text_table_cell(&columns, "%.2f%%", (double)json_number(row, "cost_ppm") / 1e4);
        et_text_table_cell(&columns, "%lld", json_number(row, "spool_messages"));
        et_text_table_cell(&columns, "%lld", json_number(row, "spool_bytes"));
        add_losses_cell(&columns, row);
        add_list_cell(&columns, json_object_get(row, "agents"));
        count++;
    }
    et_text_table_print(&columns, out);
    return count;
}

/* ---- answers ---- */

static unsigned query_services(struct et_store *store, const struct et_query *query, struct et_buf *out)
{
    (void)query;
    return et_api_services(store, "", out);
}

static unsigned query_timeline(struct et_store *store, const struct et_query *query, struct et_buf *out)
{
    return et_api_timeline(store, query, &(struct et_timeline_request){.buckets = BUCKETS, .series = 8}, out);
}

static const struct query_subject {
    const char *name, *path;
    et_source_ask *ask;
    size_t (*print)(const json_t *document, const struct et_query *query, struct et_buf *out);
} questions[] = {
    {"services", "/api/services", query_services, print_services},
    {"labels", "/api/services", query_services, print_labels},
    {"series", "/api/services", query_services, print_series},
    {"timeline", "/api/timeline", query_timeline, print_timeline},
    {"devices", "/api/devices", et_api_devices, print_devices},
};

static int run_query(const struct et_options *options, const struct query_subject *question)
{
    const struct et_remote remote = et_options_remote(options);
    const char *db = options->db ? options->db : ET_DEFAULT_DB;
    struct et_buf text = {0}, why = {0}, out = {0};
    int code = options->url ? et_source_get(&remote, question->path, &options->wanted.query, &text)
                            : et_source_db_text(db, question->ask, &options->wanted.query, &text);
    json_t *document = code ? NULL : et_json_read(text.data ? text.data : "", text.size, &why);
    et_json_clean(document);
    if (!code && !document) {
        et_error("%s: unexpected answer: %s", options->url ? options->url : db, why.data);
        code = ET_FAILED;
    }
    if (!code && question->print(document, &options->wanted.query, &out) == 0) {
        et_no_data(options, NULL);
        code = ET_NO_DATA;
    }
    if (!code && options->json) {
        out.size = 0;
        et_buf_add(&out, text.data, text.size);
    }
    code = code ? code : et_print_as(options->json, &out);
    json_decref(document);
    et_buf_free(&out);
    et_buf_free(&text);
    et_buf_free(&why);
    return code;
}

static int print_profile(const struct et_options *options, const char *path)
{
    struct et_profile *loaded = NULL;
    int code = et_profile_load("query", options, path, &loaded);
    if (code == ET_OK) {
        struct et_buf out = {0};
        if (!options->json) {
            et_report_top(loaded, options->rows, false, &out);
        }
        code = options->json ? et_output_write(loaded, ET_FORMAT_JSON, "-") : et_print_output(&out);
    }
    et_profile_free(loaded);
    return code;
}

int et_cmd_query(int argc, char **argv)
{
    struct et_options options;
    const struct query_subject *question = NULL;
    bool devices = strcmp(argv[0], "devices") == 0;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    const char *what = devices ? "devices" : options.first < argc ? argv[options.first++] : "profile";
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        question = strcmp(questions[i].name, what) == 0 ? &questions[i] : question;
    }
    const char *path = !question && options.first < argc ? argv[options.first++] : NULL;
    code = et_no_more_arguments(argc, argv, &options);
    if (!code && !question && strcmp(what, "profile") != 0) {
        et_error("query %s: must be services, labels, series, timeline or profile", what);
        code = ET_USAGE;
    }
    code = code ? code : question ? run_query(&options, question) : print_profile(&options, path);
    et_options_free(&options);
    return code;
}
