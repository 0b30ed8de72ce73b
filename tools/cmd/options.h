/* The values of a command's options. option_table.h says which options a command has. */
#ifndef ET_OPTIONS_H
#define ET_OPTIONS_H

#include "tools/cmd/source.h"
#include "tools/lib/list.h"
#include "tools/profile/granularity.h"
#include "tools/symbols/symbols.h"
#include "tools/store/query_builder.h"

/* What commands read when nothing else is given: the file, or the server where there is no such file. */
#define ET_DEFAULT_DB  "edgeprof.db"
#define ET_DEFAULT_URL "http://127.0.0.1:4040"

struct et_options {
    const char *listen, *db, *url, *pprof, *preload, *flame, *level, *interval, *at, *format, *token_file, *ca, *config,
        *hosts, *tenant, *prefix;
    const char *tls_cert, *tls_key, *tls_client_ca;
    const char *symbols_store, *module, *build_id, *keep, *max_size;
    char *token;         /* for the server at url; NULL: none */
    const char *service; /* as written */
    struct et_query_builder wanted;
    int64_t from_ns, to_ns;
    struct et_list symbols, sources, outputs, debuginfod, functions, tags, labels, only, skip;
    const char *baseline, *version;
    const char *focus, *ignore; /* patterns; NULL: none */
    int64_t baseline_from_ns, baseline_to_ns;
    double threshold;          /* 0.1 is 10 %; 0: not set */
    unsigned long rows, count; /* count 0: not set */
    int64_t last_ns, every_ns; /* 0: not set */
    enum et_granularity granularity;
    bool url_is_default; /* url is EDGEPROF_URL or ET_DEFAULT_URL; --url is not given */
    bool url_is_local;   /* url is ET_DEFAULT_URL, which gets no EDGEPROF_TOKEN: anybody here may listen there */
    bool by_total, tree, json, folded, serve, insecure, per_function, per_thread, no_fork, native_memory, no_sandbox,
        now;
    int first; /* index of the first argument that is not an option */
};

/* Parses the options of the command argv[0] and moves other arguments behind them. Prints the command's help for
 * --help. Returns -1 to continue, else an exit code; errors were reported. */
int et_options_parse(int argc, char **argv, struct et_options *out);
void et_options_free(struct et_options *options);

/* Makes the symbol search from the options. DEBUGINFOD_URLS applies when no --debuginfod is given. */
struct et_symbols *et_options_symbols(const struct et_options *options);

/* The debuginfod servers (blanks between) that et_options_symbols() asks, and its cache. False: none, or no cache
 * folder is set, and then *urls is not empty. The caller frees both. */
bool et_options_debuginfod(const struct et_options *options, struct et_buf *urls, struct et_buf *cache);

/* True if --db or --url is given. EDGEPROF_URL gives way to a file. */
bool et_options_name_source(const struct et_options *options);

/* The server of --url with its options. */
struct et_remote et_options_remote(const struct et_options *options);

/* Gets an answer of the API from the server at `path`, or from the database by call(). Returns an exit code; reports
 * errors. */
int et_options_ask(const struct et_options *options, const char *path, const struct et_query *query,
                   et_source_call *call, const void *context, struct et_buf *text);

/* Reads the query's profile from --db or --url, not symbolized; it may be empty. Returns an exit code; reports errors.
 */
int et_options_fetch(const struct et_options *options, const struct et_query *query, struct et_profile **profile);

/* Reports in one line that nothing matches the query, and why: a service or a kind that there is not, or the time.
 * query NULL: an answer that is no profile. */
void et_no_data(const struct et_options *options, const struct et_query *query);

/* Reads the query's profile from --db or --url, not symbolized. Returns an exit code; reports errors and ET_NO_DATA. */
int et_options_read(const struct et_options *options, const struct et_query *query, struct et_profile **profile);

/* Gives the profile names, with the symbol options and progress. */
void et_options_symbolize(const struct et_options *options, struct et_profile *profile);

/* Reads the profile of the query options and symbolizes it. Returns an exit code; reports errors and ET_NO_DATA. */
int et_options_load(const struct et_options *options, struct et_profile **profile);

#endif
