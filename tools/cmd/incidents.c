/*
 * edgeprof incidents, edgeprof incident: what programs did around a moment that was noticed, from a database, a server
 * or a file of messages. Each source gives the JSON of /api/incidents or /api/incident, which is printed as text.
 */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/formats/incident.h"
#include "tools/lib/json_read.h"
#include "tools/lib/progress.h"
#include "tools/lib/kinds.h"
#include "tools/serve/ingest/messages.h"
#include "tools/serve/query/api.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VALUES = 4000000, STACKS_SHOWN = 5, FRAMES_SHOWN = 16 };

#define SOURCE_HELP                                                                                                    \
    "  --db FILE           read this database (./edgeprof.db)\n"                                                       \
    "  --url URL           query this server instead, http or https\n"                                                 \
    "  --token-file FILE   file with its token in one line; or EDGEPROF_TOKEN is the token\n"                          \
    "  --ca FILE           CA certificates that may sign the server's, PEM (the system's)\n"

const struct et_help et_help_incidents = {
    .usage = "[options]",
    .about = "Lists incidents, the newest first: time, id, service, device, what triggered it. `edgeprof incident ID` "
             "shows one.",
    .end = "exit codes: 0 done, 1 unreadable, 2 wrong usage, 3 no incident",
    .words = "",
};

const struct et_help et_help_incident = {
    .usage = "[options] ID [FILE]\n"
             "--now [--at WHERE] [NAME]",
    .about =
        "Shows an incident: what the thread that it is about did until the trigger, longest first, and what the others "
        "did. ID is from `edgeprof incidents`; `last` is the newest. FILE has compact messages, as a file:// endpoint "
        "writes them; - is standard input. Without FILE the database of `edgeprof serve` is read, or a server.",
    .end = "exit codes: 0 done, 1 unreadable or malformed, 2 wrong usage, 3 no such incident",
};

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static json_t *read_json(const struct et_buf *json)
{
    struct et_buf why = {0};
    json_t *document = et_json_read_most(json->data ? json->data : "", json->size, VALUES, &why);
    if (!document) {
        et_error("incident: unexpected answer: %s", why.data ? why.data : "empty");
    }
    et_buf_free(&why);
    return document;
}

/* "span order 2.31s, limit 2s" */
static void write_trigger(const json_t *incident, struct et_buf *out)
{
    static const struct {
        const char *cause, *unit;
    } units[] = {{"span", "nanoseconds"}, {"open span", "nanoseconds"},
                 {"gc", "nanoseconds"},   {"heartbeat", "nanoseconds"},
                 {"memory", "bytes"},     {"cpu", ""},
                 {"exceptions", ""}};
    const char *cause = et_json_words(incident, "cause");
    et_buf_printf(out, "%s%s%s", cause, *et_json_words(incident, "name") ? " " : "", et_json_words(incident, "name"));
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(units[i].cause, cause) == 0) {
            char value[32], limit[32];
            et_value_text((uint64_t)number_of(incident, "value"), units[i].unit, value);
            et_value_text((uint64_t)number_of(incident, "limit"), units[i].unit, limit);
            et_buf_printf(out, " %s%s, limit %s%s", value, strcmp(cause, "cpu") == 0 ? " %" : "", limit,
                          strcmp(cause, "cpu") == 0 ? " %" : "");
        }
    }
}

static void write_time(const json_t *incident, struct et_buf *out)
{
    time_t seconds = (time_t)number_of(incident, "time");
    struct tm parts;
    char time[32] = "unknown time       ";
    if (seconds && gmtime_r(&seconds, &parts)) {
        strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &parts);
    }
    et_buf_text(out, time);
}

static const char *device_of(const json_t *incident)
{
    const char *device = et_json_words(json_object_get(incident, "tags"), "device");
    return *device ? device : et_json_words(incident, "host");
}

/* ---- the list ---- */

