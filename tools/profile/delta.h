/*
 * What has come between two profiles of a process that counts since its start.
 */
#ifndef ET_DELTA_H
#define ET_DELTA_H

#include "tools/profile/profile.h"

/* Takes off now what before had already; both are of one kind. Stacks are the same when their frames and labels are.
 *
 * False: the process has begun anew in between, for some count has fallen: now stays whole. What falls by a hundredth
 * or less has been rounded, and is 0. */
bool et_delta(const struct et_profile *before, struct et_profile *now);

#endif
