/*
 * Part of `edgeprof run`: the CPU time of processes that no profile has.
 */
#ifndef ET_SHORT_H
#define ET_SHORT_H

#include <stdint.h>
#include <sys/types.h>

#define ET_SHORT "short" /* the value of the tag pid in place of a process id */

struct et_short {
    const char *db, *service; /* of the profiles */
    int64_t from_ns, to_ns;   /* of the run, Unix time */
    uint64_t used_ns;         /* what the kernel says that the program and its descendants have used */
    pid_t pid;                /* the program */
};

/* Adds the CPU time that the profiles of the run do not have to the database, as `[short processes]`. Adds nothing when
 * it is less than 20 ms or 1 % of the whole, or when there is no profile. Returns 0 or a negative errno value of the
 * store. */
int et_short_add(const struct et_short *run);

#endif
