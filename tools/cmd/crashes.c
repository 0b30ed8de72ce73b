/* edgeprof crashes: crashes and unclean ends from a file of messages. */
#include "tools/cmd/commands.h"
#include "tools/cmd/help.h"
#include "tools/cmd/options.h"
#include "tools/formats/crash.h"
#include "tools/lib/progress.h"
#include "tools/serve/ingest/messages.h"

#include <string.h>

static const char help[] =
    "usage: edgeprof crashes [options] FILE\n"
    "\n"
    "Prints the crashes in a file of compact messages, as a file:// endpoint writes it: signal, registers and the "
    "stack,\n"
    "symbolized. Crashes that look alike are one group: the same service, reason and innermost functions. A run that\n"
    "ended without a record (killed, out of memory, power loss) appears, too. FILE - is standard input.\n"
    "\n"
    "  --service NAME      only of this service\n"
    "  --per-thread        the stacks of all threads\n"
    "  --json              as JSON\n" ET_SYMBOLS_HELP "  --help\n"
    "\n"
    "exit codes: 0 done, 1 unreadable or malformed, 2 wrong usage, 3 no crash\n";

/* Adds the crashes of a service; NULL: of all. */
static bool add_all(const struct et_buf *file, const char *service, struct et_crashes *crashes, const char **why)
{
    struct et_messages messages;
    const uint8_t *bytes;
    size_t size;
    bool ok = true;
    et_messages_begin(&messages, file);
    while (ok && et_messages_next(&messages, &bytes, &size)) {
        et_message *message = et_is_pprof(bytes, size) ? NULL : et_message_decode(bytes, size, why);
        ok = message || et_is_pprof(bytes, size);
        if (message && message->crash && (!service || strcmp(message->origin->service, service) == 0)) {
            ok = et_crashes_add(crashes, message, 0, why);
        } else if (message) {
            et_message_free(message);
        }
    }
    return ok;
}

static int print_crashes(const struct et_options *options, struct et_crashes *crashes)
{
    struct et_buf out = {0};
    if (crashes->count) {
        struct et_symbols *symbols = et_options_symbols(options);
        et_symbolize(symbols, crashes->profile);
        et_symbols_free(symbols);
    }
    et_crashes_group(crashes);
    if (options->json) {
        et_crashes_json(crashes, &out);
    } else {
        et_crashes_text(crashes, options->per_thread, &out);
    }
    int code = out.size ? et_print_output(&out) : ET_OK;
    return code ? code : crashes->count ? ET_OK : ET_NO_DATA;
}

int et_cmd_crashes(int argc, char **argv)
{
    struct et_options options;
    struct et_crashes crashes = {0};
    struct et_buf file = {0};
    const char *why = NULL;
    int code = et_options_parse(argc, argv, ET_TAKES_SYMBOLS "sj0", help, &options);
    if (code >= 0) {
        return code;
    }
    if (options.first != argc - 1) {
        et_error("crashes: expected one FILE; see `edgeprof crashes --help`");
        et_options_free(&options);
        return ET_USAGE;
    }
    et_progress_on();
    code = et_messages_read(argv[options.first], &file);
    if (code == ET_OK && !add_all(&file, options.service, &crashes, &why)) {
        et_error("%s: %s", argv[options.first], why);
        code = ET_FAILED;
    }
    int printed = print_crashes(&options, &crashes);
    et_progress_end();
    et_crashes_free(&crashes);
    et_buf_free(&file);
    et_options_free(&options);
    return code ? code : printed;
}
