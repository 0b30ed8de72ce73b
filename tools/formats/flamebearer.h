/*
 * A profile, or two side by side, in the form that Pyroscope's clients draw: levels of numbers, names beside them.
 *
 * A node of one profile is x, total, self, name; of two x, total, self of the left, the same of the right, name. x is
 * counted from the end of the node before in its level. Level 0 is one node that holds everything and has no self.
 * Small nodes become one node "other" among their siblings.
 */
#ifndef ET_FLAMEBEARER_H
#define ET_FLAMEBEARER_H

#include "tools/profile/diff.h"

/* Nodes, where a query does not say how many, and at most. */
enum { ET_FLAMEBEARER_NODES = 8192, ET_FLAMEBEARER_MOST = 1 << 20 };

struct et_level {
    int64_t *values;
    size_t count, capacity;
    uint64_t end[ET_SIDES]; /* of the last node */
};

struct et_flamebearer {
    struct et_strings names; /* number 0: everything, see et_flamebearer_name() */
    struct et_level *levels; /* at least one */
    size_t level_count, level_capacity;
    uint64_t total[ET_SIDES], max_self;
    struct et_buf tree; /* of one profile: Pyroscope's bytes of the same tree; empty of an empty profile */
};

/* max_nodes: about how many nodes are kept, the largest (those that equal the last one of them, too); 0: the default.
 * The profiles are symbolized. Context: any thread. */
void et_flamebearer_make(const struct et_profile *profile, uint64_t max_nodes, struct et_flamebearer *out);
void et_flamebearer_diff(const struct et_profile *left, const struct et_profile *right, uint64_t max_nodes,
                         struct et_flamebearer *out);
void et_flamebearer_free(struct et_flamebearer *flamebearer);

/* "total" for number 0. */
const char *et_flamebearer_name(const struct et_flamebearer *flamebearer, uint32_t number);

/* {"names":[...],"levels":[[...]],"numTicks":N,"maxSelf":N} */
void et_flamebearer_json(const struct et_flamebearer *flamebearer, struct et_buf *out);

#endif
