/*
 * The handler of fatal signals. Only programs that record crashes link this.
 *
 *   on_fatal -> record -> ep_linux_crash_event                                 crash_event.c
 *                      -> ep_crash_begin, ep_crash_step ..., ep_crash_end     core/features/crash/record.c
 *            -> pass_on     the signal again, for what had it before
 *
 * It is not on an alternate stack: .NET's runtime would run its own handler there, which needs more room. It has no
 * SA_NODEFER until it records, so a handler that calls it as a plain function finds what it expects. Under
 * the preload library it stays where the program asks for a signal's default action: crash reporters do that before
 * they send the signal again. A fault in a step jumps back and continues at the next one. A time limit has two timers:
 * the first, at three quarters of it, ends the process by the signal that it crashed with, the second by SIGKILL, if
 * the first is not taken.
 */
#include "linux.h"
#include "cpu_clock.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FATALS       6u
#define FAULTS_MOST  2u
#define LIMIT_SIGNAL SIGABRT
#define OWNER_WAITS  40u /* of 50 ms */
#define DIE_WAITS    2u
#define LAYERS       3u

static const int fatal[FATALS] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT};

const struct sigaction *(*ep_linux_default)(int signal);

static struct {
    pid_t pid; /* of the process that is watched; 0: none */
    bool watched[FATALS];
    struct before {
        struct sigaction layer[LAYERS]; /* before the start, and each time that this handler came in front again */
        unsigned top;
        bool told; /* the crash is recorded, and came here again by way of a layer */
    } before[FATALS];
    struct sigaction found[FATALS]; /* what the signals did when the crash came */
    uint32_t limit_ms;
    int timer[2];      /* the kernel's numbers */
    atomic_uint owner; /* the thread that records; 0: none */
    unsigned faults;   /* of that thread */
    unsigned step;
    int signal;
    siginfo_t info;
    struct ep_crash_event event;
    sigjmp_buf next;
} crash;

static unsigned index_of(int signal)
{
    unsigned i = 0;

    while (i < FATALS - 1 && fatal[i] != signal)
        i++;
    return i;
}

static uint32_t tid_here(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

static void resend(uint32_t tid, int signal, siginfo_t *info)
{
    (void)syscall(SYS_rt_tgsigqueueinfo, syscall(SYS_getpid), tid, signal, info);
}

/* True if the instruction is executed again when the handler returns, and faults again. */
static bool comes_again(int signal, const siginfo_t *info)
{
    if (info->si_code <= 0 || signal == SIGTRAP || signal == SIGABRT)
        return false;
    return signal != SIGBUS || info->si_code != BUS_MCEERR_AO;
}

/* When the handler returns the signal has the effect that it had before: status, core dump and information stay. A
 * handler that came later may call this one as the one before, which then is the next layer. */
static void pass_on(int signal, siginfo_t *info)
{
    struct before *before = &crash.before[index_of(signal)];

    (void)sigaction(signal, &before->layer[before->top], NULL);
    before->told = before->top > 0;
    before->top -= before->told;
    if (!comes_again(signal, info))
        resend(tid_here(), signal, info);
}

static void wait_50_ms(void)
{
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 50000000}, NULL);
}

/* Ends the process by the signal that it crashed with: in the thread that crashed, or here, if that blocks it. */
static void die(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    const uint64_t all = UINT64_MAX;
    uint64_t mask = all & ~(1ull << (crash.signal - 1));

    (void)sigaction(crash.signal, &action, NULL);
    resend(atomic_load(&crash.owner), crash.signal, &crash.info);
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    for (unsigned i = 0; i < DIE_WAITS; i++)
        wait_50_ms();
    resend(tid_here(), crash.signal, &crash.info);
    (void)syscall(SYS_exit_group, 128 + crash.signal);
}

/* ---- the time limit ---- */

static void timer_set(int timer, uint32_t ms)
{
    (void)ep_linux_timer_first(timer, ms * 1000000, 0);
}

static int timer_make(int signal, int *timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};

    event.sigev_value.sival_ptr = &crash;
    return syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, timer) == 0 ? 0 : -errno;
}

static void limit_begin(void)
{
    timer_set(crash.timer[0], crash.limit_ms / 4 * 3);
    timer_set(crash.timer[1], crash.limit_ms);
}

static void limit_end(void)
{
    timer_set(crash.timer[0], 0);
    timer_set(crash.timer[1], 0);
}

static bool is_limit(int signal, const siginfo_t *info)
{
    return signal == LIMIT_SIGNAL && info->si_code == SI_TIMER && info->si_value.sival_ptr == &crash;
}

static int limit_create(void)
{
    int error = timer_make(LIMIT_SIGNAL, &crash.timer[0]);

    if (error)
        return error;
    error = timer_make(SIGKILL, &crash.timer[1]);
    if (error)
        ep_linux_timer_delete(crash.timer[0]);
    return error;
}

/* ---- the handler ---- */

static void on_fatal(int signal, siginfo_t *info, void *ucontext);

/* From here on a fault in this code comes to this code, wherever this handler was called from. Returns the mask that
 * was in effect. */
static uint64_t faults_catch(void)
{
    struct sigaction action = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_NODEFER};
    uint64_t bits = 0, before = 0;

    for (unsigned i = 0; i < FATALS; i++) {
        (void)sigaction(fatal[i], &action, &crash.found[i]);
        bits |= 1ull << (fatal[i] - 1);
    }
    (void)syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &bits, &before, sizeof bits);
    return before;
}

static void faults_leave(uint64_t mask)
{
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
    for (unsigned i = 0; i < FATALS; i++)
        (void)sigaction(fatal[i], &crash.found[i], NULL);
}

