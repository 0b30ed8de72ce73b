/*
 * The program's view of edgeprof's signals; see own_signal.h.
 *
 *   ep_linux_signals_take     chooses the numbers and installs the handler
 *   ep_linux_signal_foreign   no tick: see signal_foreign.c
 *   ep_linux_signals_named    gives a number back to the program; ticks move to the next number
 *
 * The last number is never given back: a program that uses all of them shares it with edgeprof and cannot block it.
 */
#include "own_signal.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/options.h>

/* Away from SIGRTMIN, which .NET uses, and from SIGRTMAX, which qemu-user lacks and Java and valgrind use. */
#define FIRST   49
#define RANGE   8
#define NUMBERS 4

#define BIT(signal) (1ull << ((signal)-1))
#define LOOKS       16
#define FAULTS      (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGTRAP))

/* Two copies, so that a handler can read one while a thread writes the other. */
struct view {
    atomic_uint turn;
    struct ep_linux_disposition at[2];
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

static struct ep_linux_disposition view_read(const struct view *view)
{
    struct ep_linux_disposition seen;
    unsigned turn, look = 0;

    do {
        turn = atomic_load(&view->turn);
        seen = view->at[turn & 1];
        atomic_thread_fence(memory_order_acquire);
    } while (atomic_load(&view->turn) != turn && ++look < LOOKS);
    return seen;
}

static void view_write(struct view *view, const struct ep_linux_disposition *seen)
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

static void action_for_program(const struct ep_linux_disposition *seen, struct sigaction *action)
{
    memset(action, 0, sizeof *action);
    memcpy(&action->sa_handler, &seen->handler, sizeof seen->handler);
    action->sa_flags = seen->flags;
    ep_linux_set_change(&action->sa_mask, 0, seen->mask);
}

/* The action for the kernel: our handler, with the program's flags and mask if the program has a handler. Without
 * one, other signals wait until a tick is over: another profiler's signal that comes at the same moment must not
 * interrupt our handler. */
static void action_for_kernel(const struct ep_linux_disposition *seen, struct sigaction *action)
{
    bool handler = seen->handler != (uintptr_t)SIG_DFL && seen->handler != (uintptr_t)SIG_IGN;

    memset(action, 0, sizeof *action);
    action->sa_sigaction = ep_linux_on_signal;
    action->sa_flags = SA_SIGINFO | (handler ? seen->flags & ~(int)SA_RESETHAND : SA_RESTART | SA_ONSTACK);
    ep_linux_set_change(&action->sa_mask, 0, handler ? seen->mask & ~ep_linux_signals_ours() : ~FAULTS);
}

static struct ep_linux_disposition disposition_of(const struct sigaction *action)
{
    struct ep_linux_disposition asked = {.flags = action->sa_flags, .mask = ep_linux_set_bits(&action->sa_mask)};

    memcpy(&asked.handler, &action->sa_handler, sizeof asked.handler);
    asked.mask &= ~(BIT(SIGKILL) | BIT(SIGSTOP));
    return asked;
}

/* A child of vfork() shares this memory, but not the timers. */
void ep_linux_signals_release(uint64_t bits)
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
        ep_linux_signals_release(BIT(signal));
    /* Our own handler is being installed, or this is a child of vfork() with a table of its own. */
    if (action && (action->sa_sigaction == ep_linux_on_signal || getpid() != own.pid))
        return real(signal, action, old);
    uint64_t mask = write_begin();
    struct ep_linux_disposition before = view_read(view_of(signal)), asked;
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

struct ep_linux_disposition ep_linux_signal_seen(int signal)
{
    return view_read(view_of(signal));
}

void ep_linux_signal_reset(int signal)
{
    const struct ep_linux_disposition none = {.handler = (uintptr_t)SIG_DFL};
    uint64_t mask = write_begin();

    view_write(view_of(signal), &none);
    write_end(mask);
}

void ep_linux_signal_let_go(int signal)
{
    const struct sigaction action = {.sa_handler = SIG_DFL};

    (void)atomic_fetch_and(&own.handled, ~BIT(signal));
    (void)sigaction(signal, &action, NULL);
}

void ep_linux_signal_take_back(int signal)
{
    const struct ep_linux_disposition none = {.handler = (uintptr_t)SIG_DFL};
    struct sigaction action;

    (void)atomic_fetch_or(&own.handled, BIT(signal));
    action_for_kernel(&none, &action);
    (void)sigaction(signal, &action, NULL);
}

/* ---- sets from the program ---- */

uint64_t ep_linux_signals_named(uint64_t bits)
{
    uint64_t ours = ep_linux_signals_ours(), part = bits & ours;

    if (part)
        ep_linux_signals_release(2 * __builtin_popcountll(part) > __builtin_popcountll(ours) ? ours & ~part : part);
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
    struct ep_linux_disposition before = {.handler = handler_installed(signal)};
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
        struct ep_linux_disposition seen = view_read(view_of(signal));
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
