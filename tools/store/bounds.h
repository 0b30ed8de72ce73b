/*
 * Limits for what the store learns: services, sets of tags, label values, their lengths, and profile times. Names are
 * never removed, so a sender with random label values would fill the store.
 *
 * A store without bounds accepts everything. Context: the writing thread.
 */
#ifndef ET_BOUNDS_H
#define ET_BOUNDS_H

#include "tools/store/outcome.h"
#include "tools/store/store.h"

struct et_bounds;

/* 0: unlimited. */
struct et_bounds_config {
    uint64_t services, series /* tag sets per service */, label_values /* per label of stacks */;
    uint64_t labels;                /* per series or stack */
    size_t name_bytes, value_bytes; /* of labels and services */
    int64_t future_ns, past_ns;     /* maximum distance of a profile from now */
};

struct et_bounds *et_bounds_new(const struct et_bounds_config *config);
void et_bounds_free(struct et_bounds *bounds);

/* Adds the names that the store already has. Returns 0 or the store's error. */
int et_bounds_load(struct et_bounds *bounds, struct et_store *store);

/* Each returns NULL when the names are within bounds, and adds them. Otherwise returns a line with the setting that
 * refuses them, valid as long as the bounds. bounds may be NULL. tags, lines: labels.h. */
const char *et_bounds_series(struct et_bounds *bounds, const char *service, const char *tags);
const char *et_bounds_labels(struct et_bounds *bounds, const char *lines);
const char *et_bounds_time(struct et_bounds *bounds, int64_t from_ns, int64_t until_ns);

/* The outcome for the sender: ET_LIMITED or ET_MALFORMED. refused: one of those lines. */
enum et_outcome et_bounds_outcome(const char *refused);

#endif
