/*
 * The sampling source: one timer on every thread's own CPU clock, a signal to that thread when it expires.
 *
 *   ep_linux_on_signal   the handler: which thread, how many periods, its registers and bounds -> ep_capture()
 *   arm / disarm         a slot of the thread table and its timer
 *   ep_linux_thread_*    threads that announce themselves; scan -> scan_thread, scan_end: threads that are found
 *
 * A timer counts CPU time, so a thread that sleeps is never signalled and no system call of it is interrupted. The
 * first expiry is random in (0, period]: short and rarely active threads are sampled as often as they deserve. A tick
 * stands for period x (1 + overrun), because no timer expires more often than the kernel ticks. What a thread has used
 * when it ends and no tick has accounted for is its rest (ep_thread_rest), negative when the last tick was charged
 * ahead.
 *
 * Threads that cannot have a timer (RLIMIT_SIGPENDING, table full) are uncovered.c's: their CPU time is accounted for.
 * The scan gives the timer of the thread that used least to one of them that used more.
 *
 * The handler stays installed after stop and does nothing: SIG_DFL would kill the process with a late signal, SIG_IGN
 * would be inherited by what it executes. Slots lie in the caller's memory, touched only between ep_enter and ep_leave.
 */
#include "linux.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/edgeprof.h"

#ifndef sigev_notify_thread_id /* glibc has it without a name, */
#define sigev_notify_thread_id _sigev_un._tid
#endif
#ifndef SYS_timer_settime /* musl by another where time_t is 64 bits and long is not */
#define SYS_timer_settime SYS_timer_settime32
#endif

#define SIGNAL SIGPROF
#define NS     1000000000u
#define TRIALS 16u
/* A main thread's stack is taken to be at most this large, whatever the limit says. */
#define MAIN_STACK_MOST (64u << 20)

enum { SLOT_FREE, SLOT_BUSY, SLOT_ARMED };
enum { STOPPED, PAUSED, RUNNING };

/* What of a thread's CPU time belongs to a slot that it leaves: all; what is known, for the thread is gone; nothing. */
enum used { USED_NOW, USED_BEFORE, USED_NOTHING };

struct slot {
    atomic_uint state;
    atomic_uint tid;
    atomic_uint generation; /* tells a signal of this owner from one of the last */
    int timer;
    uint64_t base_ns;            /* CPU time of the thread when it was armed */
    _Atomic uint64_t seen_ns;    /* CPU time at the last scan */
    _Atomic uint64_t charged_ns; /* since it was armed */
    atomic_uint period_ns;       /* of its timer */
    atomic_uint lately;          /* used between the last two scans, in EP_LINUX_USED_UNIT */
    atomic_bool seen;
};

#define MEMORY ((sizeof(struct slot) + sizeof(struct ep_linux_watched)) * EP_MAX_THREADS)
_Static_assert(MEMORY <= EP_PORT_BYTES, "EP_PORT_BYTES is too small");

static struct slot *slots;
static atomic_uint period_ns;
static atomic_uint sampling; /* is RUNNING, else nobody is armed */
static uint64_t tick_cost_ns;
static struct ep_linux_bounds main_bounds;
static bool fork_hooked;
static atomic_uint own_tid[EP_ROLES];

/* A thread's own view of itself; zero until it is announced or sampled. */
static _Thread_local struct {
    struct ep_linux_bounds bounds;
    struct ep_work work;
    uint32_t tid;
    bool own;
    bool fork_blocked; /* the signal, by our fork hook */
} self;

size_t ep_port_memory_size(void)
{
    return MEMORY;
}

