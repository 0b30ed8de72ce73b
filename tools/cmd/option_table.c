/* See option_table.h: the rows, and the functions that set an option's field. */
#include "tools/cmd/option_table.h"
#include "tools/cmd/commands.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- setting a field ---- */

static bool set_text(const char *value, void *field, struct et_options *out)
{
    (void)out;
    *(const char **)field = value;
    return value[0] != '\0';
}

static bool set_list(const char *value, void *field, struct et_options *out)
{
    (void)out;
    et_list_add(field, value);
    return value[0] != '\0';
}

static bool set_flag(const char *value, void *field, struct et_options *out)
{
    (void)value, (void)out;
    *(bool *)field = true;
    return true;
}

static bool set_number(const char *value, void *field, struct et_options *out)
{
    unsigned long *number = field;
    char *end;
    (void)out;
    errno = 0;
    *number = strtoul(value, &end, 10);
    return value[0] >= '0' && value[0] <= '9' && *end == '\0' && errno == 0 && *number > 0;
}

static bool set_time(const char *value, void *field, struct et_options *out)
{
    (void)out;
    return et_parse_human_time(value, field);
}

static bool set_duration(const char *value, void *field, struct et_options *out)
{
    (void)out;
    return et_parse_duration(value, field);
}

static bool set_last(const char *value, void *field, struct et_options *out)
{
    int64_t back = 0;
    bool ok = et_parse_duration(value, &back);
    out->from_ns = ok ? et_now() - back : 0;
    *(int64_t *)field = ok ? back : 0;
    return ok;
}

/* A percentage: "10%" or "0.5". */
static bool set_threshold(const char *value, void *field, struct et_options *out)
{
    char *end;
    double percent = strtod(value, &end);
    (void)out;
    end += *end == '%';
    *(double *)field = percent / 100;
    return value[0] >= '0' && value[0] <= '9' && *end == '\0' && percent > 0 && percent <= 1e6;
}

static bool set_granularity(const char *value, void *field, struct et_options *out)
{
    (void)out;
    return et_granularity_read(value, field);
}

static bool set_sort(const char *value, void *field, struct et_options *out)
{
    (void)out;
    *(bool *)field = strcmp(value, "total") == 0 || strcmp(value, "cum") == 0;
    return *(bool *)field || strcmp(value, "self") == 0 || strcmp(value, "flat") == 0;
}

static bool set_lines(const char *value, void *field, struct et_options *out)
{
    (void)value, (void)out;
    *(enum et_granularity *)field = ET_GRANULARITY_LINE;
    return true;
}

static bool set_service(const char *value, void *field, struct et_options *out)
{
    *(const char **)field = value;
    return value[0] && et_query_builder_name(&out->wanted, value);
}

static bool set_tag(const char *value, void *field, struct et_options *out)
{
    et_list_add(field, value);
    return et_query_builder_tag(&out->wanted, value);
}

static bool set_label(const char *value, void *field, struct et_options *out)
{
    et_list_add(field, value);
    return et_query_builder_label(&out->wanted, value);
}

static bool set_kind(const char *value, void *field, struct et_options *out)
{
    (void)field;
    et_query_builder_kind(&out->wanted, value);
    return true;
}

static bool set_group(const char *value, void *field, struct et_options *out)
{
    (void)field;
    et_query_builder_group(&out->wanted, value);
    return value[0] != '\0';
}

static bool set_measure(const char *value, void *field, struct et_options *out)
{
    (void)field;
    return value[0] && et_query_builder_measure(&out->wanted, value);
}

/* ---- the rows ---- */

#define BIT(id) ((uint32_t)ET_BIT_##id)
#define ALL     UINT32_MAX
/* the commands that select profiles of a database or server with all of the options for it */
#define SELECT                                                                                                         \
    (BIT(top) | BIT(list) | BIT(watch) | BIT(query) | BIT(devices) | BIT(flame) | BIT(diff) | BIT(export) |            \
     BIT(symbols))
