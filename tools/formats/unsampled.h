/*
 * One line about threads that are not sampled: how many, names, their share of CPU time, the reason, the remedy. It
 * combines the reports of several processes.
 */
#ifndef ET_UNSAMPLED_H
#define ET_UNSAMPLED_H

#include "tools/lib/util.h"

enum { ET_UNSAMPLED_REASONS = 3, ET_UNSAMPLED_NAMES = 3 };

struct et_unsampled {
    uint64_t threads, cpu_ns, of_ns; /* of_ns: all CPU time of these processes; 0: unknown */
    char *names[ET_UNSAMPLED_NAMES]; /* distinct names */
    size_t distinct;                 /* number of names */
    struct {
        uint64_t threads, limit;
        uint32_t error;
    } why[ET_UNSAMPLED_REASONS];
};

/* Adds threads for one reason, a number of enum ep_loss; ignores other reasons. error, limit: as in message Loss of
 * compact.proto. */
void et_unsampled_add(struct et_unsampled *all, uint32_t reason, uint64_t threads, uint32_t error, uint64_t limit);
void et_unsampled_name(struct et_unsampled *all, const char *name);
/* Adds a message Stats from the database; bytes may be NULL. */
void et_unsampled_stats(struct et_unsampled *all, const void *bytes, size_t size);
/* Appends the line, without a line end. Appends nothing when all threads are sampled. */
void et_unsampled_text(const struct et_unsampled *all, struct et_buf *out);
void et_unsampled_free(struct et_unsampled *all);

#endif
