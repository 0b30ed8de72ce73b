/* See report.h: answers, versions, crashes, incidents and leaks. The figures are those of the API. */
#include "tools/cmd/answers.h"
#include "tools/cmd/incident_text.h"
#include "tools/cmd/report.h"
#include "tools/lib/http_client.h"
#include "tools/lib/time_text.h"
#include "tools/serve/query/api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 3 };

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* ---- answers ---- */

int et_report_read(int code, struct et_buf *text, json_t **document)
{
    enum { VALUES = 20000000 };
    struct et_buf why = {0};
    *document = code ? NULL : et_json_read_most(text->data ? text->data : "", text->size, VALUES, &why);
    et_json_clean(*document);
    if (!code && !*document) {
        et_error("report: unexpected answer: %s", why.data ? why.data : "empty");
        code = ET_FAILED;
    }
    et_buf_free(&why);
    et_buf_free(text);
    return code;
}

int et_report_ask(const struct et_report *report, const char *path, et_source_call *call, const void *context,
                  json_t **document)
{
    struct et_buf text = {0};
    int code = et_options_ask(report->options, path, &report->query, call, context, &text);
    return et_report_read(code, &text, document);
}

/* ---- sentences ---- */

/* Counts what is not shown. */
static void add_rest(struct et_report *report, const char *section, size_t all, const char *words, const char *command)
{
    if (all > SHOWN) {
        struct et_note *note = et_notes_add(report->notes, section, false, (double)(all - SHOWN), words);
        et_buf_printf(&note->text, "%zu more %s", all - SHOWN, words);
        et_buf_printf(&note->command, "%s%s", command, report->place);
    }
}

static void add_nothing(struct et_report *report, const char *section, const char *text, const char *command)
{
    struct et_note *note = et_notes_add(report->notes, section, false, 0, "count");
    et_buf_text(&note->text, text);
    et_buf_printf(&note->command, "%s%s", command, report->place);
}

/* ---- what changed ---- */

struct diff_call {
    struct et_symbols *symbols;
    struct et_query baseline;
};

static unsigned ask_diff(struct et_store *store, const struct et_query *query, const void *context, struct et_buf *out)
{
    const struct diff_call *call = context;
    return et_api_diff(store, call->symbols, &call->baseline, query, out);
}

static void add_base_time(struct et_buf *path, const char *name, int64_t ns)
{
    if (ns > 0 && ns < INT64_MAX) {
        et_buf_printf(path, "&%s=%lld", name, (long long)(ns / 1000000000));
    }
}

/* The functions with the largest significant increases; the API has them in the order of their change. */
static void write_increases(const json_t *document, struct et_buf *out)
{
    const json_t *row;
    size_t i, count = 0;
    json_array_foreach(json_object_get(document, "rows"), i, row)
    {
        const json_t *change = json_object_get(row, "change");
        if (strcmp(et_json_words(row, "verdict"), "more") != 0) {
            continue;
        }
        if (count++ < SHOWN) {
            et_buf_text(out, count == 1 ? "; more: " : ", ");
            et_notes_name(out, et_json_words(row, "name"));
            et_buf_printf(out, " %+.2f to %+.2f points", 100 * json_number_value(json_array_get(change, 0)),
                          100 * json_number_value(json_array_get(change, 1)));
        }
    }
    if (count > SHOWN) {
        et_buf_printf(out, " and %zu others", count - SHOWN);
    }
}

static void add_week(struct et_report *report, const json_t *document, const struct et_query *baseline)
{
    const json_t *growth = json_object_get(document, "growth"),
                 *interval = json_object_get(document, "growth_interval");
    const json_t *before = json_array_get(json_object_get(document, "sides"), 0);
    const char *verdict = et_json_words(document, "verdict");
    if (number_of(before, "total") == 0) {
        add_nothing(report, "Changes", "there is no profile of a week before to compare with", "query services");
        return;
    }
    struct et_note *note = et_notes_add(report->notes, "Changes", strcmp(verdict, "more") == 0,
                                        100 * json_number_value(growth), "percent");
    et_buf_text(&note->text, "CPU time per second that processes ran, against a week before: ");
    if (json_is_number(growth)) {
        et_buf_printf(&note->text, "%+.1f %% (95 %%: %+.1f to %+.1f %%), ", 100 * json_number_value(growth),
                      100 * json_number_value(json_array_get(interval, 0)),
                      100 * json_number_value(json_array_get(interval, 1)));
    }
    et_buf_printf(&note->text, "%s",
                  strcmp(verdict, "more") == 0   ? "significantly more"
                  : strcmp(verdict, "less") == 0 ? "significantly less"
                  : strcmp(verdict, "same") == 0 ? "no significant change above 10 %"
                                                 : "too few samples to say");
    write_increases(document, &note->text);
    et_buf_printf(&note->command, "diff%s --baseline-from %lld --baseline-to %lld", report->place,
                  (long long)(baseline->from_ns / 1000000000), (long long)(baseline->to_ns / 1000000000));
}

