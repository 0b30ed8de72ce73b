/*
 * The perf clock: an event of perf_event_open() for each thread, which counts its CPU time by a high-resolution timer
 * and not by kernel ticks. It signals the thread by the file's SIGIO mechanism, with edgeprof's signal.
 *
 * An expiry while the thread is in the kernel gives no signal, so no system call is interrupted. That time is reported
 * by ep_thread_in_kernel(). A thread that cannot have an event gets a timer (cpu_clock.h).
 */
#ifndef EP_LINUX_PERF_CLOCK_H
#define EP_LINUX_PERF_CLOCK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* clock: one of EP_CLOCKS, or 0. With EP_CLOCK_PERF it decides whether this process may use perf events, and installs
 * a handler for SIGIO if the program has none. Context: init. */
void ep_linux_perf_choose(uint32_t clock);

/* True if threads get perf events. Context: any thread. */
bool ep_linux_perf_is_used(void);

/* Why a thread has no perf event although the program asked for them, a negative errno value: -EAGAIN: the queue of
 * signals is nearly full; -EBADF: the program closed a descriptor; -EMFILE: no descriptor is free; else the system's
 * error. 0: each has one, or none was asked for. Context: any thread. */
int ep_linux_perf_error(void);

/* Stops using perf events in this process. error: the reason. Context: signal. */
void ep_linux_perf_refuse(int error);

/* Refuses if the queue of signals has become nearly full, or a SIGIO came because it was. Context: collect. */
void ep_linux_perf_check(void);

/* Opens and starts an event that first expires after a random part of the period, and from then on after each such
 * part until ep_linux_perf_period(). place: gives different descriptors to events that follow each other.
 * Returns the descriptor; -ESRCH: the thread has ended; else a negative errno value, which it keeps for
 * ep_linux_perf_error(). Context: any thread. */
int ep_linux_perf_open(uint32_t tid, unsigned place, uint32_t period_ns);

/* Sets the period of the calling thread's event. Returns 0 or a negative errno value. Keeps errno. Context: signal. */
int ep_linux_perf_period(int fd, uint32_t tid, uint32_t period_ns);

/* True if the descriptor is still edgeprof's event of this thread: the program may have closed it and opened another
 * file. Context: signal. */
bool ep_linux_perf_is_ours(int fd, uint32_t tid);

/* Stops the event and closes its descriptor, if it is still ours. Context: any thread. */
void ep_linux_perf_end(int fd, uint32_t tid);

/* The same in a forked child, whose descriptors are of the parent's events: closes it and leaves the event alone.
 * Context: init. */
void ep_linux_perf_close(int fd, uint32_t tid);

/* True if the signal is from a perf event of edgeprof's, even a late one. Context: signal. */
bool ep_linux_perf_signalled(const siginfo_t *info);

/* The place of ep_linux_perf_open() that probably got this descriptor. Context: signal. */
unsigned ep_linux_perf_place(int fd);

#endif
