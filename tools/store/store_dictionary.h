/* Loads the stacks of node ids: nodes, frames and modules into a profile in memory, each once. */
#ifndef ET_STORE_DICTIONARY_H
#define ET_STORE_DICTIONARY_H

#include "tools/store/store_internal.h"

/* The value of a profile at a stored node. */
struct et_sum {
    uint64_t node;
    uint32_t labels, group; /* string numbers of the profile; group: frame above the stacks, "" none */
    uint64_t count, value;
};

/* Sorts the sums, adds up those of the same stack, and adds them to the profile as entries, with their nodes, frames
 * and modules. */
int et_dictionary_load(struct et_store *store, struct et_profile *profile, struct et_sum *sums, size_t count);

#endif
