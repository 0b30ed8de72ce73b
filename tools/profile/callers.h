/*
 * One function in the middle: all its calls taken together, who calls it and what it calls. Made from a symbolized
 * profile; what is pruned for showing is in the sums all the same.
 *
 * Of a recursive function the outermost call counts: what it calls contains the inner ones, and nothing counts twice.
 */
#ifndef ET_CALLERS_H
#define ET_CALLERS_H

#include "tools/profile/tree.h"

/* A function next to the one in the middle, and how much of the middle's total comes from it or goes to it. */
struct et_neighbour {
    uint32_t function, module, file, line;
    uint64_t value;
};

struct et_neighbours {
    struct et_neighbour *rows; /* largest first; together at most the total: stacks begin in the function, or end */
    size_t count, capacity;
};

struct et_callers {
    struct et_tree callers; /* the root is the function, its children are its callers, theirs above them */
    struct et_tree callees;
    struct et_neighbours called_by, calls;
    uint64_t total, self; /* of the function; both 0: no stack has it */
};

/* name: whole; shown: most calls of each tree. et_callers_free() the result. */
void et_callers_make(const struct et_profile *profile, const char *name, size_t shown, struct et_callers *out);
void et_callers_free(struct et_callers *callers);

#endif
