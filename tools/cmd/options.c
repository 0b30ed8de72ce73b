/* See options.h. */
#include "tools/cmd/options.h"
#include "tools/cmd/commands.h"
#include "tools/cmd/help.h"
#include "tools/cmd/option_table.h"
#include "tools/symbols/debuginfod.h"
#include "tools/lib/closest.h"
#include "tools/lib/kinds.h"
#include "tools/lib/progress.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the token ---- */

enum { TOKEN_LIMIT = 4096 };

/* A header's value: visible characters without blanks. */
static bool is_valid_token(const char *token)
{
    size_t size = strlen(token);
    for (size_t i = 0; i < size; i++) {
        if (token[i] <= ' ' || token[i] > '~') {
            return false;
        }
    }
    return size > 0;
}

/* Reads the token from --token-file or EDGEPROF_TOKEN. Returns an exit code. */
static int read_token(const char *command, struct et_options *out)
{
    const char *given = out->url_is_local ? NULL : getenv("EDGEPROF_TOKEN");
    struct et_buf file = {0};
    if (!out->url || (!out->token_file && (!given || !*given))) {
        return ET_OK;
    }
    int err = out->token_file ? et_read_file(out->token_file, TOKEN_LIMIT, &file) : 0;
    if (err) {
        et_error("%s: --token-file %s: %s", command, out->token_file, strerror(-err));
    } else {
        out->token = et_strdup(!out->token_file ? given : file.data ? file.data : "");
        out->token[strcspn(out->token, "\r\n")] = '\0';
        if (!is_valid_token(out->token)) {
            et_error("%s: %s: a token is one line without blanks", command,
                     out->token_file ? out->token_file : "EDGEPROF_TOKEN");
            err = -EINVAL;
        }
    }
    et_buf_free(&file);
    return err ? ET_FAILED : ET_OK;
}

/* ---- the server ---- */

/* The endpoint of the programs is where `run` sends, too, if it is a server of edgeprof and not that of a `run` around
 * this one. */
static const char *endpoint_of_programs(void)
{
    const char *endpoint = getenv("EDGEPROF_ENDPOINT");
    bool usable =
        endpoint && strncmp(endpoint, "http", 4) == 0 && !getenv("EDGEPROF_RUN") && !getenv("EDGEPROF_FORMAT");
    return usable ? endpoint : NULL;
}

/* EDGEPROF_URL is the --url of commands that read profiles, unless an option names another place. Without it and
 * without a database here, that is the server that `edgeprof serve` starts on this machine. */
static void use_default_url(const struct et_command *command, struct et_options *out)
{
    const char *usual = getenv("EDGEPROF_URL");
    bool takes = false;
    for (size_t i = 0; i < et_option_count; i++) {
        const struct et_option *row = &et_option_table[i];
        takes |= row->name && strcmp(row->name, "url") == 0 && (row->commands & command->bit);
    }
    if (command->bit == ET_BIT_run && !(usual && *usual)) {
        usual = endpoint_of_programs();
    }
    if (takes && usual && *usual && !out->url && !out->db && !out->symbols_store && !out->listen && !out->serve) {
        out->url = usual;
        out->url_is_default = true;
    } else if (takes && !(command->bit & (ET_BIT_run | ET_BIT_symbols)) && !out->url && !out->db &&
               ((command->bit & ET_BIT_import) || access(ET_DEFAULT_DB, F_OK) != 0)) {
        out->url = ET_DEFAULT_URL;
        out->url_is_default = out->url_is_local = true;
    }
}

bool et_options_name_source(const struct et_options *options)
{
    return options->db || (options->url && !options->url_is_default);
}

/* ---- the command line ---- */

/* What getopt_long() returns for the first row of the table. */
enum { FIRST_ROW = 256, MOST_OPTIONS = 64 };

/* getopt's form of a command's options. */
struct getopt_options {
    struct option longs[MOST_OPTIONS];
    char shorts[2 * MOST_OPTIONS + 3];
};

