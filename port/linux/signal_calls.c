/*
 * Signal functions without edgeprof's signals: removes their bits from sets on the way to the kernel, and adds them to
 * results on the way back. See signal_calls.h.
 */
#include "signal_calls.h"

#include <errno.h>

#define SIGNALS 65
#define NS      1000000000

/* The part of each signal's sa_mask that was withheld from the kernel. */
static _Atomic uint64_t withheld[SIGNALS];

static bool is_handled(int signal)
{
    return signal > 0 && signal < SIGNALS && ep_linux_signals_handled() >> (signal - 1) & 1;
}

static sigset_t set_of(int signal)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, signal);
    return set;
}

/* ---- dispositions ---- */

int ep_linux_sigaction(ep_linux_action_call *real, int signal, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction stripped;
    uint64_t kept = 0, was = 0;

    if (is_handled(signal))
        return ep_linux_signal_view(real, signal, action, old);
    if (signal > 0 && signal < SIGNALS)
        was = atomic_load_explicit(&withheld[signal], memory_order_relaxed);
    const uint64_t ours = ep_linux_signals_ours();
    const bool guard = action && ep_linux_stacks_tight() && ep_linux_is_on_stack(action);
    if (action && ((kept = ep_linux_set_bits(&action->sa_mask) & ours) != 0 || guard)) {
        stripped = *action;
        ep_linux_set_change(&stripped.sa_mask, kept, guard ? ours : 0);
        action = &stripped;
    }
    int error = real(signal, action, old);
    if (error)
        return error;
    if (action && kept != was)
        atomic_store_explicit(&withheld[signal], kept, memory_order_relaxed);
    if (old && (was || ep_linux_stacks_tight()))
        ep_linux_set_change(&old->sa_mask, ours, was);
    return 0;
}

ep_linux_handler ep_linux_signal_set(ep_linux_signal_call *real, ep_linux_action_call *action, int flags, int signal,
                                     ep_linux_handler handler)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = flags}, old;

    if (!is_handled(signal) || handler == SIG_ERR)
        return real(signal, handler);
    if (!(flags & (int)SA_RESETHAND))
        wanted.sa_mask = set_of(signal);
    return ep_linux_signal_view(action, signal, &wanted, &old) == 0 ? old.sa_handler : SIG_ERR;
}

ep_linux_handler ep_linux_sigset(ep_linux_signal_call *real, ep_linux_action_call *action, ep_linux_mask_call *mask,
                                 int signal, ep_linux_handler handler)
{
    struct sigaction wanted = {.sa_handler = handler}, old;
    bool hold = handler == (ep_linux_handler)2; /* SIG_HOLD */

    if (!is_handled(signal) || handler == SIG_ERR)
        return real(signal, handler);
    sigset_t set = set_of(signal), before;
    if (ep_linux_mask(mask, hold ? SIG_BLOCK : SIG_UNBLOCK, &set, &before) != 0 ||
        ep_linux_signal_view(action, signal, hold ? NULL : &wanted, &old) != 0)
        return SIG_ERR;
    return sigismember(&before, signal) ? (ep_linux_handler)2 : old.sa_handler;
}

int ep_linux_sigignore(ep_linux_number_call *real, ep_linux_action_call *action, int signal)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    return is_handled(signal) ? ep_linux_signal_view(action, signal, &ignore, NULL) : real(signal);
}

int ep_linux_sighow(ep_linux_number_call *real, ep_linux_mask_call *mask, int how, int signal)
{
    if (!is_handled(signal))
        return real(signal);
    sigset_t set = set_of(signal);
    return ep_linux_mask(mask, how, &set, NULL);
}

/* ---- masks ---- */

/* True if neither the set nor the thread's belief nor a small stack concerns our numbers. */
static inline bool is_unrelated(uint64_t asked)
{
    return ((asked & ep_linux_signals_ours()) | ep_linux_believed()) == 0 && !ep_linux_stacks_tight();
}

