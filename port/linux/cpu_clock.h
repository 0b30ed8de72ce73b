/*
 * Timers of samples: each counts one thread's CPU time and signals that thread.
 */
#ifndef EP_LINUX_CPU_CLOCK_H
#define EP_LINUX_CPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Creates a timer whose signal carries `value` (ep_linux_tick_value()). *timer: the kernel's number. Returns 0 or a
 * negative errno value; -EINVAL: the thread has ended. Context: any thread. */
int ep_linux_timer_make(uint32_t tid, uintptr_t value, int *timer);

/* Starts the timer: it first expires after a random part of the period, so that short-lived threads are represented
 * fairly, then every period (ns). Returns 0 or a negative errno value; -ESRCH: the thread has ended.
 * Context: any thread. */
int ep_linux_timer_run(int timer, uint32_t period_ns);

/* The same, but first after `first_ns`. */
int ep_linux_timer_first(int timer, uint32_t first_ns, uint32_t period_ns);
/* A timer of this period has expired whenever a kernel tick finds its thread running. */
#define EP_LINUX_EACH_TICK_NS 8192u

/* Time between two kernel ticks in ns; 0: unknown, or before ep_linux_clock_choose(). Context: signal. */
uint32_t ep_linux_kernel_tick_ns(void);

/* clock: one of EP_CLOCKS, or 0. Context: init. */
void ep_linux_clock_choose(uint32_t clock);

/* True if samples with this period are taken by kernel ticks, each of which finds what runs by chance: then functions
 * with short bursts get their share. Costs a signal a tick, so unless the caller chose, no more than
 * EP_LINUX_TICKS_MOST ticks a sample. Context: any thread. */
#define EP_LINUX_TICKS_MOST 4u
bool ep_linux_is_by_tick(uint32_t period_ns);

void ep_linux_timer_delete(int timer);

#endif
