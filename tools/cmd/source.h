/*
 * Where commands read profiles from: a database, or a server that runs.
 */
#ifndef ET_SOURCE_H
#define ET_SOURCE_H

#include "tools/lib/json_read.h"
#include "tools/store/store.h"

/* Return an exit code and say on stderr what is wrong. Without a service in the query, the only one there is is
 * taken. A profile without values is no failure. */
int et_source_db(const char *path, const struct et_query *query, struct et_profile **profile);

/* How long the processes of a query ran while they were measured, added up. */
int et_source_db_seconds(const char *path, const struct et_query *query, double *seconds);

/* What the API (api.h) says of a database, as text. */
typedef unsigned et_source_ask(struct et_store *store, const struct et_query *query, struct et_buf *out);
int et_source_db_text(const char *path, et_source_ask *ask, const struct et_query *query, struct et_buf *out);

/* A server that runs. */
struct et_remote {
    const char *url;
    const char *token;     /* NULL: none */
    const char *authority; /* PEM file; NULL: the system's */
};
int et_source_url(const struct et_remote *remote, const struct et_query *query, struct et_profile **profile);

int et_source_url_seconds(const struct et_remote *remote, const struct et_query *query, double *seconds);

/* What the server says at "/api/..." for a query; NULL: without one. An exit code. */
int et_source_get(const struct et_remote *remote, const char *path, const struct et_query *query, struct et_buf *body);
/* The same, read; json_decref() it. */
int et_source_json(const struct et_remote *remote, const char *path, const struct et_query *query, json_t **out);
/* The same with a body, by POST. */
int et_source_post(const struct et_remote *remote, const char *path, const struct et_buf *sent, struct et_buf *body);

#endif