int ep_linux_mask(ep_linux_mask_call *real, int how, const sigset_t *set, sigset_t *old)
{
    uint64_t asked = set ? ep_linux_set_bits(set) : 0;
    sigset_t stripped;

    if (is_unrelated(asked))
        return real(how, set, old);
    uint64_t ours = ep_linux_signals_named(asked), was = ep_linux_believed(), now = was;
    if (set) {
        stripped = *set;
        ep_linux_set_change(&stripped, ours, how == SIG_SETMASK ? ep_linux_stack_holds() : 0);
        now = how == SIG_BLOCK ? was | asked : how == SIG_UNBLOCK ? was & ~asked : asked;
    }
    int error = real(how, set ? &stripped : NULL, old);
    if (error)
        return error;
    ep_linux_believe(now & ours);
    if (old)
        ep_linux_set_change(old, ours, was);
    return 0;
}

/* The mask is not changed but for a small stack: the thread is blocked, so it has no ticks. A tick on the way into the
 * call would end the call, even though the mask blocks it. */
uint64_t ep_linux_mask_lend(const sigset_t *mask)
{
    uint64_t asked = mask ? ep_linux_set_bits(mask) : 0, kept = ep_linux_believed();

    if (!mask || is_unrelated(asked))
        return kept;
    uint64_t ours = ep_linux_signals_named(asked);
    kept = ep_linux_believed();
    ep_linux_believe(asked & ours);
    return kept;
}

const sigset_t *ep_linux_mask_lent(const sigset_t *mask, sigset_t *room)
{
    const uint64_t held = mask ? ep_linux_stack_holds() : 0;

    if (!held)
        return mask;
    *room = *mask;
    ep_linux_set_change(room, 0, held);
    return room;
}

void ep_linux_mask_return(uint64_t kept)
{
    if (kept != ep_linux_believed())
        ep_linux_believe(kept);
}

/* ---- waiting for signals ---- */

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS + now.tv_nsec;
}

/* Our numbers may be waited for, all or as they were given back. A tick received meanwhile is ignored: its time
 * becomes residual CPU time of its thread. */
static int wait_skip_ticks(ep_linux_wait_call *real, const sigset_t *set, siginfo_t *info,
                           const struct timespec *timeout)
{
    int64_t end = timeout ? now_ns() + (int64_t)timeout->tv_sec * NS + timeout->tv_nsec : 0;
    struct timespec left = timeout ? *timeout : (struct timespec){0};
    siginfo_t got;
    uint32_t owner;
    int signal;

    while ((signal = real(set, &got, timeout ? &left : NULL)) > 0 && is_handled(signal) &&
           ep_linux_tick_of(&got, &owner)) {
        int64_t rest = timeout && end > now_ns() ? end - now_ns() : 0;
        left = (struct timespec){.tv_sec = (time_t)(rest / NS), .tv_nsec = (long)(rest % NS)};
    }
    if (signal > 0 && info)
        *info = got;
    return signal;
}

int ep_linux_wait(ep_linux_wait_call *real, const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    uint64_t asked = set ? ep_linux_set_bits(set) : 0;

    if (!(asked & ep_linux_signals_handled()))
        return real(set, info, timeout);
    (void)ep_linux_signals_named(asked);
    return wait_skip_ticks(real, set, info, timeout);
}

int ep_linux_sigwait(int (*real)(const sigset_t *set, int *signal), ep_linux_wait_call *wait, const sigset_t *set,
                     int *signal)
{
    int kept = errno, got, error;

    if (!set || !(ep_linux_set_bits(set) & ep_linux_signals_handled()))
        return real(set, signal);
    do
        got = ep_linux_wait(wait, set, NULL, NULL);
    while (got < 0 && errno == EINTR);
    error = got < 0 ? errno : 0;
    errno = kept;
    if (!error)
        *signal = got;
    return error;
}

/* Removes our numbers, since the descriptor's reader would get ticks. A descriptor for all our numbers does not
 * report the numbers that the program has not named. */
int ep_linux_signalfd(ep_linux_descriptor_call *real, int fd, const sigset_t *set, int flags)
{
    uint64_t asked = set ? ep_linux_set_bits(set) : 0;

    if (!(asked & ep_linux_signals_ours()))
        return real(fd, set, flags);
    sigset_t stripped = *set;
    ep_linux_set_change(&stripped, ep_linux_signals_named(asked), 0);
    return real(fd, &stripped, flags);
}
