/* The ids of a pprof's mappings, functions or locations. */
#ifndef ET_PPROF_IDS_H
#define ET_PPROF_IDS_H

#include "tools/lib/util.h"

#include <stdlib.h>

/* Index + 1 of each id. Most senders count from 1. */
struct et_pprof_ids {
    uint32_t *dense;
    size_t size;
    struct et_map sparse; /* ids from `size` on */
};

static inline void et_pprof_ids_begin(struct et_pprof_ids *ids, size_t count)
{
    ids->size = count + count / 2 + 2;
    ids->dense = et_alloc(ids->size, sizeof *ids->dense);
}

static inline void et_pprof_ids_free(struct et_pprof_ids *ids)
{
    free(ids->dense);
    et_map_free(&ids->sparse);
}

/* Returns false for id 0, and for an id that is already there. */
static inline bool et_pprof_ids_add(struct et_pprof_ids *ids, uint64_t id, size_t index)
{
    if (id < ids->size) {
        bool fresh = id != 0 && ids->dense[id] == 0;
        ids->dense[id] = (uint32_t)index + 1;
        return fresh;
    }
    uint64_t *at = et_map_at(&ids->sparse, id);
    bool fresh = *at == 0;
    *at = index + 1;
    return fresh;
}

/* Index + 1; 0: there is no such id. */
static inline size_t et_pprof_ids_find(const struct et_pprof_ids *ids, uint64_t id)
{
    if (id < ids->size) {
        return ids->dense[id];
    }
    const uint64_t *at = et_map_find(&ids->sparse, id);
    return at ? (size_t)*at : 0;
}

#endif
