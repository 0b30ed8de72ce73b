/*
 * Access control: tokens, certificates, host names, foreign web pages, limits of connections and rates. It decides
 * before the body is read.
 */
#ifndef ET_ACCESS_H
#define ET_ACCESS_H

#include "tools/serve/http/http.h"
#include "tools/serve/http/rate_limit.h"
#include "tools/serve/http/limits.h"
#include "tools/serve/http/tls_server.h"
#include "tools/serve/http/tokens.h"

/* Pyroscope's name for the tenant of requests that name none. */
#define ET_TENANT "anonymous"

struct et_access_config {
    const char *token_file;  /* NULL: no token needed */
    const char *token;       /* or this token alone, for everything; NULL: none */
    struct et_tls_files tls; /* certificate NULL: plain HTTP */
    const char *hosts;       /* host names accepted besides addresses and localhost: "a, b"; "*": any; NULL: none */
    const char *tenant;      /* this server's, in X-Scope-OrgID; NULL: ET_TENANT */
    bool insecure;           /* accept everybody, from any address */
};

struct et_access;

/* fd: the listening socket; its address decides what is required. NULL: invalid configuration, which was reported. */
struct et_access *et_access_open(const struct et_access_config *config, const struct et_limits *limits, int fd,
                                 const char *address);
void et_access_close(struct et_access *access);
/* Reads tokens and certificates again. Reports errors and keeps the old ones. Context: any thread. */
void et_access_reload(struct et_access *access);

const struct et_tls *et_access_tls(const struct et_access *access);

/* A request before its body. */
struct et_visit {
    const char *path, *host, *origin, *authorization; /* headers; NULL: absent */
    const char *tenant;                               /* X-Scope-OrgID */
    const char *site, *mode;                          /* Sec-Fetch-Site, Sec-Fetch-Mode */
    const struct sockaddr *sender;
    gnutls_session_t session; /* NULL without TLS */
    bool post;
};

/* Whether the request may continue. False: the answer has the error. route: NULL for an unknown path. *grant: free()
 * its scope in any case. */
bool et_access_allows(struct et_access *access, const struct et_visit *visit, const struct et_route *route,
                      struct et_grant *grant, struct et_answer *answer);
/* Charges the sender's rate for profiles beyond the first of its request. */
void et_access_charge(struct et_access *access, const struct sockaddr *sender, uint64_t profiles);

/* Whether another connection is accepted; records a connection that has started (change 1) or ended (-1). */
bool et_access_connects(struct et_access *access, const struct sockaddr *sender);
void et_access_connected(struct et_access *access, const struct sockaddr *sender, int change);

#endif
