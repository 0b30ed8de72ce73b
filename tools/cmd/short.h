/*
 * Part of `edgeprof run`: the sum of the CPU profiles is the CPU time of the kernel.
 */
#ifndef ET_SHORT_H
#define ET_SHORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ET_SHORT "short" /* the value of the tag pid in place of a process id */

struct et_short {
    const char *db, *service; /* of the profiles */
    int64_t from_ns, to_ns;   /* of the run, Unix time */
    uint64_t used_ns;         /* what the kernel says that the program and its descendants have used */
    bool alone;               /* none of it is of descendants */
    pid_t pid;                /* the program */
};

/* Makes the sum of the run's CPU profiles what the kernel says:
 *
 *   less   from a tick of 4 ms on: adds `[edgeprof]`, the CPU time of edgeprof's own threads; then `[thread exit]`, if
 *          there is one process or if a period of each thread is enough for the rest, else `[short processes]`
 *   more   from 4 ms and 1 % on: lets samples stand for less, if there is one process or if a period of each thread
 *          explains it
 *
 * Changes nothing when there is no profile. Returns 0 or a negative errno value of the store. */
int et_short_add(const struct et_short *run);

#endif
