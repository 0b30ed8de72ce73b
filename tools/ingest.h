/*
 * From a request's bytes to the store, one transaction each: a message is kept whole or not at all.
 */
#ifndef ET_INGEST_H
#define ET_INGEST_H

#include "store.h"

enum et_verdict {
    ET_ACCEPTED,    /* 200 */
    ET_REPEATED,    /* 200: it was here before and is not counted again */
    ET_MALFORMED,   /* 400 */
    ET_STALE,       /* 409: the segment is not known here or a message is missing; start a new one */
    ET_UNAVAILABLE, /* 503: the store could not keep it; try again later */
};

/* now_ns: unix time, dates what comes from a device without a clock. *why: one line for the sender, static or valid
 * until the store is used again; set unless ET_ACCEPTED. */
enum et_verdict et_ingest_compact(struct et_store *store, const void *bytes, size_t size, int64_t now_ns,
                                  const char **why);

/* name: "service{key=value,key=value}"; from_ns, until_ns: 0 when the request does not say. bytes: pprof, inflated. */
enum et_verdict et_ingest_pprof(struct et_store *store, const char *name, int64_t from_ns, int64_t until_ns,
                                const void *bytes, size_t size, int64_t now_ns, const char **why);

/* Sorted "key=value\n" lines out of pairs of strings; takes clean text. For tests and both formats. */
struct et_tags {
    char **lines;
    size_t count, capacity;
};
void et_tags_add(struct et_tags *tags, const char *key, const char *value);
/* Sorts, joins, frees the list. The last of several values of one key is kept. free() the result. */
char *et_tags_join(struct et_tags *tags);

#endif
