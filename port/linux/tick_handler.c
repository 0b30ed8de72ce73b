/*
 * The handler of ticks, and the calling thread's own data. It finds the thread, the weight of the sample, the registers
 * and the bounds of the stack, and calls ep_capture().
 *
 * A timer counts CPU time, so it never interrupts a blocked system call. It expires on kernel ticks. A sample stands
 * for period x (1 + overrun), or with a period of at most some kernel ticks for the ticks that it was chosen from. Perf
 * events are a clock without ticks (perf_clock.c).
 */
#include "own_signal.h"
#include "cpu_clock.h"
#include "perf_clock.h"
#include "sampler.h"
#include "thread_table.h"

#include <ucontext.h>
#include <unistd.h>

#include <edgeprof/hooks.h>

#define BEHIND_PART 8

void ep_linux_here_begins(struct ep_linux_bounds bounds)
{
    struct ep_linux_here *here = ep_linux_here();

    if (here)
        here->bounds = bounds;
}

/* Of the main thread, until its root is known, and of threads that nobody announced. Where the root stays unknown, only
 * the first samples ask: getpid() is a system call. */
static __attribute__((noinline)) void bounds_first(struct ep_linux_here *here, uint32_t tid, uintptr_t sp)
{
    struct ep_linux_bounds found;

    if (here->bounds.end != 0 && here->rootless == ep_linux_main_searches)
        return;
    if (tid == (uint32_t)getpid()) {
        if (!ep_linux_main_root_find(sp))
            here->rootless = ep_linux_main_searches;
        here->bounds = ep_linux_main_bounds;
        return;
    }
    here->rootless = ep_linux_main_searches;
    if (here->bounds.end == 0 && ep_linux_stack_found(tid, sp, &found))
        here->bounds = found;
}

/* Uses the thread's own bounds: a slot may already belong to another thread when a late signal is handled. */
static void bounds_here(struct ep_linux_here *here, uint32_t tid, struct ep_registers *registers)
{
    if (here->bounds.root == 0)
        bounds_first(here, tid, registers->sp);
    struct ep_linux_bounds *bounds = &here->bounds;
    __asm__("" : "+r"(bounds)); /* computes the address once */
    registers->stack_start = bounds->start;
    registers->stack_end = bounds->end;
    registers->stack_root = bounds->root;
    registers->moved = 0;
}

uint32_t ep_port_bounds(struct ep_registers *registers)
{
    struct ep_linux_here *here = ep_linux_here();

    registers->alt_start = registers->alt_end = 0;
    if (!here) {
        registers->stack_start = registers->stack_end = registers->stack_root = 0;
        registers->moved = 0;
        return ep_linux_tid();
    }
    if (here->tid == 0)
        here->tid = ep_linux_tid();
    bounds_here(here, here->tid, registers);
    return here->tid;
}

/* ns: CPU time since the last sample, whose weight comes on top if the ring had no room for it. */
static void capture_here(struct ep *ep, struct ep_linux_here *here, struct ep_linux_slot *slot, uint64_t ns,
                         const void *ucontext)
{
    struct ep_registers registers;
    const uint32_t tid = atomic_load_explicit(&slot->tid, memory_order_relaxed);

    (void)atomic_fetch_add_explicit(&slot->charged_ns, ns, memory_order_relaxed);
    if (atomic_load_explicit(&slot->carried_ns, memory_order_relaxed))
        ns += atomic_exchange_explicit(&slot->carried_ns, 0, memory_order_relaxed);
    ep_linux_context(ucontext, &registers);
    ep_linux_stack_seen(registers.alt_end - registers.alt_start);
    bounds_here(here, tid, &registers);
    if (ep_capture(ep, &registers, tid, ns) != 0)
        (void)atomic_fetch_add_explicit(&slot->carried_ns, ns, memory_order_relaxed);
}

/* A kernel tick finds what runs by chance, so it stands for the time between two ticks, and not for what the thread
 * used since its last one: that tells how it ran when no tick came. Chance alone would drift away from the CPU time
 * used, above all in a thread that runs in step with the ticks. So a part of the difference that the tick before left
 * is added: it does not depend on what this tick finds. (Simulated: shares within 0.6 %, differences of 2 ticks.) If
 * the thread ran all the time, ticks are missing or it could take no signal: this one stands for all of them. used: CPU
 * time since its last tick, reported: what of it is in a profile already. */