static void select_options(const struct et_command *command, struct getopt_options *selected)
{
    size_t count = 0;
    char *shorts = selected->shorts;
    if (command->help->before_command) {
        *shorts++ = '+';
    }
    *shorts++ = ':';
    for (size_t i = 0; i < et_option_count && count + 1 < MOST_OPTIONS; i++) {
        const struct et_option *row = &et_option_table[i];
        if (!row->name || !(row->commands & command->bit)) {
            continue;
        }
        int has_argument = row->argument ? required_argument : no_argument;
        selected->longs[count++] = (struct option){row->name, has_argument, NULL, FIRST_ROW + (int)i};
        if (row->letter) {
            *shorts++ = row->letter;
            *shorts = ':';
            shorts += has_argument == required_argument;
        }
    }
    *shorts = '\0';
    selected->longs[count] = (struct option){0};
}

/* The row of what getopt_long() returned: a row's number, or a short option. */
static const struct et_option *find_row(const struct et_command *command, int answer)
{
    if (answer >= FIRST_ROW) {
        return &et_option_table[answer - FIRST_ROW];
    }
    for (size_t i = 0; i < et_option_count; i++) {
        if (et_option_table[i].letter == answer && (et_option_table[i].commands & command->bit)) {
            return &et_option_table[i];
        }
    }
    return NULL;
}

/* The argument in which getopt_long() found an unknown option. Of "-cum" it names one letter, and has not moved on. */
static const char *refused_argument(int argc, char **argv)
{
    for (int i = optind; i >= optind - 1 && i > 0 && optopt > 0 && optopt < FIRST_ROW; i--) {
        if (i < argc && argv[i][0] == '-' && argv[i][1] != '-' && strchr(argv[i], optopt)) {
            return argv[i];
        }
    }
    return argv[optind - 1];
}

static int report_unknown(int argc, char **argv, const struct et_command *command)
{
    const char *given = refused_argument(argc, argv);
    struct et_closest closest = {0};
    struct et_buf name = {0};
    et_buf_add(&name, given + strspn(given, "-"), strcspn(given + strspn(given, "-"), "="));
    for (size_t i = 0; i < et_option_count && name.size; i++) {
        if (et_option_table[i].name && (et_option_table[i].commands & command->bit)) {
            et_closest_offer(&closest, name.data, et_option_table[i].name);
        }
    }
    if (closest.word) {
        et_error("%s: unknown option %s; did you mean --%s?", argv[0], given, closest.word);
    } else {
        et_error("%s: unknown option %s; `edgeprof %s --help` lists the options", argv[0], given, argv[0]);
    }
    et_buf_free(&name);
    return ET_USAGE;
}

/* Sets the options' fields. Returns -1 to continue, else an exit code. */
static int set_options(int argc, char **argv, const struct et_command *command, struct et_options *out)
{
    struct getopt_options selected;
    int answer;
    select_options(command, &selected);
    opterr = 0;
    while ((answer = getopt_long(argc, argv, selected.shorts, selected.longs, NULL)) != -1) {
        const struct et_option *row = find_row(command, answer);
        if (!row) {
            if (answer == '?') {
                return report_unknown(argc, argv, command);
            }
            et_error("%s: missing value for %s; `edgeprof %s --help` lists the options", argv[0], argv[optind - 1],
                     argv[0]);
            return ET_USAGE;
        }
        if (!row->set) {
            struct et_buf text = {0};
            et_help_print(command, &text);
            fputs(text.data, stdout);
            et_buf_free(&text);
            return ET_OK;
        }
        if (!row->set(optarg, (char *)out + row->field, out)) {
            const char *why = out->wanted.why;
            et_error("%s: --%s %s: %s; see `edgeprof %s --help`", argv[0], row->name, optarg,
                     why ? why : "invalid value", argv[0]);
            return ET_USAGE;
        }
    }
    return -1;
}

static int parse_options(int argc, char **argv, struct et_options *out)
{
    *out = (struct et_options){.to_ns = INT64_MAX, .baseline_to_ns = INT64_MAX, .rows = 20};
    int code = set_options(argc, argv, et_command_named(argv[0]), out);
    if (code >= 0) {
        return code;
    }
    if (out->db && out->url) {
        et_error("%s: --db and --url cannot be combined", argv[0]);
        return ET_USAGE;
    }
    use_default_url(et_command_named(argv[0]), out);
    for (size_t i = 0; i < out->symbols.count; i++) {
        if (access(out->symbols.items[i], R_OK) != 0) {
            et_error("%s: --symbols %s: %s", argv[0], out->symbols.items[i], strerror(errno));
            return ET_FAILED;
        }
    }
    if (read_token(argv[0], out) != ET_OK) {
        return ET_FAILED;
    }
    out->first = optind;
    out->wanted.query.from_ns = out->from_ns;
    out->wanted.query.to_ns = out->to_ns;
    return -1;
}

