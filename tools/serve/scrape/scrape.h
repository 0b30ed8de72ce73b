/*
 * Asking targets for profiles, as Prometheus asks for metrics: /debug/pprof/ of Go services and of edgeprof's own pull
 * endpoint. Each target has a thread of its own, so that one that is down, slow or hostile is its own problem.
 */
#ifndef ET_SCRAPE_H
#define ET_SCRAPE_H

#include "tools/serve/http/http.h"
#include "tools/serve/scrape/scrape_config.h"

struct et_scraper;

/* Begins to ask; the targets become the scraper's, *config is empty then. */
struct et_scraper *et_scraper_start(struct et_server *server, struct et_scrape_config *config);
/* Ends within some seconds. */
void et_scraper_stop(struct et_scraper *scraper);

/* {"targets": [...]}: how they do. scraper may be NULL. Context: any thread. */
void et_scraper_json(struct et_scraper *scraper, struct et_buf *out);

#endif
