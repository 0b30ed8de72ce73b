/* A profile as JSON for speedscope, type "sampled". */
#ifndef ET_SPEEDSCOPE_H
#define ET_SPEEDSCOPE_H

#include "tools/profile/profile.h"

/* Writes a symbolized profile: one sample per distinct stack, with its weight in the profile's unit. */
void et_speedscope(const struct et_profile *profile, struct et_buf *out);

#endif
