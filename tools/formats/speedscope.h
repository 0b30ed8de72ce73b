/*
 * A profile as a file for speedscope (its JSON, "sampled").
 */
#ifndef ET_SPEEDSCOPE_H
#define ET_SPEEDSCOPE_H

#include "tools/profile/profile.h"

/* A symbolized profile; one sample for each different stack, with its weight in the profile's unit. */
void et_speedscope(const struct et_profile *profile, struct et_buf *out);

#endif
