/*
 * The clock of samples: a timer for each thread that counts the thread's CPU time and signals the thread.
 */
#ifndef EP_LINUX_CPU_CLOCK_H
#define EP_LINUX_CPU_CLOCK_H

#include <stdint.h>

/* Makes a timer whose signal carries `value` (ep_linux_tick_value()). *timer is the kernel's number. 0 or a negative
 * errno value; -EINVAL: the thread is gone. Context: any thread. */
int ep_linux_timer_make(uint32_t tid, uintptr_t value, int *timer);

/* Runs it: first after a random part of the period, so that short threads are sampled as often as they deserve, then
 * every period (ns). Context: any thread. */
void ep_linux_timer_run(int timer, uint32_t period_ns);

void ep_linux_timer_delete(int timer);

#endif
