/*
 * Starts and stops a server together with its relay, its scraper, its webhook and its judge, in the right order.
 */
#ifndef ET_START_H
#define ET_START_H

#include "tools/serve/http/server.h"
#include "tools/serve/scrape/scrape_config.h"

struct et_relay_config;
struct et_webhook_config;

/* relay, scrape: owned by the server from then on; NULL: no relay, no scraping. verdict_ns: between comparisons of
 * versions (judge.h); 0: none. Returns NULL on failure; one line is on
 * stderr. */
struct et_server *et_server_start(const struct et_server_config *config, struct et_relay_config *relay,
                                  struct et_scrape_config *scrape, const struct et_webhook_config *webhook,
                                  int64_t verdict_ns);
void et_server_stop(struct et_server *server);

#endif
