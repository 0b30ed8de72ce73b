/*
 * Waits: time that a thread spends blocked, between ep_wait_begin() and ep_wait_end().
 *
 * The thread keeps its wait in struct ep_work (the port's thread-local storage). Begin notes the time and the caller.
 * End decides by stratified sampling whether the wait becomes a sample. Without a sample, neither holds the profiler or
 * does an atomic read-modify-write. The collect thread charges open waits once an interval (core/collect/open_waits.c).
 * Both sides advance accounted_ns atomically, so every nanosecond counts once.
 *
 *   port: ep_wait_begin -> ep_wait_open -> claim_slot        a thread's first wait: a place in the table
 *   ep_wait_end -> measure_wait -> record_wait -> learn_unwanted, ep_hook_event
 */
#include "core/capture/waiting.h"

#include <string.h>

/* A woken thread that finds the lock taken spins up to this long before it waits again for the same lock. */
#define AGAIN_NS 50000u
/* A call on a descriptor that returns within this time has not blocked; its time is CPU time. */
#define BLOCKED_NS 10000u
/* Each wait adds this to its sequence. */
#define SEQUENCE_STEP 4u
/* Most waits of a service are idle waits of a pool. They can be classified only by their callers, and are then
 * ignored. So the collect thread reports the return address that marked such a wait. While the thread waits at the
 * same stack depth and that address is unchanged, only one of LOOK_AGAIN waits is measured. UNWANTED_WORDS: how far
 * above the stack pointer the address is looked for. */
#define UNWANTED_WORDS 96u
#define LOOK_AGAIN     16u

static void claim_slot(struct ep_waiting *waiting)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    uint32_t tid = ep_port_bounds(&waiting->at);
    atomic_store(&ep_waits, &ep_open_waits);
    waiting->slot = 0;
    waiting->run = ep->run;
    waiting->no_idle = !(ep->config.flags & EP_IDLE_WAITS);
    waiting->unwanted = 0;
    for (unsigned i = 0; i < EP_MAX_THREADS && !waiting->slot; i++) {
        struct ep_waiter *waiter = &ep->waiter[i];
        unsigned none = 0;
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
    unsigned kinds = EP_KIND_BIT(EP_KIND_WAIT);

    if (wait == EP_WAIT_LOCK || wait == EP_WAIT_BY_CALLER)
        kinds |= EP_KIND_BIT(EP_KIND_LOCK);
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) & kinds) != 0;
}

/* True if word `at` above sp is the return address of the frame `pc` as a recorded stack has it. These words are not
 * variables, so a sanitizer would object. */
static __attribute__((no_sanitize("address"))) bool returns_to(uintptr_t sp, unsigned at, uintptr_t pc)
{
    return (((const uintptr_t *)sp)[at] & ~(uintptr_t)1) == ((pc + 1) & ~(uintptr_t)1); /* bit 0 marks Thumb code */
}

/* True if the stack depth and the classifying return address are unchanged: skip measuring. */
static bool is_unwanted(struct ep_waiting *waiting)
{
    return waiting->wait == EP_WAIT_BY_CALLER && waiting->unwanted && waiting->at.sp == waiting->sampled_sp &&
           returns_to(waiting->at.sp, waiting->unwanted_at, waiting->unwanted) &&
           waiting->unwanted_kinds == atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) &&
           ++waiting->passed % LOOK_AGAIN;
}

/* Both ends of a wait are timed, or neither. */
static uint64_t timing_begin(const struct ep_waiting *waiting)
{
    unsigned waits = atomic_load_explicit(&waiting->sequence, memory_order_relaxed) / SEQUENCE_STEP;

    return ep_hook_is_timed(waits, waiting) ? ep_port_uptime_ns() : 0;
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
    uint64_t timed_from = timing_begin(waiting);
    bool same = waiting->at.sp == sp && waiting->at.pc == pc;
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
    bool idle = wait == EP_WAIT_IDLE && waiting->no_idle;
    if (!idle)
        waiting->start_ns = ep_port_uptime_ns();
    waiting->unmeasured = idle || is_unwanted(waiting);
    waiting->same_lock = same && wait == EP_WAIT_BY_CALLER && waiting->start_ns - waiting->end_ns < AGAIN_NS;
    unsigned sequence = atomic_load_explicit(&waiting->sequence, memory_order_relaxed);
    atomic_store_explicit(&waiting->sequence, (sequence + 2) | 1, memory_order_release);
    if (timed_from)
        ep_hook_cost(timed_from, EP_HOOK_TIMED_ONE_IN);
}

