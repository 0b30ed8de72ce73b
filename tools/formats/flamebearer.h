/*
 * One profile, or two side by side, in the flamebearer form of Pyroscope's clients: levels of numbers, and names.
 *
 * A node of one profile is x, total, self, name; of two: x, total, self of the left, the same of the right, name. x is
 * relative to the end of the previous node in its level. Level 0 is one node with everything and self 0. Siblings are
 * ordered by name. Small ones become one node "other", the last; in one profile so does a function of that name.
 */
#ifndef ET_FLAMEBEARER_H
#define ET_FLAMEBEARER_H

#include "tools/profile/diff.h"

/* Default and maximum number of nodes. */
enum { ET_FLAMEBEARER_NODES = 8192, ET_FLAMEBEARER_MOST = 1 << 20 };

struct et_level {
    int64_t *values;
    size_t count, capacity;
    uint64_t end[ET_SIDES]; /* of the last node */
};

struct et_flamebearer {
    struct et_strings names; /* number 0: the root, see et_flamebearer_name() */
    struct et_level *levels; /* at least one */
    size_t level_count, level_capacity;
    uint64_t total[ET_SIDES], max_self;
    struct et_buf tree; /* one profile: the same tree in Pyroscope's bytes; empty for an empty profile */
};

/* max_nodes: keeps about this many of the largest nodes (more when several equal the smallest); 0: the default. The
 * profiles are symbolized. Context: any thread. */
void et_flamebearer_make(const struct et_profile *profile, uint64_t max_nodes, struct et_flamebearer *out);
void et_flamebearer_diff(const struct et_profile *left, const struct et_profile *right, uint64_t max_nodes,
                         struct et_flamebearer *out);
void et_flamebearer_free(struct et_flamebearer *flamebearer);

/* "total" for number 0. */
const char *et_flamebearer_name(const struct et_flamebearer *flamebearer, uint32_t number);

/* {"names":[...],"levels":[[...]],"numTicks":N,"maxSelf":N} */
void et_flamebearer_json(const struct et_flamebearer *flamebearer, struct et_buf *out);

#endif
