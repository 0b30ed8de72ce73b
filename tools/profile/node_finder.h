/* Finds the nodes of stacks, in a profile that is being filled from a file or message. */
#ifndef ET_NODE_FINDER_H
#define ET_NODE_FINDER_H

#include "tools/profile/profile.h"

struct et_node_step {
    uint32_t frame, node;
};

/* Zeroed but for the profile: has found nothing yet. et_node_finder_free() frees what it holds, not the profile. */
struct et_node_finder {
    struct et_profile *profile;
    uint32_t *slots; /* hash table of the profile's nodes; 0: free */
    size_t slot_count;
    struct et_node_step path[ET_MAX_DEPTH]; /* of the last stack, from the root */
    size_t depth;
};

/* Returns the node of a stack, its frames leaf first, and adds missing nodes. depth: at most ET_MAX_DEPTH. */
uint32_t et_node_find(struct et_node_finder *finder, const uint32_t *stack, size_t depth);
void et_node_finder_free(struct et_node_finder *finder);

/* A module from a sender's texts, which need not be clean; an id that is not hexadecimal is dropped. Returns
 * et_frame.module. */
uint32_t et_profile_sent_module(struct et_profile *profile, const char *build_id, const char *path);

#endif
