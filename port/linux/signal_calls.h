/*
 * Replacements of the C library's signal functions, for linker redirection (signal_wrap.c) and interposition
 * (preload_signals.c). The first arguments are the real functions, followed by the real function's own arguments.
 * Results and errno are the same. Calls that do not concern our signals cost a test of bits. All are as
 * async-signal-safe as the real ones. Context: any thread.
 */
#ifndef EP_LINUX_SIGNAL_CALLS_H
#define EP_LINUX_SIGNAL_CALLS_H

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "own_signal.h"

typedef void (*ep_linux_handler)(int);
typedef ep_linux_handler ep_linux_signal_call(int signal, ep_linux_handler handler);
typedef int ep_linux_mask_call(int how, const sigset_t *set, sigset_t *old);
typedef int ep_linux_number_call(int signal);
typedef int ep_linux_wait_call(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);
typedef int ep_linux_descriptor_call(int fd, const sigset_t *set, int flags);

int ep_linux_sigaction(ep_linux_action_call *real, int signal, const struct sigaction *action, struct sigaction *old);

/* signal() and similar functions. flags: sa_flags of the handler; action: the real sigaction. */
ep_linux_handler ep_linux_signal_set(ep_linux_signal_call *real, ep_linux_action_call *action, int flags, int signal,
                                     ep_linux_handler handler);
ep_linux_handler ep_linux_sigset(ep_linux_signal_call *real, ep_linux_action_call *action, ep_linux_mask_call *mask,
                                 int signal, ep_linux_handler handler);
int ep_linux_sigignore(ep_linux_number_call *real, ep_linux_action_call *action, int signal);
/* sighold and sigrelse. */
int ep_linux_sighow(ep_linux_number_call *real, ep_linux_mask_call *mask, int how, int signal);

/* pthread_sigmask and sigprocmask. */
int ep_linux_mask(ep_linux_mask_call *real, int how, const sigset_t *set, sigset_t *old);

/* sigtimedwait; without a timeout sigwaitinfo. */
int ep_linux_wait(ep_linux_wait_call *real, const sigset_t *set, siginfo_t *info, const struct timespec *timeout);
/* sigwait. */
int ep_linux_sigwait(int (*real)(const sigset_t *set, int *signal), ep_linux_wait_call *wait, const sigset_t *set,
                     int *signal);

int ep_linux_signalfd(ep_linux_descriptor_call *real, int fd, const sigset_t *set, int flags);

/* Called before and after a call with a temporary mask (ppoll, sigsuspend), NULL: none. The first returns the
 * thread's belief, which is the last's argument; the second the mask for the call, which may be in `room`. */
uint64_t ep_linux_mask_lend(const sigset_t *mask);
const sigset_t *ep_linux_mask_lent(const sigset_t *mask, sigset_t *room);
void ep_linux_mask_return(uint64_t kept);

#endif
