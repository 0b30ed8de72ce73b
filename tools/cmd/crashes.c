/*
 * edgeprof crashes: crashes and unclean ends from a file of messages, a database or a server. Each source gives the
 * JSON of /api/crashes, which is printed as text.
 */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/formats/crash.h"
#include "tools/lib/progress.h"
#include "tools/serve/ingest/messages.h"
#include "tools/serve/query/api.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct et_help et_help_crashes = {
    .usage = "[options] [FILE]",
    .about =
        "Prints the crashes of programs: signal, registers and the stack, symbolized. Crashes that look alike are one "
        "group: the same service, reason and innermost functions; the last one is shown. Runs that ended without a "
        "record (killed, out of memory, power loss) appear, too. FILE has compact messages, as a file:// endpoint "
        "writes them; - is standard input. Without FILE the database of `edgeprof serve` is read, or a server.",
    .end = "exit codes: 0 done, 1 unreadable or malformed, 2 wrong usage, 3 no crash",
};

/* ---- sources ---- */

static const struct et_options *asked; /* by db_crashes() */

struct wanted {
    const char *service; /* NULL: all */
    struct et_crashes *crashes;
};

static bool take_crash(void *context, et_message *message, const char **why)
{
    const struct wanted *wanted = context;
    if (!message->crash || (wanted->service && strcmp(message->origin->service, wanted->service) != 0)) {
        et_message_free(message);
        return true;
    }
    return et_crashes_add(wanted->crashes, message, 0, why);
}

static int file_crashes(const struct et_options *options, const char *path, struct et_buf *json)
{
    struct et_crashes crashes = {0};
    struct et_buf file = {0};
    const char *why = NULL;
    struct wanted wanted = {.service = options->service, .crashes = &crashes};
    et_progress("reading %s", path);
    int code = et_messages_read(path, &file);
    if (code == ET_OK && !et_messages_each(&file, take_crash, &wanted, &why)) {
        et_error("%s: %s", path, why);
        code = ET_FAILED;
    }
    if (crashes.count) {
        struct et_symbols *symbols = et_options_symbols(options);
        et_symbolize(symbols, crashes.profile);
        et_symbols_free(symbols);
    }
    et_crashes_group(&crashes);
    if (code == ET_OK || crashes.count) { /* an error has been told already */
        et_crashes_json(&crashes, json);
    }
    et_crashes_free(&crashes);
    et_buf_free(&file);
    return code;
}

static unsigned db_crashes(struct et_store *store, const struct et_query *query, struct et_buf *out)
{
    struct et_symbols *symbols = et_options_symbols(asked);
    unsigned status = et_api_crashes(store, symbols, query, out);
    et_symbols_free(symbols);
    return status;
}

static int crashes_of(const struct et_options *options, const char *path, struct et_buf *json)
{
    const struct et_remote remote = et_options_remote(options);
    asked = options;
    if (path) {
        return file_crashes(options, path, json);
    }
    return options->url
               ? et_source_get(&remote, "/api/crashes", &options->wanted.query, json)
               : et_source_db_text(options->db ? options->db : ET_DEFAULT_DB, db_crashes, &options->wanted.query, json);
}

/* ---- text ---- */

static long long number_of(const json_t *object, const char *name)
{
    return (long long)json_number_value(json_object_get(object, name));
}

static void write_frames(const json_t *frames, struct et_buf *out)
{
    const json_t *frame;
    size_t i, number = 0;
    json_array_foreach(frames, i, frame)
    {
        if (json_is_true(json_object_get(frame, "caller"))) {
            et_buf_printf(out, "      %s", et_json_words(frame, "function"));
        } else {
            et_buf_printf(out, "  #%-2zu %s", number++, et_json_words(frame, "function"));
        }
        if (*et_json_words(frame, "file")) {
            et_buf_printf(out, "  %s:%lld", et_json_words(frame, "file"), number_of(frame, "line"));
        }
        et_buf_char(out, '\n');
    }
    if (json_array_size(frames) == 0) {
        et_buf_text(out, "  [no stack]\n");
    }
}

static void write_fault(const json_t *crash, struct et_buf *out)
{
    const json_t *registers = json_object_get(crash, "registers"), *value;
    size_t i;
    et_buf_printf(out, "  %s code %lld", et_json_words(crash, "signal_name"), number_of(crash, "code"));
    if (number_of(crash, "sender")) {
        et_buf_printf(out, " sent by process %lld", number_of(crash, "sender"));
    } else if (number_of(crash, "code") > 0) {
        et_buf_printf(out, " address %s", et_json_words(crash, "address"));
    }
    et_buf_printf(out, "  pc %s sp %s fp %s lr %s\n", et_json_words(crash, "pc"), et_json_words(crash, "sp"),
                  et_json_words(crash, "fp"), et_json_words(crash, "lr"));
    if (json_array_size(registers)) {
        et_buf_text(out, "  registers");
        json_array_foreach(registers, i, value)
        {
            et_buf_printf(out, " %s", json_string_value(value) ? json_string_value(value) : "");
        }
        et_buf_char(out, '\n');
    }
    if (number_of(crash, "faults")) {
        et_buf_printf(out, "  incomplete: %lld parts of the record failed\n", number_of(crash, "faults"));
    }
}

