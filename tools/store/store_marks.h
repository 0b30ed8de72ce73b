/* The marks of a garbage collection: one bit an id, in rows of the table `mark`, so that a rollback undoes them. */
#ifndef ET_STORE_MARKS_H
#define ET_STORE_MARKS_H

#include "tools/store/store_internal.h"

struct mark_part;
/* The marks that a step has read. */
struct marks {
    struct et_store *store;
    struct et_map index; /* part number -> index + 1 */
    struct mark_part *parts;
    size_t count, capacity, last;
    size_t lookups; /* of parents */
    int err;        /* of reading: the marks are not complete */
};

bool et_marks_has(struct marks *marks, int64_t id);
/* Returns whether the mark is new. Ids below 1 have none. */
bool et_marks_add(struct marks *marks, int64_t id);
/* Marks the node and its ancestors up to a marked one. */
void et_marks_add_ancestors(struct marks *marks, int64_t id);
/* Writes the changed parts, unless there was an error, and frees all. */
int et_marks_save(struct marks *marks, int err);
int et_marks_clear(struct marks *marks);

#endif
