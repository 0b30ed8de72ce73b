/* See options.h. */
#include "tools/cmd/options.h"
#include "tools/symbols/debuginfod.h"
#include "tools/lib/progress.h"
#include "tools/store/query_builder.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option all_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"listen", required_argument, NULL, 'l'},
    {"db", required_argument, NULL, 'd'},
    {"url", required_argument, NULL, 'u'},
    {"symbols", required_argument, NULL, 'S'},
    {"service", required_argument, NULL, 's'},
    {"tag", required_argument, NULL, 't'},
    {"kind", required_argument, NULL, 'k'},
    {"from", required_argument, NULL, 'f'},
    {"to", required_argument, NULL, 'F'},
    {"last", required_argument, NULL, 'L'},
    {"rows", required_argument, NULL, 'n'},
    {"json", no_argument, NULL, 'j'},
    {"output", required_argument, NULL, 'o'},
    {"pprof", required_argument, NULL, 'p'},
    {"folded", no_argument, NULL, 'c'},
    {"preload", required_argument, NULL, 'P'},
    {"only", required_argument, NULL, 'O'},
    {"skip", required_argument, NULL, 'X'},
    {"flame", required_argument, NULL, 'm'},
    {"serve", no_argument, NULL, 'v'},
    {"level", required_argument, NULL, 'e'},
    {"interval", required_argument, NULL, 'i'},
    {"label", required_argument, NULL, 'A'},
    {"group-by", required_argument, NULL, 'G'},
    {"value", required_argument, NULL, 'V'},
    {"at", required_argument, NULL, 'a'},
    {"format", required_argument, NULL, 'T'},
    {"token-file", required_argument, NULL, 'K'},
    {"ca", required_argument, NULL, 'C'},
    {"debuginfod", required_argument, NULL, 'D'},
    {"symbols-store", required_argument, NULL, 'B'},
    {"module", required_argument, NULL, 'M'},
    {"build-id", required_argument, NULL, 'I'},
    {"config", required_argument, NULL, 'x'},
    {"tls-cert", required_argument, NULL, '1'},
    {"tls-key", required_argument, NULL, '2'},
    {"tls-client-ca", required_argument, NULL, '3'},
    {"insecure", no_argument, NULL, '4'},
    {"hosts", required_argument, NULL, '9'},
    {"baseline", required_argument, NULL, 'b'},
    {"version", required_argument, NULL, 'z'},
    {"baseline-from", required_argument, NULL, 'y'},
    {"baseline-to", required_argument, NULL, 'Y'},
    {"threshold", required_argument, NULL, 'H'},
    {"function", required_argument, NULL, 'N'},
    {"per-function", no_argument, NULL, 'W'},
    {"per-thread", no_argument, NULL, '0'},
    {"no-fork", no_argument, NULL, '7'},
    {"native-memory", no_argument, NULL, 'R'},
    {"no-sandbox", no_argument, NULL, 'Z'},
    {"keep", required_argument, NULL, '5'},
    {"max-size", required_argument, NULL, '6'},
    {"every", required_argument, NULL, 'E'},
    {"count", required_argument, NULL, 'Q'},
    {"granularity", required_argument, NULL, 'g'},
    {"lines", no_argument, NULL, '8'},
    {"now", no_argument, NULL, 'q'},
};

enum { OPTIONS = sizeof all_options / sizeof *all_options };

/* ---- values ---- */

static bool set_time(int letter, const char *value, struct et_options *out)
{
    int64_t back;
    if (letter == 'L') {
        bool ok = et_parse_duration(value, &back);
        out->from_ns = ok ? et_now() - back : 0;
        out->last_ns = ok ? back : 0;
        return ok;
    }
    return et_parse_time(value, letter == 'f'   ? &out->from_ns
                                : letter == 'F' ? &out->to_ns
                                : letter == 'y' ? &out->baseline_from_ns
                                                : &out->baseline_to_ns);
}

static bool set_number(const char *value, unsigned long *number)
{
    char *end;
    errno = 0;
    *number = strtoul(value, &end, 10);
    return value[0] >= '0' && value[0] <= '9' && *end == '\0' && errno == 0 && *number > 0;
}

/* A percentage: "10%" or "0.5". */
static bool set_threshold(const char *value, struct et_options *out)
{
    char *end;
    double percent = strtod(value, &end);
    end += *end == '%';
    out->threshold = percent / 100;
    return value[0] >= '0' && value[0] <= '9' && *end == '\0' && percent > 0 && percent <= 1e6;
}

