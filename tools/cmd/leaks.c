/* edgeprof leaks: what of a service's live heap grows, by place of allocation. The answer of /api/leaks comes from a
 * database or a server; this file prints it. */
#include "tools/serve/query/api.h"
#include "tools/lib/text_table.h"
#include "tools/cmd/answers.h"
#include "tools/cmd/commands.h"
#include "tools/lib/kinds.h"
#include "tools/lib/progress.h"

#include <math.h>
#include <string.h>

const struct et_help et_help_leaks = {
    .usage = "--service NAME [--last 7d] [options]",
    .about =
        "Shows what of the live heap (kind live) grows over hours and days, by place of allocation: bytes and objects "
        "of a process by hour, with 95 % intervals, steepest first. A process is a line of its own, so a restart hides "
        "nothing. `leak` marks what grows significantly, and by 1 % of the live heap or more in that time.",
    .end = "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no data; 4 something leaks",
    .words = "",
};

static unsigned ask_store(struct et_store *store, const struct et_query *query, const void *context, struct et_buf *out)
{
    struct et_symbols *const *symbols = context;
    return et_api_leaks(store, *symbols, query, out);
}

int et_leaks_ask(const struct et_options *options, const struct et_query *query, struct et_symbols *symbols,
                 struct et_buf *text)
{
    return et_options_ask(options, "/api/leaks", query, ask_store, &symbols, text);
}

static int ask(const struct et_options *options, struct et_buf *text)
{
    struct et_symbols *symbols = options->url ? NULL : et_options_symbols(options);
    et_progress("reading live heaps in %s", options->url ? options->url : options->db ? options->db : ET_DEFAULT_DB);
    int code = et_leaks_ask(options, &options->wanted.query, symbols, text);
    et_progress_end();
    if (symbols) {
        et_symbols_free(symbols);
    }
    return code;
}

void et_leaks_rate(const json_t *row, const char *name, const char *unit, char text[40])
{
    const json_t *number = json_object_get(row, name);
    double rate = json_number_value(number);
    char size[32];
    et_value_text((uint64_t)fabs(rate), unit, size);
    snprintf(text, 40, "%s%s",
             !json_is_number(number) ? ""
             : rate < 0              ? "-"
                                     : "+",
             json_is_number(number) ? size : "?");
}

static void add_row(struct et_text_table *columns, const json_t *row)
{
    char rate[40], low[40], high[40], bytes[32];
    et_leaks_rate(row, "bytes_per_hour", "bytes", rate);
    et_leaks_rate(row, "low", "bytes", low);
    et_leaks_rate(row, "high", "bytes", high);
    et_text_table_cell(columns, "%s", rate);
    et_text_table_cell(columns, "%s..%s", low, high);
    const json_t *objects = json_object_get(row, "objects_per_hour");
    if (json_is_number(objects)) {
        et_text_table_cell(columns, "%+.1f", json_number_value(objects));
    } else {
        et_text_table_cell(columns, "%s", "?");
    }
    et_value_text((uint64_t)json_number_value(json_object_get(row, "bytes")), "bytes", bytes);
    et_text_table_cell(columns, "%s", bytes);
    et_text_table_cell(columns, "%.0f", json_number_value(json_object_get(row, "processes")));
    et_text_table_cell(columns, "%s", json_is_true(json_object_get(row, "grows")) ? "leak" : "-");
    et_text_table_cell(columns, "%s", et_json_text(row, "site") ? et_json_text(row, "site") : "");
}

/* Returns the exit code. */
static int print(const struct et_options *options, const json_t *document, const struct et_buf *text)
{
    static const char *const heads[] = {">bytes/h", ">95 %", ">objects/h", ">live", ">processes", "", "site", NULL};
    struct et_text_table columns = {.heads = heads};
    struct et_buf out = {0};
    const json_t *row, *sites = json_object_get(document, "sites");
    double grows = json_number_value(json_object_get(document, "grows"));
    size_t i;
    if (json_array_size(sites) == 0) {
        et_error("leaks: no data: no process has a live heap (kind live) in this time; `edgeprof query services` lists "
                 "kinds");
        return ET_NO_DATA;
    }
    if (options->json) {
        et_buf_add(&out, text->data, text->size);
    } else {
        et_buf_printf(&out, "processes: %.0f, hours: %.0f; per process:\n",
                      json_number_value(json_object_get(document, "processes")),
                      json_number_value(json_object_get(document, "hours")));
        json_array_foreach(sites, i, row)
        {
            if (i < options->rows) {
                add_row(&columns, row);
            }
        }
        et_text_table_print(&columns, &out);
    }
    int code = et_print_as(options->json, &out);
    return code ? code : grows > 0 ? ET_REGRESSION : ET_OK;
}

int et_cmd_leaks(int argc, char **argv)
{
    struct et_options options;
    struct et_buf text = {0}, why = {0};
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    code = code ? code : ask(&options, &text);
    json_t *document = code ? NULL : et_json_read(text.data ? text.data : "", text.size, &why);
    et_json_clean(document);
    if (!code && !document) {
        et_error("leaks: unexpected answer: %s", why.data);
        code = ET_FAILED;
    }
    code = code ? code : print(&options, document, &text);
    json_decref(document);
    et_buf_free(&text);
    et_buf_free(&why);
    et_options_free(&options);
    return code;
}
