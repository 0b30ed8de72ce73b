/*
 * Settings of `edgeprof serve`: its options, and the sections [serve], [limits], [keep], [webhook] and [scrape] of its
 * config file. Options take precedence. Other sections ([relay]) remain in `config` for their readers.
 */
#ifndef ET_SETTINGS_H
#define ET_SETTINGS_H

#include "tools/serve/http/access.h"
#include "tools/serve/keeper.h"
#include "tools/serve/webhook.h"
#include "tools/lib/list.h"
#include "tools/serve/scrape/scrape_config.h"
#include "tools/serve/http/limits.h"

/* The command line's options; NULL or false: not set. */
struct et_serve_options {
    const char *config, *listen, *db, *symbols_store, *token_file, *tls_cert, *tls_key, *tls_client_ca, *keep,
        *max_size, *hosts, *tenant, *prefix;
    bool insecure, no_sandbox;
    struct et_list symbols, sources, debuginfod; /* the config file's are added */
};

/* Strings belong to the options or the config. */
struct et_serve_settings {
    struct et_config config; /* empty without a config file */
    const char *listen, *db;
    const char *metric_labels; /* tags: "env, region"; NULL: none */
    char prefix[128];          /* of paths, without a slash at the end; empty: none */
    bool sandbox;              /* sandbox.h */
    int64_t verdict_ns;        /* between comparisons of versions; 0: never */
    struct et_limits limits;
    struct et_access_config access;
    struct et_policy keep;
    struct et_webhook_config webhook;
    struct et_scrape_config scrape; /* until the server takes ownership */
};

/* Returns ET_OK, or an exit code with every error reported and nothing to free. Adds the config's folders to the
 * options; the settings own them. */
int et_serve_settings_read(struct et_serve_options *options, struct et_serve_settings *out);
void et_serve_settings_free(struct et_serve_settings *settings);

#endif
