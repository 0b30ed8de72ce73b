/*
 * One line about threads that are not sampled: how many, names, the share of CPU time concerned, why, what to do. What
 * processes have said of theirs is put together.
 */
#ifndef ET_UNSAMPLED_H
#define ET_UNSAMPLED_H

#include "tools/lib/util.h"

enum { ET_UNSAMPLED_REASONS = 3, ET_UNSAMPLED_NAMES = 3 };

struct et_unsampled {
    uint64_t threads, cpu_ns, of_ns; /* of_ns: all CPU time of these processes, 0: not known */
    char *names[ET_UNSAMPLED_NAMES]; /* different ones */
    size_t distinct;                 /* of them */
    struct {
        uint64_t threads, limit;
        uint32_t error;
    } why[ET_UNSAMPLED_REASONS];
};

/* Threads of one reason, by its number in enum ep_loss; others are left out. error, limit: as in message Loss of
 * compact.proto. */
void et_unsampled_add(struct et_unsampled *all, uint32_t reason, uint64_t threads, uint32_t error, uint64_t limit);
void et_unsampled_name(struct et_unsampled *all, const char *name);
/* A message Stats, as the store has it; bytes NULL: none. */
void et_unsampled_stats(struct et_unsampled *all, const void *bytes, size_t size);
/* Appends the line, without an end; nothing when all threads are sampled. */
void et_unsampled_text(const struct et_unsampled *all, struct et_buf *out);
void et_unsampled_free(struct et_unsampled *all);

#endif
