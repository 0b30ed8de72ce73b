/* Whose profiles an origin's are. */
#ifndef ET_OWNER_H
#define ET_OWNER_H

#include "tools/store/store.h"

/* The service and tags of an origin's id, in *strings. Returns 1, 0 (unknown id) or an error as in store.h. */
int et_store_owner(struct et_store *store, int64_t origin, struct et_strings *strings, const char **service,
                   const char **tags);

#endif
