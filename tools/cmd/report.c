/*
 * edgeprof report: one page that answers "what should I look at". et_cmd_report() chooses the service, adds sentences
 * about each kind of profile, and lets report_parts.c add the others; notes.c makes the page.
 */
#include "tools/cmd/report.h"
#include "tools/cmd/commands.h"
#include "tools/formats/report.h"
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"
#include "tools/lib/progress.h"
#include "tools/lib/time_text.h"
#include "tools/serve/query/api.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct et_help et_help_report = {
    .usage = "[--service NAME] [--last 1d] [options]",
    .about =
        "Prints one page of Markdown, at most 4 KB: what uses CPU time, memory, locks and waits, what changed since "
        "the "
        "version before (without versions: since the week before) and whether that is significant, crashes, incidents, "
        "leaks, devices that differ, and what was not measured. Each sentence has its figure and the command that "
        "shows "
        "more. Without --service and with several services it is a list of the services.",
    .end = "Set EDGEPROF_URL, or stand beside the database, for the commands on the page.\n"
           "\n"
           "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no data",
    .words = "",
};

static const int64_t SECOND = 1000000000, DAY = 86400 * SECOND;

/* ---- the page ---- */

void et_report_word(struct et_buf *out, const char *word)
{
    if (word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=/:@%,")] == '\0') {
        et_buf_text(out, word);
        return;
    }
    et_buf_char(out, '\'');
    for (; *word; word++) {
        et_buf_printf(out, *word == '\'' ? "'\\''" : "%c", *word);
    }
    et_buf_char(out, '\'');
}

static void write_day(int64_t ns, struct et_buf *out)
{
    time_t seconds = (time_t)(ns / SECOND);
    struct tm parts_of_day;
    char text[32] = "?";
    if (gmtime_r(&seconds, &parts_of_day)) {
        strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts_of_day);
    }
    et_buf_text(out, text);
}

static void write_title(const struct et_report *report, int64_t to_ns, struct et_buf *out)
{
    et_buf_text(out, "# ");
    et_buf_text(out, report->query.service ? report->query.service : "Services");
    et_buf_text(out, "\n\n");
    write_day(report->query.from_ns, out);
    et_buf_text(out, " to ");
    write_day(to_ns, out);
    et_buf_text(out, " UTC. Shares are of the function alone.\n");
}

static int print_page(const struct et_report *report)
{
    const struct et_query *query = &report->query;
    int64_t to_ns = query->to_ns == INT64_MAX ? et_now() : query->to_ns;
    struct et_buf out = {0}, title = {0};
    if (report->options->json) {
        et_buf_text(&out, "{\"service\":");
        et_json_string(&out, query->service ? query->service : "");
        et_buf_printf(&out, ",\"from\":%lld,\"to\":%lld", (long long)(query->from_ns / SECOND),
                      (long long)(to_ns / SECOND));
        et_notes_json(report->notes, &out);
        et_buf_text(&out, "}\n");
    } else {
        write_title(report, to_ns, &title);
        et_notes_markdown(report->notes, title.data, &out);
    }
    et_buf_free(&title);
    return et_print_as(report->options->json, &out);
}

static void write_times(const struct et_options *options, struct et_buf *out)
{
    const struct et_query *query = &options->wanted.query;
    if (options->last_ns) {
        int64_t seconds = options->last_ns / SECOND;
        const char *unit = seconds % 86400 == 0 ? "d" : seconds % 3600 == 0 ? "h" : seconds % 60 == 0 ? "m" : "s";
        int64_t size = *unit == 'd' ? 86400 : *unit == 'h' ? 3600 : *unit == 'm' ? 60 : 1;
        et_buf_printf(out, " --last %lld%s", (long long)(seconds / size), unit);
    } else {
        et_buf_printf(out, " --from %lld", (long long)(query->from_ns / SECOND));
    }
    if (query->to_ns != INT64_MAX) {
        et_buf_printf(out, " --to %lld", (long long)(query->to_ns / SECOND));
    }
}

static void write_place(const struct et_options *options, const char *service, struct et_buf *out)
{
    et_buf_text(out, " --service ");
    et_report_word(out, options->service ? options->service : service);
    for (size_t i = 0; i < options->tags.count; i++) {
        et_buf_text(out, " --tag ");
        et_report_word(out, options->tags.items[i]);
    }
    write_times(options, out);
}

/* ---- services ---- */

static unsigned ask_services(struct et_store *store, const struct et_query *query, const void *context,
                             struct et_buf *out)
{
    (void)query, (void)context;
    return et_api_services(store, "", out);
}

