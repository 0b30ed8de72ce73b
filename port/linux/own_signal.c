/*
 * The program's view of edgeprof's signals; see own_signal.h.
 *
 *   ep_linux_signals_take     chooses the numbers and installs the handler
 *   ep_linux_signal_foreign   no tick: postpones it if the thread believes it blocked; else default action, or the
 *                             program's handler
 *   ep_linux_signals_named    gives a number back to the program; ticks move to the next number
 *
 * The last number is never given back: a program that uses all of them shares it with edgeprof and cannot block it.
 */
#include "own_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <edgeprof/options.h>

/* Away from SIGRTMIN, which .NET uses, and from SIGRTMAX, which qemu-user lacks and Java and valgrind use. */
#define FIRST   49
#define RANGE   8
#define NUMBERS 4

#define BIT(signal) (1ull << ((signal)-1))
#define TO_PROCESS  2u /* PIDFD_SIGNAL_THREAD_GROUP */
#define LOOKS       16
#define FAULTS      (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGTRAP))

struct disposition {
    uintptr_t handler; /* SIG_DFL, SIG_IGN or a function */
    int flags;
    uint64_t mask;
};

/* Two copies, so that a handler can read one while a thread writes the other. */
struct view {
    atomic_uint turn;
    struct disposition at[2];
    uintptr_t installed; /* the handler in the kernel: a sanitizer may install its own in front */
};

static struct {
    struct view view[RANGE];
    _Atomic uint64_t handled; /* numbers with our handler */
    _Atomic uint64_t ours;    /* those of them not given back */
    atomic_int current;
    atomic_bool writing;
    pid_t pid;
} own;

uintptr_t ep_linux_tick_salt;

/* Our numbers that this thread believes to be blocked. */
static _Thread_local _Atomic uint64_t believed;

int ep_linux_signal(void)
{
    return atomic_load_explicit(&own.current, memory_order_relaxed);
}

uint64_t ep_linux_signals_handled(void)
{
    return atomic_load_explicit(&own.handled, memory_order_relaxed);
}

uint64_t ep_linux_signals_ours(void)
{
    return atomic_load_explicit(&own.ours, memory_order_relaxed);
}

uint64_t ep_linux_believed(void)
{
    return atomic_load_explicit(&believed, memory_order_relaxed);
}

void ep_linux_believe(uint64_t blocked)
{
    atomic_store_explicit(&believed, blocked, memory_order_relaxed);
}

/* ---- sets ---- */

uint64_t ep_linux_set_bits(const sigset_t *set)
{
    uint64_t bits;

    memcpy(&bits, set, sizeof bits);
    return bits;
}

void ep_linux_set_change(sigset_t *set, uint64_t without, uint64_t with)
{
    uint64_t bits = (ep_linux_set_bits(set) & ~without) | with;

    memcpy(set, &bits, sizeof bits);
}

uint64_t ep_linux_mask_raw(int how, uint64_t bits)
{
    uint64_t before = 0;

    (void)syscall(SYS_rt_sigprocmask, how, &bits, &before, sizeof bits);
    return before;
}

static int lowest(uint64_t bits)
{
    return bits ? __builtin_popcountll((bits & -bits) - 1) + 1 : 0;
}

/* ---- ticks ---- */

uintptr_t ep_linux_tick_value(uint32_t slot, uint32_t generation)
{
    return ep_linux_tick_salt + (slot << 8 | (generation & 0xff));
}

/* ---- the disposition that the program sees ---- */

static struct view *view_of(int signal)
{
    return &own.view[signal - FIRST];
}

static struct disposition view_read(const struct view *view)
{
    struct disposition seen;
    unsigned turn, look = 0;

    do {
        turn = atomic_load(&view->turn);
        seen = view->at[turn & 1];
        atomic_thread_fence(memory_order_acquire);
    } while (atomic_load(&view->turn) != turn && ++look < LOOKS);
    return seen;
}

static void view_write(struct view *view, const struct disposition *seen)
{
    unsigned turn = atomic_load(&view->turn) + 1;

    view->at[turn & 1] = *seen;
    atomic_store(&view->turn, turn);
}

/* Writers are rare. All signals are blocked while a thread writes. */
static uint64_t write_begin(void)
{
    const struct timespec pause = {.tv_nsec = 50000};
    uint64_t mask = ep_linux_mask_raw(SIG_SETMASK, UINT64_MAX);

    while (atomic_exchange(&own.writing, true))
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return mask;
}