void et_options_free(struct et_options *options)
{
    et_query_builder_free(&options->wanted);
    free(options->token);
    free(options->symbols.items);
    free(options->sources.items);
    free(options->outputs.items);
    free(options->debuginfod.items);
    free(options->functions.items);
    free(options->only.items);
    free(options->skip.items);
    free(options->tags.items);
    free(options->labels.items);
}

int et_options_parse(int argc, char **argv, struct et_options *out)
{
    int code = parse_options(argc, argv, out);
    if (code >= 0) {
        et_options_free(out);
    } else if (!(et_command_named(argv[0])->bit & (ET_BIT_run | ET_BIT_serve))) {
        et_progress_on(); /* the terminal of these two is the program's, and the log's */
    }
    return code;
}

bool et_options_debuginfod(const struct et_options *options, struct et_buf *urls, struct et_buf *cache)
{
    const char *known = getenv("DEBUGINFOD_URLS");
    for (size_t i = 0; i < options->debuginfod.count; i++) {
        et_buf_printf(urls, "%s ", options->debuginfod.items[i]);
    }
    if (options->debuginfod.count == 0 && known) {
        et_buf_text(urls, known);
    }
    return urls->size && et_debuginfod_cache(cache);
}

static void set_debuginfod(const struct et_options *options, struct et_symbols *symbols)
{
    struct et_buf urls = {0}, cache = {0};
    if (et_options_debuginfod(options, &urls, &cache)) {
        et_symbols_set_debuginfod(symbols, urls.data, cache.data);
    } else if (urls.size) {
        et_error("debuginfod: disabled, because there is no cache folder; set EDGEPROF_CACHE");
    }
    et_buf_free(&urls);
    et_buf_free(&cache);
}

struct et_symbols *et_options_symbols(const struct et_options *options)
{
    struct et_symbols *symbols = et_symbols_new();
    for (size_t i = 0; i < options->symbols.count; i++) {
        et_symbols_add_folder(symbols, options->symbols.items[i]);
    }
    if (options->symbols_store) {
        et_symbols_set_store(symbols, options->symbols_store);
    }
    set_debuginfod(options, symbols);
    return symbols;
}

struct et_remote et_options_remote(const struct et_options *options)
{
    return (struct et_remote){
        .url = options->url, .token = options->token, .authority = options->ca, .assumed = options->url_is_local};
}

int et_options_ask(const struct et_options *options, const char *path, const struct et_query *query,
                   et_source_call *call, const void *context, struct et_buf *text)
{
    const struct et_remote remote = et_options_remote(options);
    return options->url ? et_source_get(&remote, path, query, text)
                        : et_source_db_call(options->db ? options->db : ET_DEFAULT_DB, call, query, context, text);
}

int et_options_fetch(const struct et_options *options, const struct et_query *query, struct et_profile **profile)
{
    const struct et_remote remote = et_options_remote(options);
    const char *db = options->db ? options->db : ET_DEFAULT_DB;
    *profile = NULL;
    return options->url ? et_source_url(&remote, query, profile) : et_source_db(db, query, profile);
}

int et_options_read(const struct et_options *options, const struct et_query *query, struct et_profile **profile)
{
    int code = et_options_fetch(options, query, profile);
    if (code == ET_OK && (*profile)->total == 0) {
        et_no_data(options, query);
        et_profile_free(*profile);
        *profile = NULL;
        code = ET_NO_DATA;
    }
    return code;
}

void et_options_symbolize(const struct et_options *options, struct et_profile *profile)
{
    struct et_symbols *symbols = et_options_symbols(options);
    et_progress("finding names");
    et_symbolize(symbols, profile);
    et_progress_end();
    et_symbols_free(symbols);
}

int et_options_load(const struct et_options *options, struct et_profile **profile)
{
    int code = et_options_read(options, &options->wanted.query, profile);
    if (code == ET_OK) {
        et_options_symbolize(options, *profile);
    }
    return code;
}
