/*
 * Waits: time that a thread spends blocked, between ep_wait_begin() and ep_wait_end().
 *
 * The thread keeps its wait in struct ep_work (the port's thread-local storage). Begin notes the time and the caller.
 * End decides by stratified sampling whether the wait becomes a sample. Without a sample, neither holds the profiler or
 * does an atomic read-modify-write, and the time is the processor's counter: most calls that could wait return at once,
 * and two readings of the clock would be most of their cost. The collect thread charges open waits once an interval
 * (core/features/waits/open_waits.c). Both sides advance accounted_ns atomically, so every nanosecond counts once.
 *
 *   port: ep_wait_begin -> ep_wait_open -> claim_slot        a thread's first wait: a place in the table
 *   ep_wait_end -> measure_wait -> weigh_wait -> record_wait -> learn_unwanted, ep_hook_event
 */
#include "core/sample/waiting.h"
#include "core/sample/feature.h"

#include <string.h>

/* A woken thread that finds the lock taken spins up to this long before it waits again for the same lock. */
#define AGAIN_NS 50000u
/* A call of these classes that returns within this time has not blocked; its time is CPU time. */
#define BLOCKED_NS 10000u
#define CALLS      (1u << EP_WAIT_NETWORK | 1u << EP_WAIT_DISK | 1u << EP_WAIT_BY_DESCRIPTOR)
/* Most waits of a service are idle waits of a pool. They can be classified only by their callers, and are then
 * ignored. So the collect thread reports the return address that marked such a wait. While the thread waits at the
 * same stack depth and that address is unchanged, only one of LOOK_AGAIN waits is measured. UNWANTED_WORDS: how far
 * above the stack pointer the address is looked for. */
#define UNWANTED_WORDS 96u
#define LOOK_AGAIN     16u

static __attribute__((noinline)) void claim_slot(struct ep_waiting *waiting)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    uint32_t tid = ep_port_bounds(&waiting->at);
    (void)ep_feature_add(&ep_waits_feature); /* there are fewer features than places */
    waiting->slot = 0;
    waiting->run = ep->run;
    waiting->accounted_ns = 0;
    waiting->no_idle = !(ep->config.flags & EP_IDLE_WAITS);
    waiting->unwanted = 0;
    for (unsigned i = 0; i < ep->threads && !waiting->slot; i++) {
        struct ep_waiter *waiter = &ep->waiter[i];
        unsigned none = 0, to = i;
        (void)atomic_compare_exchange_strong(&ep->waiters_to, &to, i + 1);
        if (atomic_compare_exchange_strong(&waiter->tid, &none, tid)) {
            waiting->slot = i + 1;
            atomic_store(&waiter->work, (uintptr_t)ep_port_work());
        }
    }
    if (!waiting->slot)
        (void)atomic_fetch_add_explicit(&ep->refused[EP_LOSS_WAITERS], 1, memory_order_relaxed);
    ep_release();
}

static bool wait_is_wanted(unsigned wait)
{
    return ep_hook_wants(EP_KIND_WAIT) ||
           (ep_hook_wants(EP_KIND_LOCK) && (wait == EP_WAIT_LOCK || wait == EP_WAIT_BY_CALLER));
}

/* True if word `at` above sp is the return address of the frame `pc` as a recorded stack has it. These words are not
 * variables, so a sanitizer would object. */
static __attribute__((no_sanitize("address"))) bool returns_to(uintptr_t sp, unsigned at, uintptr_t pc)
{
    return ep_code_address(((const uintptr_t *)sp)[at]) == ep_code_address(pc + 1);
}

/* True if the stack depth and the classifying return address are unchanged: skip measuring. */
static bool is_unwanted(struct ep_waiting *waiting)
{
    return waiting->wait == EP_WAIT_BY_CALLER && waiting->unwanted && waiting->at.sp == waiting->sampled_sp &&
           returns_to(waiting->at.sp, waiting->unwanted_at, waiting->unwanted) &&
           waiting->unwanted_kinds == atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) &&
           ++waiting->passed % LOOK_AGAIN;
}

