/*
 * Sampling: a timer on each thread's own CPU clock sends a signal to that thread when it expires.
 *
 *   ep_linux_on_signal   the handler: finds thread, number of periods, registers and bounds -> ep_capture()
 *   ep_linux_thread_*    threads that announce themselves
 *   scan_threads -> scan_thread, scan_end: threads that are found
 *
 * A timer counts CPU time, so it never interrupts a blocked system call. It expires on kernel ticks. A sample stands
 * for period x (1 + overrun), or with a period of at most some kernel ticks for the ticks that it was chosen from. Perf
 * events are a clock without ticks (perf_clock.c). Not here: threads without a timer (uncovered.c), signal numbers
 * (own_signal.c), the table (thread_table.c). The handler stays installed after stop: SIG_DFL would let a late signal
 * kill the process, and executed programs would inherit SIG_IGN.
 */
#include "own_signal.h"
#include "cpu_clock.h"
#include "own_threads.h"
#include "perf_clock.h"
#include "thread_table.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/hooks.h>

#define TRIALS      16u
#define BEHIND_PART 8
/* The owner of the tick that starts the profiler in a forked child: no slot. */
#define FORK_TICK       (EP_MAX_THREADS << 8 | 1u)
#define FORK_FIRST_NS   100000000u
#define FORK_RETRIES_NS 200000000u
enum { STOPPED, PAUSED, RUNNING };

#define MEMORY ((sizeof(struct ep_linux_slot) + sizeof(struct ep_linux_watched)) * EP_MAX_THREADS)
_Static_assert(MEMORY <= EP_PORT_BYTES, "EP_PORT_BYTES is too small");

static atomic_uint period_ns;
static atomic_uint sampling; /* RUNNING, else no thread is armed */
static uint64_t tick_cost_ns;
static bool fork_hooked;

