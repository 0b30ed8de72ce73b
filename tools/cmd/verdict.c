/*
 * edgeprof verdict: whether a version of a service uses more than the one before, on the devices that ran them. The
 * answer of /api/verdict comes from a database or a server; this file prints it and chooses the exit code.
 */
#include "tools/serve/query/api.h"
#include "tools/lib/text_table.h"
#include "tools/lib/http_client.h"
#include "tools/cmd/answers.h"
#include "tools/cmd/commands.h"
#include "tools/lib/kinds.h"
#include "tools/lib/progress.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct et_help et_help_verdict = {
    .usage = "--service NAME [--version NEW] [--baseline OLD] [options]",
    .about = "Compares a version of a service with the one before, for each function: its share of the service's "
             "usage, and its load, which is usage per second that devices ran the service. Versions are the tag "
             "`version`. Devices are the unit: the error of a figure is how much it varies between devices, so many "
             "samples of few devices do not decide.",
    .end = "exit codes: 0 no regression; 1 failed; 2 wrong usage; 3 no such version; 4 a regression; 5 no baseline; 6 "
           "not yet: too few devices or samples; the message says how many are needed",
    .words = "",
};

/* ---- the answer ---- */

static unsigned ask_store(struct et_store *store, const struct et_query *query, const void *context, struct et_buf *out)
{
    const struct et_verdict_call *call = context;
    return et_api_verdict(store, call->symbols, query, &call->request, out);
}

int et_verdict_ask(const struct et_options *options, const struct et_query *query, const struct et_verdict_call *call,
                   struct et_buf *text)
{
    struct et_buf path = {0};
    et_buf_printf(&path, "/api/verdict?threshold=%.9g", 100 * call->request.threshold);
    et_url_parameter(&path, "version", call->request.version);
    et_url_parameter(&path, "baseline", call->request.baseline);
    int code = et_options_ask(options, path.data, query, ask_store, call, text);
    et_buf_free(&path);
    return code;
}

static int ask(const struct et_options *options, struct et_buf *text)
{
    struct et_verdict_call call = {
        .symbols = options->url ? NULL : et_options_symbols(options),
        .request = {.version = options->version ? options->version : "",
                    .baseline = options->baseline ? options->baseline : "",
                    .threshold = options->threshold > 0 ? options->threshold : ET_VERSIONS_THRESHOLD}};
    et_progress("comparing versions in %s", options->url ? options->url : options->db ? options->db : ET_DEFAULT_DB);
    int code = et_verdict_ask(options, &options->wanted.query, &call, text);
    et_progress_end();
    if (call.symbols) {
        et_symbols_free(call.symbols);
    }
    return code;
}

/* ---- printing ---- */

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void print_side(const json_t *document, size_t side, struct et_buf *out)
{
    const json_t *own = json_array_get(json_object_get(document, "sides"), side);
    char total[32], ran[32];
    double devices = number_of(own, "devices");
    et_value_text((uint64_t)number_of(own, "total"), et_json_words(document, "unit"), total);
    et_value_text((uint64_t)(1e9 * number_of(own, "seconds")), "nanoseconds", ran);
    et_buf_printf(out, "%s %s: %.0f device%s for %s together, %s, %.0f samples\n", side ? "after " : "before",
                  et_json_words(own, "version"), devices, devices == 1 ? "" : "s", ran, total,
                  number_of(own, "samples"));
}

static void print_cohorts(const json_t *document, struct et_buf *out)
{
    const json_t *cohort;
    size_t i;
    json_array_foreach(json_object_get(document, "cohorts"), i, cohort)
    {
        const json_t *devices = json_object_get(cohort, "devices");
        const char *name = et_json_words(cohort, "name");
        et_buf_printf(out, "cohort %s: %lld and %lld devices, %.0f with both%s\n", *name ? name : "(unknown)",
                      (long long)json_integer_value(json_array_get(devices, 0)),
                      (long long)json_integer_value(json_array_get(devices, 1)), number_of(cohort, "both"),
                      json_is_true(json_object_get(cohort, "compared")) ? "" : "; too few to compare");
    }
}

/* Adds cells for the change and its interval; "-" without an estimate. */
static void add_change(struct et_text_table *columns, const json_t *row, const char *name)
{
    const json_t *estimate = json_object_get(row, name);
    if (!estimate) {
        et_text_table_cell(columns, "-");
        et_text_table_cell(columns, "-");
        return;
    }
    et_text_table_cell(columns, "%+.2f%%", 100 * number_of(estimate, "change"));
    et_text_table_cell(columns, "%+.2f..%+.2f%%", 100 * number_of(estimate, "low"), 100 * number_of(estimate, "high"));
}

static void add_row(struct et_text_table *columns, const json_t *row)
{
    const json_t *share = json_object_get(row, "share");
    const char *by = et_json_words(row, "by"), *name = et_json_words(row, "name");
    add_change(columns, row, "share");
    add_change(columns, row, "load");
    et_text_table_cell(columns, "%.2f%%", 100 * (share ? number_of(share, "before") : 1));
    et_text_table_cell(columns, "%s", et_json_words(row, "means"));
    et_text_table_cell(columns, "%s", *by ? by : "-");
    et_text_table_cell(columns, "%s", share ? et_json_words(row, "figure") : "-");
    et_text_table_cell(columns, "%s", share ? name : "(the service in all)");
}

