/*
 * How much of the world the store may learn: services, sets of tags, values of labels, their lengths, and the time that
 * profiles may be of. A sender with a random label value would fill it otherwise, for names are never forgotten.
 *
 * A store without bounds takes all. Used by the thread that writes.
 */
#ifndef ET_BOUNDS_H
#define ET_BOUNDS_H

#include "tools/store/outcome.h"
#include "tools/store/store.h"

struct et_bounds;

/* 0: no bound. */
struct et_bounds_config {
    uint64_t services, series /* sets of tags of one service */, label_values /* of one label of stacks */;
    uint64_t labels;                /* of a series or stack */
    size_t name_bytes, value_bytes; /* of labels and services */
    int64_t future_ns, past_ns;     /* how far a profile may be ahead of now, and behind */
};

struct et_bounds *et_bounds_new(const struct et_bounds_config *config);
void et_bounds_free(struct et_bounds *bounds);

/* Notes what the store has already. 0 or its error. */
int et_bounds_load(struct et_bounds *bounds, struct et_store *store);

/* Each: NULL when it is within bounds and from then on known; else a line that says which setting refuses it, valid as
 * long as the bounds. bounds may be NULL. tags, lines: labels.h. */
const char *et_bounds_series(struct et_bounds *bounds, const char *service, const char *tags);
const char *et_bounds_labels(struct et_bounds *bounds, const char *lines);
const char *et_bounds_time(struct et_bounds *bounds, int64_t from_ns, int64_t until_ns);

/* What one of those lines means for the sender: ET_LIMITED, or ET_MALFORMED. */
enum et_outcome et_bounds_outcome(const char *refused);

#endif
