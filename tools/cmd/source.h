/* Sources of profiles for commands: a database, or a running server. */
#ifndef ET_SOURCE_H
#define ET_SOURCE_H

#include "tools/lib/json_read.h"
#include "tools/store/store.h"

/* Each function reports errors and returns an exit code. A query without a service uses the only one. A profile without
 * values is not an error. */
int et_source_db(const char *path, const struct et_query *query, struct et_profile **profile);

/* Writes the answer of an API function (api.h) for a database, as text. */
typedef unsigned et_source_ask(struct et_store *store, const struct et_query *query, struct et_buf *out);
int et_source_db_text(const char *path, et_source_ask *ask, const struct et_query *query, struct et_buf *out);
/* The same, for a function with arguments of its own. */
typedef unsigned et_source_call(struct et_store *store, const struct et_query *query, const void *context,
                                struct et_buf *out);
int et_source_db_call(const char *path, et_source_call *call, const struct et_query *query, const void *context,
                      struct et_buf *out);

/* A running server. */
struct et_remote {
    const char *url;
    const char *token;     /* NULL: none */
    const char *authority; /* PEM file; NULL: the system's */
    bool assumed;          /* nobody named it */
};
int et_source_url(const struct et_remote *remote, const struct et_query *query, struct et_profile **profile);

/* The server's answer at "/api/..."; the path may have parameters. query NULL: without one. Returns an exit code. */
int et_source_get(const struct et_remote *remote, const char *path, const struct et_query *query, struct et_buf *body);
/* As et_source_get(), a POST with a body. */
int et_source_post(const struct et_remote *remote, const char *path, const struct et_buf *sent, struct et_buf *body);

#endif
