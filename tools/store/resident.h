/*
 * Rows of the dictionary in memory: nodes, frames and modules that a profile needed, so that the next one does not read
 * them again. Such rows never change, and their ids are not used again, so they are right in every snapshot that refers
 * to them. Rows that are deleted in the database stay here until the whole is replaced, when it has grown large.
 *
 * Context: any thread. Lock a resident while you use it; its pages stay where they are, its strings may move.
 */
#ifndef ET_RESIDENT_H
#define ET_RESIDENT_H

#include "tools/lib/pages.h"
#include "tools/store/store.h"

#include <pthread.h>

struct et_resident_node {
    int64_t parent, frame; /* frame 0: not known */
};

struct et_resident_frame {
    int64_t module;
    uint64_t address;
    uint32_t name, file, line; /* numbers of strings */
    bool known;
};

struct et_resident_module {
    uint32_t build_id, path;
    bool known;
};

struct et_resident {
    pthread_mutex_t lock;
    struct et_pages nodes, frames, modules; /* of the three types, by id */
    struct et_strings strings;
    unsigned users; /* et_residents.lock */
};

/* The residents' current one; or one of the caller's own, if there are no residents. */
struct et_resident *et_resident_take(struct et_residents *residents);
/* One that is large then is not taken again, and ends with its last user. */
void et_resident_release(struct et_residents *residents, struct et_resident *resident);

#endif
