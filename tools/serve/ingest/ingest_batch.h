/*
 * Profiles on their way to the store: decoded on the thread of whoever sent them, while nobody waits for it, and kept
 * in one transaction.
 */
#ifndef ET_INGEST_BATCH_H
#define ET_INGEST_BATCH_H

#include "tools/serve/ingest/ingest.h"
#include "tools/serve/ingest/push_request.h"

struct et_batch_item {
    char *service, *tags; /* clean; tags are lines (labels.h) */
    struct et_profile *profile;
    int64_t from_ns, until_ns;
    const char *refused; /* by et_batch_store(): why; NULL: kept */
};

struct et_batch {
    struct et_batch_item *items;
    size_t count, capacity;
};

/* What profiles are of and when they were. Times are 0 when the sender does not say. */
struct et_batch_source {
    const char *service, *tags;
    const char *family; /* "mutex", "block": what contentions are of; "" */
    int64_t from_ns, until_ns, now_ns;
};

/* Adds a profile, which becomes the batch's. */
void et_batch_add(struct et_batch *batch, const char *service, const char *tags, struct et_profile *profile,
                  int64_t from_ns, int64_t until_ns);
/* Adds each kind in a pprof, inflated. NULL, or why there is none; then nothing was added. */
const char *et_batch_pprof(struct et_batch *batch, const struct et_batch_source *source, const void *bytes,
                           size_t size);
/* Adds what a push has. Profiles that are refused are told in *why, and the others added; returns how many are. limit:
 * bytes of all together, inflated. */
size_t et_batch_push(struct et_batch *batch, const et_push *push, size_t limit, int64_t now_ns, struct et_buf *why);
void et_batch_free(struct et_batch *batch);

/* Keeps all, except what is out of bounds (bounds.h) and then says so itself. ET_ACCEPTED although some are refused;
 * ET_LIMITED, ET_MALFORMED: all are. */
enum et_outcome et_batch_store(struct et_store *store, struct et_batch *batch, const char **why);

/* "service{key=value,...}" as service, tags and __name__, each to be freed. False: not of that form, *why; nothing is
 * to be freed. */
bool et_batch_name(const char *text, char **service, char **tags, char **family, const char **why);

#endif