#define FOUND   (BIT(crashes) | BIT(incidents)) /* lists of events */
#define FLEET   (BIT(verdict) | BIT(leaks) | BIT(report))
#define SOURCE  (SELECT | FLEET | FOUND | BIT(incident))
#define CONTROL (BIT(status) | BIT(level) | BIT(kinds) | BIT(threads) | BIT(tasks))
#define NAMES   (SELECT | FLEET | BIT(serve) | BIT(run) | BIT(crashes) | BIT(incident) | BIT(cat) | BIT(symbolize))

#define KINDS "cpu wall wait lock alloc live exception gc thread heap write sync"
#define UNITS "value count objects contentions waits pauses samples bytes time"

#define HEADING(text)                                                                                                  \
    {                                                                                                                  \
        .help = (text), .commands = ALL                                                                                \
    }
#define ROW(name, letter, argument, values, set, field, commands, help)                                                \
    {                                                                                                                  \
        name, letter, argument, values, set, offsetof(struct et_options, field), commands, help                        \
    }
#define FLAG(name, field, commands, help) ROW(name, 0, NULL, NULL, set_flag, field, commands, help)
#define TEXT(name, argument, values, field, commands, help)                                                            \
    ROW(name, 0, argument, values, set_text, field, commands, help)
#define LIST(name, argument, values, field, commands, help)                                                            \
    ROW(name, 0, argument, values, set_list, field, commands, help)
#define CALL(name, argument, values, set, field, commands, help)                                                       \
    ROW(name, 0, argument, values, set, field, commands, help)

