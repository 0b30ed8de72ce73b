/*
 * Limits for what the database learns: services, sets of tags, label values, their lengths, and profile times. Without
 * them a sender with random label values would fill the database.
 *
 * Bounds know what the database has by keyed hashes, a few bytes a name. The database tells them of each row that it
 * adds or deletes, so what the keeper deletes makes room, and a rollback leaves nothing.
 *
 * A database without bounds accepts everything. Context: the writing thread. In all functions bounds may be NULL.
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
    size_t memory;                  /* of the bounds, in bytes; names that the database already has are beyond it */
    int64_t future_ns, past_ns;     /* maximum distance of a profile from now */
};

struct et_bounds *et_bounds_new(const struct et_bounds_config *config);
void et_bounds_free(struct et_bounds *bounds);

/* Adds the names that the database already has. Returns 0 or the database's error. */
int et_bounds_load(struct et_bounds *bounds, struct et_store *store);

/* The clock of et_bounds_time(); the caller keeps it. */
void et_bounds_set_age(struct et_bounds *bounds, struct et_age *age);

/* Each returns NULL when the names are within bounds. Otherwise returns a line with the setting that refuses them,
 * valid as long as the bounds. tags, lines: labels.h. */
const char *et_bounds_series(struct et_bounds *bounds, const char *service, const char *tags);
const char *et_bounds_labels(struct et_bounds *bounds, const char *lines);
/* The future begins after the later of the clock and its count (age.h), the past before the earlier one. */
const char *et_bounds_time(struct et_bounds *bounds, int64_t from_ns, int64_t until_ns);

/* For names that are stored only if all of them are within bounds: et_bounds_mark(), then check and note each, then
 * et_bounds_undo_to() the mark, before anything is stored. */
size_t et_bounds_mark(const struct et_bounds *bounds);
void et_bounds_undo_to(struct et_bounds *bounds, size_t mark);

/* The outcome for the sender: ET_LIMITED or ET_MALFORMED. refused: one of those lines. */
enum et_outcome et_bounds_outcome(const char *refused);

/* ---- for the database ---- */

/* The database has added an origin or a set of labels, or deleted it. */
void et_bounds_note_series(struct et_bounds *bounds, const char *service, const char *tags, bool added);
void et_bounds_note_labels(struct et_bounds *bounds, const char *lines, bool added);

/* A transaction, or a part of a group, begins. */
void et_bounds_begin(struct et_bounds *bounds);
/* It was rolled back; all: the whole group. */
void et_bounds_undo(struct et_bounds *bounds, bool all);
/* All that was noted is committed. */
void et_bounds_commit(struct et_bounds *bounds);

#endif