static unsigned db_incidents(struct et_store *store, const struct et_query *query, struct et_buf *out)
{
    return et_api_incidents(store, NULL, query, out);
}

static int list_json(const struct et_options *options, struct et_buf *json)
{
    const struct et_remote remote = et_options_remote(options);
    return options->url ? et_source_get(&remote, "/api/incidents", &options->wanted.query, json)
                        : et_source_db_text(options->db ? options->db : "edgeprof.db", db_incidents,
                                            &options->wanted.query, json);
}

static int print_list(const struct et_options *options, const struct et_buf *json)
{
    struct et_buf out = {0};
    json_t *document = read_json(json), *incident;
    size_t i;
    if (!document) {
        return ET_FAILED;
    }
    const json_t *all = json_object_get(document, "incidents");
    json_array_foreach(all, i, incident)
    {
        write_time(incident, &out);
        et_buf_printf(&out, "  %s  %s  %s  ", et_json_words(incident, "id"), et_json_words(incident, "service"),
                      device_of(incident));
        write_trigger(incident, &out);
        et_buf_char(&out, '\n');
    }
    int code = json_array_size(all) ? ET_OK : ET_NO_DATA;
    if (options->json) {
        out.size = 0;
        et_buf_add(&out, json->data, json->size);
    } else if (code == ET_NO_DATA) {
        et_error("no incident");
    }
    int printed = out.size ? et_print_output(&out) : ET_OK;
    json_decref(document);
    et_buf_free(&out);
    return printed ? printed : code;
}

int et_cmd_incidents(int argc, char **argv)
{
    struct et_options options;
    struct et_buf json = {0};
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    code = et_no_more_arguments(argc, argv, &options);
    code = code ? code : list_json(&options, &json);
    code = code ? code : print_list(&options, &json);
    et_buf_free(&json);
    et_options_free(&options);
    return code;
}

/* ---- one, from a file ---- */

/* "last", or an id. */
static bool is_asked(const char *id, uint64_t incident)
{
    return strcmp(id, "last") == 0 || strtoull(id, NULL, 16) == incident;
}

struct wanted {
    const char *id;
    struct et_incident *incident;
};

/* Keeps the parts of the last incident in the file that is asked for. */
static bool take_part(void *context, et_message *message, const char **why)
{
    const struct wanted *wanted = context;
    struct et_incident *incident = wanted->incident;
    if (!message->timeline || !is_asked(wanted->id, message->timeline->incident)) {
        et_message_free(message);
        return true;
    }
    if (incident->head && incident->head->timeline->incident != message->timeline->incident) {
        et_incident_free(incident);
    }
    return et_incident_add(incident, message, 0, why);
}

static int file_incident(const struct et_options *options, const char *id, const char *path, struct et_buf *out)
{
    struct et_incident incident = {0};
    struct et_buf file = {0};
    const char *why = NULL;
    struct wanted wanted = {.id = id, .incident = &incident};
    int code = et_messages_read(path, &file);
    if (code == ET_OK && !et_messages_each(&file, take_part, &wanted, &why)) {
        et_error("%s: %s", path, why);
        code = ET_FAILED;
    } else if (code == ET_OK && !incident.head) {
        et_error("%s: no such incident", path);
        code = ET_NO_DATA;
    } else if (code == ET_OK) {
        struct et_symbols *symbols = et_options_symbols(options);
        et_symbolize(symbols, incident.profile);
        et_symbols_free(symbols);
        (options->outputs.count ? et_incident_firefox : et_incident_json)(&incident, out);
    }
    et_incident_free(&incident);
    et_buf_free(&file);
    return code;
}

/* ---- one, from a store or a server ---- */

static struct {
    const struct et_options *options;
    struct et_incident_request request;
} asked; /* by db_incident() */

static unsigned db_incident(struct et_store *store, const struct et_query *query, struct et_buf *out)
{
    struct et_symbols *symbols = et_options_symbols(asked.options);
    unsigned status = et_api_incident(store, symbols, query, &asked.request, out);
    et_symbols_free(symbols);
    return status;
}

