/*
 * The numbers of the signals that edgeprof uses, and what the program believes of them.
 *
 * A few real-time signals in the middle of the range keep edgeprof's handler. One of them carries the ticks. While a
 * number is edgeprof's, no real mask blocks it except during sleeping calls; what the program asked for is only noted.
 * Signals other than ticks belong to the program and are passed on to it. If the program names a number (installs a
 * handler, waits for it, blocks it alone), edgeprof gives the number back and moves its ticks to the next one. From
 * then on only the kernel decides about that number.
 */
#ifndef EP_LINUX_OWN_SIGNAL_H
#define EP_LINUX_OWN_SIGNAL_H

#include <signal.h>

#include <edgeprof/options.h>
#include "linux.h"

typedef int ep_linux_action_call(int signal, const struct sigaction *action, struct sigaction *old);
typedef int ep_linux_alternate_call(const stack_t *wanted, stack_t *old);

/* The handler of edgeprof's signals. It keeps errno unless a handler of the program runs. Context: signal. */
void ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext);

/* Installs the handler for unused numbers and unblocks them on the calling thread. May be called again. Returns 0;
 * -EBUSY: none is free. Context: init. */
int ep_linux_signals_take(void);

/* The value of a timer's signal: the slot (EP_THREADS_MOST: none) and the low 8 bits of its generation. A random salt
 * distinguishes it from other senders' values. Context: signal. */
uintptr_t ep_linux_tick_value(uint32_t slot, uint32_t generation);

/* 0: not chosen yet. Hidden: read without a table of addresses. */
extern __attribute__((visibility("hidden"))) uintptr_t ep_linux_tick_salt;

/* True if a signal is a tick, even a late one, recognised by a random value in it (not by the timer's id: qemu-user
 * does not pass it). *owner: slot << 8 | the generation's low 8 bits. Context: signal. */
static inline bool ep_linux_tick_of(const siginfo_t *info, uint32_t *owner)
{
    uintptr_t value = (uintptr_t)info->si_value.sival_ptr - ep_linux_tick_salt;

    *owner = (uint32_t)value;
    return info->si_code == SI_TIMER && value < (EP_THREADS_MOST + 1u) << 8;
}

/* Handles a signal with one of our numbers that is not a tick, as the program wants it. edgeprof's signal path ends
 * here (tools/build/checks/signal_allow.txt): it calls the program's handler or gives the number back.
 * Async-signal-safe. Context: any thread. */
void ep_linux_signal_foreign(int signal, siginfo_t *info, void *ucontext);

/* Creates all timers again, because the signal number has changed (sampler.c). Async-signal-safe.
 * Context: any thread. */
void ep_linux_timers_renew(void);

/* ---- signal sets as in the kernel: bit number - 1 ---- */

/* The numbers with edgeprof's handler, and those of them that no real mask may block. Context: signal. */
uint64_t ep_linux_signals_handled(void);
uint64_t ep_linux_signals_ours(void);

uint64_t ep_linux_set_bits(const sigset_t *set);
void ep_linux_set_change(sigset_t *set, uint64_t without, uint64_t with);

/* The system call rt_sigprocmask. Returns the old mask. Context: signal. */
uint64_t ep_linux_mask_raw(int how, uint64_t bits);

/* ---- alternate signal stacks (alternate.c) ---- */

static inline bool ep_linux_is_on_stack(const struct sigaction *action)
{
    return action->sa_flags & SA_ONSTACK && action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* Returns true if a handler of the program and a tick inside of it may not both fit onto an alternate stack of that
 * size; 0: there is none. Context: signal. */
bool ep_linux_stack_is_tight(size_t size);

/* Returns true if a thread has, or had, such a stack. Context: signal. */
bool ep_linux_stacks_tight(void);

/* Notes the size of a thread's alternate stack. Context: signal. */
void ep_linux_stack_seen(size_t size);

/* Once a tight stack was seen: makes the program's handlers with SA_ONSTACK keep edgeprof's signals blocked. The second
 * function does it again, for numbers that were taken since. Context: any thread. */
void ep_linux_stacks_guard(void);
void ep_linux_stacks_guard_again(void);

/* Returns true if that thread has an alternate stack on which not even a tick has room. Context: any thread. */
bool ep_linux_stack_is_tiny(uint32_t tid);
/* That thread begins or ends. Context: any thread. */
void ep_linux_stack_tiny_ends(uint32_t tid);
/* Forgets ended threads. Context: collect. */
void ep_linux_stacks_tiny_forget(void);
/* In a forked child, of which the calling thread is the only one. Context: init. */
void ep_linux_stacks_forked(void);

/* Returns our numbers that must stay blocked, because the calling thread is in a handler on a tight stack.
 * Async-signal-safe, keeps errno. Context: any thread. */
uint64_t ep_linux_stack_holds(void);

/* sigaltstack() for the program. Context: any thread. */
int ep_linux_sigaltstack(ep_linux_alternate_call *real, const stack_t *wanted, stack_t *old);

/* ---- what the program believes ---- */

/* Our numbers that the calling thread believes to be blocked. Context: signal. */
uint64_t ep_linux_believed(void);
void ep_linux_believe(uint64_t blocked);

/* To be called by a new thread: unblocks our numbers and notes that the thread believes them blocked.
 * Context: any thread. */
void ep_linux_signals_born(void);

/* Handles a set from the program: gives back our numbers that the set names. A filled set, with all or nearly all of
 * our numbers, names those that it lacks. Really blocks numbers that were given back meanwhile and are believed to
 * be blocked.
 * Returns our remaining numbers. Context: any thread. */
uint64_t ep_linux_signals_named(uint64_t bits);

/* What the program wants a signal to do. */
struct ep_linux_disposition {
    uintptr_t handler; /* SIG_DFL, SIG_IGN or a function */
    int flags;
    uint64_t mask;
};

/* What the program wants, of a number that ep_linux_signals_handled() has; sets it to the default action.
 * Async-signal-safe. Context: any thread. */
struct ep_linux_disposition ep_linux_signal_seen(int signal);
void ep_linux_signal_reset(int signal);

/* Gives back the numbers in `bits`, but never the last one. Async-signal-safe. Context: any thread. */
void ep_linux_signals_release(uint64_t bits);

/* Gives the number the default action, in the kernel, until ep_linux_signal_take_back(). Async-signal-safe.
 * Context: any thread. */
void ep_linux_signal_let_go(int signal);
void ep_linux_signal_take_back(int signal);

/* sigaction() for a number that ep_linux_signals_handled() has. Context: any thread. */
int ep_linux_signal_view(ep_linux_action_call *real, int signal, const struct sigaction *action, struct sigaction *old);

/* For a forked child, which is not profiled: makes everything real. Context: init. */
void ep_linux_signals_forked(void);

/* In such a child: installs the handler for the number in use, if the program does not use it. The program may block
 * it; no mask is changed. Returns 0 or -EBUSY. Context: init. */
int ep_linux_signal_borrow(void);
/* Makes the number edgeprof's again, before the next ep_linux_signals_take(). Context: init. */
void ep_linux_signal_own_again(void);

#endif
