/*
 * tools/store/store.h in memory, for fuzzing what writes into it: fast, and it stops the program when it is told
 * something that makes no sense: an id that it never gave, a step outside a transaction, sums beyond 63 bits.
 *
 * Keeps segments with their dictionaries and, of the last transaction, the profiles. What is taken back is gone.
 */
#ifndef EP_FUZZ_FAKE_STORE_H
#define EP_FUZZ_FAKE_STORE_H

#include <stdio.h>
#include <stdlib.h>

#include "spend.h"
#include "tools/store/store.h"

/* One profile that was stored, summed up. */
struct fake_profile {
    char kind[96];
    uint64_t value, count, stacks; /* value in the kind's unit */
    uint64_t at_root;              /* stacks without a frame */
};

enum { FAKE_SEGMENTS = 16, FAKE_PROFILES = 1100 };

struct fake_segment {
    uint64_t id;
    struct et_segment_row row;
    struct et_segment dictionary;
};

struct et_store {
    bool open; /* a transaction */
    int64_t modules, frames, nodes, labels, origins;
    struct fake_segment segments[FAKE_SEGMENTS];
    size_t segment_count;
    struct fake_segment pending;  /* of the transaction; id 0: none */
    struct et_segment dictionary; /* lent to whoever writes, until the transaction ends */
    bool lent;
    struct fake_profile profiles[FAKE_PROFILES];
    size_t profile_count; /* of the last transaction, committed or not */
    bool committed;       /* the last transaction was */
};

/* Empty again. */
void fake_store_reset(struct et_store *store);

#endif
