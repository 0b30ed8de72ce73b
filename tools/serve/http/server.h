/*
 * The HTTP server: takes profiles, answers queries, gives out the page. docs/http-api.md lists its addresses. What it
 * gives to routes is in http.h.
 */
#ifndef ET_SERVER_H
#define ET_SERVER_H

#include "tools/serve/http/access.h"
#include "tools/serve/http/http.h"
#include "tools/serve/http/limits.h"

/* Strings may go away after the start. */
struct et_server_config {
    const char *listen;             /* "host:port"; port 0: any free one */
    const char *db;                 /* made when it is not there */
    struct et_symbols *symbols;     /* becomes the server's */
    const struct et_limits *limits; /* NULL: the usual ones */
    struct et_access_config access; /* zeroed: whoever is on this machine */
};

/* The database and the port; nobody is answered yet. NULL: failed, one line is on stderr. */
struct et_server *et_server_open(const struct et_server_config *config);

/* What is passed on and who is asked, which routes show; they stay the caller's. */
void et_server_set_relay(struct et_server *server, struct et_relay *relay);
void et_server_set_scraper(struct et_server *server, struct et_scraper *scraper);

/* Answers requests from now on. false: failed, as above. */
bool et_server_serve(struct et_server *server);

/* "http://127.0.0.1:4040", valid as long as the server. */
const char *et_server_url(const struct et_server *server);

/* Reads tokens and certificates again; what is wrong with them is said, and the old ones stay. */
void et_server_reload(struct et_server *server);

/* Messages and profiles that were taken. */
unsigned long et_server_accepted(struct et_server *server);

/* Answers nobody any more; whoever writes still may. */
void et_server_quiet(struct et_server *server);
void et_server_close(struct et_server *server);

#endif