/* clang-format off */
const struct et_option et_option_table[] = {
    HEADING("Options:"),

    TEXT("listen", "HOST:PORT", NULL, listen, BIT(serve),
         "Listen here (default: 127.0.0.1:4040). Port 0 is a free port, host 0.0.0.0 all networks."),
    TEXT("db", "FILE", "file", db, BIT(serve), "Keep the database in this file, and create it when it is missing (default: ./edgeprof.db)."),
    TEXT("symbols-store", "DIR", "folder", symbols_store, BIT(serve),
         "Store symbol files sent by `edgeprof symbols add --url` in DIR and serve them like a debuginfod server."),
    TEXT("keep", "TIME", NULL, keep, BIT(serve), "Delete profiles after TIME (default: 14d); with `forever`, never."),
    TEXT("max-size", "SIZE", NULL, max_size, BIT(serve),
         "Delete the oldest profiles when the database exceeds SIZE, such as 4G (default: any size). The newest 24 hours stay, as far as they fit."),
    TEXT("token-file", "FILE", "file", token_file, BIT(serve),
         "Accept the tokens in this file. Each line is TOKEN, read TOKEN, write TOKEN or symbols TOKEN. A client sends its "
         "token as a bearer token or as the password of Basic. docs/security.md describes tokens bound to services."),
    TEXT("tls-cert", "FILE", "file", tls_cert, BIT(serve), "Use TLS with this certificate and its chain (PEM). It needs --tls-key."),
    TEXT("tls-key", "FILE", "file", tls_key, BIT(serve), "The key of --tls-cert. SIGHUP reloads tokens and certificates."),
    TEXT("tls-client-ca", "FILE", "file", tls_client_ca, BIT(serve), "Require client certificates signed by one of these CAs."),
    FLAG("insecure", insecure, BIT(serve), "Accept everybody, even on addresses that are not local."),
    TEXT("hosts", "NAMES", NULL, hosts, BIT(serve),
         "Names that clients may use for this server besides addresses and localhost, such as \"gateway, gateway.example.org\". "
         "\"*\" is any name, for servers without tokens."),
    TEXT("tenant", "NAME", NULL, tenant, BIT(serve),
         "The tenant that this server is for: requests whose X-Scope-OrgID is another one are refused (default: anonymous)."),
    TEXT("prefix", "PATH", NULL, prefix, BIT(serve),
         "Path under which a reverse proxy has this server, such as /edgeprof, if the proxy passes it on."),
    FLAG("no-sandbox", no_sandbox, BIT(serve),
         "Do not limit the server itself to the files and system calls that it needs; see docs/security.md."),
    TEXT("config", "FILE", "file", config, BIT(serve),
         "Read settings: the above in [serve], then [keep], [limits], [webhook], scrape targets in [scrape NAME] and relay "
         "destinations in [relay NAME]."),

    CALL("service", "NAME", NULL, set_service, service, BIT(run), "Give the service this name (default: the command's file name)."),
    TEXT("level", "LEVEL", "low medium high", level, BIT(run),
         "Take 19 (low), 97 (medium) or 251 (high) samples per second of CPU time (default: medium, or high for kinds that need it). medium adds contended "
         "locks, high adds all waits in functions of the C library."),
    CALL("kind", "KIND", KINDS, set_kind, wanted, BIT(run),
         "Print this kind: cpu, wall, wait, lock, alloc, live, exception, gc, thread, heap, write or sync (default: cpu)."),
    CALL("value", "VALUE", UNITS, set_measure, wanted, BIT(run),
         "Print the value (time, bytes) or the count (objects, contentions ...) of the kind (default: value)."),
    TEXT("interval", "MS", NULL, interval, BIT(run), "Send a profile every MS milliseconds (default: 1000)."),
    TEXT("flame", "FILE", "file", flame, BIT(run), "Write a flame graph, .html or .svg."),
    TEXT("pprof", "FILE", "file", pprof, BIT(run), "Write a gzipped pprof file."),
    FLAG("serve", serve, BIT(run), "Keep serving the page afterwards, until stopped."),
    TEXT("listen", "HOST:PORT", NULL, listen, BIT(run), "Serve the page here (default: 127.0.0.1 and a free port)."),
    TEXT("hosts", "NAMES", NULL, hosts, BIT(run),
         "Names that browsers may use for the page besides addresses and localhost. \"*\" is any name."),
    TEXT("db", "FILE", "file", db, BIT(run), "Keep the profiles in this database (default: a temporary one in TMPDIR or /tmp)."),
    TEXT("url", "URL", NULL, url, BIT(run),
         "Send the profiles to this server, and print what it has of the service since the start (default: EDGEPROF_URL, "
         "then EDGEPROF_ENDPOINT, then a server of its own)."),
    TEXT("token-file", "FILE", "file", token_file, BIT(run),
         "Read that server's token from this file, one line (default: EDGEPROF_TOKEN is the token)."),
    TEXT("ca", "FILE", "file", ca, BIT(run), "Trust these CA certificates (PEM) for that server (default: the system's)."),
    LIST("only", "NAME,...", NULL, only, BIT(run),
         "Profile only these executables. * matches any characters. The option is repeatable."),
    LIST("skip", "NAME,...", NULL, skip, BIT(run),
         "Exclude these executables, even if --only names them. The option is repeatable."),
    FLAG("no-fork", no_fork, BIT(run),
         "Do not profile processes that COMMAND forks without exec, such as the workers of a server."),
    FLAG("native-memory", native_memory, BIT(run),
         "Also profile malloc(), free() and mmap(): --kind live prints the memory in use, --kind alloc what was allocated."),
    TEXT("preload", "FILE", "file", preload, BIT(run),
         "Use this profiler: libedgeprof-preload.so, or with --native-memory libedgeprof-memory.so (default: the one beside "
         "edgeprof or in ../lib)."),

    CALL("every", "TIME", NULL, set_duration, every_ns, BIT(watch), "Print a table every 2s, 1m ... (default: 2s)."),
    CALL("count", "N", NULL, set_number, count, BIT(watch), "End after N tables."),

    TEXT("baseline", "SELECTOR", NULL, baseline, BIT(diff),
         "Compare with this baseline, in the form of --service. {version=\"1.2\"} is of the same service; --tag and --label apply to it, too, but for keys that it names."),
    CALL("baseline-from", "T", NULL, set_time, baseline_from_ns, BIT(diff),
         "Begin of the baseline's time range, in the form of --from. It also limits --baseline."),
    CALL("baseline-to", "T", NULL, set_time, baseline_to_ns, BIT(diff), "End of the baseline's time range."),
    CALL("threshold", "N%", NULL, set_threshold, threshold, BIT(diff),
         "Take a significant change above N % for a regression; see the exit codes."),
    LIST("function", "NAME", NULL, functions, BIT(diff),
         "Check the share of this function with its callees. The option is repeatable."),
    FLAG("per-function", per_function, BIT(diff), "Check the own share of every function."),
    TEXT("version", "NEW", NULL, version, BIT(verdict), "Judge this version (default: the one that was first seen last)."),
    TEXT("baseline", "OLD", NULL, baseline, BIT(verdict), "Compare with this version (default: the one that was new before)."),
    CALL("threshold", "N%", NULL, set_threshold, threshold, BIT(verdict),
         "Answer \"ok\" only when an increase of N % of the service's usage would have been found (default: 3%)."),

    ROW("output", 'o', "FILE", "file", set_list, outputs, BIT(flame), "Write this file, .html or .svg. The option is repeatable."),
    ROW("output", 'o', "FILE", "file", set_list, outputs, BIT(export) | BIT(cat),
        "Write this file. Its ending selects the format: .pb.gz, .pprof, .folded, .speedscope.json, .svg, .html or .json. "
        "- is standard output. The option is repeatable."),
    ROW("output", 'o', "FILE", "file", set_list, outputs, BIT(incident),
        "Write a profile for https://profiler.firefox.com (\"Load a profile from file\"). - is standard output."),
    ROW("output", 'o', "FILE", "file", set_list, outputs, BIT(symbolize), "Write this gzipped pprof file. - is standard output."),
    ROW("output", 'o', "FILE", "file", set_list, outputs, BIT(backup), "Write the copy here. It takes about as much space as the database."),
    TEXT("format", "FORMAT", "pprof folded speedscope svg html json", format, BIT(export) | BIT(cat),
         "Write pprof, folded, speedscope, svg, html or json, whatever the ending is. Without -o it goes to standard output."),
    TEXT("pprof", "FILE", "file", pprof, BIT(export) | BIT(cat), "Write a gzipped pprof file with names, for `go tool pprof` and others."),
    FLAG("folded", folded, BIT(export) | BIT(cat), "Print one stack per line on standard output, \"root;caller;leaf value\"."),
    CALL("granularity", "WORD", "function line", set_granularity, granularity, BIT(flame),
         "Draw a frame for each function, or for each line, named \"function file:line\" (default: function)."),
    CALL("granularity", "WORD", "function line", set_granularity, granularity, BIT(export) | BIT(cat),
         "Write a frame for each function, or for each line, named \"function file:line\" (default: function). A pprof file "
         "is then without addresses, and for `function` without lines (default: with both)."),
    CALL("granularity", "WORD", "function line", set_granularity, granularity, BIT(diff),
         "Print a row for each function, or for each line, \"function file:line\", which --function then takes as the name "
         "(default: function)."),

    ROW("rows", 'n', "N", NULL, set_number, rows, BIT(top), "Print at most N functions or lines (default: 20)."),
    ROW("rows", 'n', "N", NULL, set_number, rows, BIT(run), "Print at most N functions (default: 20)."),
    ROW("rows", 'n', "N", NULL, set_number, rows, BIT(watch),
        "Print at most N functions when standard output is not a terminal (default: 20)."),
    ROW("rows", 'n', "N", NULL, set_number, rows, BIT(query), "Print at most N functions of a profile (default: 20)."),
    ROW("rows", 'n', "N", NULL, set_number, rows, BIT(diff),
        "Print at most N functions or lines, the largest change first (default: 20)."),
    ROW("rows", 'n', "N", NULL, set_number, rows, BIT(verdict), "Print at most N functions, findings first (default: 20)."),
    ROW("rows", 'n', "N", NULL, set_number, rows, BIT(leaks), "Print at most N places (default: 20)."),
    CALL("lines", NULL, NULL, set_lines, granularity, BIT(top),
         "Print a row for each line, \"function file:line\", like `go tool pprof -lines`."),
    CALL("sort", "COLUMN", "self total", set_sort, by_total, BIT(top),
         "Sort by self (also: flat) or by total (also: cum), which includes callees (default: self)."),
    TEXT("focus", "PATTERN", NULL, focus, BIT(top), "Keep only stacks with a function that matches."),
    TEXT("ignore", "PATTERN", NULL, ignore, BIT(top), "Leave out stacks with a function that matches."),
    FLAG("tree", tree, BIT(top), "Print the calls as an indented tree."),
    LIST("source", "DIR", "folder", sources, BIT(list),
         "Search DIR for source files that are not at their paths. The option is repeatable."),

    FLAG("per-thread", per_thread, BIT(crashes), "Print the stacks of all threads."),
    FLAG("now", now, BIT(incident), "Trigger an incident in a running service, through its control endpoint."),

    TEXT("module", "FILE", "file", module, BIT(symbolize),
         "The module of the addresses. FILE.dbg beside it is used, too."),
    TEXT("build-id", "ID", NULL, build_id, BIT(symbolize), "The build id of the module of the addresses."),
    CALL("kind", "KIND", KINDS, set_kind, wanted, BIT(symbolize), "Read this kind from compact messages (default: cpu)."),
    TEXT("symbols-store", "DIR", "folder", symbols_store, BIT(symbols),
         "The folder of the symbol files, as DIR/ab/cdef01.debug. It is created when it is missing."),
    TEXT("symbols-store", "DIR", "folder", symbols_store, BIT(symbolize), "Search the build id in this folder of `edgeprof symbols`."),

    FLAG("json", json, BIT(top) | BIT(diff), "Print JSON."),
    FLAG("json", json, BIT(query), "Print JSON: the answer of /api/services, /api/timeline or /api/profile."),
    FLAG("json", json, BIT(devices), "Print JSON: the answer of /api/devices."),
    FLAG("json", json, BIT(report), "Print JSON: every sentence with its figure, unit, text and command."),
    FLAG("json", json, BIT(verdict), "Print JSON: the answer of /api/verdict."),
    FLAG("json", json, BIT(leaks), "Print JSON: the answer of /api/leaks."),
    FLAG("json", json, BIT(crashes), "Print JSON: the answer of /api/crashes, with every crash."),
    FLAG("json", json, BIT(incidents), "Print JSON: the answer of /api/incidents."),
    FLAG("json", json, BIT(incident), "Print JSON: the answer of /api/incident."),
    FLAG("json", json, BIT(symbols), "Print JSON, for list and check."),
    FLAG("json", json, BIT(symbolize), "Print addresses as JSON."),
    FLAG("json", json, BIT(status), "Print the service's complete answer as JSON."),
    TEXT("at", "WHERE", NULL, at, CONTROL | BIT(incident),
         "The service's control endpoint: /path or unix:/path of its socket, or its port on 127.0.0.1 (default: "
         "$EDGEPROF_CONTROL)."),

    HEADING("Where the data comes from:"),
    TEXT("db", "FILE", "file", db, SOURCE, "Read this database (default: ./edgeprof.db, if it exists)."),
    TEXT("db", "FILE", "file", db, BIT(import), "Store them in this database, which no server may have open; it is made if it does not exist."),
    TEXT("url", "URL", NULL, url, BIT(import), "Send them to this server, over http or https (default: EDGEPROF_URL, else http://127.0.0.1:4040)."),
    TEXT("db", "FILE", "file", db, BIT(backup), "Copy this database (default: ./edgeprof.db)."),
    TEXT("url", "URL", NULL, url, SOURCE, "Query this server instead, over http or https (default, without --db: EDGEPROF_URL; without a database here, "
         "http://127.0.0.1:4040)."),
    TEXT("token-file", "FILE", "file", token_file, SOURCE | BIT(import),
         "Read the server's token from this file, one line (default: EDGEPROF_TOKEN is the token)."),
    TEXT("ca", "FILE", "file", ca, SOURCE | BIT(import), "Trust these CA certificates (PEM) for the server (default: the system's)."),

    HEADING("What to select:"),
    CALL("service", "NAME", NULL, set_service, service, SELECT,
         "Select this service; also 'NAME{key=\"value\",key!=\"value\",key=~\"regex\",key!~\"regex\"}' of labels and tags. "
         "It is required when there are several services."),
    CALL("service", "NAME", NULL, set_service, service, FLEET,
         "Select this service; also 'NAME{key=\"value\"}' of tags, such as board or version. It is required when there are "
         "several services."),
    CALL("service", "NAME", NULL, set_service, service, BIT(incidents),
         "Select only this service; also 'NAME{key=\"value\"}' of tags."),
    CALL("service", "NAME", NULL, set_service, service, BIT(crashes),
         "Select only this service; also 'NAME{key=\"value\"}' of tags, but not with FILE."),
    CALL("tag", "KEY=VALUE", NULL, set_tag, tags, SELECT | FLEET | BIT(incidents),
         "Select only processes with this tag. The option is repeatable."),
    CALL("tag", "KEY=VALUE", NULL, set_tag, tags, BIT(crashes),
         "Select only processes with this tag. The option is repeatable. It cannot be used with FILE."),
    CALL("kind", "KIND", KINDS, set_kind, wanted, SELECT | BIT(cat),
         "Select the kind: cpu, wall, wait, lock, alloc, live, exception, gc, thread, heap, write or sync (default: cpu). "
         "live and heap are the value of each process that lives at the end of the range."),
    CALL("kind", "KIND", "cpu wall wait lock alloc exception gc write sync", set_kind, wanted, BIT(verdict),
         "Select the kind: cpu, wall, wait, lock, alloc, exception, gc, write or sync (default: cpu)."),
    CALL("value", "VALUE", UNITS, set_measure, wanted, SELECT | BIT(cat),
         "Select what to add up: value (time, bytes) or count (objects, contentions, waits, pauses, samples) (default: "
         "value)."),
    CALL("label", "KEY=VALUE", NULL, set_label, labels, SELECT | BIT(cat),
         "Select only stacks with this label, or of processes with this tag. The option is repeatable; all must match. "
         "span_id=16 and trace_id=32 hexadecimal digits are labels, too."),
    CALL("group-by", "KEY", NULL, set_group, wanted, SELECT | BIT(cat),
         "Group stacks below a frame for the value of the label. The option is repeatable: each combination of values is a group."),
    CALL("last", "TIME", NULL, set_last, last_ns, SELECT | BIT(verdict), "Select only the last 90s, 10m, 1h30m, 7d ..."),
    CALL("last", "TIME", NULL, set_last, last_ns, BIT(incidents), "Select only what came in the last 90s, 10m, 2h, 7d ..."),
    CALL("last", "TIME", NULL, set_last, last_ns, BIT(crashes),
         "Select only what came in the last 90s, 10m, 2h, 7d ... It cannot be used with FILE."),
    CALL("last", "TIME", NULL, set_last, last_ns, BIT(report), "Select only the last 90s, 10m, 1h30m, 7d ... (default: 1d)."),
    CALL("last", "TIME", NULL, set_last, last_ns, BIT(leaks), "Select only the last 24h, 7d ..., at most 31d."),
    CALL("from", "T", NULL, set_time, from_ns, SELECT | BIT(incidents) | BIT(verdict) | BIT(report),
         "Begin of the time range: now, now-10m, 19:58 or yesterday (local time), Unix seconds or 2026-01-31T12:00:00Z (default: all "
         "time)."),
    CALL("from", "T", NULL, set_time, from_ns, BIT(crashes),
         "Begin of the time range: now, now-10m, 19:58 or yesterday (local time), Unix seconds or 2026-01-31T12:00:00Z (default: all "
         "time). It cannot be used with FILE."),
    CALL("from", "T", NULL, set_time, from_ns, BIT(leaks),
         "Begin of the time range: now, now-7d, yesterday (local time), Unix seconds or 2026-01-31T12:00:00Z (default: the last seven "
         "days of the data)."),
    CALL("to", "T", NULL, set_time, to_ns, SELECT | FOUND | FLEET, "End of the time range, in the same form."),

    HEADING("Where function names come from:"),
    LIST("source", "DIR", "folder", sources, BIT(serve),
         "Show the lines of a function from source files below DIR. The option is repeatable. Whoever may read the server may read these files."),
    LIST("symbols", "DIR", "folder", symbols, NAMES,
         "Search DIR and its subfolders for .dbg and ELF files by build id. The option is repeatable."),
    LIST("debuginfod", "URL", NULL, debuginfod, NAMES,
         "Query this server for modules without DWARF here (default: DEBUGINFOD_URLS). The option is repeatable."),

    HEADING(NULL),
    {"help", 'h', NULL, NULL, NULL, 0, ALL, "Print this text."},
};
/* clang-format on */

const size_t et_option_count = sizeof et_option_table / sizeof *et_option_table;