/* The names of the services with data in the time, sorted by the API. */
static int find_services(struct et_report *report, struct et_strings *names)
{
    json_t *document, *row;
    size_t i;
    int code = et_report_ask(report, "/api/services", ask_services, NULL, &document);
    et_intern(names, "");
    json_array_foreach(json_object_get(document, "services"), i, row)
    {
        double last = json_number_value(json_object_get(row, "last")) * 1e9;
        double first = json_number_value(json_object_get(row, "first")) * 1e9;
        if (last >= (double)report->query.from_ns && first <= (double)report->query.to_ns) {
            et_intern(names, et_json_words(row, "service"));
        }
    }
    json_decref(document);
    return code;
}

static int add_service(struct et_report *report, const char *service)
{
    struct et_profile *profile = NULL;
    struct et_query query = report->query;
    struct et_buf place = {0};
    query.service = service;
    query.kind = ET_CPU;
    int code = et_options_fetch(report->options, &query, &profile);
    if (!code) {
        struct et_note *note = et_notes_add(report->notes, "Services", false, (double)profile->total, "nanoseconds");
        et_notes_name(&note->text, service);
        et_buf_text(&note->text, " ");
        profile->service = 0;
        if (profile->total) {
            et_report_total(profile, &note->text);
        } else {
            et_buf_text(&note->text, "has no CPU profile");
        }
        write_place(report->options, service, &place);
        et_buf_text(&note->command, "report");
        et_buf_add(&note->command, place.data, place.size);
    }
    et_buf_free(&place);
    et_profile_free(profile);
    return code;
}

static int by_value(const void *left, const void *right)
{
    const struct et_note *a = left, *b = right;
    return (a->value < b->value) - (a->value > b->value);
}

static int list_services(struct et_report *report, const struct et_strings *names)
{
    int code = ET_OK;
    for (uint32_t i = 1; i < names->count && !code; i++) {
        code = add_service(report, et_text(names, i));
    }
    qsort(report->notes->notes, report->notes->count, sizeof *report->notes->notes, by_value);
    report->place = "";
    code = code ? code : et_report_crashes(report);
    return code ? code : et_report_incidents(report);
}

/* ---- the command ---- */

static int report_service(struct et_report *report, const char *service)
{
    struct et_buf place = {0};
    report->query.service = service;
    write_place(report->options, service, &place);
    report->place = place.data;
    et_progress("reading profiles of %s", service);
    int code = et_report_kinds(report);
    et_progress("comparing versions of %s", service);
    code = code ? code : et_report_versions(report, ET_CPU);
    et_progress("reading crashes, incidents and live heaps of %s", service);
    code = code ? code : et_report_crashes(report);
    code = code ? code : et_report_incidents(report);
    code = code ? code : et_report_leaks(report);
    code = code ? code : et_report_devices(report);
    et_report_unnamed(report);
    et_progress_end();
    code = code ? code : print_page(report);
    et_buf_free(&place);
    return code;
}

static int run_report(struct et_report *report)
{
    struct et_strings names = {0};
    const char *wanted = report->query.service;
    int code = find_services(report, &names);
    if (!code && (names.count < 2 || (wanted && *wanted && !et_known(&names, wanted)))) {
        et_error("report: no data: no profile%s%s in this time; `edgeprof query services` lists what there is",
                 wanted && *wanted ? " of service " : "", wanted && *wanted ? wanted : "");
        code = ET_NO_DATA;
    } else if (!code && ((wanted && *wanted) || names.count == 2)) {
        code = report_service(report, wanted && *wanted ? wanted : et_text(&names, 1));
    } else if (!code) {
        report->query.service = NULL;
        code = list_services(report, &names);
        code = code ? code : print_page(report);
    }
    et_strings_free(&names);
    return code;
}

int et_cmd_report(int argc, char **argv)
{
    struct et_options options;
    struct et_notes notes = {0};
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    if (!code) {
        if (!options.from_ns) {
            options.last_ns = DAY;
            options.wanted.query.from_ns = et_now() - DAY;
        }
        struct et_report report = {.options = &options,
                                   .query = options.wanted.query,
                                   .symbols = options.url ? NULL : et_options_symbols(&options),
                                   .notes = &notes};
        code = run_report(&report);
        if (report.symbols) {
            et_symbols_free(report.symbols);
        }
    }
    et_notes_free(&notes);
    et_options_free(&options);
    return code;
}