/* The thread's own data; zero until it is announced or sampled. */
static _Thread_local struct {
    struct ep_linux_bounds bounds;
    struct ep_work work;
    uint32_t tid;
    uint32_t owner;  /* what the next three are of */
    uint64_t ticked; /* ep_port_ticks() of the last kernel tick */
    int64_t behind;  /* CPU time less what its ticks stand for */
    struct ep_stratum stratum;
    uint64_t fork_blocked; /* signals blocked by fork_prepare() */
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

__attribute__((hot)) struct ep_work *ep_port_work(void)
{
    return &self.work;
}

/* Of the main thread, until its root is known, and of threads that nobody announced. */
static __attribute__((noinline)) void bounds_first(uint32_t tid, uintptr_t sp)
{
    if (tid == (uint32_t)getpid()) {
        ep_linux_main_root_find(sp);
        self.bounds = ep_linux_main_bounds;
    } else if (self.bounds.end == 0) {
        struct ep_linux_bounds found;
        if (ep_linux_stack_found(tid, sp, &found))
            self.bounds = found;
    }
}

/* Uses the thread's own bounds: a slot may already belong to another thread when a late signal is handled. */
static void bounds_here(uint32_t tid, struct ep_registers *context)
{
    if (self.bounds.root == 0)
        bounds_first(tid, context->sp);
    struct ep_linux_bounds *bounds = &self.bounds;
    __asm__("" : "+r"(bounds)); /* computes the address once */
    context->stack_start = bounds->start;
    context->stack_end = bounds->end;
    context->stack_root = bounds->root;
    context->moved = 0;
}

uint32_t ep_port_bounds(struct ep_registers *context)
{
    if (self.tid == 0)
        self.tid = tid_here();
    bounds_here(self.tid, context);
    context->alt_start = context->alt_end = 0;
    return self.tid;
}

static void capture_here(struct ep *ep, uint32_t tid, uint64_t ns, const void *ucontext)
{
    struct ep_registers context;

    ep_linux_context(ucontext, &context);
    ep_linux_stack_seen(context.alt_end - context.alt_start);
    bounds_here(tid, &context);
    ep_capture(ep, &context, tid, ns);
}

/* A kernel tick finds what runs by chance, so it stands for the time between two ticks, and not for what the thread
 * used since its last one: that tells how it ran when no tick came. Chance alone would drift away from the CPU time
 * used, above all in a thread that runs in step with the ticks. So a part of the difference that the tick before left
 * is added: it does not depend on what this tick finds. (Simulated: shares within 0.6 %, differences of 2 ticks.) If
 * the thread ran all the time, ticks are missing or it could take no signal: this one stands for all of them. used: CPU
 * time since its last tick, reported: what of it is in a profile already. */
static uint64_t kernel_tick(uint64_t used, uint64_t reported)
{
    int64_t tick = ep_linux_kernel_tick_ns(), more = self.behind / BEHIND_PART;
    uint64_t last = self.ticked, weight;

    self.ticked = ep_port_ticks();
    if ((int64_t)used > tick + tick / 2 && ep_port_ticks_ns(self.ticked - last) < used + used / 16)
        weight = used > reported ? used - reported : 0;
    else
        weight = (uint64_t)(tick + (more > tick / 2 ? tick / 2 : more < -tick ? -tick : more));
    self.behind += (int64_t)(used - reported - weight);
    return weight;
}

/* Returns the weight of the sample; 0: none. */
static uint64_t weight_of(struct ep_linux_slot *slot, uint32_t owner, uint64_t expiries)
{
    uint32_t period = atomic_load_explicit(&slot->period_ns, memory_order_relaxed);
    bool by_tick = atomic_load_explicit(&slot->clock, memory_order_relaxed) == EP_LINUX_BY_TICK;
    uint64_t used = expiries * (by_tick ? EP_LINUX_EACH_TICK_NS : period), reported = 0;

    if (atomic_load_explicit(&slot->missed, memory_order_relaxed)) {
        unsigned most = (unsigned)(used / EP_LINUX_USED_UNIT),
                 missed = atomic_load_explicit(&slot->missed, memory_order_relaxed);
        missed = missed < most ? missed : most;
        (void)atomic_fetch_sub_explicit(&slot->missed, missed, memory_order_relaxed);
        reported = (uint64_t)missed * EP_LINUX_USED_UNIT;
    }
    if (!by_tick)
        return used - reported;
    if (self.owner != owner) {
        self.owner = owner;
        self.behind = 0;
    }
    uint64_t weight = kernel_tick(used, reported);
    if (period <= ep_linux_kernel_tick_ns() / 8 * 9u) /* a sample a tick: strata would join and skip some */
        return weight;
    return ep_stratum_advance(&self.stratum, weight, period);
}

/* Ticks that waited while a handler of the program kept them blocked: alternate.c. */
static void count_waited(struct ep *ep, const siginfo_t *info, const void *ucontext)
{
    const ucontext_t *interrupted = ucontext;

    if (info->si_overrun > 0 && ep_linux_stacks_tight() && ep_linux_stack_is_tight(interrupted->uc_stack.ss_size))
        ep_ticks_waited(ep, (uint32_t)info->si_overrun);
}

static void handle_tick(struct ep *ep, uint32_t owner, const siginfo_t *info, const void *ucontext)
{
    uint32_t index = owner >> 8;

    if (index >= EP_MAX_THREADS ||
        (atomic_load_explicit(&ep_linux_slots[index].generation, memory_order_relaxed) & 0xff) != (owner & 0xff))
        return;
    struct ep_linux_slot *slot = &ep_linux_slots[index];
    uint64_t ns = weight_of(slot, owner, 1u + (uint64_t)(uint32_t)info->si_overrun);
    count_waited(ep, info, ucontext);
    if (ns == 0)
        return;
    (void)atomic_fetch_add_explicit(&slot->charged_ns, ns, memory_order_relaxed);
    capture_here(ep, atomic_load_explicit(&slot->tid, memory_order_relaxed), ns, ucontext);
}

/* From 3/4 to 5/4 of the thread's period. */
static uint32_t perf_period(const struct ep_linux_slot *slot, unsigned part)
{
    return (uint32_t)((uint64_t)atomic_load_explicit(&slot->period_ns, memory_order_relaxed) *
                      (3 * EP_LINUX_PERF_MEAN + part) / (4 * EP_LINUX_PERF_MEAN));
}

/* A program that repeats itself to the microsecond would meet one period always in the same places. A system call that
 * changes it takes 0.5 us. */
static int perf_vary(struct ep_linux_slot *slot, int fd)
{
    uint64_t dice = ep_port_ticks() * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    unsigned part = (unsigned)(dice * (2 * EP_LINUX_PERF_MEAN + 1) >> 32);

    int error = ep_linux_perf_period(fd, self.tid, perf_period(slot, part));
    if (error)
        return error;
    atomic_store_explicit(&slot->perf_part, (unsigned char)part, memory_order_relaxed);
    return 0;
}

/* A sample stands for a period. Time in the kernel has none, see report_residual() in thread_table.c. */
static void handle_perf(struct ep *ep, int fd, const void *ucontext)
{
    if (self.tid == 0)
        self.tid = tid_here();
    struct ep_linux_slot *slot = ep_linux_slot_by_perf(fd, self.tid);
    if (!slot)
        return;
    uint32_t period = perf_period(slot, atomic_load_explicit(&slot->perf_part, memory_order_relaxed));
    int error = perf_vary(slot, fd);
    if (error) { /* it may expire too often: the next scan gives the thread a timer */
        ep_linux_perf_refuse(error);
        return;
    }
    (void)atomic_fetch_add_explicit(&slot->charged_ns, period, memory_order_relaxed);
    capture_here(ep, self.tid, period, ucontext);
}

/* Keeps errno: nothing here changes it, or it restores it. */
__attribute__((hot)) void ep_linux_on_signal(int signal, siginfo_t *info, void *ucontext)
{
    struct ep *ep;
    uint32_t owner;

    bool by_perf = !ep_linux_tick_of(info, &owner);
    if (by_perf && !ep_linux_perf_signalled(info)) {
        ep_linux_signal_foreign(signal, info, ucontext);
        return;
    }
    if ((ep = ep_hold()) != NULL) {
        bool runs = atomic_load_explicit(&sampling, memory_order_acquire) == RUNNING;
        if (runs && by_perf)
            handle_perf(ep, info->si_fd, ucontext);
        else if (runs)
            handle_tick(ep, owner, info, ucontext);
        ep_release();
    } else if (!by_perf && owner == FORK_TICK) {
        (void)ep_port_thread_resume(EP_ROLE_START);
    }
}

/* Measures the kernel's cost of a signal, by ticks without a slot that the calling thread sends to itself. */
static void tick_measure(void)
{
    siginfo_t info = {.si_code = SI_TIMER};
    uint64_t start = ep_port_thread_cpu_ns();

    info.si_value.sival_ptr = (void *)ep_linux_tick_value(EP_MAX_THREADS, 0);
    for (unsigned i = 0; i < TRIALS; i++)
        (void)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid_here(), ep_linux_signal(), &info);
    tick_cost_ns = (ep_port_thread_cpu_ns() - start) / TRIALS;
}

