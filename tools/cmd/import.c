/* edgeprof import: stores files of messages, such as the recordings of devices without a network. */
#include "tools/cmd/commands.h"
#include "tools/cmd/options.h"
#include "tools/serve/ingest/messages.h"

#include <string.h>

const struct et_help et_help_import = {
    .usage = "FILE... [--url URL | --db FILE]",
    .about = "Stores the messages of files in a server, or with --db in a database: recordings of an endpoint file://, "
             "which a "
             "device without a network wrote. A message that is there already is not counted twice, so a file may be "
             "imported "
             "again when it has grown. Times are those of the device. FILE - is standard input.",
    .end = "exit codes: 0 stored, 1 failed, 2 wrong usage, 3 a file has no message",
    .words = "",
};

struct import {
    const struct et_options *options;
    struct et_store *store; /* NULL: send to the server */
};

/* One message to the server; the answer says what is wrong with it. */
static int send_message(const struct import *import, const uint8_t *bytes, size_t size)
{
    const struct et_remote remote = et_options_remote(import->options);
    struct et_buf sent = {0}, answer = {0};
    et_buf_add(&sent, bytes, size);
    int code = et_source_post(&remote, "/edgeprof/v1/push", &sent, &answer);
    et_buf_free(&sent);
    et_buf_free(&answer);
    return code;
}

static int send_messages(const struct import *import, const char *path, const struct et_buf *file, size_t *count)
{
    struct et_messages messages;
    const uint8_t *bytes;
    size_t size;
    int code = ET_OK;
    et_messages_begin(&messages, file);
    while (code == ET_OK && et_messages_next(&messages, &bytes, &size)) {
        if (et_is_pprof(bytes, size)) {
            et_error("import: %s: message %zu is a pprof: POST it to /ingest?name=SERVICE, or import it with --db",
                     path, *count + 1);
            return ET_FAILED;
        }
        code = send_message(import, bytes, size);
        *count += code == ET_OK;
    }
    if (code != ET_OK) {
        et_error("import: %s: message %zu was not stored; the %zu before it were", path, *count + 1, *count);
    } else if (messages.torn) {
        et_error("%s: truncated within message %zu; using the messages before it", path, *count + 1);
    }
    return code;
}

static int import_file(const struct import *import, const char *path)
{
    struct et_buf file = {0};
    size_t count = 0;
    int code = et_messages_read(path, &file);
    if (code == ET_OK && import->store) {
        code = et_messages_store(path, &file, import->store, &count);
    } else if (code == ET_OK) {
        code = send_messages(import, path, &file, &count);
    }
    et_buf_free(&file);
    if (code == ET_OK && count == 0) {
        et_error("import: %s has no message", path);
        return ET_NO_DATA;
    }
    if (code == ET_OK) {
        et_printf("%s: %zu messages\n", path, count);
    }
    return code;
}

static int import_files(struct import *import, int argc, char **argv)
{
    const char *why = "";
    int code = ET_OK;
    if (import->options->db) {
        import->store = et_store_open(import->options->db, true, &why);
        if (!import->store) {
            et_error("database %s: %s", import->options->db, why);
            return ET_FAILED;
        }
    }
    for (int i = import->options->first; i < argc; i++) {
        int of_file = import_file(import, argv[i]);
        code = code == ET_OK ? of_file : code;
    }
    if (import->store) {
        et_store_close(import->store);
    }
    return code;
}

int et_cmd_import(int argc, char **argv)
{
    struct et_options options;
    int code = et_options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.first == argc) {
        et_error("import: expected FILE..., the recordings of devices; - is standard input");
        code = ET_USAGE;
    } else if (options.db && options.url && !options.url_is_default) {
        et_error("import: --db and --url exclude each other");
        code = ET_USAGE;
    } else {
        struct import import = {.options = &options};
        code = import_files(&import, argc, argv);
    }
    et_options_free(&options);
    return code;
}
