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
    "  serve      receive, store and show profiles\n"
    "  run        profile an unmodified program and show the result\n"
    "  top        table of the most expensive functions\n"
    "  watch      the same, continuously updated\n"
    "  query      services, labels, series, a timeline or a profile, for scripts\n"
    "  devices    list of devices: last seen, versions, losses, cost, spool\n"
    "  flame      a flame graph as one HTML or SVG file\n"
    "  diff       compare two profiles and check for regressions\n"
    "  verdict    whether a version uses more than the one before, on all devices\n"
    "  leaks      what of the live heap grows over days, by place of allocation\n"
    "  export     a profile as pprof, folded stacks, speedscope, SVG, HTML or JSON\n"
    "  cat        show or convert a file of messages, compact or pprof\n"
    "  crashes    crashes of programs, with their stacks, in groups\n"
    "  incidents  moments at which programs were slow or stuck\n"
    "  incident   what a program did around such a moment; trigger one now\n"
    "  backup     copy the database, even while `serve` writes to it\n"
    "  symbols    manage symbol files by build id; check which are missing\n"
    "  symbolize  symbolize addresses or a pprof file\n"
    "\n"
    "control of a running service, through its control endpoint:\n"
    "\n"
    "  status     its level, kinds, cost and losses\n"
    "  level      preset for sampling rate and kinds: low, medium, high\n"
    "  kinds      set the kinds to collect\n"
    "  threads    capture a stack of every thread\n"
    "  tasks      list what pending async methods of a .NET service wait for\n"
    "\n"
    "  edgeprof COMMAND --help   what a command does and its options\n"
    "  edgeprof --version\n"
    "\n"
    "exit codes: 0 done, 1 failed, 2 wrong usage, 3 no data; `diff`, `verdict` and `leaks` have more, "
    "`run` returns its program's\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", et_cmd_serve},         {"run", et_cmd_run},           {"top", et_cmd_top},
    {"flame", et_cmd_flame},         {"export", et_cmd_export},     {"cat", et_cmd_cat},
    {"backup", et_cmd_backup},       {"status", et_cmd_control},    {"level", et_cmd_control},
    {"kinds", et_cmd_control},       {"symbols", et_cmd_symbols},   {"symbolize", et_cmd_symbolize},
    {"diff", et_cmd_diff},           {"query", et_cmd_query},       {"devices", et_cmd_query},
    {"watch", et_cmd_watch},         {"threads", et_cmd_control},   {"tasks", et_cmd_control},
    {"verdict", et_cmd_verdict},     {"leaks", et_cmd_leaks},       {"crashes", et_cmd_crashes},
    {"incidents", et_cmd_incidents}, {"incident", et_cmd_incident},
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
        et_error("unknown command '%s'; see `edgeprof --help`", name);
    } else {
        fputs(help, stderr);
    }
    return ET_USAGE;
}