uint32_t ep_port_clock(uint64_t *error)
{
    if (error)
        *error = (uint64_t)-ep_linux_perf_error();
    if (ep_linux_perf_is_used())
        return EP_CLOCK_PERF;
    return ep_linux_is_by_tick(atomic_load(&period_ns)) ? EP_CLOCK_TICKS : EP_CLOCK_TIMERS;
}

uint64_t ep_port_tick_cost_ns(void)
{
    uint32_t period = atomic_load(&period_ns), tick = ep_linux_kernel_tick_ns();

    return !ep_linux_perf_is_used() && ep_linux_is_by_tick(period) && period > tick ? tick_cost_ns * period / tick
                                                                                    : tick_cost_ns;
}

/* ---- threads that announce themselves ---- */

void ep_linux_thread_begins(struct ep_linux_bounds bounds)
{
    self.bounds = bounds;
    if (!ep_hold())
        return;
    if (atomic_load(&sampling) == RUNNING) {
        uint32_t tid = tid_here();
        struct ep_linux_slot *stale = ep_linux_slot_of(tid); /* of an ended thread that had the same id */
        if (stale)
            ep_linux_disarm(stale, EP_LINUX_USED_BEFORE);
        int error = ep_linux_arm(tid, 0, atomic_load(&period_ns)); /* all its CPU time belongs to this profile */
        if (error)
            (void)ep_linux_uncovered(tid, 0, error);
    }
    ep_release();
}

void ep_linux_thread_ends(void)
{
    if (!ep_hold())
        return;
    uint32_t tid = tid_here();
    struct ep_linux_slot *slot = atomic_load(&sampling) == RUNNING ? ep_linux_slot_of(tid) : NULL;
    if (slot)
        ep_linux_disarm(slot, EP_LINUX_USED_NOW);
    else
        ep_thread_unsampled_ends(tid);
    ep_release();
}

/* ---- threads that are found ---- */

/* Arms a thread without a timer. If that fails, the thread takes over the timer of the thread that used least CPU time,
 * provided that it used more itself. A thread that keeps the signal blocked gets no timer until it unblocks it. */
static void arm_found(uint32_t tid, uint64_t now)
{
    if (ep_linux_still_blocks(tid)) {
        (void)ep_linux_uncovered(tid, now, 0);
        return;
    }
    int error = ep_linux_arm(tid, now, atomic_load(&period_ns));
    unsigned used = error ? ep_linux_uncovered(tid, now, error) : 0;
    struct ep_linux_slot *slot =
        used > atomic_load(&period_ns) / EP_LINUX_USED_UNIT ? ep_linux_slot_idlest(used) : NULL;

    if (slot) {
        ep_linux_disarm(slot, EP_LINUX_USED_NOW); /* the next scan counts its thread as one without a timer */
        (void)ep_linux_arm(tid, now, atomic_load(&period_ns));
    }
}

