/* See contract.h. What tests of transports and of streams share. One test at a time. */
#ifndef EP_CONTRACT_BENCH_H
#define EP_CONTRACT_BENCH_H

#include <stdbool.h>

#include "contract.h"

#define BENCH_MS UINT64_C(1000000)
/* A deadline that nothing here should ever reach, and what counts as "long before it". */
#define BENCH_LONG_NS  (60000 * BENCH_MS)
#define BENCH_EARLY_NS (3000 * BENCH_MS)

/* Begins a test of something with that name and that much state. */
void bench_begin(const char *name, size_t state_size);

/* Ends it; returns how often bench_holds() was told false. Signals that came uninvited are one more. */
unsigned bench_end(void);

/* Tells what does not hold; returns holds. */
bool bench_holds(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The state: zeroed anew, 8 bytes aligned and no more, guarded on both sides. */
void *bench_state(void);

/* Whether the guards still stand. */
bool bench_guarded(void);

/* A deadline in so many ns; 0: it has always passed. From here to bench_done() somebody watches: a call that is not
 * back half a minute after its deadline ends the program. nearer: after 50 ms the deadline is now. */
const struct ep_deadline *bench_watch(uint64_t in_ns, bool nearer);

/* Ends watching; returns how long it took. */
uint64_t bench_done(void);

/* From now on a signal interrupts system calls every millisecond; or no more. */
void bench_interrupt(bool on);

/* Descriptors that this process has open, and how many of them survive an exec. -1: the system does not tell. */
int bench_descriptors(int *inherited);

/* Waits a little until there are no more descriptors than that, or false. */
bool bench_descriptors_back(int count);

#endif