static uint64_t kernel_tick(struct ep_linux_here *here, uint64_t used, uint64_t reported)
{
    int64_t tick = ep_linux_kernel_tick_ns(), more = here->behind / BEHIND_PART;
    uint64_t last = here->ticked, weight;

    here->ticked = ep_port_ticks();
    if ((int64_t)used > tick + tick / 2 && ep_port_ticks_ns(here->ticked - last) < used + used / 16)
        weight = used > reported ? used - reported : 0;
    else
        weight = (uint64_t)(tick + (more > tick / 2 ? tick / 2 : more < -tick ? -tick : more));
    here->behind += (int64_t)(used - reported - weight);
    return weight;
}

/* Returns the weight of the sample; 0: none. */
static uint64_t weight_of(struct ep_linux_here *here, struct ep_linux_slot *slot, uint32_t owner, uint64_t expiries)
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
    if (here->owner != owner) {
        here->owner = owner;
        here->behind = 0;
    }
    uint64_t weight = kernel_tick(here, used, reported);
    if (period <= ep_linux_kernel_tick_ns() / 8 * 9u) /* a sample a tick: strata would join and skip some */
        return weight;
    return ep_stratum_advance(&here->stratum, weight, period);
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
    struct ep_linux_here *here = ep_linux_here();

    if (!here || index >= ep_linux_slot_count ||
        (atomic_load_explicit(&ep_linux_slots[index].generation, memory_order_relaxed) & 0xff) != (owner & 0xff))
        return;
    struct ep_linux_slot *slot = &ep_linux_slots[index];
    uint64_t ns = weight_of(here, slot, owner, 1u + (uint64_t)(uint32_t)info->si_overrun);
    count_waited(ep, info, ucontext);
    if (ns == 0)
        return;
    capture_here(ep, here, slot, ns, ucontext);
}

/* From 3/4 to 5/4 of the thread's period. */
static uint32_t perf_period(const struct ep_linux_slot *slot, unsigned part)
{
    return (uint32_t)((uint64_t)atomic_load_explicit(&slot->period_ns, memory_order_relaxed) *
                      (3 * EP_LINUX_PERF_MEAN + part) / (4 * EP_LINUX_PERF_MEAN));
}

/* A program that repeats itself to the microsecond would meet one period always in the same places. A system call that
 * changes it takes 0.5 us. */
static int perf_vary(const struct ep_linux_here *here, struct ep_linux_slot *slot, int fd)
{
    uint64_t dice = ep_port_ticks() * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    unsigned part = (unsigned)(dice * (2 * EP_LINUX_PERF_MEAN + 1) >> 32);

    int error = ep_linux_perf_period(fd, here->tid, perf_period(slot, part));
    if (error)
        return error;
    atomic_store_explicit(&slot->perf_part, (unsigned char)part, memory_order_relaxed);
    return 0;
}

/* A sample stands for a period. Time in the kernel has none, see report_residual() in thread_table.c. */
static void handle_perf(struct ep *ep, int fd, const void *ucontext)
{
    struct ep_linux_here *here = ep_linux_here();

    if (!here)
        return;
    if (here->tid == 0)
        here->tid = ep_linux_tid();
    struct ep_linux_slot *slot = ep_linux_slot_by_perf(fd, here->tid);
    if (!slot)
        return;
    uint32_t period = perf_period(slot, atomic_load_explicit(&slot->perf_part, memory_order_relaxed));
    int error = perf_vary(here, slot, fd);
    if (error) { /* it may expire too often: the next scan gives the thread a timer */
        ep_linux_perf_refuse(error);
        return;
    }
    capture_here(ep, here, slot, period, ucontext);
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
        bool runs = ep_linux_samples();
        if (runs && by_perf)
            handle_perf(ep, info->si_fd, ucontext);
        else if (runs)
            handle_tick(ep, owner, info, ucontext);
        ep_release();
    } else if (!by_perf && owner == EP_LINUX_FORK_OWNER) {
        (void)ep_port_thread_resume(EP_ROLE_START);
    }
}
