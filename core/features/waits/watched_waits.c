/*
 * Waits that nobody marks: system calls that a program or a library makes by itself, waits inside libc, page faults.
 *
 * The collect thread looks at all threads from time to time. A look does not wake a thread: the system tells pc and sp
 * of one that sleeps, and the stack is walked in a copy. A thread in a marked wait is left out. A look stands for the
 * time since the look before, whatever the thread did then, because looks come at random: over many waits the sums are
 * right, and the error of one is at most the pause between two looks. A wait that goes on is recorded exactly.
 *
 *   watch_round -> look_at -> ep_port_thread_blocked, ep_blocked_take
 */
#include "core/features/waits/waits.h"
#include "core/collect/collect.h"
#include "core/sample/feature.h"
#include "core/sample/record.h"

#include "core/sample/waiting.h"
#include "core/sample/capture.h"

#define PAUSE_NS 250000000u
/* A look at a thread takes 10 to 20 us, so all looks take at most 0.5 % of a processor. */
#define PAUSE_THREAD_NS 4000000u
#define SEEN            1024u

/* A thread as the last look found it. Threads that share a place lose only the knowledge that a wait goes on. */
struct seen {
    uint32_t tid; /* 0: none */
    uint64_t ran_ns, until_ns;
    uintptr_t pc, sp;
};
static struct seen *seen; /* SEEN of them, from the first look on */

static uint64_t looked_ns, next_ns; /* of the last look, 0: none; of the next one */
static uint64_t now_ns;             /* of this look */
static unsigned looked_at;          /* threads in this look */

static void look_at(uint32_t tid)
{
    struct ep *ep = ep_running();
    struct seen *before = &seen[tid % SEEN];
    struct seen now = {.tid = tid, .until_ns = now_ns};
    struct ep_registers at;

    looked_at++;
    if (ep_wait_is_open(ep, tid) || ep_port_thread_blocked(tid, &at, &now.ran_ns) != 0) {
        before->tid = before->tid == tid ? 0 : before->tid;
        return;
    }
    now.pc = at.pc;
    now.sp = at.sp;
    const bool goes_on =
        before->tid == tid && before->ran_ns == now.ran_ns && before->pc == at.pc && before->sp == at.sp;
    const uint64_t from = goes_on ? before->until_ns : looked_ns, value = from ? now_ns - from : 0;
    const unsigned wait = value ? ep_port_thread_wait(tid) : EP_WAIT_IDLE;
    if (value && !ep_wait_left_out(ep, wait)) {
        const struct ep_hook_event event = {
            .kind = EP_KIND_WAIT, .frame = EP_FRAME_WAIT + wait, .count = goes_on ? 0 : 1, .value = value};
        if (ep_blocked_take(ep, tid, &at, now.ran_ns, &event) != 0)
            return;           /* what is still the same wait at the next look is recorded then */
        ep_collect_drain(ep); /* the ring may be too small for all stacks */
    }
    *before = now;
}

/* Not a regular pause: threads that sleep as regularly would always be seen at the same place. */
static uint64_t pause_of(const struct ep *ep)
{
    const uint64_t pause = PAUSE_NS + (uint64_t)looked_at * PAUSE_THREAD_NS;
    uint32_t random;

    ep_port_random(&random, sizeof random);
    return (pause / 2 + pause * (random % 1024) / 1024) * ep->collect->governor.stretch / EP_STRETCH_NONE;
}

static void watch_round(struct ep *ep, uint64_t now)
{
    if (now < next_ns || atomic_load(&ep->stopping)) /* the thread that stops it waits in ep_stop() */
        return;
    if (!(ep->collect->kinds & EP_KIND_BIT(EP_KIND_WAIT))) {
        looked_ns = 0;
        next_ns = UINT64_MAX; /* until kinds change */
        return;
    }
    if (!seen && !(seen = ep_port_memory(SEEN * sizeof *seen))) {
        next_ns = UINT64_MAX;
        return;
    }
    now_ns = now;
    looked_at = 0;
    const int error = ep_port_threads_each(look_at);
    looked_ns = now;
    next_ns = error ? UINT64_MAX : now + pause_of(ep);
}

static uint64_t watch_next(const struct ep *ep)
{
    (void)ep;
    return next_ns;
}

static void watch_again(struct ep *ep)
{
    (void)ep;
    next_ns = 0;
}

static void watch_begin(struct ep *ep)
{
    (void)ep;
    for (unsigned i = 0; seen && i < SEEN; i++)
        seen[i].tid = 0;
    looked_ns = next_ns = 0;
}

int ep_waits_watch_start(void)
{
    static const struct ep_feature feature = {.name = "watched waits",
                                              .start = watch_begin,
                                              .kinds_changed = watch_again,
                                              .round = watch_round,
                                              .next = watch_next};

    return ep_feature_add(&feature);
}