static __attribute__((noinline)) void look_at_caller(struct ep_waiting *waiting)
{
    waiting->unmeasured = is_unwanted(waiting);
    waiting->same_lock = waiting->same_lock && ep_port_ticks_ns(waiting->start_ticks - waiting->end_ticks) < AGAIN_NS;
}

static inline __attribute__((always_inline)) void timing_begin(struct ep_waiting *waiting)
{
    if (ep_hook_is_timed(&waiting->timer))
        waiting->timed_from = ep_port_ticks();
}

static __attribute__((noinline)) void timing_end(struct ep_waiting *waiting)
{
    ep_hook_cost(waiting->timed_from, EP_HOOK_TIMED_ONE_IN);
    waiting->timed_from = 0;
}

void ep_wait_descriptor(int fd)
{
    ep_waiting_of(ep_port_work())->next_descriptor = fd;
}

void ep_wait_open(uintptr_t sp_and_wait, uintptr_t pc, uintptr_t fp, uintptr_t base)
{
    unsigned wait = sp_and_wait & EP_WAIT_MASK;
    uintptr_t sp = sp_and_wait - wait;

    if (!wait_is_wanted(wait))
        return;
    struct ep_waiting *waiting = ep_waiting_of(ep_port_work());
    /* A call from deeper in the stack is nested in the open wait. Otherwise a long jump has left the open wait. */
    if (waiting->depth && sp <= waiting->at.sp) {
        waiting->depth++;
        return;
    }
    timing_begin(waiting);
    waiting->same_lock = wait == EP_WAIT_BY_CALLER && waiting->at.sp == sp && waiting->at.pc == pc;
    waiting->at.sp = sp;
    atomic_signal_fence(memory_order_seq_cst); /* a signal handler of the program that waits from here on is nested */
    waiting->depth = 1;
    if (waiting->run != atomic_load_explicit(&ep_run, memory_order_relaxed))
        claim_slot(waiting);
    atomic_thread_fence(memory_order_release);
    waiting->at.pc = pc;
    waiting->at.sp = sp;
    waiting->at.fp = fp;
    waiting->at.base = base;
    waiting->wait = wait;
    waiting->descriptor = waiting->next_descriptor;
    waiting->unmeasured = wait == EP_WAIT_IDLE && waiting->no_idle;
    if (!waiting->unmeasured) {
        waiting->start_ticks = ep_port_ticks();
        ep_port_stay_begin();
    }
    if (waiting->wait == EP_WAIT_BY_CALLER)
        look_at_caller(waiting);
    unsigned sequence = atomic_load_explicit(&waiting->sequence, memory_order_relaxed);
    atomic_store_explicit(&waiting->sequence, (sequence + 2) | 1, memory_order_release);
    if (waiting->timed_from)
        timing_end(waiting);
}

/* At most EP_WAIT_OPEN_NS: a longer wait may have been charged by the collect thread, so its end must check. */
static uint64_t period_now(void)
{
    uint64_t period = ep_hook_period(ep_hook_wants(EP_KIND_WAIT) ? EP_KIND_WAIT : EP_KIND_LOCK);

    return period < EP_WAIT_OPEN_NS ? period : EP_WAIT_OPEN_NS;
}

/* Marks the wait as accounted for. Returns the ns not yet charged; *charged: the collect thread has charged a part. */
static uint64_t account_wait(struct ep *ep, struct ep_waiting *waiting, bool *charged)
{
    struct ep_waiter *waiter = waiting->slot ? &ep->waiter[waiting->slot - 1] : NULL;
    uint64_t start = waiting->start_ns;

    *charged = false;
    if (!waiter || atomic_load(&waiter->work) != (uintptr_t)ep_port_work())
        return waiting->end_ns - start;
    uint64_t until = atomic_exchange(&waiter->accounted_ns, waiting->end_ns);
    /* Not the thread's own mark: the start of a wait is known less exactly than the end of the one before it. */
    *charged = until > start && until != waiting->accounted_ns;
    waiting->accounted_ns = waiting->end_ns;
    if (*charged)
        start = until;
    /* The collect thread may have charged it, up to slightly later, while it was being closed. */
    return waiting->end_ns > start ? waiting->end_ns - start : 0;
}