static int compare_weeks(struct et_report *report, const char *kind)
{
    const int64_t week = 7 * 86400 * INT64_C(1000000000);
    struct diff_call call = {.symbols = report->symbols, .baseline = report->query};
    struct et_query own = report->query;
    struct et_buf path = {0}, text = {0};
    json_t *document;
    own.kind = call.baseline.kind = kind;
    call.baseline.from_ns -= week;
    call.baseline.to_ns = own.to_ns == INT64_MAX ? et_now() - week : own.to_ns - week;
    if (call.baseline.to_ns > own.from_ns) {
        call.baseline.to_ns = own.from_ns;
    }
    et_buf_text(&path, "/api/diff?");
    et_url_parameter(&path, "base_service", report->options->service ? report->options->service : own.service);
    add_base_time(&path, "base_from", call.baseline.from_ns);
    add_base_time(&path, "base_to", call.baseline.to_ns);
    int code = et_options_ask(report->options, path.data, &own, ask_diff, &call, &text);
    code = et_report_read(code, &text, &document);
    if (!code) {
        add_week(report, document, &call.baseline);
    }
    json_decref(document);
    et_buf_free(&path);
    return code;
}

static void add_verdict(struct et_report *report, const json_t *document, const char *kind, int judged,
                        const struct et_buf *words)
{
    const json_t *sides = json_object_get(document, "sides"), *all = json_object_get(document, "all");
    const json_t *load = json_object_get(all, "load");
    struct et_note *note = et_notes_add(report->notes, "Changes", judged == ET_REGRESSION,
                                        100 * number_of(load, "change"), "percent of the service's usage");
    et_buf_printf(&note->text,
                  "version %s against %s (%s, %.0f and %.0f devices): ", et_json_words(document, "version"),
                  et_json_words(document, "baseline"), kind, number_of(json_array_get(sides, 0), "devices"),
                  number_of(json_array_get(sides, 1), "devices"));
    if (judged == ET_OK) {
        et_buf_printf(&note->text, "no regression of %g %% or more", 100 * number_of(document, "threshold"));
    } else {
        et_buf_add(&note->text, words->data, words->size);
    }
    if (load) {
        et_buf_printf(&note->text, "; load in all %+.1f %% (95 %%: %+.1f to %+.1f %%)", 100 * number_of(load, "change"),
                      100 * number_of(load, "low"), 100 * number_of(load, "high"));
    }
    et_buf_printf(&note->command, "verdict --kind %s%s", kind, report->place);
}

int et_report_versions(struct et_report *report, const char *kind)
{
    const struct et_verdict_call call = {
        .symbols = report->symbols, .request = {.version = "", .baseline = "", .threshold = ET_VERSIONS_THRESHOLD}};
    struct et_query query = report->query;
    struct et_buf text = {0}, words = {0};
    json_t *document;
    query.kind = kind;
    int code = et_verdict_ask(report->options, &query, &call, &text);
    code = et_report_read(code, &text, &document);
    int judged = code ? ET_OK : et_verdict_judge(document, &words);
    if (!code && (judged == ET_NO_DATA || judged == ET_NO_BASELINE)) {
        code = compare_weeks(report, kind);
    } else if (!code) {
        add_verdict(report, document, kind, judged, &words);
    }
    json_decref(document);
    et_buf_free(&words);
    return code;
}

/* ---- crashes ---- */

static unsigned ask_crashes(struct et_store *store, const struct et_query *query, const void *context,
                            struct et_buf *out)
{
    struct et_symbols *const *symbols = context;
    return et_api_crashes(store, *symbols, query, out);
}

