/*
 * Who is let in: tokens, certificates, names of hosts, foreign web pages, how many and how often. Decided before a body
 * is read.
 */
#ifndef ET_ACCESS_H
#define ET_ACCESS_H

#include "tools/serve/http/http.h"
#include "tools/serve/http/rate_limit.h"
#include "tools/serve/http/limits.h"
#include "tools/serve/http/tls_server.h"
#include "tools/serve/http/tokens.h"

struct et_access_config {
    const char *token_file;  /* NULL: nobody needs one */
    struct et_tls_files tls; /* certificate NULL: plain HTTP */
    const char *hosts;       /* names that a request may call us, beside addresses and localhost: "a, b"; NULL: none */
    bool insecure;           /* everybody may come, from everywhere */
};

struct et_access;

/* fd: the listening socket, whose address decides what is needed. NULL: wrong, and said. */
struct et_access *et_access_open(const struct et_access_config *config, const struct et_limits *limits, int fd,
                                 const char *address);
void et_access_close(struct et_access *access);
/* Reads tokens and certificates again; what is wrong with them is said, and the old ones stay. Context: any thread. */
void et_access_reload(struct et_access *access);

const struct et_tls *et_access_tls(const struct et_access *access);

/* A request's head. */
struct et_visit {
    const char *path, *host, *origin, *authorization; /* headers; NULL: there is none */
    const struct sockaddr *sender;
    gnutls_session_t session; /* NULL without TLS */
    bool post;
};

/* Whether it may go on. False: the answer says why not. route: NULL, there is none of that address. */
bool et_access_allows(struct et_access *access, const struct et_visit *visit, const struct et_route *route,
                      struct et_answer *answer);
/* What a request turned out to hold beside its first profile. */
void et_access_charge(struct et_access *access, const struct sockaddr *sender, uint64_t profiles);

/* Whether one more connection is let in, and a connection that has begun or ended. */
bool et_access_connects(struct et_access *access, const struct sockaddr *sender);
void et_access_connected(struct et_access *access, const struct sockaddr *sender, int change);

#endif