/* At most EP_WAIT_OPEN_NS: a longer wait may have been charged by the collect thread, so its end must check. */
static uint64_t period_now(void)
{
    uint64_t period = ep_hook_period(ep_hook_wants(EP_KIND_WAIT) ? EP_KIND_WAIT : EP_KIND_LOCK);

    return period < EP_WAIT_OPEN_NS ? period : EP_WAIT_OPEN_NS;
}

/* Marks the wait as accounted for. Returns the ns not yet charged; *charged: the collect thread has charged a part. */
static uint64_t account_wait(struct ep *ep, const struct ep_waiting *waiting, bool *charged)
{
    struct ep_waiter *waiter = waiting->slot ? &ep->waiter[waiting->slot - 1] : NULL;
    uint64_t start = waiting->start_ns;

    *charged = false;
    if (!waiter || atomic_load(&waiter->work) != (uintptr_t)ep_port_work())
        return waiting->end_ns - start;
    uint64_t until = atomic_exchange(&waiter->accounted_ns, waiting->end_ns);
    *charged = until > start;
    if (*charged)
        start = until;
    /* The collect thread may have charged it, up to slightly later, while it was being closed. */
    return waiting->end_ns > start ? waiting->end_ns - start : 0;
}

/* The place of the return address among the words above sp; UNWANTED_WORDS: not found. */
static unsigned find_on_stack(const struct ep_context *at, uintptr_t pc)
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

static __attribute__((noinline)) void record_wait(struct ep_waiting *waiting, uint64_t stands_for, uint64_t period)
{
    uint64_t duration = waiting->end_ns - waiting->start_ns;
    bool charged = false;
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    if (waiting->run != ep->run || ep_wait_left_out(ep, waiting->wait) || learn_unwanted(ep, waiting))
        stands_for = 0;
    else if (duration >= period)
        stands_for = account_wait(ep, waiting, &charged);
    if (stands_for) {
        uint32_t count = charged ? 0 : ep_stratum_count(&waiting->stratum[waiting->wait], stands_for, duration);
        const struct ep_hook_event event = ep_wait_event(waiting, count, stands_for);
        (void)ep_hook_event(&event);
    }
    ep_release();
}

/* Returns whether the wait was chosen as a sample. */
static bool measure_wait(struct ep_waiting *waiting)
{
    waiting->end_ns = ep_port_uptime_ns();
    uint64_t duration = waiting->end_ns - waiting->start_ns;
    bool call = waiting->wait == EP_WAIT_NETWORK || waiting->wait == EP_WAIT_DISK;
    if (call && duration < BLOCKED_NS)
        return false;
    uint64_t period = period_now();
    uint64_t stands_for = ep_stratum_advance(&waiting->stratum[waiting->wait], duration, period);
    if (stands_for)
        record_wait(waiting, stands_for, period);
    return stands_for != 0;
}

void(ep_wait_end)(void)
{
    struct ep_waiting *waiting = ep_waiting_of(ep_port_work());

    if (waiting->depth != 1) {
        waiting->depth -= waiting->depth > 1;
        return;
    }
    uint64_t timed_from = timing_begin(waiting);
    /* Closes the wait before it reads the clock. Needs no barrier: what the collect thread charges meanwhile ends at
     * once. */
    unsigned sequence = atomic_load_explicit(&waiting->sequence, memory_order_relaxed);
    atomic_store_explicit(&waiting->sequence, (sequence + 1) & ~1u, memory_order_release);
    bool chosen = !waiting->unmeasured && measure_wait(waiting);
    waiting->depth = 0;
    if (timed_from && !chosen)
        ep_hook_cost(timed_from, EP_HOOK_TIMED_ONE_IN);
}
