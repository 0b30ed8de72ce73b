/* Profiles between request and store: decoded on the connection's thread, then stored in one transaction. */
#ifndef ET_INGEST_BATCH_H
#define ET_INGEST_BATCH_H

#include "tools/formats/otlp_read.h"
#include "tools/formats/protobuf_budget.h"
#include "tools/lib/json_read.h"
#include "tools/serve/ingest/ingest.h"
#include "tools/serve/ingest/push_request.h"

struct et_batch_item {
    char *service, *tags; /* clean; tags are lines (labels.h) */
    struct et_profile *profile;
    int64_t from_ns, until_ns;
    const char *refused; /* set by et_batch_store(): the reason; NULL: kept */
};

struct et_batch {
    struct et_batch_item *items;
    size_t count, capacity;
    struct et_arena arena; /* for decoding a pprof */
};

/* Service and times of profiles. A time is 0 when the sender does not send it. */
struct et_batch_source {
    const char *service, *tags;
    const char *family; /* first part of the types' ids: "mutex", "block"; or "" */
    bool guess;         /* without a family, find it as Pyroscope does */
    json_t *config;     /* sample_type_config, an object, or NULL */
    int64_t from_ns, until_ns, now_ns;
};

/* Adds a profile and takes ownership of it. */
void et_batch_add(struct et_batch *batch, const char *service, const char *tags, struct et_profile *profile,
                  int64_t from_ns, int64_t until_ns);
struct et_times {
    int64_t from_ns, until_ns;
};

/* The source's times, else the profile's own, else it ended now. */
struct et_times et_batch_times(const struct et_batch_source *source, int64_t start_ns, int64_t duration_ns);

/* Adds each kind of an inflated pprof. Returns NULL, or why a kind or samples were left out, or all. */
const char *et_batch_pprof(struct et_batch *batch, const struct et_batch_source *source, const void *bytes,
                           size_t size);
/* Adds the series of a push. Lists refused profiles in *why and adds the others. Returns the number of refused
 * profiles. limit: total bytes, inflated. */
size_t et_batch_push(struct et_batch *batch, const et_push *push, size_t limit, int64_t now_ns, struct et_buf *why);
/* Adds OTLP profiles, with the services and tags of their resources. limit: total bytes, about as pprof. Returns 0, and
 * as et_otlp_convert() what was left out; or -EFBIG when nothing is to be kept, see *why. */
int et_batch_otlp(struct et_batch *batch, const et_otlp_request *request, size_t limit, int64_t now_ns,
                  struct et_buf *why, size_t *refused);
void et_batch_free(struct et_batch *batch);

/* Stores all items; sets `refused` of items out of bounds (bounds.h). ET_ACCEPTED even if some are refused; ET_LIMITED
 * or ET_MALFORMED if all are. */
enum et_outcome et_batch_store(struct et_store *store, struct et_batch *batch, const char **why);

/* Parses "service{key=value,...}" to service, tags and __name__; free() each. False: malformed, see *why; nothing to
 * free. */
bool et_batch_name(const char *text, char **service, char **tags, char **family, const char **why);

#endif
