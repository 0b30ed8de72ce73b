/*
 * Waits: what threads do while they do nothing, told by brackets around the calls that block (ep_wait_begin,
 * ep_wait_end).
 *
 * The thread keeps its wait beside its other words of itself (struct ep_work, in the port's thread-local storage):
 * begin notes when and from where, end decides by the duration, stratum by stratum, whether the wait becomes a sample
 * and how long it stands for. Neither holds the profiler or makes an atomic change unless there is a sample.
 *
 * Waits that are still open are charged by the collect thread once an interval (core/collect/open_waits.c). Up to when
 * a wait is accounted for stands in one word that both sides change by a single operation, so every nanosecond is
 * counted once.
 *
 * Most of a service's waits are a pool's that has nothing to do, which shows only when their callers are looked at, and
 * then they are left out. So the collect thread tells the waiting thread by which return address that was. As long as
 * the thread waits at the same depth of the stack and that address stands where it stood, only one of LOOK_AGAIN waits
 * is measured; the others cost a note of where they are and no more.
 *
 *   port: ep_wait_begin -> ep_wait_open -> claim        a thread's first wait: a place in the table
 *   ep_wait_end -> measure -> sampled -> learn_unwanted, ep_hook_event
 */
#include "core/capture/waiting.h"

#include <string.h>

/* Ends of two waits of one acquire and the next one's begin: a woken thread that finds the lock taken spins this long.
 */
#define AGAIN_NS 50000u
/* A call on a descriptor that is back by then has not waited, its time is CPU time. */
#define BLOCKED_NS 10000u
/* What a wait adds to its sequence. */
#define SEQUENCE_STEP 4u
/* The word that says so lies among this many above a wait's stack pointer. */
#define UNWANTED_WORDS 96u
#define LOOK_AGAIN     16u

static void claim(struct ep_waiting *waiting)
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

static bool wanted(unsigned wait)
{
    unsigned kinds = EP_KIND_BIT(EP_KIND_WAIT);

    if (wait == EP_WAIT_LOCK || wait == EP_WAIT_BY_CALLER)
        kinds |= EP_KIND_BIT(EP_KIND_LOCK);
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) & kinds) != 0;
}

/* Whether the call whose place in the code is pc, as stacks tell it, returns to what the word of the stack says. They
 * are no variables: a sanitizer would object. */
static __attribute__((no_sanitize("address"))) bool returns(uintptr_t sp, unsigned at, uintptr_t pc)
{
    return (((const uintptr_t *)sp)[at] & ~(uintptr_t)1) == ((pc + 1) & ~(uintptr_t)1); /* bit 0 is Thumb's */
}

/* Of a class that nobody wants, for the caller that says so is where it was. */
static bool is_unwanted(struct ep_waiting *waiting)
{
    return waiting->wait == EP_WAIT_BY_CALLER && waiting->unwanted && waiting->at.sp == waiting->told_sp &&
           returns(waiting->at.sp, waiting->unwanted_at, waiting->unwanted) &&
           waiting->unwanted_kinds == atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) &&
           ++waiting->passed % LOOK_AGAIN;
}

/* Begin and end of the same wait. */
static uint64_t timing_begin(const struct ep_waiting *waiting)
{
    unsigned waits = atomic_load_explicit(&waiting->sequence, memory_order_relaxed) / SEQUENCE_STEP;

    return ep_hook_is_timed(waits, waiting) ? ep_port_uptime_ns() : 0;
}

void ep_wait_open(uintptr_t sp_and_wait, uintptr_t pc, uintptr_t fp, uintptr_t base)
{
    unsigned wait = sp_and_wait & EP_WAIT_MASK;
    uintptr_t sp = sp_and_wait - wait;

    if (!wanted(wait))
        return;
    struct ep_waiting *waiting = ep_waiting_of(ep_port_work());
    /* Inside another wait, that is: called from deeper. One that is not has been left by a long jump. */
    if (waiting->depth && sp <= waiting->at.sp) {
        waiting->depth++;
        return;
    }
    uint64_t timed_from = timing_begin(waiting);
    bool same = waiting->at.sp == sp && waiting->at.pc == pc;
    waiting->at.sp = sp;
    atomic_signal_fence(memory_order_seq_cst); /* a handler of the program may wait as well, from here on inside us */
    waiting->depth = 1;
    if (waiting->run != atomic_load_explicit(&ep_run, memory_order_relaxed))
        claim(waiting);
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
    waiting->again = same && wait == EP_WAIT_BY_CALLER && waiting->start_ns - waiting->end_ns < AGAIN_NS;
    unsigned sequence = atomic_load_explicit(&waiting->sequence, memory_order_relaxed);
    atomic_store_explicit(&waiting->sequence, (sequence + 2) | 1, memory_order_release);
    if (timed_from)
        ep_hook_cost(timed_from, EP_HOOK_TIMED_ONE_IN);
}