static void write_end(uint64_t mask)
{
    atomic_store(&own.writing, false);
    (void)ep_linux_mask_raw(SIG_SETMASK, mask);
}

static void action_for_program(const struct disposition *seen, struct sigaction *action)
{
    memset(action, 0, sizeof *action);
    memcpy(&action->sa_handler, &seen->handler, sizeof seen->handler);
    action->sa_flags = seen->flags;
    ep_linux_set_change(&action->sa_mask, 0, seen->mask);
}

/* The action for the kernel: our handler, with the program's flags and mask if the program has a handler. Without
 * one, other signals wait until a tick is over: another profiler's signal that comes at the same moment must not
 * interrupt our handler. */
static void action_for_kernel(const struct disposition *seen, struct sigaction *action)
{
    bool handler = seen->handler != (uintptr_t)SIG_DFL && seen->handler != (uintptr_t)SIG_IGN;

    memset(action, 0, sizeof *action);
    action->sa_sigaction = ep_linux_on_signal;
    action->sa_flags = SA_SIGINFO | (handler ? seen->flags & ~(int)SA_RESETHAND : SA_RESTART | SA_ONSTACK);
    ep_linux_set_change(&action->sa_mask, 0, handler ? seen->mask & ~ep_linux_signals_ours() : ~FAULTS);
}

static struct disposition disposition_of(const struct sigaction *action)
{
    struct disposition asked = {.flags = action->sa_flags, .mask = ep_linux_set_bits(&action->sa_mask)};

    memcpy(&asked.handler, &action->sa_handler, sizeof asked.handler);
    asked.mask &= ~(BIT(SIGKILL) | BIT(SIGSTOP));
    return asked;
}

/* Gives back the numbers in `bits`, but never the last one. A child of vfork() shares this memory, but not the
 * timers. */
static void numbers_release(uint64_t bits)
{
    uint64_t had = atomic_load(&own.ours), left;

    if (!(bits & had) || getpid() != own.pid)
        return;
    do {
        left = had & ~bits;
        if (!left)
            left = BIT(lowest(had));
    } while (!atomic_compare_exchange_weak(&own.ours, &had, left));
    if (left & BIT(ep_linux_signal()))
        return;
    atomic_store(&own.current, lowest(atomic_load(&own.ours)));
    ep_linux_timers_renew();
}

int ep_linux_signal_view(ep_linux_action_call *real, int signal, const struct sigaction *action, struct sigaction *old)
{
    if (action && action->sa_sigaction != ep_linux_on_signal && action->sa_handler != SIG_DFL &&
        action->sa_handler != SIG_IGN)
        numbers_release(BIT(signal));
    /* Our own handler is being installed, or this is a child of vfork() with a table of its own. */
    if (action && (action->sa_sigaction == ep_linux_on_signal || getpid() != own.pid))
        return real(signal, action, old);
    uint64_t mask = write_begin();
    struct disposition before = view_read(view_of(signal)), asked;
    struct sigaction wanted;
    int error = 0;
    if (action) {
        asked = disposition_of(action);
        action_for_kernel(&asked, &wanted);
        view_write(view_of(signal), &asked);
        error = real(signal, &wanted, NULL);
    }
    write_end(mask);
    if (old && !error)
        action_for_program(&before, old);
    return error;
}

/* ---- signals that are no ticks ---- */

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

    numbers_release(BIT(signal));
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
    struct sigaction action = {.sa_handler = SIG_DFL};

    (void)atomic_fetch_and(&own.handled, ~BIT(signal));
    (void)sigaction(signal, &action, NULL);
    signal_requeue(signal, info, true);
    (void)ep_linux_mask_raw(SIG_UNBLOCK, BIT(signal));
    (void)atomic_fetch_or(&own.handled, BIT(signal));
    const struct disposition none = {.handler = (uintptr_t)SIG_DFL};
    action_for_kernel(&none, &action);
    (void)sigaction(signal, &action, NULL);
}

