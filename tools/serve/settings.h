/*
 * What `edgeprof serve` is told: its options, and the sections [serve], [limits] and [keep] of its config file. Options
 * come before the file. Targets are read as well; sections of others ([relay]) stay in `config` for them.
 */
#ifndef ET_SETTINGS_H
#define ET_SETTINGS_H

#include "tools/serve/http/access.h"
#include "tools/serve/keeper.h"
#include "tools/lib/list.h"
#include "tools/serve/scrape/scrape_config.h"
#include "tools/serve/http/limits.h"

/* What the command line says; NULL, false: nothing. */
struct et_serve_options {
    const char *config, *listen, *db, *symbols_store, *token_file, *tls_cert, *tls_key, *tls_client_ca, *keep,
        *max_size;
    bool insecure;
    struct et_list symbols, debuginfod; /* the config file's are added */
};

/* Strings are the options' or the config's. */
struct et_serve_settings {
    struct et_config config; /* empty without a file */
    const char *listen, *db;
    struct et_limits limits;
    struct et_access_config access;
    struct et_policy keep;
    struct et_scrape_config scrape; /* the server's when it takes them */
};

/* An exit code: ET_OK, or all is said and nothing is to be freed. Folders with symbols are added to the options'; they
 * stay the settings'. */
int et_serve_settings_read(struct et_serve_options *options, struct et_serve_settings *out);
void et_serve_settings_free(struct et_serve_settings *settings);

#endif
