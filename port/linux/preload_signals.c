/*
 * Interposes the C library's signal functions, so that edgeprof's signals and the program's never conflict; see
 * signal_calls.c. Functions with a temporary mask that are waits too are in preload_waits.c.
 *
 * The real functions are looked up before main(), because handlers must not call dlsym().
 */
#include "preload_waits.h"
#include "signal_calls.h"

#ifdef __arm__
/* The kernel's and the C library's, with a 64-bit time_t. */
struct time64 {
    int64_t seconds;
    int32_t ns, unused;
};
#endif

/* clang-format off */
/* Crash reporters install the default action before they send the signal again. */
static const struct sigaction *or_recorded(int signal, const struct sigaction *action)
{
    const bool asks = ep_linux_default && action && action->sa_handler == SIG_DFL;
    const struct sigaction *recorded = asks ? ep_linux_default(signal) : NULL;

    return recorded ? recorded : action;
}

FUNCTION(int, sigaction, (int signal, const struct sigaction *action, struct sigaction *old))
{
    return ep_linux_sigaction(next_sigaction(), signal, or_recorded(signal, action), old);
}

FUNCTION(int, sigaltstack, (const stack_t *wanted, stack_t *old))
{
    return ep_linux_sigaltstack(next_sigaltstack(), wanted, old);
}

/* The same by syscall(): preload_filter.c. Context: any thread. */
long ep_preload_call_stack(long number, const stack_t *wanted, stack_t *old) __attribute__((visibility("hidden"), used));

long ep_preload_call_stack(long number, const stack_t *wanted, stack_t *old)
{
    (void)number;
    return sigaltstack(wanted, old);
}

#define SIGNAL(name, flags) \
    FUNCTION(ep_linux_handler, name, (int signal, ep_linux_handler handler)) \
    { \
        const struct sigaction wanted = {.sa_handler = handler}, *action = or_recorded(signal, &wanted); \
        struct sigaction old; \
        if (action != &wanted) \
            return next_sigaction()(signal, action, &old) == 0 ? old.sa_handler : SIG_ERR; \
        return ep_linux_signal_set(next_##name(), next_sigaction(), (int)(flags), signal, handler); \
    }

SIGNAL(signal, SA_RESTART)
SIGNAL(bsd_signal, SA_RESTART)
SIGNAL(ssignal, SA_RESTART)
SIGNAL(sysv_signal, SA_RESETHAND | SA_NODEFER)
SIGNAL(__sysv_signal, SA_RESETHAND | SA_NODEFER)

FUNCTION(int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old))
{
    return ep_linux_mask(next_pthread_sigmask(), how, set, old);
}

FUNCTION(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old))
{
    return ep_linux_mask(next_sigprocmask(), how, set, old);
}

FUNCTION(ep_linux_handler, sigset, (int signal, ep_linux_handler handler))
{
    return ep_linux_sigset(next_sigset(), next_sigaction(), next_sigprocmask(), signal, handler);
}

FUNCTION(int, sigignore, (int signal))
{
    return ep_linux_sigignore(next_sigignore(), next_sigaction(), signal);
}

FUNCTION(int, sighold, (int signal))
{
    return ep_linux_sighow(next_sighold(), next_sigprocmask(), SIG_BLOCK, signal);
}

FUNCTION(int, sigrelse, (int signal))
{
    return ep_linux_sighow(next_sigrelse(), next_sigprocmask(), SIG_UNBLOCK, signal);
}

/* Returns what a call does that waits for a signal. */
#define WAIT_FOR(call)                                                                                                 \
    {                                                                                                                  \
        if (!is_wanted(WAITS))                                                                                         \
            return call;                                                                                               \
        wait_begin(EP_WAIT_OTHER);                                                                                     \
        int value = call;                                                                                              \
        ep_wait_end();                                                                                                 \
        return value;                                                                                                  \
    }

FUNCTION(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *timeout))
{
    WAIT_FOR(ep_linux_wait(next_sigtimedwait(), set, info, timeout))
}

#ifdef __arm__
/* The same for programs with a 64-bit time_t. */
FUNCTION(int, __sigtimedwait64, (const sigset_t *set, siginfo_t *info, const struct time64 *timeout))
{
    struct timespec brief;

    if (!timeout)
        WAIT_FOR(ep_linux_wait(next_sigtimedwait(), set, info, NULL))
    brief.tv_sec = timeout->seconds > INT32_MAX ? INT32_MAX : timeout->seconds < -1 ? -1 : (time_t)timeout->seconds;
    brief.tv_nsec = timeout->ns;
    WAIT_FOR(ep_linux_wait(next_sigtimedwait(), set, info, &brief))
}
#endif

FUNCTION(int, sigwaitinfo, (const sigset_t *set, siginfo_t *info))
{
    WAIT_FOR(ep_linux_wait(next_sigtimedwait(), set, info, NULL))
}

FUNCTION(int, sigwait, (const sigset_t *set, int *signal))
{
    WAIT_FOR(ep_linux_sigwait(next_sigwait(), next_sigtimedwait(), set, signal))
}

FUNCTION(int, signalfd, (int fd, const sigset_t *set, int flags))
{
    return ep_linux_signalfd(next_signalfd(), fd, set, flags);
}

FUNCTION(int, sigsuspend, (const sigset_t *mask))
{
    type_sigsuspend *next = next_sigsuspend();
    sigset_t lent;
    uint64_t kept = ep_linux_mask_lend(mask);
    int value = next(ep_linux_mask_lent(mask, &lent));
    ep_linux_mask_return(kept);
    return value;
}
/* clang-format on */

__attribute__((constructor)) static void look_up_all(void)
{
    (void)next_sigaction();
    (void)next_signal();
    (void)next_bsd_signal();
    (void)next_ssignal();
    (void)next_sysv_signal();
    (void)next___sysv_signal();
    (void)next_pthread_sigmask();
    (void)next_sigprocmask();
    (void)next_sigset();
    (void)next_sigignore();
    (void)next_sighold();
    (void)next_sigrelse();
    (void)next_sigtimedwait();
    (void)next_sigwait();
    (void)next_signalfd();
    (void)next_sigsuspend();
}
