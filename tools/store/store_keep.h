/*
 * Keeping the store small: what came is merged over time (store_rows.h says how), old rows go with their series. Nodes,
 * frames, modules, labels and origins stay, whether anything refers to them or not. Everything is done in steps, each
 * one transaction of some 10 ms that ends as if nothing had been or as if it had been done wholly; nothing is lost when
 * the program ends between two.
 *
 * Functions that return int give 1 when they have done something and there may be more to do, 0 when there is nothing
 * to do now, or a negative errno value.
 */
#ifndef ET_STORE_KEEP_H
#define ET_STORE_KEEP_H

#include "tools/store/store.h"

/* Ages count from when it was measured, and from when it was merged, which is soon after it came: what comes late stays
 * as long. 0: for ever, or of any size. */
struct et_policy {
    int64_t fine_ns;   /* what came stays this long beside what it was merged into */
    int64_t five_ns;   /* blocks of 5 minutes do, and ids of spans with them */
    int64_t keep_ns;   /* everything */
    int64_t max_bytes; /* of the database without its free pages: the oldest goes first, its finest resolution before */
};

/* 2 hours, 2 days, 14 days, any size. */
extern const struct et_policy et_policy_default;

/* One step of whatever is to be done. */
int et_keep_step(struct et_store *store, const struct et_policy *policy, int64_t now_ns);

/* All steps, until there is nothing to do. */
int et_keep_all(struct et_store *store, const struct et_policy *policy, int64_t now_ns);

/* Merges what is due: some series of a bucket, until they have had so many stacks. Between et_store_begin() and
 * et_store_end(). */
int et_merge_step(struct et_store *store, int64_t now_ns, size_t stacks);

#endif