static bool set_query(int letter, const char *value, struct et_options *out)
{
    switch (letter) {
    case 's':
        out->service = value;
        return value[0] && et_query_builder_name(&out->wanted, value);
    case 't':
        et_list_add(&out->tags, value);
        return et_query_builder_tag(&out->wanted, value);
    case 'k':
        et_query_builder_kind(&out->wanted, value);
        return true;
    case 'A':
        et_list_add(&out->labels, value);
        return et_query_builder_label(&out->wanted, value);
    case 'G':
        et_query_builder_group(&out->wanted, value);
        return value[0] != '\0';
    case 'V':
        return value[0] && et_query_builder_measure(&out->wanted, value);
    case 'n':
        return set_number(value, &out->rows);
    case 'Q':
        return set_number(value, &out->count);
    case 'E':
        return et_parse_duration(value, &out->every_ns);
    case 'H':
        return set_threshold(value, out);
    case 'g':
        return et_granularity_read(value, &out->granularity);
    default:
        return set_time(letter, value, out);
    }
}

/* The field for an option's value, by its letter. */
struct option_field {
    char letter;
    size_t offset; /* in struct et_options */
};

/* fields of type const char * */
static const struct option_field text_fields[] = {
    {'l', offsetof(struct et_options, listen)},
    {'d', offsetof(struct et_options, db)},
    {'u', offsetof(struct et_options, url)},
    {'p', offsetof(struct et_options, pprof)},
    {'P', offsetof(struct et_options, preload)},
    {'m', offsetof(struct et_options, flame)},
    {'e', offsetof(struct et_options, level)},
    {'i', offsetof(struct et_options, interval)},
    {'a', offsetof(struct et_options, at)},
    {'T', offsetof(struct et_options, format)},
    {'K', offsetof(struct et_options, token_file)},
    {'C', offsetof(struct et_options, ca)},
    {'B', offsetof(struct et_options, symbols_store)},
    {'M', offsetof(struct et_options, module)},
    {'I', offsetof(struct et_options, build_id)},
    {'x', offsetof(struct et_options, config)},
    {'1', offsetof(struct et_options, tls_cert)},
    {'2', offsetof(struct et_options, tls_key)},
    {'3', offsetof(struct et_options, tls_client_ca)},
    {'b', offsetof(struct et_options, baseline)},
    {'z', offsetof(struct et_options, version)},
    {'5', offsetof(struct et_options, keep)},
    {'6', offsetof(struct et_options, max_size)},
    {'9', offsetof(struct et_options, hosts)},
};

/* fields of type struct et_list */
static const struct option_field list_fields[] = {
    {'S', offsetof(struct et_options, symbols)},    {'o', offsetof(struct et_options, outputs)},
    {'D', offsetof(struct et_options, debuginfod)}, {'N', offsetof(struct et_options, functions)},
    {'O', offsetof(struct et_options, only)},       {'X', offsetof(struct et_options, skip)},
};

/* NULL: the table does not have the letter. */
static void *find_field(const struct option_field *fields, size_t count, int letter, struct et_options *out)
{
    for (size_t i = 0; i < count; i++) {
        if (fields[i].letter == letter) {
            return (char *)out + fields[i].offset;
        }
    }
    return NULL;
}

static bool set_option(int letter, char *value, struct et_options *out)
{
    const char **text = find_field(text_fields, sizeof text_fields / sizeof *text_fields, letter, out);
    if (text) {
        *text = value;
        return value[0] != '\0';
    }
    struct et_list *list = find_field(list_fields, sizeof list_fields / sizeof *list_fields, letter, out);
    if (list) {
        et_list_add(list, value);
        return value[0] != '\0';
    }
    out->json |= letter == 'j';
    out->folded |= letter == 'c';
    out->serve |= letter == 'v';
    out->insecure |= letter == '4';
    out->per_function |= letter == 'W';
    out->per_thread |= letter == '0';
    out->no_fork |= letter == '7';
    out->native_memory |= letter == 'R';
    out->no_sandbox |= letter == 'Z';
    out->now |= letter == 'q';
    out->granularity = letter == '8' ? ET_GRANULARITY_LINE : out->granularity;
    return strchr("jcv4W078RZq", letter) || set_query(letter, value, out);
}

