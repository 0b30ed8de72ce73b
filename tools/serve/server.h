/*
 * The HTTP server: takes profiles, answers queries, gives out the page. tools/README.md lists its addresses.
 */
#ifndef ET_SERVER_H
#define ET_SERVER_H

#include "tools/serve/http/access.h"
#include "tools/serve/scrape/scrape_config.h"
#include "tools/serve/http/limits.h"
#include "tools/symbols/symbols.h"

struct et_relay_config;

struct et_server;

/* Strings may go away after the start. */
struct et_server_config {
    const char *listen;              /* "host:port"; port 0: any free one */
    const char *db;                  /* made when it is not there */
    struct et_symbols *symbols;      /* becomes the server's */
    const struct et_limits *limits;  /* NULL: the usual ones */
    struct et_relay_config *relay;   /* becomes the server's; NULL: nothing is passed on */
    struct et_scrape_config *scrape; /* becomes the server's; NULL: no target is asked */
    struct et_access_config access;  /* zeroed: whoever is on this machine */
};

/* NULL: failed, one line is on stderr. */
struct et_server *et_server_start(const struct et_server_config *config);

/* "http://127.0.0.1:4040", valid as long as the server. */
const char *et_server_url(const struct et_server *server);

/* Reads tokens and certificates again; what is wrong with them is said, and the old ones stay. */
void et_server_reload(struct et_server *server);

/* Messages and profiles that were taken. */
unsigned long et_server_accepted(struct et_server *server);

void et_server_stop(struct et_server *server);

#endif
