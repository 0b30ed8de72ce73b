/* Steps of the keeper while the clock is right. */
#ifndef KEEP_H
#define KEEP_H

#include "tools/store/store_keep.h"

static inline int run_keep_step(struct et_store *store, const struct et_policy *policy, int64_t now_ns)
{
    return et_keep_step(store, policy, &(struct et_keep_time){now_ns, now_ns});
}

/* All that are due. */
static inline int run_keep_all(struct et_store *store, const struct et_policy *policy, int64_t now_ns)
{
    int got;
    while ((got = run_keep_step(store, policy, now_ns)) == 1) {
    }
    return got;
}

#endif