static void steps_run(void)
{
    (void)sigsetjmp(crash.next, 0);
    while (crash.step < EP_CRASH_STEPS)
        ep_crash_step((enum ep_crash_step_number)crash.step++);
}

static void record(int signal, siginfo_t *info, void *ucontext)
{
    ep_linux_default = NULL;
    crash.signal = signal;
    crash.info = *info;
    crash.faults = 1;
    crash.step = EP_CRASH_STEPS;
    limit_begin();
    const uint64_t mask = faults_catch();
    if (sigsetjmp(crash.next, 0) == 0) {
        ep_linux_crash_event(&crash.event, signal, info, ucontext);
        if (ep_crash_begin(&crash.event)) {
            crash.step = 0;
            steps_run();
            ep_crash_end();
        }
    }
    limit_end();
    faults_leave(mask);
}

/* Another thread has crashed, and is recorded. */
static void owner_await(void)
{
    for (unsigned i = 0; i < OWNER_WAITS && atomic_load(&crash.owner); i++)
        wait_50_ms();
}

static void on_fatal(int signal, siginfo_t *info, void *ucontext)
{
    const int kept = errno;
    const uint32_t tid = tid_here();
    unsigned nobody = 0;

    if (is_limit(signal, info)) {
        if (atomic_load(&crash.owner))
            die();
    } else if (syscall(SYS_getpid) != crash.pid || crash.before[index_of(signal)].told) {
        pass_on(signal, info);
    } else if (atomic_load(&crash.owner) == tid) {
        if (++crash.faults > FAULTS_MOST)
            die();
        siglongjmp(crash.next, 1);
    } else if (atomic_compare_exchange_strong(&crash.owner, &nobody, tid)) {
        record(signal, info, ucontext);
        pass_on(signal, info);
        atomic_store(&crash.owner, 0);
    } else {
        owner_await();
        pass_on(signal, info);
    }
    errno = kept;
}

/* ---- start and stop ---- */

static const struct sigaction on_fatal_action = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO};

/* The crash that would have ended the program is recorded, then ends it. */
static const struct sigaction *default_of(int signal)
{
    const unsigned i = index_of(signal);

    if (fatal[i] != signal || !crash.watched[i] || getpid() != crash.pid)
        return NULL;
    crash.before[i] = (struct before){.layer = {{.sa_handler = SIG_DFL}}};
    return &on_fatal_action;
}

static bool is_on_fatal(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_fatal;
}

int ep_port_crash_watch(uint32_t limit_ms)
{
    int error = limit_create();

    if (error)
        return error;
    crash.limit_ms = limit_ms;
    crash.pid = getpid();
    atomic_store(&crash.owner, 0);
    for (unsigned i = 0; i < FATALS; i++) {
        crash.before[i] = (struct before){.top = 0};
        (void)sigaction(fatal[i], NULL, &crash.before[i].layer[0]);
        crash.watched[i] = crash.before[i].layer[0].sa_handler != SIG_IGN; /* what is ignored is no crash */
        if (crash.watched[i])
            (void)sigaction(fatal[i], &on_fatal_action, NULL);
    }
    ep_linux_default = default_of;
    return 0;
}

static bool same_handler(const struct sigaction *one, const struct sigaction *other)
{
    return (one->sa_flags & SA_SIGINFO) == (other->sa_flags & SA_SIGINFO) && one->sa_sigaction == other->sa_sigaction;
}

/* A handler that was installed again is the same layer: it would get the signal twice, and may wait for itself then.
 * The layer is there before the handler is, in case that a crash comes in between. */
static int layer_add(unsigned i, const struct sigaction *action)
{
    struct before *before = &crash.before[i];
    const unsigned top = before->top + (before->top == 0 || !same_handler(&before->layer[before->top], action));

    if (top == LAYERS)
        return -ENOSPC;
    before->layer[top] = *action;
    atomic_signal_fence(memory_order_seq_cst);
    before->top = top;
    before->told = false;
    crash.watched[i] = true;
    return sigaction(fatal[i], &on_fatal_action, NULL) == 0 ? 1 : -errno;
}

int ep_port_crash_in_front(void)
{
    struct sigaction now;
    int count = 0;

    for (unsigned i = 0; i < FATALS; i++) {
        (void)sigaction(fatal[i], NULL, &now);
        if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN || is_on_fatal(&now))
            continue;
        int added = layer_add(i, &now);
        if (added < 0)
            return added;
        count += added;
    }
    return count;
}

/* Handlers that were installed since stay; they may call this one still, and so may the one that comes back: for it
 * the next layer is the one before. */
void ep_port_crash_unwatch(void)
{
    struct sigaction now;

    ep_linux_default = NULL;
    for (unsigned i = 0; i < FATALS; i++) {
        struct before *before = &crash.before[i];
        if (!crash.watched[i] || sigaction(fatal[i], NULL, &now) != 0 || !is_on_fatal(&now))
            continue;
        const unsigned top = before->top;
        before->top -= top > 0;
        (void)sigaction(fatal[i], &before->layer[top], NULL);
    }
    crash.pid = 0;
    ep_linux_timer_delete(crash.timer[0]);
    ep_linux_timer_delete(crash.timer[1]);
}

static void (*thread_fn)(uint32_t tid);

static void visit_thread(uint32_t tid)
{
    if (tid != crash.event.tid && !ep_linux_thread_is_own(tid))
        thread_fn(tid);
}

void ep_port_crash_threads(void (*fn)(uint32_t tid))
{
    thread_fn = fn;
    (void)ep_linux_tasks(visit_thread);
}