static uint32_t tid_here(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

/* ---- the handler ---- */

struct ep_work *ep_port_work(void)
{
    return &self.work;
}

/* Only the thread itself knows where its stack lies: a slot may be another thread's before a late signal is through. */
static void bounds_here(uint32_t tid, struct ep_context *context)
{
    struct ep_linux_bounds *bounds = &self.bounds;

    __asm__("" : "+r"(bounds)); /* where it lies is computed once */
    if (bounds->end == 0 && tid == (uint32_t)getpid())
        *bounds = main_bounds;
    context->stack_start = bounds->start;
    context->stack_end = bounds->end;
    context->stack_root = bounds->root;
    context->moved = 0;
}

uint32_t ep_port_bounds(struct ep_context *context)
{
    if (self.tid == 0)
        self.tid = tid_here();
    bounds_here(self.tid, context);
    context->alt_start = context->alt_end = 0;
    return self.tid;
}

static void take(uint32_t tid, uint64_t ns, const void *ucontext)
{
    struct ep_context context;

    ep_linux_context(ucontext, &context);
    bounds_here(tid, &context);
    ep_capture(&context, tid, ns);
}

static void tick(const siginfo_t *info, const void *ucontext)
{
    uint32_t value = (uint32_t)info->si_value.sival_int, index = value & 0xffff;
    uint64_t ticks = 1u + (uint32_t)info->si_overrun;

    if (index >= EP_MAX_THREADS ||
        (atomic_load_explicit(&slots[index].generation, memory_order_relaxed) & 0xffff) != value >> 16)
        return;
    struct slot *slot = &slots[index];
    uint64_t ns = ticks * atomic_load_explicit(&slot->period_ns, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&slot->charged_ns, ns, memory_order_relaxed);
    take(atomic_load_explicit(&slot->tid, memory_order_relaxed), ns, ucontext);
}

/* errno stays: nothing here changes it but ep_port_wake(), which keeps it. Context: signal. */
void ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext);

void ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext)
{
    (void)signal;
    if (info->si_code == SI_TIMER && ep_enter()) {
        if (atomic_load_explicit(&sampling, memory_order_acquire) == RUNNING)
            tick(info, ucontext);
        ep_leave();
    }
}

/* What the kernel takes for a signal, by signals of the calling thread to itself: the handler does nothing with them.
 */
static void tick_measure(void)
{
    uint64_t start = ep_port_thread_cpu_ns();

    for (unsigned i = 0; i < TRIALS; i++)
        (void)syscall(SYS_tgkill, getpid(), tid_here(), SIGNAL);
    tick_cost_ns = (ep_port_thread_cpu_ns() - start) / TRIALS;
}

uint64_t ep_port_tick_cost_ns(void)
{
    return tick_cost_ns;
}

/* ---- timers ---- */

static int timer_make(uint32_t tid, uint32_t value, int *timer)
{
    struct sigevent event = {
        .sigev_signo = SIGNAL, .sigev_value.sival_int = (int)value, .sigev_notify = SIGEV_THREAD_ID};

    event.sigev_notify_thread_id = (pid_t)tid;
    return syscall(SYS_timer_create, ep_linux_cpu_clock(tid), &event, timer) == 0 ? 0 : -errno;
}

static uint64_t random_phase(uint32_t period)
{
    uint32_t dice;

    ep_port_random(&dice, sizeof dice);
    return 1 + (uint64_t)dice * period / UINT32_MAX;
}

static void timer_run(int timer, uint32_t period)
{
    uint64_t first = random_phase(period);
    /* The kernel's struct, whatever size time_t has in this C library. */
    const long spec[4] = {(long)(period / NS), (long)(period % NS), (long)(first / NS), (long)(first % NS)};

    (void)syscall(SYS_timer_settime, timer, 0, spec, NULL);
}

/* ---- slots ---- */

static struct slot *slot_of(uint32_t tid)
{
    for (struct slot *slot = slots, *end = slot + EP_MAX_THREADS; slot < end; slot++)
        if (atomic_load(&slot->tid) == tid && atomic_load(&slot->state) == SLOT_ARMED)
            return slot;
    return NULL;
}

static struct slot *slot_take(void)
{
    for (struct slot *slot = slots, *end = slot + EP_MAX_THREADS; slot < end; slot++) {
        unsigned free = SLOT_FREE;
        if (atomic_compare_exchange_strong(&slot->state, &free, SLOT_BUSY))
            return slot;
    }
    return NULL;
}