/* The newest incident's id. NULL: there is none, which was said. */
static char *newest_id(const struct et_options *options)
{
    struct et_buf json = {0};
    json_t *document = list_json(options, &json) == ET_OK ? read_json(&json) : NULL;
    const json_t *first = json_array_get(json_object_get(document, "incidents"), 0);
    char *id = first ? et_strdup(et_json_words(first, "id")) : NULL;
    if (document && !id) {
        et_error("no incident");
    }
    json_decref(document);
    et_buf_free(&json);
    return id;
}

static int stored_incident(const struct et_options *options, const char *wanted, struct et_buf *out)
{
    const struct et_remote remote = et_options_remote(options);
    char *id = strcmp(wanted, "last") == 0 ? newest_id(options) : et_strdup(wanted);
    struct et_buf path = {0};
    if (!id) {
        return ET_NO_DATA;
    }
    asked.options = options;
    asked.request = (struct et_incident_request){.id = id, .firefox = options->outputs.count != 0};
    et_buf_printf(&path, "/api/incident?id=%s%s", id, asked.request.firefox ? "&format=firefox" : "");
    int code = options->url ? et_source_get(&remote, path.data, NULL, out)
                            : et_source_db_text(options->db ? options->db : "edgeprof.db", db_incident,
                                                &options->wanted.query, out);
    et_buf_free(&path);
    free(id);
    return code;
}

/* ---- text ---- */

/* What a thread did with one stack. */
struct doing {
    json_int_t stack; /* -1: none */
    const char *kind;
    double ms;
    size_t samples;
};

struct sample {
    double start, length;
    size_t thread;
    const char *kind;
    json_int_t stack;
};

static struct sample sample_of(const json_t *value)
{
    return (struct sample){.start = json_number_value(json_array_get(value, 0)),
                           .length = json_number_value(json_array_get(value, 1)),
                           .thread = (size_t)json_integer_value(json_array_get(value, 2)),
                           .kind = json_string_value(json_array_get(value, 3)),
                           .stack = json_integer_value(json_array_get(value, 4))};
}

/* Milliseconds of the sample between two times. */
static double within(const struct sample *sample, double from, double to)
{
    double start = sample->start > from ? sample->start : from;
    double end = sample->start + sample->length < to ? sample->start + sample->length : to;
    return end > start ? end - start : 0;
}

static int by_ms(const void *a, const void *b)
{
    const struct doing *left = a, *right = b;
    return (left->ms < right->ms) - (left->ms > right->ms);
}

/* What the thread did between the times, longest first. The caller frees it. */
static struct doing *collect_doings(const json_t *incident, size_t thread, double from, double to, size_t *count)
{
    const json_t *samples = json_object_get(incident, "samples"), *value;
    struct doing *doings = et_alloc(json_array_size(samples) + 1, sizeof *doings);
    size_t i;
    *count = 0;
    json_array_foreach(samples, i, value)
    {
        struct sample sample = sample_of(value);
        double ms = within(&sample, from, to);
        if (sample.thread != thread || !sample.kind || (ms <= 0 && sample.length > 0)) {
            continue;
        }
        size_t at = 0;
        while (at < *count && (doings[at].stack != sample.stack || strcmp(doings[at].kind, sample.kind) != 0)) {
            at++;
        }
        *count += at == *count;
        doings[at].stack = sample.stack;
        doings[at].kind = sample.kind;
        doings[at].ms += ms;
        doings[at].samples++;
    }
    qsort(doings, *count, sizeof *doings, by_ms);
    return doings;
}

static const char *function_of(const json_t *incident, json_int_t stack)
{
    const json_t *call = json_array_get(json_object_get(incident, "stacks"), (size_t)stack);
    const json_t *name =
        json_array_get(json_object_get(incident, "functions"), (size_t)json_integer_value(json_array_get(call, 1)));
    return json_string_value(name) ? json_string_value(name) : "?";
}

