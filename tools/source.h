/*
 * Where commands read profiles from: a database, or a server that runs.
 */
#ifndef ET_SOURCE_H
#define ET_SOURCE_H

#include "store.h"

/* Return an exit code and say on stderr what is wrong. Without a service in the query, the only one there is is
 * taken. A profile without values is no failure. */
int et_source_db(const char *path, const struct et_query *query, struct et_profile **profile);
int et_source_url(const char *url, const struct et_query *query, struct et_profile **profile);

#endif
