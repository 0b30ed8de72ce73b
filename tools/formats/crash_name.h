/* The function that tells crashes apart: not abort() and what else programs end themselves with. */
#ifndef ET_CRASH_NAME_H
#define ET_CRASH_NAME_H

#include "tools/lib/util.h"

/* Whether a function is the same in all crashes of its kind: what ends the program, or notices spoiled memory. */
bool et_crash_is_ending(const char *function);

#endif
