/*
 * The JSON API's answers. Each appends a whole body to *out and returns the HTTP status. api.c has what commands ask
 * for, too (`--url`), api_*.c what the page shows.
 */
#ifndef ET_API_H
#define ET_API_H

#include "tools/store/store.h"
#include "tools/symbols/symbols.h"

unsigned et_api_services(struct et_store *store, struct et_buf *out);
unsigned et_api_stats(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out);
unsigned et_api_profile(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        struct et_buf *out);
/* gzipped pprof, symbolized */
unsigned et_api_pprof(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out);

/* Sums over time, in about that many buckets, by the query's group; without times those of the profiles there are. */
unsigned et_api_timeline(struct et_store *store, const struct et_query *query, size_t buckets, struct et_buf *out);
/* One function: who calls it, what it calls. */
unsigned et_api_callers(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        const char *function, struct et_buf *out);
/* What is different from the baseline. */
unsigned et_api_diff(struct et_store *store, struct et_symbols *symbols, const struct et_query *baseline,
                     const struct et_query *query, struct et_buf *out);
/* Devices that were heard of in the query's time. */
unsigned et_api_devices(struct et_store *store, const struct et_query *query, struct et_buf *out);

/* ---- what they have in common ---- */

/* The profile of the service that is meant. 200, or the error is in *out. */
unsigned et_api_load(struct et_store *store, const struct et_query *query, struct et_profile **profile,
                     struct et_buf *out);
/* 503 and the store's words instead of what is in *out. */
unsigned et_api_failed(struct et_store *store, struct et_buf *out);
/* "a=b\nc=d\n" as {"a":"b","c":"d"} */
void et_api_tags(struct et_buf *out, const char *tags);

/* {"error": text} */
void et_api_error(struct et_buf *out, const char *text);

#endif