/* base_ns: CPU time of the thread that is accounted for already. 0, or the reason why it has no timer. */
static unsigned arm(uint32_t tid, uint64_t base_ns)
{
    struct slot *slot = slot_take();

    if (!slot)
        return EP_LOSS_NO_SLOT;
    uint32_t value = (uint32_t)(slot - slots) | (atomic_fetch_add(&slot->generation, 1) + 1) << 16;
    uint32_t period = atomic_load(&period_ns);
    atomic_store(&slot->charged_ns, 0);
    atomic_store(&slot->period_ns, period);
    slot->base_ns = base_ns;
    atomic_store(&slot->seen_ns, slot->base_ns);
    atomic_store(&slot->seen, true);
    atomic_store(&slot->lately, UINT_MAX); /* a whole interval first */
    int error = timer_make(tid, value, &slot->timer);
    if (error) {
        atomic_store(&slot->state, SLOT_FREE);
        return error != -EINVAL && error != -ESRCH ? EP_LOSS_NO_TIMER : 0; /* gone: nothing to cover */
    }
    atomic_store(&slot->tid, tid);
    atomic_store(&slot->state, SLOT_ARMED);
    timer_run(slot->timer, period);
    return 0;
}

/* Of a thread that cannot be asked any more; its last ticks may be later than the last scan. */
static uint64_t used_at_least(const struct slot *slot)
{
    uint64_t seen = atomic_load(&slot->seen_ns), charged = slot->base_ns + atomic_load(&slot->charged_ns);

    return seen > charged ? seen : charged;
}

/* Takes the timer away and tells the rest; all that while the slot is busy. */
static void disarm(struct slot *slot, enum used until)
{
    unsigned armed = SLOT_ARMED;

    if (!atomic_compare_exchange_strong(&slot->state, &armed, SLOT_BUSY))
        return;
    (void)syscall(SYS_timer_delete, slot->timer);
    uint32_t tid = atomic_load(&slot->tid);
    uint64_t used = until == USED_NOTHING ? slot->base_ns : until == USED_NOW ? ep_linux_cpu_ns(tid) : 0;
    if (!used && until != USED_NOTHING)
        used = used_at_least(slot);
    ep_thread_rest(tid, (int64_t)(used - slot->base_ns) - (int64_t)atomic_load(&slot->charged_ns));
    ep_linux_covered(used - atomic_exchange(&slot->seen_ns, used));
    atomic_store(&slot->tid, 0);
    atomic_store(&slot->state, SLOT_FREE);
}

/* ---- threads that announce themselves ---- */

void ep_linux_thread_own(enum ep_role role)
{
    self.own = true;
    atomic_store(&own_tid[role], tid_here());
}

void ep_linux_thread_begins(struct ep_linux_bounds bounds)
{
    self.bounds = bounds;
    if (!ep_enter())
        return;
    if (atomic_load(&sampling) == RUNNING) {
        uint32_t tid = tid_here();
        struct slot *stale = slot_of(tid); /* of a thread that ended unseen and had the same id */
        if (stale)
            disarm(stale, USED_BEFORE);
        unsigned reason = arm(tid, 0); /* it begins: what it has used belongs to this profile */
        if (reason)
            (void)ep_linux_uncovered(tid, 0, reason);
    }
    ep_leave();
}

void ep_linux_thread_ends(void)
{
    if (!ep_enter())
        return;
    uint32_t tid = tid_here();
    struct slot *slot = atomic_load(&sampling) == RUNNING ? slot_of(tid) : NULL;
    if (slot)
        disarm(slot, USED_NOW);
    ep_leave();
}

/* ---- threads that are found ---- */

bool ep_linux_here_is_own(void)
{
    return self.own;
}

void ep_linux_here_set_own(bool own)
{
    self.own = own;
}

bool ep_linux_thread_is_own(uint32_t tid)
{
    bool own = false;

    for (unsigned role = 0; role < EP_ROLES; role++)
        own |= tid == atomic_load(&own_tid[role]);
    return own;
}

