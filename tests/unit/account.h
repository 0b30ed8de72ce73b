/* Memory for a profiler that can be taken away, and the books: weight in = weight out + losses counted. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

#include "core/edgeprof.h"

/* `size` bytes that may be used from now on; contents are rubbish. The same block every time. */
void *account_memory(size_t size);

/* From now on every access to that block is a crash. */
void account_memory_gone(void);

/* The simulated port and the receiver as before any test; what a test that failed has left running is gone. */
void account_afresh(void);

/* Stops in time and cleanly, with nothing broken received; the memory is gone. Fails the test. */
void account_end(void);

/* What the test itself gave to the profiler. */
struct account {
    uint64_t samples, ticks;
    int64_t rest_ns;
};

/* Statistics of the profiler that runs, or ran; fails the test when there is none. */
struct ep_stats account_stats(void);

/* Compares what was given, the statistics and what the receiver has, after ep_stop() or in between when all was
 * delivered. exact: nothing was refused or made stale after the last interval. Fails the test. */
void account_check(const struct account *given, int exact);

#endif
