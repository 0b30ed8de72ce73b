/* Memory for a profiler that can be made inaccessible, and the balance of samples: weight in = weight out + losses
 * counted. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

#include <edgeprof/edgeprof.h>

/* Makes `size` bytes with random contents accessible. Always the same block. */
void *account_memory(size_t size);

/* After this, every access to that block crashes. */
void account_memory_gone(void);

/* Resets the simulated port and the receiver, and stops what a failed test has left running. */
void account_afresh(void);

/* Starts a profiler in account_memory(c.memory_size). An interval of 0 is one of 1 s, and a transport of NULL is the
 * receiver. Fails the test when it does not start. */
void account_start(struct ep_config c);

/* Stops the profiler in time and without malformed messages, and makes the memory inaccessible. Fails the test
 * otherwise. */
void account_end(void);

/* What the test gave to the profiler. */
struct account {
    uint64_t samples, ticks;
    int64_t rest_ns;
};

/* Statistics of the running or last profiler; fails the test when there is none. */
struct ep_stats account_stats(void);

/* Compares the given samples, the statistics and the received messages, after ep_stop() or when everything was
 * delivered. exact: nothing was refused or became stale after the last interval. Fails the test on a difference. */
void account_check(const struct account *given, int exact);

#endif
