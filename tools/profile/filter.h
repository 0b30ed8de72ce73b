/* Keeps the stacks of a symbolized profile that contain certain functions, in the words of `go tool pprof`. */
#ifndef ET_FILTER_H
#define ET_FILTER_H

#include "tools/lib/pattern.h"
#include "tools/profile/profile.h"

/* Sets the values of all stacks to 0 that have no function matching `focus`, or one that matches `ignore`; NULL: no
 * such condition. A function matches by its name or its file. Returns the sum of the kept stacks. The profile's total
 * stays, so that shares are of all. */
uint64_t et_profile_filter(struct et_profile *profile, const struct et_pattern *focus, const struct et_pattern *ignore);

#endif