static void handler_reset(int signal)
{
    const struct disposition none = {.handler = (uintptr_t)SIG_DFL};
    uint64_t mask = write_begin();

    view_write(view_of(signal), &none);
    write_end(mask);
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
    struct disposition seen = view_read(view_of(signal));
    if (seen.handler == (uintptr_t)SIG_DFL && !waits)
        default_action(signal, info);
    if (seen.flags & (int)SA_RESETHAND && seen.handler != (uintptr_t)SIG_IGN)
        handler_reset(signal);
    errno = kept;
    if (seen.handler != (uintptr_t)SIG_DFL && seen.handler != (uintptr_t)SIG_IGN)
        call_handler(seen.handler, seen.flags, signal, info, ucontext);
}

/* ---- sets from the program ---- */

uint64_t ep_linux_signals_named(uint64_t bits)
{
    uint64_t ours = ep_linux_signals_ours(), part = bits & ours;

    if (part)
        numbers_release(2 * __builtin_popcountll(part) > __builtin_popcountll(ours) ? ours & ~part : part);
    ours = ep_linux_signals_ours();
    uint64_t late = ep_linux_believed() & ~ours;
    if (late) {
        ep_linux_believe(ep_linux_believed() & ours);
        (void)ep_linux_mask_raw(SIG_BLOCK, late);
    }
    return ours;
}

/* ---- begin and end ---- */

void ep_linux_signals_born(void)
{
    uint64_t ours = ep_linux_signals_ours(), blocked = ours ? ours & ep_linux_mask_raw(SIG_BLOCK, 0) : 0;

    if (!blocked)
        return;
    ep_linux_believe(ep_linux_believed() | blocked); /* before unblocking: a signal may be pending */
    (void)ep_linux_mask_raw(SIG_UNBLOCK, blocked);
}

/* The handler in the kernel, even if a sanitizer intercepts sigaction(). */
static uintptr_t handler_installed(int signal)
{
    uintptr_t action[16] = {0};

    return syscall(SYS_rt_sigaction, signal, NULL, action, sizeof(uint64_t)) == 0 ? action[0] : UINTPTR_MAX;
}

static bool number_take(int signal, bool wanted)
{
    struct view *view = view_of(signal);
    struct disposition before = {.handler = handler_installed(signal)};
    struct sigaction action;

    if (view->installed && before.handler == view->installed)
        return true;
    if (!wanted || (before.handler != (uintptr_t)SIG_DFL && before.handler != (uintptr_t)SIG_IGN))
        return false;
    view_write(view, &before);
    action_for_kernel(&before, &action);
    if (sigaction(signal, &action, NULL) != 0)
        return false;
    view->installed = handler_installed(signal);
    return true;
}

int ep_linux_signals_take(void)
{
    uint64_t taken = 0, kept = atomic_load(&own.handled), given = kept & ~atomic_load(&own.ours);

    own.pid = getpid();
    if (!ep_linux_tick_salt)
        ep_port_random(&ep_linux_tick_salt, sizeof ep_linux_tick_salt);
    for (int signal = FIRST; signal < FIRST + RANGE; signal++)
        if (number_take(signal, __builtin_popcountll(taken | kept) < NUMBERS))
            taken |= BIT(signal);
    atomic_store(&own.handled, taken);
    atomic_store(&own.ours, taken & ~given);
    atomic_store(&own.current, lowest(taken & ~given));
    ep_linux_signals_born();
    ep_linux_stacks_guard_again();
    if (taken & ~given)
        return 0;
    return handler_installed(FIRST) == UINTPTR_MAX ? -errno : -EBUSY; /* refused, or all are in use */
}

void ep_linux_signals_forked(void)
{
    uint64_t handled = atomic_exchange(&own.handled, 0);
    struct sigaction action;

    atomic_store(&own.ours, 0);
    for (int signal; (signal = lowest(handled)) != 0; handled &= ~BIT(signal)) {
        struct disposition seen = view_read(view_of(signal));
        action_for_program(&seen, &action);
        (void)sigaction(signal, &action, NULL);
        view_of(signal)->installed = 0;
    }
    (void)ep_linux_mask_raw(SIG_BLOCK, ep_linux_believed());
    ep_linux_believe(0);
    atomic_store(&own.writing, false); /* by a thread of the parent */
}

int ep_linux_signal_borrow(void)
{
    int signal = ep_linux_signal();

    if (signal == 0 || handler_installed(signal) != (uintptr_t)SIG_DFL || !number_take(signal, true))
        return -EBUSY;
    own.pid = getpid();
    atomic_store(&own.handled, BIT(signal));
    return 0;
}

void ep_linux_signal_own_again(void)
{
    atomic_store(&own.ours, atomic_load(&own.handled));
}