static void add_crash(struct et_report *report, const json_t *group)
{
    const json_t *crash = json_array_get(json_object_get(group, "crashes"), 0);
    const char *function = et_json_words(crash, "function");
    struct et_note *note = et_notes_add(report->notes, "Crashes", true, number_of(group, "count"), "crashes");
    et_buf_printf(&note->text, "%.0f crash%s of %s: %s", number_of(group, "count"),
                  number_of(group, "count") == 1 ? "" : "es", et_json_words(group, "service"),
                  et_json_words(group, "reason"));
    if (*function) {
        et_buf_text(&note->text, " in ");
        et_notes_name(&note->text, function);
    }
    et_buf_text(&note->text, ", the last ");
    et_incident_write_time(crash, &note->text);
    et_buf_printf(&note->text, " UTC on %s", et_incident_device(crash));
    et_buf_printf(&note->command, "crashes%s", report->place);
}

int et_report_crashes(struct et_report *report)
{
    json_t *document, *group;
    size_t i;
    int code = et_report_ask(report, "/api/crashes", ask_crashes, &report->symbols, &document);
    const json_t *groups = json_object_get(document, "groups");
    json_array_foreach(groups, i, group)
    {
        if (i < SHOWN) {
            add_crash(report, group);
        }
    }
    if (!code && i == 0) {
        add_nothing(report, "Crashes and incidents", "0 crashes", "crashes");
    }
    add_rest(report, "Crashes and incidents", i, "groups of crashes", "crashes");
    json_decref(document);
    return code;
}

/* ---- incidents ---- */

static unsigned ask_incidents(struct et_store *store, const struct et_query *query, const void *context,
                              struct et_buf *out)
{
    (void)context;
    return et_api_incidents(store, NULL, query, out);
}

int et_report_incidents(struct et_report *report)
{
    json_t *document;
    int code = et_report_ask(report, "/api/incidents", ask_incidents, NULL, &document);
    const json_t *all = json_object_get(document, "incidents"), *last = json_array_get(all, 0);
    size_t count = json_array_size(all);
    if (!code && count == 0) {
        add_nothing(report, "Crashes and incidents", "0 incidents", "incidents");
    } else if (!code) {
        struct et_note *note = et_notes_add(report->notes, "Incidents", true, (double)count, "incidents");
        et_buf_printf(&note->text, "%zu incident%s, the last ", count, count == 1 ? "" : "s");
        et_incident_write_time(last, &note->text);
        et_buf_printf(&note->text, " UTC on %s of %s: ", et_incident_device(last), et_json_words(last, "service"));
        et_incident_write_trigger(last, &note->text);
        et_buf_printf(&note->command, "incident %s", et_json_words(last, "id"));
    }
    json_decref(document);
    return code;
}

/* ---- leaks ---- */

static void add_leak(struct et_report *report, const json_t *site)
{
    char rate[40], low[40], high[40];
    struct et_note *note =
        et_notes_add(report->notes, "Memory", true, number_of(site, "bytes_per_hour"), "bytes an hour and process");
    et_leaks_rate(site, "bytes_per_hour", "bytes", rate);
    et_leaks_rate(site, "low", "bytes", low);
    et_leaks_rate(site, "high", "bytes", high);
    et_buf_printf(&note->text, "the live heap grows by %s an hour and process (95 %%: %s to %s) at ", rate, low, high);
    et_notes_name(&note->text, et_json_words(site, "site"));
    et_buf_printf(&note->command, "leaks%s", report->place);
}

int et_report_leaks(struct et_report *report)
{
    json_t *document, *site;
    struct et_buf text = {0};
    size_t i, grows = 0;
    int code = et_leaks_ask(report->options, &report->query, report->symbols, &text);
    code = et_report_read(code, &text, &document);
    const json_t *sites = json_object_get(document, "sites");
    json_array_foreach(sites, i, site)
    {
        if (json_is_true(json_object_get(site, "grows")) && grows++ < SHOWN) {
            add_leak(report, site);
        }
    }
    if (!code && !grows && json_array_size(sites)) {
        struct et_note *note = et_notes_add(report->notes, "Memory", false, 0, "places");
        et_buf_printf(&note->text, "0 of %.0f places of the live heap grow significantly in %.0f hours",
                      number_of(document, "count"), number_of(document, "hours"));
        et_buf_printf(&note->command, "leaks%s", report->place);
    }
    add_rest(report, "Memory", grows, "places that grow", "leaks");
    json_decref(document);
    return code;
}