uint64_t ep_linux_own_ns(void)
{
    uint64_t ns = 0;

    for (unsigned role = 0; role < EP_ROLES; role++) {
        uint32_t tid = atomic_load(&own_tid[role]);
        ns += tid ? ep_linux_cpu_ns(tid) : 0;
    }
    return ns;
}

/* The slot of the thread that used least since the scan before, less than `used`. */
static struct slot *idlest(unsigned used)
{
    struct slot *found = NULL;

    for (struct slot *slot = slots, *end = slot + EP_MAX_THREADS; slot < end; slot++) {
        unsigned lately = atomic_load(&slot->lately);
        if (lately < used && atomic_load(&slot->state) == SLOT_ARMED) {
            found = slot;
            used = lately;
        }
    }
    return found;
}

static void found(uint32_t tid, uint64_t now)
{
    unsigned reason = arm(tid, now);
    unsigned used = reason ? ep_linux_uncovered(tid, now, reason) : 0;
    struct slot *slot = used > atomic_load(&period_ns) / EP_LINUX_USED_UNIT ? idlest(used) : NULL;

    if (slot) {
        disarm(slot, USED_NOW); /* the next scan counts its thread as one without a timer */
        (void)arm(tid, now);
    }
}

static void scan_thread(uint32_t tid)
{
    struct slot *slot = slot_of(tid);
    uint64_t now = ep_linux_cpu_ns(tid), seen = slot ? atomic_load(&slot->seen_ns) : 0;

    if (!slot) {
        if (now && !ep_linux_thread_is_own(tid))
            found(tid, now);
        return;
    }
    atomic_store(&slot->seen, true);
    /* Unless it belongs to another by now. */
    if (now && atomic_compare_exchange_strong(&slot->seen_ns, &seen, now)) {
        atomic_store(&slot->lately, (unsigned)((now - seen) / EP_LINUX_USED_UNIT));
        ep_linux_covered(now - seen);
    }
}

/* A thread that was found and announced itself at the same moment has two slots. The second one's ticks were charged
 * twice: taking them as its rest puts that right. */
static bool is_twin(const struct slot *slot)
{
    return slot_of(atomic_load(&slot->tid)) != slot;
}

/* *settled: no thread is between leaving its slot and having told what it used. Returns the number of armed threads. */
static int scan_end(bool *settled)
{
    int armed = 0;

    *settled = true;
    for (struct slot *slot = slots, *end = slot + EP_MAX_THREADS; slot < end; slot++) {
        unsigned state = atomic_load(&slot->state);
        if (state != SLOT_ARMED)
            *settled &= state == SLOT_FREE;
        else if (is_twin(slot))
            disarm(slot, USED_NOTHING);
        else if (!atomic_load(&slot->seen) && ep_linux_cpu_ns(atomic_load(&slot->tid)) == 0)
            disarm(slot, USED_BEFORE);
        else
            armed++;
    }
    return armed;
}

static int scan(void)
{
    uint64_t process_ns = ep_linux_process_ns();
    bool settled;

    for (struct slot *slot = slots, *end = slot + EP_MAX_THREADS; slot < end; slot++)
        atomic_store(&slot->seen, false);
    int error = ep_linux_tasks(scan_thread);
    if (error)
        return error;
    int armed = scan_end(&settled);
    if (settled) /* else the next scan tells */
        ep_linux_uncovered_tell(process_ns);
    return armed;
}

int ep_port_threads_scan(void)
{
    int armed = 0;

    if (!ep_enter()) /* stop waits until no thread is armed any more */
        return 0;
    if (atomic_load(&sampling) == RUNNING) /* the collect thread is there before it begins */
        armed = scan();
    ep_leave();
    return armed;
}

/* ---- fork ---- */

/* A fork that a signal interrupts starts again: a process so large that it takes longer than a period would never
 * get done. Ticks of that time are not lost, they come as overruns. */