static void write_crash(const json_t *crash, const char *reason, bool threads, struct et_buf *out)
{
    const json_t *thread;
    size_t i;
    et_buf_printf(out, "  %s pid %lld on %s", et_json_words(crash, "executable"), number_of(crash, "pid"),
                  et_json_words(crash, "host"));
    if (json_number_value(json_object_get(crash, "ran")) > 0) {
        et_buf_printf(out, ", after %.3f s", json_number_value(json_object_get(crash, "ran")));
    }
    et_buf_char(out, '\n');
    if (!json_is_true(json_object_get(crash, "recorded"))) {
        et_buf_printf(out, "  no record; such ends: %lld\n", number_of(crash, "missed"));
        return;
    }
    write_fault(crash, out);
    if (*et_json_words(crash, "message")) {
        et_buf_printf(out, "  %s: %s\n", reason, et_json_words(crash, "message"));
    }
    json_array_foreach(json_object_get(crash, "threads"), i, thread)
    {
        if (i == 0 || threads) {
            et_buf_printf(out, "  thread %lld %s%s\n", number_of(thread, "tid"), et_json_words(thread, "name"),
                          i ? "" : " (crashed)");
            write_frames(json_object_get(thread, "frames"), out);
        }
    }
}

static void write_group(const json_t *group, bool threads, struct et_buf *out)
{
    const json_t *crash = json_array_get(json_object_get(group, "crashes"), 0);
    time_t seconds = (time_t)number_of(crash, "time");
    struct tm parts;
    char time[32] = "unknown time";
    if (seconds && gmtime_r(&seconds, &parts)) {
        strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &parts);
    }
    const char *function = et_json_words(crash, "function");
    et_buf_printf(out, "%s%lld x %s  %s%s%s  last %s  %s\n", out->size ? "\n" : "", number_of(group, "count"),
                  et_json_words(group, "service"), et_json_words(group, "reason"), *function ? " in " : "", function,
                  time, et_json_words(group, "fingerprint"));
    write_crash(crash, et_json_words(group, "reason"), threads, out);
}

/* Returns the number of groups. */
static size_t write_groups(const json_t *document, bool threads, struct et_buf *out)
{
    const json_t *groups = json_object_get(document, "groups"), *group;
    size_t i;
    json_array_foreach(groups, i, group)
    {
        write_group(group, threads, out);
    }
    return json_array_size(groups);
}

static int print_crashes(const struct et_options *options, const struct et_buf *json)
{
    enum { VALUES = 20000000 }; /* of as many crashes as a server keeps, with all the frames that a device sends */
    struct et_buf why = {0}, out = {0};
    json_t *document = et_json_read_most(json->data ? json->data : "", json->size, VALUES, &why);
    et_json_clean(document);
    int code = document ? ET_OK : ET_FAILED;
    if (!document) {
        et_error("crashes: unexpected answer: %s", why.data);
    } else {
        code = write_groups(document, options->per_thread, &out) ? ET_OK : ET_NO_DATA;
    }
    if (document && options->json) {
        out.size = 0;
        et_buf_add(&out, json->data, json->size);
    } else if (code == ET_NO_DATA) {
        et_error("no crash matches; without --service, --tag, --from and --last all are shown");
    }
    int printed = !out.size ? ET_OK : et_print_as(options->json, &out);
    json_decref(document);
    et_buf_free(&why);
    et_buf_free(&out);
    return printed ? printed : code;
}

int et_cmd_crashes(int argc, char **argv)
{
    struct et_options options;
    struct et_buf json = {0};
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    const char *path = options.first < argc ? argv[options.first++] : NULL;
    code = et_no_more_arguments(argc, argv, &options);
    if (!code && path && et_options_name_source(&options)) {
        et_error("crashes: FILE cannot be combined with --db or --url");
        code = ET_USAGE;
    }
    if (!code) {
        code = crashes_of(&options, path, &json);
        et_progress_end();
        int printed = json.size ? print_crashes(&options, &json) : ET_OK;
        code = code ? code : printed;
    }
    et_buf_free(&json);
    et_options_free(&options);
    return code;
}