/* True if a filter of system calls refuses clocks of CPU time. Timers may work: then a thread's CPU time is that of its
 * ticks. */
static bool clocks_refused(void)
{
    return ep_port_thread_cpu_ns() == 0;
}

/* True if the thread has a perf event no more, or is not to have one. */
static bool perf_lost(const struct ep_linux_slot *slot, uint32_t tid)
{
    if (atomic_load(&slot->clock) != EP_LINUX_BY_PERF)
        return false;
    if (!ep_linux_perf_is_ours(atomic_load(&slot->timer), tid))
        ep_linux_perf_refuse(-EBADF);
    return !ep_linux_perf_is_used();
}

static void scan_thread(uint32_t tid)
{
    struct ep_linux_slot *slot = ep_linux_slot_of(tid);
    uint64_t now = ep_linux_cpu_ns(tid), seen = slot ? atomic_load(&slot->seen_ns) : 0;

    if (slot && now && now < seen) { /* an ended thread had the same id; its timer is dead */
        ep_linux_disarm(slot, EP_LINUX_USED_BEFORE);
        slot = NULL;
    }
    if (!slot) {
        if (!ep_linux_thread_is_own(tid) && (now || clocks_refused()))
            arm_found(tid, now);
        return;
    }
    atomic_store(&slot->seen, true);
    if (perf_lost(slot, tid)) {
        ep_linux_disarm(slot, EP_LINUX_USED_NOW);
        (void)ep_linux_arm(tid, now, atomic_load(&period_ns));
        return;
    }
    /* Fails if the slot belongs to another thread by now. */
    if (now && atomic_compare_exchange_strong(&slot->seen_ns, &seen, now)) {
        atomic_store(&slot->lately, (unsigned)((now - seen) / EP_LINUX_USED_UNIT));
        ep_linux_covered(now - seen);
        if (ep_linux_keeps_blocked(slot, tid, now))
            ep_linux_disarm(slot, EP_LINUX_USED_NOW);
        else
            ep_linux_missed(slot, tid, now);
    }
}

/* *settled: no thread is between releasing its slot and reporting its CPU time. Returns the number of armed threads. */
static int scan_end(bool *settled)
{
    int armed = 0;

    *settled = true;
    for (struct ep_linux_slot *slot = ep_linux_slots, *end = slot + EP_MAX_THREADS; slot < end; slot++) {
        unsigned state = atomic_load(&slot->state);
        if (state != EP_LINUX_SLOT_ARMED)
            *settled &= state == EP_LINUX_SLOT_FREE;
        else if (ep_linux_slot_is_twin(slot))
            ep_linux_disarm(slot, EP_LINUX_USED_NOTHING);
        else if (!atomic_load(&slot->seen) && ep_linux_cpu_ns(atomic_load(&slot->tid)) == 0)
            ep_linux_disarm(slot, EP_LINUX_USED_BEFORE);
        else
            armed++;
    }
    return armed;
}

static int scan_threads(void)
{
    uint64_t process_ns = ep_linux_process_ns();
    bool settled;

    for (struct ep_linux_slot *slot = ep_linux_slots, *end = slot + EP_MAX_THREADS; slot < end; slot++)
        atomic_store(&slot->seen, false);
    ep_linux_perf_check();
    int error = ep_linux_tasks(scan_thread);
    if (error)
        return error;
    int armed = scan_end(&settled);
    ep_linux_stacks_forget();
    if (settled) /* else the next scan reports */
        ep_linux_uncovered_tell(process_ns);
    return armed;
}

int ep_port_threads_scan(void)
{
    int armed = 0;

    if (!ep_hold()) /* keeps the table valid while stop disarms */
        return 0;
    ep_linux_ticks_adjust();
    if (atomic_load(&sampling) == RUNNING) /* the collect thread starts before sampling does */
        armed = scan_threads();
    ep_release();
    return armed;
}

/* ---- fork ---- */

/* The kernel restarts a fork() that a signal interrupts. A large process that needs more than a period for it would
 * never succeed. Ticks in that time are not lost: they come as overruns. */
static void fork_prepare(void)
{
    uint64_t ours = ep_linux_signals_ours();

    self.fork_blocked = ours ? ours & ~ep_linux_mask_raw(SIG_BLOCK, ours) : 0;
}

