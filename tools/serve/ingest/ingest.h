/*
 * From a request's bytes to the store, one transaction each: a message is kept whole or not at all.
 */
#ifndef ET_INGEST_H
#define ET_INGEST_H

#include "tools/store/outcome.h"
#include "tools/store/store.h"

/* now_ns: unix time, dates what comes from a device without a clock. *why: one line for the sender, static or valid
 * until the store is used again; set unless ET_ACCEPTED. */
enum et_outcome et_ingest_compact(struct et_store *store, const void *bytes, size_t size, int64_t now_ns,
                                  const char **why);

/* The same of a device without a clock, of an earlier boot: it is dated now, and the tag undated=true says so. */
enum et_outcome et_ingest_compact_undated(struct et_store *store, const void *bytes, size_t size, int64_t now_ns,
                                          const char **why);

struct et_pprof_push {
    const char *name;   /* "service{key=value,key=value}" */
    const char *family; /* "mutex", "block": what its contentions are of; NULL: __name__ of the name, or mutex */
    const void *bytes;  /* pprof, inflated */
    size_t size;
};
enum et_outcome et_ingest_pprof(struct et_store *store, const struct et_pprof_push *push, int64_t now_ns,
                                const char **why);

#endif
