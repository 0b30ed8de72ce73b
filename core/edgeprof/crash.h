/*
 * Crash records keep what is known of a fatal signal until the next run of the program delivers it
 * (core/features/crash/README.md). edgeprof.h includes this header.
 */
#ifndef EDGEPROF_CRASH_H
#define EDGEPROF_CRASH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ep_crash_config {
    const char *dir; /* for the file `edgeprof-crash`: the spool's or another; used by one process. Copied */
    /* The longest time by which edgeprof delays the end of a crashed program, 100..3000; default 1000. Three quarters
     * of it are for the record. */
    uint32_t limit_ms;
    bool registers; /* record all registers, not only pc, sp, fp and lr: they may hold anything */
};

/* Records a fatal signal (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT) in a file while a profiler runs: signal,
 * address, registers, the stacks of the threads, and the text that the .NET runtime leaves at its end. Exit status,
 * core dump and earlier handlers stay as they are. Call it before ep_start().
 *
 * The next run delivers the record before its profiles. It also reports a run that ended without ep_crash_stop() or
 * exit(). An overflow of the stack leaves no record, and counts as such a run. Only receivers of the compact format get
 * records. Nothing overwrites a record that is not delivered. Handlers that are installed later get a signal first: see
 * ep_crash_in_front(). A forked child records nothing. A program that does not call this links nothing of it.
 *
 * Returns
 *   0          fatal signals are recorded
 *   -EALREADY  they are already, or the profiler runs
 *   -EINVAL    a field is out of range; ep_start_error() names it
 *   -ENOSPC    too many features are started
 *   -EBUSY     another process uses the file
 *   others     the system's error
 * Context: init. */
int ep_crash_start(const struct ep_crash_config *crash);

/* Puts edgeprof's handler in front of handlers that other code has installed since ep_crash_start(). glog and other
 * crash reporters may not call the handler before their own. Those handlers get the signal after the record. A default
 * action that was set since, or a signal that is ignored, stays.
 *
 * Do not use it for handlers that continue the program, as language runtimes have. edgeprof would record the faults
 * that they handle as crashes.
 *
 * Returns
 *   0 or more  the number of these handlers
 *   -ENOENT    crashes are not recorded here
 *   -ENOSPC    it was called too often, with other handlers each time
 * Context: init. */
int ep_crash_in_front(void);

/* Ends recording and marks the end of this run as regular. Call it after ep_stop(); exit() does it too. Context: init.
 */
void ep_crash_stop(void);

/* Fills what is zero from EDGEPROF_CRASH (1: in EDGEPROF_SPOOL's directory; or a directory, with a '/') and
 * EDGEPROF_CRASH_REGISTERS. Returns 1: crashes are to be recorded; 0: they are not; -EINVAL (ep_start_error()).
 * Context: init. */
int ep_crash_from_env(struct ep_crash_config *config);

#ifdef __cplusplus
}
#endif

#endif
