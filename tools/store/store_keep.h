/*
 * Limits the size of the store: merges profiles over time (see store_rows.h) and deletes old rows and their series.
 * Nodes, frames, modules, labels and origins are never deleted. Each step is one transaction of about 10 ms, so the
 * program may end between any two without loss.
 *
 * Functions that return int return 1 when they did something and more may be due, 0 when nothing is due, or a negative
 * errno value.
 */
#ifndef ET_STORE_KEEP_H
#define ET_STORE_KEEP_H

#include "tools/store/store.h"

/* Retention. Ages count from the time of measurement and from the time of merging, soon after arrival, so that late
 * profiles stay as long. 0: forever, or any size. */
struct et_policy {
    int64_t fine_ns;   /* unmerged profiles stay this long after their merge */
    int64_t five_ns;   /* blocks of 5 minutes, with span ids, stay this long */
    int64_t keep_ns;   /* everything */
    int64_t max_bytes; /* of the database without free pages: deletes oldest rows first, finest resolution first */
};

/* 2 hours, 2 days, 14 days, any size. */
extern const struct et_policy et_policy_default;

/* Does one due step. */
int et_keep_step(struct et_store *store, const struct et_policy *policy, int64_t now_ns);

/* Does all steps until nothing is due. */
int et_keep_all(struct et_store *store, const struct et_policy *policy, int64_t now_ns);

/* Merges some due series of a bucket, about `stacks` stacks. Call it between et_store_begin() and et_store_end(). */
int et_merge_step(struct et_store *store, int64_t now_ns, size_t stacks);

#endif
