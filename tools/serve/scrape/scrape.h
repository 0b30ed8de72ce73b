/*
 * Scrapes targets: fetches /debug/pprof/ of Go services and of edgeprof's pull endpoint at intervals. Each target has
 * its own thread, so a slow or failing target does not affect others.
 */
#ifndef ET_SCRAPE_H
#define ET_SCRAPE_H

#include "tools/serve/http/http.h"
#include "tools/serve/scrape/scrape_config.h"

struct et_scraper;

/* Starts scraping. Takes ownership of the targets; *config becomes empty. */
struct et_scraper *et_scraper_start(struct et_server *server, struct et_scrape_config *config);
/* Returns within some seconds. */
void et_scraper_stop(struct et_scraper *scraper);

/* Writes {"targets": [...]}, the status of all targets. scraper may be NULL. Context: any thread. */
void et_scraper_json(struct et_scraper *scraper, struct et_buf *out);

#endif