/* Not beyond what open waits are charged from: who may have been charged must ask. */
static uint64_t period_now(void)
{
    uint64_t period = ep_hook_period(ep_hook_wants(EP_KIND_WAIT) ? EP_KIND_WAIT : EP_KIND_LOCK);

    return period < EP_WAIT_OPEN_NS ? period : EP_WAIT_OPEN_NS;
}

/* What of the wait is not accounted for, counted as such; *told: some is. */
static uint64_t settle(struct ep *ep, const struct ep_waiting *waiting, bool *told)
{
    struct ep_waiter *waiter = waiting->slot ? &ep->waiter[waiting->slot - 1] : NULL;
    uint64_t start = waiting->start_ns;

    *told = false;
    if (!waiter || atomic_load(&waiter->work) != (uintptr_t)ep_port_work())
        return waiting->end_ns - start;
    uint64_t until = atomic_exchange(&waiter->accounted_ns, waiting->end_ns);
    *told = until > start;
    if (*told)
        start = until;
    return waiting->end_ns > start ? waiting->end_ns - start : 0; /* charged while it was being closed: a moment more */
}

/* Where among the words above sp it does; UNWANTED_WORDS: nowhere. */
static unsigned find_on_stack(const struct ep_context *at, uintptr_t pc)
{
    uintptr_t words = at->sp < at->stack_end ? (at->stack_end - at->sp) / sizeof(uintptr_t) : 0;

    for (unsigned i = 0; i < UNWANTED_WORDS && i < words; i++)
        if (returns(at->sp, i, pc))
            return i;
    return UNWANTED_WORDS;
}

/* Whether a chosen wait is of a class that the collect thread would leave out. Once that is known only those come here
 * that are to be looked at again. */
static bool learn_unwanted(const struct ep *ep, struct ep_waiting *waiting)
{
    if (waiting->wait != EP_WAIT_BY_CALLER || !waiting->slot)
        return false;
    bool again = waiting->at.sp == waiting->told_sp, known = again && waiting->unwanted;
    uintptr_t pc = atomic_load_explicit(&ep->waiter[waiting->slot - 1].unwanted, memory_order_relaxed);
    uint32_t at = again && !known && pc ? find_on_stack(&waiting->at, pc) : UNWANTED_WORDS;
    waiting->told_sp = waiting->at.sp;
    waiting->unwanted_at = at;
    waiting->unwanted = at < UNWANTED_WORDS ? pc : 0;
    waiting->unwanted_kinds = atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed);
    return at < UNWANTED_WORDS;
}

static __attribute__((noinline)) void sampled(struct ep_waiting *waiting, uint64_t stands_for, uint64_t period)
{
    uint64_t duration = waiting->end_ns - waiting->start_ns;
    bool told = false;
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    if (waiting->run != ep->run || ep_wait_left_out(ep, waiting->wait) || learn_unwanted(ep, waiting))
        stands_for = 0;
    else if (duration >= period)
        stands_for = settle(ep, waiting, &told);
    if (stands_for) {
        uint32_t count = told ? 0 : ep_stratum_count(&waiting->stratum[waiting->wait], stands_for, duration);
        const struct ep_hook_event event = ep_wait_event(waiting, count, stands_for);
        (void)ep_hook_event(&event);
    }
    ep_release();
}

/* Whether it was chosen. */
static bool measure(struct ep_waiting *waiting)
{
    waiting->end_ns = ep_port_uptime_ns();
    uint64_t duration = waiting->end_ns - waiting->start_ns;
    bool call = waiting->wait == EP_WAIT_NETWORK || waiting->wait == EP_WAIT_DISK;
    if (call && duration < BLOCKED_NS)
        return false;
    uint64_t period = period_now();
    uint64_t stands_for = ep_stratum_advance(&waiting->stratum[waiting->wait], duration, period);
    if (stands_for)
        sampled(waiting, stands_for, period);
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
    /* Closed before the clock is read. No barrier: what the collect thread charges meanwhile is over at once. */
    unsigned sequence = atomic_load_explicit(&waiting->sequence, memory_order_relaxed);
    atomic_store_explicit(&waiting->sequence, (sequence + 1) & ~1u, memory_order_release);
    bool chosen = !waiting->unmeasured && measure(waiting);
    waiting->depth = 0;
    if (timed_from && !chosen)
        ep_hook_cost(timed_from, EP_HOOK_TIMED_ONE_IN);
}