static const char *option_name(int letter)
{
    for (int i = 0; i < OPTIONS; i++) {
        if (all_options[i].val == letter) {
            return all_options[i].name;
        }
    }
    return "?";
}

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
    const char *given = getenv("EDGEPROF_TOKEN");
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

/* ---- the command line ---- */

/* Converts the command's options to getopt's form. */
static void select_options(const char *takes, struct option *longs, char *shorts)
{
    size_t count = 0;
    if (strchr(takes, '+')) {
        *shorts++ = '+';
    }
    *shorts++ = ':';
    for (int i = 0; i < OPTIONS; i++) {
        if (all_options[i].val == 'h' || strchr(takes, all_options[i].val)) {
            longs[count++] = all_options[i];
            if (strchr("hno", all_options[i].val)) {
                *shorts++ = (char)all_options[i].val;
                *shorts = ':';
                shorts += all_options[i].has_arg == required_argument;
            }
        }
    }
    *shorts = '\0';
    longs[count] = (struct option){0};
}

static int parse_options(int argc, char **argv, const char *takes, const char *help, struct et_options *out)
{
    struct option longs[OPTIONS + 1];
    char shorts[3 * OPTIONS + 3];
    int letter;
    *out = (struct et_options){.to_ns = INT64_MAX, .baseline_to_ns = INT64_MAX, .rows = 20};
    select_options(takes, longs, shorts);
    opterr = 0;
    while ((letter = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        if (letter == 'h') {
            fputs(help, stdout);
            return ET_OK;
        }
        if (letter == '?' || letter == ':') {
            et_error("%s: %s %s; `edgeprof %s --help` lists the options", argv[0],
                     letter == ':' ? "missing value for" : "unknown option", argv[optind - 1], argv[0]);
            return ET_USAGE;
        }
        if (!set_option(letter, optarg, out)) {
            et_error("%s: --%s %s: invalid value; see `edgeprof %s --help`", argv[0], option_name(letter), optarg,
                     argv[0]);
            return ET_USAGE;
        }
    }
    if (out->db && out->url) {
        et_error("%s: --db and --url cannot be combined", argv[0]);
        return ET_USAGE;
    }
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
    free(options->outputs.items);
    free(options->debuginfod.items);
    free(options->functions.items);
    free(options->only.items);
    free(options->skip.items);
    free(options->tags.items);
    free(options->labels.items);
}

int et_options_parse(int argc, char **argv, const char *takes, const char *help, struct et_options *out)
{
    int code = parse_options(argc, argv, takes, help, out);
    if (code >= 0) {
        et_options_free(out);
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
    return (struct et_remote){.url = options->url, .token = options->token, .authority = options->ca};
}

int et_options_fetch(const struct et_options *options, const struct et_query *query, struct et_profile **profile)
{
    const struct et_remote remote = et_options_remote(options);
    const char *db = options->db ? options->db : "edgeprof.db";
    et_progress_on();
    et_progress("reading %s", options->url ? options->url : db);
    *profile = NULL;
    int code = options->url ? et_source_url(&remote, query, profile) : et_source_db(db, query, profile);
    et_progress_end();
    return code;
}

int et_options_seconds(const struct et_options *options, const struct et_query *query, double *seconds)
{
    const struct et_remote remote = et_options_remote(options);
    return options->url ? et_source_url_seconds(&remote, query, seconds)
                        : et_source_db_seconds(options->db ? options->db : "edgeprof.db", query, seconds);
}

int et_options_read(const struct et_options *options, const struct et_query *query, struct et_profile **profile)
{
    int code = et_options_fetch(options, query, profile);
    if (code == ET_OK && (*profile)->total == 0) {
        et_error("no data: no profile matches%s%s", options->service ? " service " : "",
                 options->service ? options->service : "");
        et_profile_free(*profile);
        *profile = NULL;
        code = ET_NO_DATA;
    }
    return code;
}

int et_options_load(const struct et_options *options, struct et_profile **profile)
{
    int code = et_options_read(options, &options->wanted.query, profile);
    if (code == ET_OK) {
        struct et_symbols *symbols = et_options_symbols(options);
        et_progress("finding names");
        et_symbolize(symbols, *profile);
        et_progress_end();
        et_symbols_free(symbols);
    }
    return code;
}