static void fork_parent(void)
{
    if (self.fork_blocked)
        (void)ep_linux_mask_raw(SIG_UNBLOCK, self.fork_blocked);
}

static void sampling_forked(void)
{
    if (atomic_exchange(&sampling, STOPPED) != STOPPED)
        ep_linux_perf_forked();
    self.tid = 0; /* of the parent's thread */
    ep_linux_threads_lost();
    ep_forked();
    fork_parent();
    ep_linux_signals_forked();
}

static int fork_timer_plus_1; /* 0: none */

int ep_linux_fork_arm(void)
{
    int timer;

    fork_timer_plus_1 = 0;
    if (ep_linux_signal_borrow() != 0)
        return -EBUSY;
    int error = ep_linux_timer_make(tid_here(), ep_linux_tick_value(EP_MAX_THREADS, 1), &timer);
    if (error) {
        ep_linux_signals_forked();
        return error;
    }
    fork_timer_plus_1 = timer + 1;
    return ep_linux_timer_first(timer, FORK_FIRST_NS, FORK_RETRIES_NS);
}

void ep_linux_fork_disarm(void)
{
    if (fork_timer_plus_1)
        ep_linux_timer_delete(fork_timer_plus_1 - 1);
    fork_timer_plus_1 = 0;
    ep_linux_signal_own_again();
}

/* ---- start and stop ---- */

void ep_linux_timers_renew(void)
{
    if (!ep_hold())
        return;
    for (struct ep_linux_slot *slot = ep_linux_slots, *end = slot + EP_MAX_THREADS; slot < end; slot++) {
        uint32_t tid = atomic_load(&slot->tid);
        if (atomic_load(&slot->state) != EP_LINUX_SLOT_ARMED || atomic_load(&sampling) != RUNNING)
            continue;
        ep_linux_disarm(slot, EP_LINUX_USED_NOW);
        (void)ep_linux_arm(tid, ep_linux_cpu_ns(tid),
                           atomic_load(&period_ns)); /* on failure the scan finds the thread */
    }
    ep_release();
}

/* Disarms all threads and reports their residual CPU time. When sampling ends no handler runs any more. */
static void sampling_halt(unsigned state, enum ep_linux_used until)
{
    uint64_t process_ns = ep_linux_process_ns();
    bool ran = atomic_exchange(&sampling, state) == RUNNING;

    for (struct ep_linux_slot *slot = ep_linux_slots, *end = slot + EP_MAX_THREADS; slot < end; slot++)
        ep_linux_disarm(slot, until);
    if (ran)
        ep_linux_uncovered_tell(process_ns);
}

/* Arms all threads as if they had just been found: CPU time used before counts for no thread, even for one that was
 * armed meanwhile. */
static int sampling_begin(void)
{
    unsigned paused = PAUSED; /* unless stop was faster */

    sampling_halt(PAUSED, EP_LINUX_USED_NOTHING);
    ep_linux_uncovered_begin((struct ep_linux_watched *)(ep_linux_slots + EP_MAX_THREADS));
    (void)atomic_compare_exchange_strong(&sampling, &paused, RUNNING);
    return ep_port_threads_scan();
}

int ep_port_sampling_start(void *memory, uint32_t period, uint32_t clock)
{
    int error = ep_linux_signals_take();
    if (error)
        return error;
    ep_linux_slots = memory;
    ep_linux_clock_choose(clock);
    ep_linux_perf_choose(clock);
    ep_linux_ticks_begin();
    ep_linux_switches_find();
    tick_measure();
    ep_linux_ticks_adjust();
    atomic_store(&period_ns, period);
    ep_linux_main_bounds_find();
    if (!fork_hooked)
        fork_hooked = pthread_atfork(fork_prepare, fork_parent, sampling_forked) == 0;
    atomic_store(&sampling, PAUSED);
    int armed = period ? sampling_begin() : 0;
    if (armed < 0)
        ep_port_sampling_stop();
    return armed;
}

void ep_port_sampling_period(uint32_t period)
{
    unsigned state = atomic_load(&sampling);

    if (state == STOPPED)
        return;
    if (period == 0) {
        sampling_halt(PAUSED, EP_LINUX_USED_NOW);
        return;
    }
    atomic_store(&period_ns, period);
    if (state == PAUSED)
        (void)sampling_begin();
    else
        ep_linux_timers_renew(); /* a tick on its way stands for the old period */
}

void ep_port_sampling_stop(void)
{
    sampling_halt(STOPPED, EP_LINUX_USED_NOW);
}
