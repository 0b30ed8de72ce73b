/* Stores a request's bytes in one transaction: a message is kept entirely or not at all. */
#ifndef ET_INGEST_H
#define ET_INGEST_H

#include "tools/store/outcome.h"
#include "tools/store/store.h"

/* now_ns: Unix time, dates messages of devices without a clock. *why: one line for the sender, static or valid until
 * the database's next use; set unless ET_ACCEPTED. */
enum et_outcome et_ingest_compact(struct et_store *store, const void *bytes, size_t size, int64_t now_ns,
                                  const char **why);

/* Where a message comes from. */
struct et_compact_source {
    int64_t now_ns;    /* when it was queued, or else comes */
    int64_t age_ns;    /* since then */
    bool aged;         /* the sender says so */
    bool undated;      /* the sender does not know: without a plausible date, dates it now, adds the tag undated=true */
    const char *scope; /* et_scope_refuses(): of another service or without the labels: ET_FORBIDDEN */
};
enum et_outcome et_ingest_compact_from(struct et_store *store, const void *bytes, size_t size,
                                       const struct et_compact_source *source, const char **why);

struct et_pprof_push {
    const char *name;   /* "service{key=value,key=value}" */
    const char *family; /* "mutex" or "block", the meaning of contentions; NULL: __name__ of the name, else mutex */
    const void *bytes;  /* pprof, inflated */
    size_t size;
};
/* Keeps what is good: when it is ET_ACCEPTED, *why is "" or says what was left out. */
enum et_outcome et_ingest_pprof(struct et_store *store, const struct et_pprof_push *push, int64_t now_ns,
                                const char **why);

#endif