static json_int_t caller_of(const json_t *incident, json_int_t stack)
{
    return json_integer_value(json_array_get(json_array_get(json_object_get(incident, "stacks"), (size_t)stack), 0));
}

static void write_stack(const json_t *incident, json_int_t stack, struct et_buf *out)
{
    size_t depth = 0;
    for (; stack >= 0 && depth < FRAMES_SHOWN; stack = caller_of(incident, stack)) {
        et_buf_printf(out, "    #%-2zu %s\n", depth++, function_of(incident, stack));
    }
    if (stack >= 0) {
        et_buf_text(out, "    ...\n");
    }
}

static void write_doings(const json_t *incident, size_t thread, double from, double to, struct et_buf *out)
{
    size_t count;
    struct doing *doings = collect_doings(incident, thread, from, to, &count);
    for (size_t i = 0; i < count && i < STACKS_SHOWN; i++) {
        et_buf_printf(out, "  %9.1f ms  %s, %zu %s\n", doings[i].ms, doings[i].kind, doings[i].samples,
                      doings[i].samples == 1 ? "sample" : "samples");
        write_stack(incident, doings[i].stack, out);
    }
    if (count == 0) {
        et_buf_text(out, "  no sample: it neither used much CPU time nor waited for a millisecond\n");
    }
    if (count > STACKS_SHOWN) {
        et_buf_printf(out, "  and %zu more stacks\n", count - STACKS_SHOWN);
    }
    free(doings);
}

/* Pauses stop every thread, so none of these has a sample of them but the one that collected. */
static void write_pauses(const json_t *incident, double from, double to, struct et_buf *out)
{
    const json_t *samples = json_object_get(incident, "samples"), *value, *who = NULL;
    double ms = 0;
    size_t i, count = 0;
    json_array_foreach(samples, i, value)
    {
        struct sample sample = sample_of(value);
        if (sample.kind && strcmp(sample.kind, "gc") == 0 && within(&sample, from, to) > 0) {
            ms += within(&sample, from, to);
            count++;
            who = json_array_get(json_object_get(incident, "threads"), sample.thread);
        }
    }
    if (count) {
        et_buf_printf(out,
                      "\nthe garbage collector stopped all threads for %.1f ms of it, %zu %s, last by thread %.0f %s\n",
                      ms, count, count == 1 ? "pause" : "pauses", number_of(who, "tid"), et_json_words(who, "name"));
    }
}

static void write_thread_line(const json_t *incident, size_t thread, double from, double to, struct et_buf *out)
{
    const json_t *who = json_array_get(json_object_get(incident, "threads"), thread);
    size_t count;
    struct doing *doings = collect_doings(incident, thread, from, to, &count);
    double cpu = 0, wait = 0;
    for (size_t i = 0; i < count; i++) {
        cpu += strcmp(doings[i].kind, "cpu") == 0 ? doings[i].ms : 0;
        wait += strcmp(doings[i].kind, "wait") == 0 ? doings[i].ms : 0;
    }
    if (count) {
        et_buf_printf(out, "  %8.0f %-15s  cpu %9.1f ms  wait %9.1f ms  %s\n", number_of(who, "tid"),
                      et_json_words(who, "name"), cpu, wait,
                      doings[0].stack >= 0 ? function_of(incident, doings[0].stack) : "[no stack]");
    }
    free(doings);
}

/* Begin of what is shown first, in ms: of the span or pause, if it was one; else of the history. */
static double begin_of(const json_t *incident)
{
    const char *cause = et_json_words(incident, "cause");
    const json_t *first = json_array_get(json_object_get(incident, "samples"), 0);
    bool timed = strstr(cause, "span") || strcmp(cause, "gc") == 0 || strcmp(cause, "heartbeat") == 0;
    double begin = json_number_value(json_array_get(first, 0));
    return timed ? -number_of(incident, "value") / 1e6 : begin < 0 ? begin : 0;
}

