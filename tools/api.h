/*
 * The JSON API's answers. Each appends a whole body to *out and returns the HTTP status.
 */
#ifndef ET_API_H
#define ET_API_H

#include "store.h"
#include "symbols.h"

unsigned et_api_services(struct et_store *store, struct et_buf *out);
unsigned et_api_stats(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out);
unsigned et_api_profile(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        struct et_buf *out);
/* gzipped pprof, symbolized */
unsigned et_api_pprof(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out);

/* {"error": text} */
void et_api_error(struct et_buf *out, const char *text);

#endif
