/*
 * How finely a profile tells places in the code apart, in the words of `go tool pprof`: a function, or a line of a
 * function. Both calls change a symbolized profile in place.
 */
#ifndef ET_GRANULARITY_H
#define ET_GRANULARITY_H

#include "tools/profile/profile.h"

enum et_granularity {
    ET_GRANULARITY_DEFAULT, /* pprof: addresses; other formats: functions */
    ET_GRANULARITY_FUNCTION,
    ET_GRANULARITY_LINE,
};

/* "function", "line", and pprof's plurals. False: another word. */
bool et_granularity_read(const char *word, enum et_granularity *out);

/* Names every line as `go tool pprof -lines` does, "function file:line", and sets profile->by_line. What a function was
 * then is a line. Does nothing for other granularities. */
void et_profile_name_lines(struct et_profile *profile, enum et_granularity granularity);

/* Merges frames that differ only in their address, and the stacks that become equal. For functions, lines lose their
 * numbers. Does nothing for the default. */
void et_profile_aggregate(struct et_profile *profile, enum et_granularity granularity);

#endif
