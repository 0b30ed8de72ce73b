/*
 * Answers of the JSON API. Each function appends a whole body to *out and returns the HTTP status. Commands with
 * `--url` use the answers of api.c, too; the page uses those of api_*.c.
 */
#ifndef ET_API_H
#define ET_API_H

#include "tools/formats/output.h"
#include "tools/lib/list.h"
#include "tools/store/store.h"
#include "tools/symbols/symbols.h"

/* of: "" for the sets of tags of every service and kind; otherwise only those of this service, once, in its first row.
 */
unsigned et_api_services(struct et_store *store, const char *of, struct et_buf *out);
unsigned et_api_stats(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out);
/* When processes were sampled more or less often than before. */
unsigned et_api_rates(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out);
unsigned et_api_profile(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        struct et_buf *out);
/* The symbolized profile as a file of that format. */
unsigned et_api_export(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                       enum et_format format, struct et_buf *out);

/* Sums over time, in about `buckets` steps, by the query's group: the `series` largest values, and the sum of the
 * others. Without times: the range of the stored profiles. */
struct et_timeline_request {
    size_t buckets, series;
};
unsigned et_api_timeline(struct et_store *store, const struct et_query *query, const struct et_timeline_request *wanted,
                         struct et_buf *out);
/* Callers and callees of one function. */
unsigned et_api_callers(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        const char *function, struct et_buf *out);
/* The lines of one function with their values; their text is read below the folders. */
struct et_source_request {
    const char *function;
    const struct et_list *folders;
};
unsigned et_api_source(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                       const struct et_source_request *wanted, struct et_buf *out);
/* Differences from the baseline. */
unsigned et_api_diff(struct et_store *store, struct et_symbols *symbols, const struct et_query *baseline,
                     const struct et_query *query, struct et_buf *out);
/* Whether a version of the service uses more than another one (versions.h). */
struct et_versions_request;
unsigned et_api_verdict(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        const struct et_versions_request *request, struct et_buf *out);
/* Writes the places at which the service's live heap grows (leaks.h). */
unsigned et_api_leaks(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out);
/* Devices with profiles or stats in the query's range. */
unsigned et_api_devices(struct et_store *store, const struct et_query *query, struct et_buf *out);

/* Crashes, symbolized, in groups. */
unsigned et_api_crashes(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        struct et_buf *out);

/* Incidents; and all of one, symbolized, or as a profile for the Firefox Profiler. */
unsigned et_api_incidents(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                          struct et_buf *out);
struct et_incident_request {
    const char *id;
    bool firefox;
};
unsigned et_api_incident(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                         const struct et_incident_request *request, struct et_buf *out);

/* Spans of the range, by operation, the value of the labels query->group: how long they were, and how many of which
 * length in each step of time. A span is as long as its stacks say: what it computed and waited for, without a kind in
 * the query. Spans between two samples have none, so they are not there. `spans` of the answer are those that begin and
 * last as asked for, longest first. */
struct et_spans_request {
    int64_t begin_ns[2]; /* [from, to), Unix time */
    uint64_t length[2];  /* [from, to), in the kind's unit */
};
unsigned et_api_spans(struct et_store *store, const struct et_query *query, const struct et_spans_request *wanted,
                      struct et_buf *out);

/* ---- common parts ---- */

/* The smallest round step in ns that divides the length into at most `buckets` steps. */
int64_t et_api_step(int64_t length_ns, size_t buckets);

/* Appends the selected service's name. Returns 200, or an error status with the error in *out. */
unsigned et_api_service(struct et_store *store, const struct et_query *query, struct et_buf *service,
                        struct et_buf *out);
/* Loads the profile of the selected service. Returns 200, or an error status with the error in *out. */
unsigned et_api_load(struct et_store *store, const struct et_query *query, struct et_profile **profile,
                     struct et_buf *out);
/* The same, with the profile's ran_ns. */
unsigned et_api_load_ran(struct et_store *store, const struct et_query *query, struct et_profile **profile,
                         struct et_buf *out);
/* Replaces *out by the database's message. Returns the status. */
unsigned et_api_failed(struct et_store *store, struct et_buf *out);
/* "a=b\nc=d\n" as {"a":"b","c":"d"} */
void et_api_tags(struct et_buf *out, const char *tags);
/* A loss of a device: {"reason", "number", "count", "weight_ns", "kept"}. */
void et_api_loss(struct et_buf *out, uint32_t reason, uint64_t count, uint64_t weight_ns);

/* {"error": text} */
void et_api_error(struct et_buf *out, const char *text);

#endif
