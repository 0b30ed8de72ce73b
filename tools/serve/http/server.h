/*
 * The HTTP server: it receives profiles, answers queries and serves the page. docs/http-api.md lists its paths. What
 * routes get from it is in http.h.
 */
#ifndef ET_SERVER_H
#define ET_SERVER_H

#include "tools/serve/http/access.h"
#include "tools/serve/http/http.h"
#include "tools/serve/http/limits.h"
#include "tools/lib/list.h"

/* Strings are copied. */
struct et_server_config {
    const char *listen;             /* "host:port"; port 0: any free one */
    const char *db;                 /* created if missing */
    struct et_symbols *symbols;     /* owned by the server from then on */
    const struct et_list *sources;  /* folders; NULL: none */
    const struct et_limits *limits; /* NULL: the defaults */
    const char *metric_labels;      /* tags that become labels in /metrics, "env, region"; NULL: none */
    const char *prefix;             /* "/edgeprof": removed from paths that begin with it; NULL: none */
    struct et_access_config access; /* zeroed: only this machine, without tokens */
};

/* Opens the database and the port, and answers no request yet. NULL: failed; one line is on stderr. */
struct et_server *et_server_open(const struct et_server_config *config);

/* The relay, the scraper, the webhook and the judge whose state routes show. The caller keeps them. */
void et_server_set_relay(struct et_server *server, struct et_relay *relay);
void et_server_set_scraper(struct et_server *server, struct et_scraper *scraper);
void et_server_set_webhook(struct et_server *server, struct et_webhook *webhook);
struct et_judge;
void et_server_set_judge(struct et_server *server, struct et_judge *judge);

/* Starts to answer requests. false: failed; one line is on stderr. */
bool et_server_serve(struct et_server *server);

/* For example "http://127.0.0.1:4040"; valid until et_server_close(). */
const char *et_server_url(const struct et_server *server);

/* Reads tokens and certificates again. If they are wrong, one line on stderr says so and the old ones stay. */
void et_server_reload(struct et_server *server);

/* Number of messages and profiles received. */
unsigned long et_server_accepted(struct et_server *server);

/* Answers no new request; writes in progress go on. */
void et_server_quiet(struct et_server *server);
void et_server_close(struct et_server *server);

#endif