static void fork_prepare(void)
{
    sigset_t ours, before;

    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGNAL);
    self.fork_blocked = pthread_sigmask(SIG_BLOCK, &ours, &before) == 0 && !sigismember(&before, SIGNAL);
}

static void fork_parent(void)
{
    sigset_t ours;

    if (!self.fork_blocked)
        return;
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGNAL);
    (void)pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
}

static void fork_child(void)
{
    atomic_store(&sampling, STOPPED);
    ep_forked();
    fork_parent();
}

/* ---- start and stop ---- */

static int handler_install(void)
{
    struct sigaction action = {.sa_sigaction = ep_linux_on_signal, .sa_flags = SA_SIGINFO | SA_RESTART}, before;

    if (sigaction(SIGNAL, NULL, &before) != 0)
        return -errno;
    if (before.sa_flags & SA_SIGINFO ? before.sa_sigaction != ep_linux_on_signal
                                     : before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        return -EBUSY;
    return sigaction(SIGNAL, &action, NULL) == 0 ? 0 : -errno;
}

/* The main thread's stack ends at field 28, "startstack", of /proc/self/stat. */
static void main_bounds_find(void)
{
    char text[512];
    struct rlimit limit;

    main_bounds = (struct ep_linux_bounds){0};
    if (ep_linux_read("/proc/self/stat", text, sizeof text) <= 0)
        return;
    const char *at = strrchr(text, ')'); /* the program's name may hold anything */
    for (int field = 2; at && field < 28; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return;
    uintptr_t end = (uintptr_t)ep_linux_number(&at) & ~(sizeof(uintptr_t) - 1);
    uintptr_t most = MAIN_STACK_MOST;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < most)
        most = (uintptr_t)limit.rlim_cur;
    if (end > most)
        main_bounds = (struct ep_linux_bounds){.start = end - most, .end = end};
}

/* Handlers have left when sampling ends: all is told. */
static void halt(unsigned state, enum used until)
{
    uint64_t process_ns = ep_linux_process_ns();
    bool ran = atomic_exchange(&sampling, state) == RUNNING;

    for (struct slot *slot = slots, *end = slot + EP_MAX_THREADS; slot < end; slot++)
        disarm(slot, until);
    if (ran)
        ep_linux_uncovered_tell(process_ns);
}

/* What was used until now is nobody's, also that of a thread that was armed just as the others were not any more: all
 * are found as if they had just come. */
static int begin(void)
{
    unsigned paused = PAUSED; /* unless stop is faster */

    halt(PAUSED, USED_NOTHING);
    ep_linux_uncovered_begin((struct ep_linux_watched *)(slots + EP_MAX_THREADS));
    (void)atomic_compare_exchange_strong(&sampling, &paused, RUNNING);
    return ep_port_threads_scan();
}

int ep_port_sampling_start(void *memory, uint32_t period)
{
    int error = handler_install();
    if (error)
        return error;
    slots = memory;
    tick_measure();
    atomic_store(&period_ns, period);
    main_bounds_find();
    if (!fork_hooked)
        fork_hooked = pthread_atfork(fork_prepare, fork_parent, fork_child) == 0;
    atomic_store(&sampling, PAUSED);
    int armed = period ? begin() : 0;
    if (armed < 0)
        ep_port_sampling_stop();
    return armed;
}

/* A slot that is given to another thread meanwhile has the new period already: both store it before they run the timer.
 */
void ep_port_sampling_period(uint32_t period)
{
    unsigned state = atomic_load(&sampling);

    if (state == STOPPED)
        return;
    if (period == 0) {
        halt(PAUSED, USED_NOW);
        return;
    }
    atomic_store(&period_ns, period);
    if (state == PAUSED) {
        (void)begin();
        return;
    }
    for (struct slot *slot = slots, *end = slot + EP_MAX_THREADS; slot < end; slot++) {
        if (atomic_load(&slot->state) != SLOT_ARMED)
            continue;
        atomic_store(&slot->period_ns, period);
        timer_run(slot->timer, period);
    }
}

void ep_port_sampling_stop(void)
{
    halt(STOPPED, USED_NOW);
}
