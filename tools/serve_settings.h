/*
 * What `edgeprof serve` is told: its options, and the sections [serve], [limits] and [keep] of its config file. Options
 * come before the file. Targets are read as well; sections of others ([relay]) stay in `config` for them.
 */
#ifndef ET_SERVE_SETTINGS_H
#define ET_SERVE_SETTINGS_H

#include "access.h"
#include "keeper.h"
#include "options.h"
#include "scrape_config.h"
#include "serve_limits.h"

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
int et_serve_settings_read(struct et_options *options, struct et_serve_settings *out);
void et_serve_settings_free(struct et_serve_settings *settings);

#endif
