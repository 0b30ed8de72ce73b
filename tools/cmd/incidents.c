/*
 * edgeprof incidents, edgeprof incident: what programs did around a moment that was noticed, from a database, a server
 * or a file of messages. Each source gives the JSON of /api/incidents or /api/incident, which is printed as text.
 */
#include "tools/cmd/commands.h"
#include "tools/cmd/incident_text.h"
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

enum { VALUES = 4000000 };

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

static json_t *read_json(const struct et_buf *json)
{
    struct et_buf why = {0};
    json_t *document = et_json_read_most(json->data ? json->data : "", json->size, VALUES, &why);
    et_json_clean(document);
    if (!document) {
        et_error("incident: unexpected answer: %s", why.data ? why.data : "empty");
    }
    et_buf_free(&why);
    return document;
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
                        : et_source_db_text(options->db ? options->db : ET_DEFAULT_DB, db_incidents,
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
        et_incident_write_time(incident, &out);
        et_buf_printf(&out, "  %s  %s  %s  ", et_json_words(incident, "id"), et_json_words(incident, "service"),
                      et_incident_device(incident));
        et_incident_write_trigger(incident, &out);
        et_buf_char(&out, '\n');
    }
    int code = json_array_size(all) ? ET_OK : ET_NO_DATA;
    if (options->json) {
        out.size = 0;
        et_buf_add(&out, json->data, json->size);
    } else if (code == ET_NO_DATA) {
        et_error("no incident matches; without --service, --tag, --from and --last all are shown");
    }
    int printed = !out.size ? ET_OK : et_print_as(options->json, &out);
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
    et_progress("reading %s", path);
    int code = et_messages_read(path, &file);
    if (code == ET_OK && !et_messages_each(&file, take_part, &wanted, &why)) {
        et_error("%s: %s", path, why);
        code = ET_FAILED;
    } else if (code == ET_OK && !incident.head) {
        et_error("%s: no such incident; `edgeprof cat %s` shows what there is", path, path);
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

/* ---- one, from a database or a server ---- */

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

/* The newest incident's id; NULL without ET_OK. Returns an exit code; reports errors. */
static int newest_id(const struct et_options *options, char **id)
{
    struct et_buf json = {0};
    int code = list_json(options, &json);
    json_t *document = code ? NULL : read_json(&json);
    const json_t *first = json_array_get(json_object_get(document, "incidents"), 0);
    *id = first ? et_strdup(et_json_words(first, "id")) : NULL;
    code = code ? code : !document ? ET_FAILED : first ? ET_OK : ET_NO_DATA;
    if (code == ET_NO_DATA) {
        et_error("there is no incident; `edgeprof incident --now` triggers one in a running service");
    }
    json_decref(document);
    et_buf_free(&json);
    return code;
}

static int stored_incident(const struct et_options *options, const char *wanted, struct et_buf *out)
{
    const struct et_remote remote = et_options_remote(options);
    char *id = strcmp(wanted, "last") == 0 ? NULL : et_strdup(wanted);
    struct et_buf path = {0};
    int code = id ? ET_OK : newest_id(options, &id);
    if (code) {
        return code;
    }
    asked.options = options;
    asked.request = (struct et_incident_request){.id = id, .firefox = options->outputs.count != 0};
    et_buf_printf(&path, "/api/incident?id=%s%s", id, asked.request.firefox ? "&format=firefox" : "");
    code = options->url
               ? et_source_get(&remote, path.data, NULL, out)
               : et_source_db_text(options->db ? options->db : ET_DEFAULT_DB, db_incident, &options->wanted.query, out);
    et_buf_free(&path);
    free(id);
    return code;
}

static int print_incident(const struct et_buf *json)
{
    struct et_buf out = {0};
    json_t *document = read_json(json);
    if (!document) {
        return ET_FAILED;
    }
    et_incident_write(document, &out);
    int code = et_print_output(&out);
    json_decref(document);
    et_buf_free(&out);
    return code;
}

static int write_output(const char *path, struct et_buf *json)
{
    if (strcmp(path, "-") == 0) {
        return et_print_json(json);
    }
    int err = et_write_file(path, json->data, json->size);
    if (err) {
        et_error("%s: %s", path, strerror(-err));
    }
    return err ? ET_FAILED : ET_OK;
}

static int show_incident(const struct et_options *options, const char *id, const char *path)
{
    struct et_buf answer = {0};
    int code = path ? file_incident(options, id, path, &answer) : stored_incident(options, id, &answer);
    et_progress_end();
    if (code == ET_OK && options->outputs.count) {
        code = write_output(options->outputs.items[0], &answer);
    } else if (code == ET_OK) {
        code = options->json ? et_print_json(&answer) : print_incident(&answer);
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
    } else if (!code && (!id || options.outputs.count > 1 || (path && et_options_name_source(&options)))) {
        et_error(!id ? "incident: which one? `edgeprof incidents` lists them; `last` is the newest"
                     : "incident: one output, and FILE cannot be combined with --db or --url");
        code = ET_USAGE;
    } else if (!code && strcmp(id, "last") != 0 && !et_is_hex(id, 16)) {
        et_error("incident: %s is no id, which has 16 hexadecimal digits; `edgeprof incidents` lists them", id);
        code = ET_USAGE;
    } else if (!code) {
        code = show_incident(&options, id, path);
    }
    et_options_free(&options);
    return code;
}
