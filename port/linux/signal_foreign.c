/*
 * Signals with edgeprof's numbers that are no ticks. A signal that the thread believes to be blocked is postponed; else
 * it has its default action, or the program's handler runs.
 */
#include "own_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define BIT(signal) (1ull << ((signal)-1))
#define TO_PROCESS  2u /* PIDFD_SIGNAL_THREAD_GROUP */

/* Repeats a signal sent by kill(). The kernel permits that only to the thread with the target's id: for the process,
 * to the main thread; since Linux 6.9 to any thread, by a descriptor of itself. */
static bool repeat_by_descriptor(int signal, siginfo_t *info)
{
    int fd = (int)syscall(SYS_pidfd_open, syscall(SYS_gettid), O_EXCL); /* PIDFD_THREAD */
    bool sent = fd >= 0 && syscall(SYS_pidfd_send_signal, fd, signal, info, TO_PROCESS) == 0;

    if (fd >= 0)
        (void)syscall(SYS_close, fd);
    return sent;
}

/* Queues a received signal again: for this thread if it was sent to a thread, else for the process. Before Linux 6.9
 * another process' kill() may then look like its sigqueue(). */
static void signal_requeue(int signal, siginfo_t *info, bool here)
{
    pid_t pid = getpid();

    if (here || info->si_code == SI_TKILL) {
        (void)syscall(SYS_rt_tgsigqueueinfo, pid, syscall(SYS_gettid), signal, info);
        return;
    }
    if (syscall(SYS_rt_sigqueueinfo, pid, signal, info) == 0 || repeat_by_descriptor(signal, info))
        return;
    if (info->si_code == SI_USER && info->si_pid == pid && kill(pid, signal) == 0)
        return;
    info->si_code = SI_QUEUE;
    (void)syscall(SYS_rt_sigqueueinfo, pid, signal, info);
}

/* The thread believes the number to be blocked, so this really blocks it, in the mask restored when the handler
 * returns, and queues the signal again. False: the number is still ours. */
static bool signal_postpone(int signal, siginfo_t *info, void *ucontext)
{
    ucontext_t *interrupted = ucontext;

    ep_linux_signals_release(BIT(signal));
    if (ep_linux_signals_ours() & BIT(signal))
        return false;
    ep_linux_believe(ep_linux_believed() & ~BIT(signal));
    ep_linux_set_change(&interrupted->uc_sigmask, 0, BIT(signal));
    signal_requeue(signal, info, false);
    return true;
}

/* Ends the process by this signal, as the kernel would. Only the init process of a container survives that. */
static void default_action(int signal, siginfo_t *info)
{
    ep_linux_signal_let_go(signal);
    signal_requeue(signal, info, true);
    (void)ep_linux_mask_raw(SIG_UNBLOCK, BIT(signal));
    ep_linux_signal_take_back(signal);
}

static void call_handler(uintptr_t handler, int flags, int signal, siginfo_t *info, void *ucontext)
{
    void (*full)(int, siginfo_t *, void *);
    void (*plain)(int);

    memcpy(&full, &handler, sizeof full);
    memcpy(&plain, &handler, sizeof plain);
    if (flags & SA_SIGINFO)
        full(signal, info, ucontext);
    else
        plain(signal);
}

void ep_linux_signal_foreign(int signal, siginfo_t *info, void *ucontext)
{
    int kept = errno;
    bool waits = (ep_linux_believed() & BIT(signal)) != 0;

    if (waits && signal_postpone(signal, info, ucontext)) {
        errno = kept;
        return;
    }
    struct ep_linux_disposition seen = ep_linux_signal_seen(signal);
    if (seen.handler == (uintptr_t)SIG_DFL && !waits)
        default_action(signal, info);
    if (seen.flags & (int)SA_RESETHAND && seen.handler != (uintptr_t)SIG_IGN)
        ep_linux_signal_reset(signal);
    errno = kept;
    if (seen.handler != (uintptr_t)SIG_DFL && seen.handler != (uintptr_t)SIG_IGN)
        call_handler(seen.handler, seen.flags, signal, info, ucontext);
}
