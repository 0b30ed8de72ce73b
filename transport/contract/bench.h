/* Common code of the tests of transports and streams; see contract.h. One test at a time. */
#ifndef EP_CONTRACT_BENCH_H
#define EP_CONTRACT_BENCH_H

#include <stdbool.h>

#include "contract.h"

#define BENCH_MS UINT64_C(1000000)
/* A deadline that no test should reach, and what counts as "long before it". */
#define BENCH_LONG_NS  (60000 * BENCH_MS)
#define BENCH_EARLY_NS (3000 * BENCH_MS)

/* Begins a test; name and state_size of the tested transport or stream. */
void bench_begin(const char *name, size_t state_size);

/* Ends the test. Returns the number of violations; SIGPIPE counts as one more. */
unsigned bench_end(void);

/* Reports a violation if `holds` is false. Returns `holds`. */
bool bench_holds(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Zeroes and returns the state: aligned to 8 bytes and no more, with guards on both sides. */
void *bench_state(void);

/* True if the guards are intact. */
bool bench_guarded(void);

/* Starts a watched call with a deadline in in_ns; 0: has always passed. Until bench_done() a watcher ends the
 * program if the call does not return within half a minute after its deadline. nearer: after 50 ms the watcher sets
 * the deadline to now. */
const struct ep_deadline *bench_watch(uint64_t in_ns, bool nearer);

/* Ends watching. Returns the duration of the call in ns. */
uint64_t bench_done(void);

/* Starts or stops a signal that interrupts system calls every millisecond. */
void bench_interrupt(bool on);

/* Returns the number of open descriptors; *inherited: those without close-on-exec. -1: unknown. */
int bench_descriptors(int *inherited);

/* Waits briefly until at most `count` descriptors are open. False: there are more. */
bool bench_descriptors_back(int count);

#endif
