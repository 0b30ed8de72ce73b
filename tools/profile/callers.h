/*
 * The callers and callees of one function, with all its calls taken together, from a symbolized profile. Calls pruned
 * from the trees still count in the sums.
 *
 * For a recursive function only the outermost call counts: its callees contain the inner calls, so nothing counts
 * twice.
 */
#ifndef ET_CALLERS_H
#define ET_CALLERS_H

#include "tools/profile/tree.h"

/* A caller or callee of the function, and its part of the function's total. */
struct et_neighbour {
    uint32_t function, module, file, line;
    uint64_t value;
};

struct et_neighbours {
    struct et_neighbour *rows; /* largest first; sum <= total, as stacks may begin or end here */
    size_t count, capacity;
};

struct et_callers {
    struct et_tree callers; /* root: the function; children: callers; below them: their callers */
    struct et_tree callees;
    struct et_neighbours called_by, calls;
    uint64_t total, self; /* of the function; both 0: no stack contains it */
};

/* name: exact; shown: maximum number of calls in each tree. et_callers_free() the result. */
void et_callers_make(const struct et_profile *profile, const char *name, size_t shown, struct et_callers *out);
void et_callers_free(struct et_callers *callers);

#endif
