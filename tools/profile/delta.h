/* The difference of two profiles of a process that sends totals since its start. */
#ifndef ET_DELTA_H
#define ET_DELTA_H

#include "tools/profile/profile.h"

/*
 * Subtracts `before` from `now`; both have the same kind. Stacks are equal when their frames and labels are equal.
 *
 * False: some count has fallen, so the process has restarted, and `now` is unchanged. A decrease of at most a hundredth
 * is rounding, and counts as 0.
 */
bool et_delta(const struct et_profile *before, struct et_profile *now);

#endif
