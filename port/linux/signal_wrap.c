/*
 * The C library's signal functions as redirected by the linker, in programs linked with link.opt; see signal_calls.c.
 */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "signal_calls.h"

/* clang-format off */
#define WRAP(result, name, arguments, value) \
    result __real_##name arguments; \
    result __wrap_##name arguments; \
    result __wrap_##name arguments \
    { \
        return value; \
    }

/* With a temporary mask. */
#define WRAP_MASKED(name, arguments, passed) \
    int __real_##name arguments; \
    int __wrap_##name arguments; \
    int __wrap_##name arguments \
    { \
        sigset_t lent; \
        uint64_t kept = ep_linux_mask_lend(mask); \
        mask = ep_linux_mask_lent(mask, &lent); \
        int value = __real_##name passed; \
        ep_linux_mask_return(kept); \
        return value; \
    }

WRAP(int, sigaction, (int signal, const struct sigaction *action, struct sigaction *old),
     ep_linux_sigaction(__real_sigaction, signal, action, old))
WRAP(int, sigaltstack, (const stack_t *wanted, stack_t *old), ep_linux_sigaltstack(__real_sigaltstack, wanted, old))
WRAP(ep_linux_handler, signal, (int signal, ep_linux_handler handler),
     ep_linux_signal_set(__real_signal, __real_sigaction, SA_RESTART, signal, handler))
WRAP(ep_linux_handler, __sysv_signal, (int signal, ep_linux_handler handler),
     ep_linux_signal_set(__real___sysv_signal, __real_sigaction, (int)(SA_RESETHAND | SA_NODEFER), signal, handler))
WRAP(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old),
     ep_linux_mask(__real_pthread_sigmask, how, set, old))
WRAP(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old),
     ep_linux_mask(__real_sigprocmask, how, set, old))
WRAP(ep_linux_handler, sigset, (int signal, ep_linux_handler handler),
     ep_linux_sigset(__real_sigset, __real_sigaction, __real_sigprocmask, signal, handler))
WRAP(int, sigignore, (int signal), ep_linux_sigignore(__real_sigignore, __real_sigaction, signal))
WRAP(int, sighold, (int signal), ep_linux_sighow(__real_sighold, __real_sigprocmask, SIG_BLOCK, signal))
WRAP(int, sigrelse, (int signal), ep_linux_sighow(__real_sigrelse, __real_sigprocmask, SIG_UNBLOCK, signal))
WRAP(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *timeout),
     ep_linux_wait(__real_sigtimedwait, set, info, timeout))
WRAP(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info), ep_linux_wait(__real_sigtimedwait, set, info, NULL))
WRAP(int, sigwait, (const sigset_t *set, int *signal),
     ep_linux_sigwait(__real_sigwait, __real_sigtimedwait, set, signal))
WRAP(int, signalfd, (int fd, const sigset_t *set, int flags), ep_linux_signalfd(__real_signalfd, fd, set, flags))

WRAP_MASKED(sigsuspend, (const sigset_t *mask), (mask))
WRAP_MASKED(ppoll, (struct pollfd *events, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
            (events, count, timeout, mask))
WRAP_MASKED(pselect, (int count, fd_set *in, fd_set *out, fd_set *bad, const struct timespec *timeout, const sigset_t *mask),
            (count, in, out, bad, timeout, mask))
WRAP_MASKED(epoll_pwait, (int fd, struct epoll_event *events, int count, int timeout, const sigset_t *mask),
            (fd, events, count, timeout, mask))

/* The variant with a check of the array's size, which glibc's headers use. musl does not have it. */
int __wrap___ppoll_chk(struct pollfd *events, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room);

int __wrap___ppoll_chk(struct pollfd *events, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t room)
{
    if (room / sizeof *events < count)
        __builtin_trap();
    return __wrap_ppoll(events, count, timeout, mask);
}
