/*
 * Sampling: a timer on each thread's own CPU clock sends a signal to that thread when it expires. This file starts and
 * stops it, and has the threads that announce themselves.
 *
 * tick_handler.c has the handler, thread_scan.c the threads that are found, sampling_fork.c forks, uncovered.c threads
 * without a timer, own_signal.c signal numbers, thread_table.c the table. The handler stays installed after stop:
 * SIG_DFL would let a late signal kill the process, and executed programs would inherit SIG_IGN.
 */
#include "own_signal.h"
#include "cpu_clock.h"
#include "perf_clock.h"
#include "sampler.h"
#include "thread_table.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>

#define TRIALS 4u
enum { STOPPED, PAUSED, RUNNING };

static atomic_uint period_ns;
static atomic_uint sampling;     /* RUNNING, else no thread is armed */
static bool beside;              /* another copy of edgeprof counts the CPU time of this process */
static atomic_uint tick_cost_ns; /* the collect thread may run before it is measured */

size_t ep_port_memory_size(unsigned threads)
{
    return threads * (sizeof(struct ep_linux_slot) + sizeof(struct ep_linux_watched));
}

bool ep_linux_samples(void)
{
    return atomic_load_explicit(&sampling, memory_order_acquire) == RUNNING;
}

uint32_t ep_linux_period_ns(void)
{
    return atomic_load(&period_ns);
}

bool ep_linux_sampling_forked(void)
{
    return atomic_exchange(&sampling, STOPPED) != STOPPED;
}

/* Measures the kernel's cost of a signal, by ticks without a slot that the calling thread sends to itself. The first
 * one finds no page of the handler in memory. */
static void tick_measure(void)
{
    siginfo_t info = {.si_code = SI_TIMER};
    uint64_t start = 0;

    info.si_value.sival_ptr = (void *)ep_linux_tick_value(EP_THREADS_MOST, 0);
    for (unsigned i = 0; i <= TRIALS; i++) {
        if (i == 1)
            start = ep_port_thread_cpu_ns();
        (void)syscall(SYS_rt_tgsigqueueinfo, getpid(), ep_linux_tid(), ep_linux_signal(), &info);
    }
    atomic_store_explicit(&tick_cost_ns, (unsigned)((ep_port_thread_cpu_ns() - start) / TRIALS), memory_order_relaxed);
}

uint32_t ep_port_clock(uint64_t *error)
{
    if (error)
        *error = (uint64_t)-ep_linux_perf_error();
    if (ep_linux_perf_is_used())
        return EP_CLOCK_PERF;
    return ep_linux_is_by_tick(ep_linux_period_ns()) ? EP_CLOCK_TICKS : EP_CLOCK_TIMERS;
}

uint64_t ep_port_tick_cost_ns(void)
{
    uint32_t period = ep_linux_period_ns(), tick = ep_linux_kernel_tick_ns();
    uint64_t cost_ns = atomic_load_explicit(&tick_cost_ns, memory_order_relaxed);

    return !ep_linux_perf_is_used() && ep_linux_is_by_tick(period) && period > tick ? cost_ns * period / tick : cost_ns;
}

/* ---- threads that announce themselves ---- */

void ep_linux_thread_begins(struct ep_linux_bounds bounds)
{
    ep_linux_here_begins(bounds);
    if (!ep_hold())
        return;
    if (ep_linux_samples()) {
        uint32_t tid = ep_linux_tid();
        ep_linux_stack_tiny_ends(tid);                       /* likewise */
        struct ep_linux_slot *stale = ep_linux_slot_of(tid); /* of an ended thread that had the same id */
        if (stale)
            ep_linux_disarm(stale, EP_LINUX_USED_BEFORE);
        int error = ep_linux_arm(tid, 0, ep_linux_period_ns()); /* all its CPU time belongs to this profile */
        if (error)
            (void)ep_linux_uncovered(tid, 0, error);
    }
    ep_release();
}

void ep_linux_thread_ends(void)
{
    if (!ep_hold())
        return;
    uint32_t tid = ep_linux_tid();
    struct ep_linux_slot *slot = ep_linux_samples() ? ep_linux_slot_of(tid) : NULL;
    if (slot)
        ep_linux_disarm(slot, EP_LINUX_USED_NOW);
    else
        ep_thread_unsampled_ends(tid);
    ep_release();
}

/* ---- start and stop ---- */

void ep_linux_timers_renew(void)
{
    if (!ep_hold())
        return;
    EP_LINUX_EACH_SLOT (slot) {
        uint32_t tid = atomic_load(&slot->tid);
        if (atomic_load(&slot->state) != EP_LINUX_SLOT_ARMED || !ep_linux_samples())
            continue;
        ep_linux_disarm(slot, EP_LINUX_USED_NOW);
        (void)ep_linux_arm(tid, ep_linux_cpu_ns(tid), ep_linux_period_ns()); /* on failure the scan finds the thread */
    }
    ep_release();
}

/* Disarms all threads and reports their residual CPU time. When sampling ends no handler runs any more. */
static void sampling_halt(unsigned state, enum ep_linux_used until)
{
    uint64_t process_ns = ep_linux_process_ns();
    bool ran = atomic_exchange(&sampling, state) == RUNNING;

    EP_LINUX_EACH_SLOT (slot) {
        ep_linux_disarm(slot, until);
        ep_linux_slot_cover(slot);
    }
    if (ran)
        ep_linux_uncovered_tell(process_ns);
}

/* Arms all threads as if they had just been found: CPU time used before counts for no thread, even for one that was
 * armed meanwhile. */
static int sampling_begin(void)
{
    unsigned paused = PAUSED; /* unless stop was faster */

    sampling_halt(PAUSED, EP_LINUX_USED_NOTHING);
    ep_linux_uncovered_begin((struct ep_linux_watched *)(ep_linux_slots + ep_linux_slot_count), ep_linux_slot_count);
    (void)atomic_compare_exchange_strong(&sampling, &paused, RUNNING);
    return ep_port_threads_scan();
}

int ep_port_sampling_start(void *memory, unsigned threads, uint32_t period, uint32_t clock)
{
    ep_linux_slots_begin(memory, threads);
    beside = !ep_linux_claim();
    if (beside) {
        atomic_store(&sampling, PAUSED);
        return ep_linux_fork_watch();
    }
    ep_linux_wraps_check();
    int error = ep_linux_signals_take();
    if (error)
        return error;
    ep_linux_clock_choose(clock);
    ep_linux_perf_choose(clock);
    ep_linux_ticks_begin();
    ep_linux_switches_find();
    tick_measure();
    ep_linux_ticks_adjust();
    atomic_store(&period_ns, period);
    ep_linux_main_bounds_find();
    error = ep_linux_fork_watch();
    if (error)
        return error;
    atomic_store(&sampling, PAUSED);
    int armed = period ? sampling_begin() : 0;
    if (armed < 0)
        ep_port_sampling_stop();
    return armed;
}

void ep_port_sampling_period(uint32_t period)
{
    unsigned state = atomic_load(&sampling);

    if (state == STOPPED || beside)
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
    ep_linux_claim_end();
}
