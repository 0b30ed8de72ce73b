/* The command line: finds the command and calls it. */
#include "tools/cmd/commands.h"
#include "tools/cmd/help.h"
#include "tools/lib/closest.h"
#include "tools/lib/util.h"
#include "tools/symbols/debuginfod_fetch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void print_with(void (*append)(struct et_buf *out), FILE *file)
{
    struct et_buf text = {0};
    append(&text);
    fputs(text.data, file);
    et_buf_free(&text);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    int fetched = et_debuginfod_fetcher(argc, argv);
    if (fetched >= 0) {
        return fetched;
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit becomes an ordinary write error */
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        puts("edgeprof " EP_VERSION_TEXT);
        return ET_OK;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_with(et_help_print_all, stdout);
        return ET_OK;
    }
    if (strcmp(name, "--describe") == 0) {
        print_with(et_help_describe, stdout);
        return ET_OK;
    }
    const struct et_command *command = et_command_named(name);
    if (command) {
        return command->run(argc - 1, argv + 1);
    }
    if (*name) {
        struct et_closest closest = {0};
        for (size_t i = 0; i < et_command_count; i++) {
            if (et_commands[i].name) {
                et_closest_offer(&closest, name, et_commands[i].name);
            }
        }
        et_error("unknown command '%s'; %s%s%s", name,
                 closest.word ? "did you mean `edgeprof " : "see `edgeprof --help", closest.word ? closest.word : "",
                 closest.word ? "`?" : "`");
    } else {
        print_with(et_help_print_all, stderr);
    }
    return ET_USAGE;
}