/* The place of the return address among the words above sp; UNWANTED_WORDS: not found. */
static unsigned find_on_stack(const struct ep_registers *at, uintptr_t pc)
{
    uintptr_t words = at->sp < at->stack_end ? (at->stack_end - at->sp) / sizeof(uintptr_t) : 0;

    for (unsigned i = 0; i < UNWANTED_WORDS && i < words; i++)
        if (returns_to(at->sp, i, pc))
            return i;
    return UNWANTED_WORDS;
}

/* True if the collect thread would ignore this wait. Once the caller is known, only one of LOOK_AGAIN waits gets
 * here. */
static bool learn_unwanted(const struct ep *ep, struct ep_waiting *waiting)
{
    if (waiting->wait != EP_WAIT_BY_CALLER || !waiting->slot)
        return false;
    bool same = waiting->at.sp == waiting->sampled_sp, known = same && waiting->unwanted;
    uintptr_t pc = atomic_load_explicit(&ep->waiter[waiting->slot - 1].unwanted, memory_order_relaxed);
    uint32_t at = same && !known && pc ? find_on_stack(&waiting->at, pc) : UNWANTED_WORDS;
    waiting->sampled_sp = waiting->at.sp;
    waiting->unwanted_at = at;
    waiting->unwanted = at < UNWANTED_WORDS ? pc : 0;
    waiting->unwanted_kinds = atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed);
    return at < UNWANTED_WORDS;
}

static void record_wait(struct ep_waiting *waiting, uint64_t stands_for)
{
    uint64_t duration = waiting->end_ns - waiting->start_ns;
    bool charged = false;
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    if (waiting->run != ep->run || ep_wait_left_out(ep, waiting->wait) || learn_unwanted(ep, waiting))
        stands_for = 0;
    else if (duration == stands_for) /* a period or more: the collect thread may have charged it */
        stands_for = account_wait(ep, waiting, &charged);
    if (stands_for) {
        uint32_t count = charged ? 0 : ep_stratum_count(&waiting->stratum[waiting->wait], stands_for, duration);
        const struct ep_hook_event event = ep_wait_event(waiting, count, stands_for);
        (void)(ep_hook_wait_end ? ep_hook_wait_end(&event) : ep_hook_event(&event));
    }
    ep_release();
}

static __attribute__((noinline)) void weigh_wait(struct ep_waiting *waiting, uint64_t duration)
{
    uint64_t stands_for = ep_stratum_advance(&waiting->stratum[waiting->wait], duration, period_now());

    if (stands_for == 0)
        return;
    waiting->timed_from = 0; /* what becomes a sample is measured with the others */
    waiting->end_ns = ep_port_uptime_ns();
    waiting->start_ns = waiting->end_ns - duration;
    ep_wait_find_frame(waiting);
    record_wait(waiting, stands_for);
}

static inline void measure_wait(struct ep_waiting *waiting)
{
    bool stayed = ep_port_stayed();

    if (stayed && CALLS >> waiting->wait & 1) /* most calls that could wait: no second reading of the counter */
        return;
    waiting->end_ticks = ep_port_ticks();
    uint64_t duration = ep_port_ticks_ns(waiting->end_ticks - waiting->start_ticks);
    if (duration >= BLOCKED_NS || !(CALLS >> waiting->wait & 1))
        weigh_wait(waiting, duration);
}

void(ep_wait_end)(void)
{
    struct ep_waiting *waiting = ep_waiting_of(ep_port_work());

    if (waiting->depth != 1) {
        waiting->depth -= waiting->depth > 1;
        return;
    }
    timing_begin(waiting);
    /* Closes the wait before it reads the clock. Needs no barrier: what the collect thread charges meanwhile ends at
     * once. */
    unsigned sequence = atomic_load_explicit(&waiting->sequence, memory_order_relaxed);
    atomic_store_explicit(&waiting->sequence, (sequence + 1) & ~1u, memory_order_release);
    if (!waiting->unmeasured)
        measure_wait(waiting);
    waiting->depth = 0;
    if (waiting->timed_from)
        timing_end(waiting);
}

void ep_wait_leave(void)
{
    struct ep_waiting *waiting = ep_waiting_of(ep_port_work());

    if (!waiting->depth)
        return;
    waiting->depth = 1;
    ep_wait_end();
}
