/*
 * Command lines: one set of options, of which every command takes some.
 */
#ifndef ET_OPTIONS_H
#define ET_OPTIONS_H

#include "tools/cmd/source.h"
#include "tools/lib/list.h"
#include "tools/symbols/symbols.h"
#include "tools/store/query_builder.h"

/* Letters of the options that a command takes, as in `takes` below. */
#define ET_TAKES_SYMBOLS "SD"
#define ET_TAKES_QUERY   "uKCstkfFLdAGV" ET_TAKES_SYMBOLS /* where to read from and what */

struct et_options {
    const char *listen, *db, *url, *pprof, *preload, *flame, *level, *interval, *at, *format, *token_file, *ca, *config;
    const char *tls_cert, *tls_key, *tls_client_ca;
    const char *symbols_store, *module, *build_id, *keep, *max_size;
    char *token;         /* of the server at url; NULL: none */
    const char *service; /* as it was written */
    struct et_query_builder wanted;
    int64_t from_ns, to_ns;
    struct et_list symbols, outputs, debuginfod, functions, tags, labels, only, skip;
    const char *baseline;
    int64_t baseline_from_ns, baseline_to_ns;
    double threshold;          /* 0.1 is 10 %; 0: none was given */
    unsigned long rows, count; /* count 0: none was given */
    int64_t last_ns, every_ns; /* 0: none was given */
    bool json, folded, serve, insecure, per_function;
    int first; /* index of the first argument that is no option */
};

/* Parses argv[1..]; arguments that are no options are moved behind them. help is printed for --help; takes: one letter
 * per option (options.c has the list), and + when the first argument that is no option ends them.
 * Returns -1: go on; else the exit code, all is said. */
int et_options_parse(int argc, char **argv, const char *takes, const char *help, struct et_options *out);
void et_options_free(struct et_options *options);

/* Where symbols are looked for as given; DEBUGINFOD_URLS counts when no server is. */
struct et_symbols *et_options_symbols(const struct et_options *options);

/* The server that --url and what belongs to it say. */
struct et_remote et_options_remote(const struct et_options *options);

/* Reads a query's profile from where --db or --url say, without names; it may be empty. An exit code, all is said. */
int et_options_fetch(const struct et_options *options, const struct et_query *query, struct et_profile **profile);

/* How long processes that match ran while they were measured, added up, from there, too. An exit code, all is said. */
int et_options_seconds(const struct et_options *options, const struct et_query *query, double *seconds);

/* Reads a query's profile from where --db or --url say, without names. An exit code; ET_NO_DATA and others are said on
 * stderr. */
int et_options_read(const struct et_options *options, const struct et_query *query, struct et_profile **profile);

/* Loads what --db or --url and the query options say, symbolized. Returns an exit code; ET_NO_DATA and others are
 * said on stderr. */
int et_options_load(const struct et_options *options, struct et_profile **profile);

#endif