static void print_rows(const struct et_options *options, const json_t *document, struct et_buf *out)
{
    static const char *const heads[] = {">share", ">95 %", ">load",  ">95 %",    ">before",
                                        "means",  "by",    "figure", "function", NULL};
    struct et_text_table columns = {.heads = heads};
    const json_t *row, *all = json_object_get(document, "all");
    size_t i;
    if (!all) {
        return;
    }
    add_row(&columns, all);
    json_array_foreach(json_object_get(document, "rows"), i, row)
    {
        if (i < options->rows) {
            add_row(&columns, row);
        }
    }
    et_text_table_print(&columns, out);
}

static void print_text(const struct et_options *options, const json_t *document, struct et_buf *out)
{
    if (strcmp(et_json_words(document, "verdict"), "no data") == 0) {
        return; /* report() says so */
    }
    et_buf_printf(out, "%s %s: %s\n", et_json_words(document, "service"), et_json_words(document, "version"),
                  et_json_words(document, "verdict"));
    if (json_object_get(document, "sides")) {
        print_side(document, 0, out);
        print_side(document, 1, out);
        print_cohorts(document, out);
        print_rows(options, document, out);
    }
}

/* ---- the exit code ---- */

/* "main 2.10 % (share and load)", of the first finding. */
static void write_regression(const json_t *document, struct et_buf *out)
{
    const json_t *row = json_array_get(json_object_get(document, "rows"), 0), *all = json_object_get(document, "all");
    bool function = strcmp(et_json_words(row, "means"), "more") == 0;
    row = function ? row : all;
    const char *by = et_json_words(row, "by");
    const json_t *estimate = json_object_get(row, strcmp(by, "load") == 0 ? "load" : "share");
    et_buf_printf(out, "regression: %s%s: %+.2f %% of the service's usage, by %s",
                  function ? et_json_words(row, "name") : "the service in all",
                  function && strcmp(et_json_words(row, "figure"), "total") == 0 ? " with its callees" : "",
                  100 * number_of(estimate, "change"), strcmp(by, "both") == 0 ? "share and load" : by);
}

static void write_not_yet(const json_t *document, struct et_buf *out)
{
    const json_t *sides = json_object_get(document, "sides"), *detectable = json_object_get(document, "detectable");
    double before = number_of(json_array_get(sides, 0), "devices"),
           after = number_of(json_array_get(sides, 1), "devices");
    et_buf_text(out, "not yet: ");
    if (json_is_number(detectable)) {
        et_buf_printf(out, "an increase below %.1f %% may be missed in %.0f functions; ",
                      100 * json_number_value(detectable), number_of(document, "unsure"));
    }
    et_buf_printf(out, "there are %.0f and %.0f devices, about %.0f per version of one cohort are needed to find %g %%",
                  before, after, number_of(document, "devices_needed"), 100 * number_of(document, "threshold"));
}

int et_verdict_judge(const json_t *document, struct et_buf *out)
{
    const char *verdict = et_json_words(document, "verdict"), *service = et_json_words(document, "service"),
               *version = et_json_words(document, "version");
    if (strcmp(verdict, "regression") == 0) {
        write_regression(document, out);
        return ET_REGRESSION;
    }
    if (strcmp(verdict, "not yet") == 0) {
        write_not_yet(document, out);
        return ET_TOO_FEW_SAMPLES;
    }
    if (strcmp(verdict, "no baseline") == 0) {
        et_buf_printf(out, "no baseline: %s has no %s than %s", service,
                      *et_json_words(document, "baseline") ? "such version to compare"
                                                           : "version that was seen earlier",
                      version);
        return ET_NO_BASELINE;
    }
    if (strcmp(verdict, "no data") == 0) {
        et_buf_printf(out, "no data: no process of %s has %s%s; `edgeprof query series` lists tags",
                      *service ? service : "the service", *version ? "version " : "a tag `version`", version);
        return ET_NO_DATA;
    }
    return ET_OK;
}

static int report(const json_t *document)
{
    struct et_buf text = {0};
    int code = et_verdict_judge(document, &text);
    if (code) {
        et_error("verdict: %s", text.data);
    }
    et_buf_free(&text);
    return code;
}

int et_cmd_verdict(int argc, char **argv)
{
    struct et_options options;
    struct et_buf text = {0}, why = {0}, out = {0};
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    if (!code && options.threshold > 1) {
        et_error("verdict: --threshold is in percent of the service's usage, at most 100");
        code = ET_USAGE;
    }
    code = code ? code : ask(&options, &text);
    json_t *document = code ? NULL : et_json_read(text.data ? text.data : "", text.size, &why);
    et_json_clean(document);
    if (!code && !document) {
        et_error("verdict: unexpected answer: %s", why.data);
        code = ET_FAILED;
    }
    if (!code) {
        print_text(&options, document, &out);
        if (options.json) {
            out.size = 0;
            et_buf_add(&out, text.data, text.size);
        }
        code = et_print_as(options.json, &out);
        code = code ? code : report(document);
    }
    json_decref(document);
    et_buf_free(&text);
    et_buf_free(&why);
    et_options_free(&options);
    return code;
}