/* False: the incident is about no thread, or has no sample of it. */
static bool find_thread(const json_t *incident, size_t *thread)
{
    const json_t *threads = json_object_get(incident, "threads");
    for (*thread = 0; *thread < json_array_size(threads); ++*thread) {
        double tid = number_of(json_array_get(threads, *thread), "tid");
        if (tid > 0 && tid == number_of(incident, "tid")) {
            return true;
        }
    }
    return false;
}

static void write_incident(const json_t *incident, struct et_buf *out)
{
    double from = begin_of(incident), to = 0;
    size_t own = 0, threads = json_array_size(json_object_get(incident, "threads"));
    et_buf_printf(out, "incident %s  ", et_json_words(incident, "id"));
    write_time(incident, out);
    et_buf_text(out, "\n");
    write_trigger(incident, out);
    et_buf_printf(out, "\n%s pid %.0f on %s, %s\n", et_json_words(incident, "executable"), number_of(incident, "pid"),
                  device_of(incident), et_json_words(incident, "service"));
    if (!json_is_true(json_object_get(incident, "complete"))) {
        et_buf_text(out, "incomplete: a part has not arrived\n");
    }
    if (number_of(incident, "suppressed") > 0) {
        et_buf_printf(out, "%.0f triggers before it led to no incident\n", number_of(incident, "suppressed"));
    }
    if (find_thread(incident, &own)) {
        const json_t *who = json_array_get(json_object_get(incident, "threads"), own);
        et_buf_printf(out, "\nthread %.0f %s, %.1f ms until the trigger:\n", number_of(who, "tid"),
                      et_json_words(who, "name"), -from);
        write_doings(incident, own, from, to, out);
    }
    write_pauses(incident, from, to, out);
    et_buf_printf(out, "\nall threads in the same time, and what each did longest:\n");
    for (size_t i = 0; i < threads; i++) {
        write_thread_line(incident, i, from, to, out);
    }
}

static int print_incident(const struct et_buf *json)
{
    struct et_buf out = {0};
    json_t *document = read_json(json);
    if (!document) {
        return ET_FAILED;
    }
    write_incident(document, &out);
    int code = et_print_output(&out);
    json_decref(document);
    et_buf_free(&out);
    return code;
}

static int write_output(const char *path, const struct et_buf *bytes)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    bool ok = file && fwrite(bytes->data, 1, bytes->size, file) == bytes->size;
    ok = file && (file == stdout ? fflush(file) : fclose(file)) == 0 && ok;
    if (!ok) {
        et_error("%s: cannot be written", path);
    }
    return ok ? ET_OK : ET_FAILED;
}

static int show_incident(const struct et_options *options, const char *id, const char *path)
{
    struct et_buf answer = {0};
    et_progress_on();
    int code = path ? file_incident(options, id, path, &answer) : stored_incident(options, id, &answer);
    et_progress_end();
    if (code == ET_OK && options->outputs.count) {
        code = write_output(options->outputs.items[0], &answer);
    } else if (code == ET_OK) {
        code = options->json ? et_print_output(&answer) : print_incident(&answer);
    }
    et_buf_free(&answer);
    return code;
}

int et_cmd_incident(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    const char *id = options.first < argc ? argv[options.first++] : NULL;
    const char *path = id && !options.now && options.first < argc ? argv[options.first++] : NULL;
    code = et_no_more_arguments(argc, argv, &options);
    if (!code && options.now) {
        code = et_control_incident(options.at, id ? id : "");
    } else if (!code && (!id || options.outputs.count > 1 || (path && (options.db || options.url)))) {
        et_error(!id ? "incident: which one? `edgeprof incidents` lists them; `last` is the newest"
                     : "incident: one output, and FILE cannot be combined with --db or --url");
        code = ET_USAGE;
    } else if (!code) {
        code = show_incident(&options, id, path);
    }
    et_options_free(&options);
    return code;
}
