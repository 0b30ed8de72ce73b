/*
 * The numbers of the signals that edgeprof uses, and what the program believes of them.
 *
 * A few real-time signals in the middle of the range have edgeprof's handler, for good. One of them carries the ticks.
 * No real mask blocks those that are still edgeprof's, but for the time of a sleep; what the program asked for is
 * noted instead. A signal that is no
 * tick belongs to the program and goes where the program wants it. When the program names one of the numbers (installs
 * a handler, waits for it, blocks it alone), edgeprof gives that number back and moves its ticks to the next one. From
 * then on the kernel alone decides about it.
 */
#ifndef EP_LINUX_OWN_SIGNAL_H
#define EP_LINUX_OWN_SIGNAL_H

#include <signal.h>

#include "linux.h"

typedef int ep_linux_action_call(int signal, const struct sigaction *action, struct sigaction *old);

/* The handler of edgeprof's signals. It keeps errno unless a handler of the program runs. Context: signal. */
void ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext);

/* Installs the handler for numbers that nobody uses, and unblocks them on the calling thread. May be called again.
 * 0; -EBUSY: none is free. Context: init. */
int ep_linux_signals_take(void);

/* What a timer's signal carries: the slot (EP_MAX_THREADS: nobody's), and of its generation the low 8 bits. No other
 * sender's value looks like that. Context: signal. */
uintptr_t ep_linux_tick_value(uint32_t slot, uint32_t generation);

/* Whether a signal is a tick, also a late one. *owner: slot << 8 | generation's low 8 bits. Context: signal. */
bool ep_linux_tick_of(const siginfo_t *info, uint32_t *owner);

/* A signal with one of the numbers that is no tick: to whom the program wants it to go. edgeprof's signal path ends
 * here (tools/build/checks/signal_allow.txt): the program's handler is called, or a number is given back.
 * Async-signal-safe. Context: any thread. */
void ep_linux_signal_foreign(int signal, siginfo_t *info, void *ucontext);

/* Makes all timers anew, because the number has changed (sampler.c). Async-signal-safe. Context: any thread. */
void ep_linux_timers_renew(void);

/* ---- sets as the kernel has them: bit number - 1 ---- */

/* Numbers that have edgeprof's handler, and those of them that no real mask may block. Context: signal. */
uint64_t ep_linux_signals_handled(void);
uint64_t ep_linux_signals_ours(void);

uint64_t ep_linux_set_bits(const sigset_t *set);
void ep_linux_set_change(sigset_t *set, uint64_t without, uint64_t with);

/* The kernel's rt_sigprocmask. Returns the mask before. Context: signal. */
uint64_t ep_linux_mask_raw(int how, uint64_t bits);

/* ---- what the program believes ---- */

/* Which of our numbers the calling thread believes to be blocked. Context: signal. */
uint64_t ep_linux_believed(void);
void ep_linux_believe(uint64_t blocked);

/* The calling thread begins: those of our numbers that are blocked are only believed to be, from here on.
 * Context: any thread. */
void ep_linux_signals_born(void);

/* A set that the program hands over: gives back those of our numbers that the set names. A set that has all of ours, or
 * all but a few, names those that it lacks: it was filled. Really blocks what was given back meanwhile and is believed
 * to be blocked. Returns which numbers are ours after that. Context: any thread. */
uint64_t ep_linux_signals_named(uint64_t bits);

/* sigaction() for a number that ep_linux_signals_handled() has. Context: any thread. */
int ep_linux_signal_view(ep_linux_action_call *real, int signal, const struct sigaction *action, struct sigaction *old);

/* In a child that fork() made, and that is not profiled: everything becomes real. Context: init. */
void ep_linux_signals_forked(void);

#endif
