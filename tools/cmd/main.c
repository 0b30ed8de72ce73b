/* The command line: finds the command and calls it. */
#include "tools/cmd/commands.h"
#include "tools/lib/util.h"
#include "tools/symbols/debuginfod_fetch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char help[] =
    "edgeprof: flame graphs of services on small devices.\n"
    "\n"
    "usage: edgeprof COMMAND [options]\n"
    "\n"
    "  serve      take profiles from devices, keep them, show them on a page\n"
    "  run        profile a program that was not built for it, and show the result\n"
    "  top        the functions that use most, as a table\n"
    "  watch      the same again and again, live\n"
    "  query      services, labels, series, a timeline or a profile, for scripts\n"
    "  devices    who sends: last seen, versions, losses, cost, spool\n"
    "  flame      a flame graph as one HTML or SVG file\n"
    "  diff       what has changed between two profiles, and whether it is a regression\n"
    "  export     a profile as pprof, folded stacks, speedscope, SVG, HTML or JSON\n"
    "  cat        show or convert a file of messages, compact or pprof\n"
    "  backup     a copy of the database, also while `serve` writes to it\n"
    "  symbols    keep symbol files by build id, and see which are missing\n"
    "  symbolize  names for addresses, or for a pprof file\n"
    "\n"
    "of a running service, over its control endpoint:\n"
    "\n"
    "  status     what it measures and what that costs\n"
    "  level      how closely it looks: low, medium, high\n"
    "  kinds      what it measures\n"
    "  threads    a stack of every thread\n"
    "\n"
    "  edgeprof COMMAND --help   what a command does and its options\n"
    "  edgeprof --version\n"
    "\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 there is no data; `diff` has more, `run` returns its program's\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", et_cmd_serve},   {"run", et_cmd_run},         {"top", et_cmd_top},
    {"flame", et_cmd_flame},   {"export", et_cmd_export},   {"cat", et_cmd_cat},
    {"backup", et_cmd_backup}, {"status", et_cmd_control},  {"level", et_cmd_control},
    {"kinds", et_cmd_control}, {"symbols", et_cmd_symbols}, {"symbolize", et_cmd_symbolize},
    {"diff", et_cmd_diff},     {"query", et_cmd_query},     {"devices", et_cmd_query},
    {"watch", et_cmd_watch},   {"threads", et_cmd_control},
};

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
        fputs(help, stdout);
        return ET_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (*name) {
        et_error("there is no command '%s'; `edgeprof --help` lists them", name);
    } else {
        fputs(help, stderr);
    }
    return ET_USAGE;
}
