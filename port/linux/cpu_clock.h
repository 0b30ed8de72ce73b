/*
 * Timers of samples: each counts one thread's CPU time and signals that thread.
 */
#ifndef EP_LINUX_CPU_CLOCK_H
#define EP_LINUX_CPU_CLOCK_H

#include <stdint.h>

/* Creates a timer whose signal carries `value` (ep_linux_tick_value()). *timer: the kernel's number. Returns 0 or a
 * negative errno value; -EINVAL: the thread has ended. Context: any thread. */
int ep_linux_timer_make(uint32_t tid, uintptr_t value, int *timer);

/* Starts the timer: it first expires after a random part of the period, so that short-lived threads are represented
 * fairly, then every period (ns). Returns 0 or a negative errno value; -ESRCH: the thread has ended.
 * Context: any thread. */
int ep_linux_timer_run(int timer, uint32_t period_ns);

void ep_linux_timer_delete(int timer);

#endif
