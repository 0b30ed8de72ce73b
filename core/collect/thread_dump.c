/*
 * A stack of every thread, on demand. The collect thread takes them one by one, so they are not of one moment, but none
 * is torn: a stack is copied while its thread sleeps, and used only when it has slept all along.
 *
 *   ep_threads_dump -> ep_snapshot_ask -> (collect thread) round -> begin, then look at those that are left: settled
 *       in a wait that was announced   ep_wait_take, with all registers
 *       asleep in the kernel           asleep: pc and sp are known, so the walk ends where a frame pointer is needed
 *       running                        wants: its next CPU sample; or it is asleep when looked at next
 *
 * Looked at again after 5, 10, 20 ... ms, until an interval is over; who is left then is counted and shown as
 * [no stack]. The interval does not end before, and at once afterwards; unless it is only for who pulls, and gives up
 * after 2 s.
 *
 * What the collect thread needs of this file it reaches through ep->snapshot, set by the one function that programs
 * call: a program that does not call it does not link it, nor what of the port only this needs.
 */
#include "core/collect/collect.h"
#include "core/capture/capture.h"

#include <errno.h>

#define FIRST_LOOK_NS 5000000u
#define MOST_NS       250000000u
#define PULL_NS       2000000000u /* somebody waits for the answer */

/* The collect thread's alone. */
static struct {
    uint32_t run; /* of the profiler */
    unsigned count;
    uint32_t tid[EP_MAX_THREADS]; /* still without a stack */
    uint64_t until_ns, pause_ns;
} left;

/* 0: its stack is a record now. */
static int asleep(struct ep *ep, uint32_t tid)
{
    static const struct ep_work nothing;
    const struct ep_hook_event event = {.kind = EP_KIND_THREAD, .count = 1, .value = 1};
    struct ep_context before, after;
    uint64_t ran_before = 0, ran_after = 0;

    int error = ep_port_thread_blocked(tid, &before, &ran_before);
    if (error)
        return error;
    struct ep_context at = before;
    if (!at.stack_end)
        at.stack_end = UINTPTR_MAX; /* as far as there is memory */
    if (!ep_copy_stack(ep, tid, &at))
        return -ENOMEM;
    error = ep_port_thread_blocked(tid, &after, &ran_after);
    if (error)
        return error;
    if (ran_before != ran_after || before.pc != after.pc || before.sp != after.sp)
        return -EAGAIN;
    ep_capture_for(ep, &nothing, &at, tid, &event);
    return 0;
}

/* Has its stack, or is gone and needs none. */
static bool settled(struct ep *ep, uint32_t tid)
{
    int error = ep_wait_take(ep, tid) ? 0 : asleep(ep, tid);

    ep_collect_drain(ep); /* the ring may be too small for all of them */
    return error == 0 || error == -ESRCH;
}

static void give_up(struct ep *ep, uint32_t tid)
{
    ep_lose(ep, EP_LOSS_NO_STACK, 1, 0);
    ep_collect_special(ep, EP_FRAME_NO_STACK, EP_KIND_THREAD, tid, 1);
}

static void first_look(uint32_t tid)
{
    struct ep *ep = ep_running();

    if (settled(ep, tid))
        return;
    if (left.count < EP_MAX_THREADS)
        left.tid[left.count++] = tid;
    else
        give_up(ep, tid);
}

static bool wants(struct ep *ep, uint32_t tid)
{
    if (left.run != ep->run)
        return false;
    for (unsigned i = 0; i < left.count; i++) {
        if (left.tid[i] != tid)
            continue;
        left.tid[i] = left.tid[--left.count];
        return true;
    }
    return false;
}

/* Nobody is on the list while looked at, lest an older CPU sample gives a second stack; who is put back, or fills the
 * hole, has been looked at. */
static void look_again(struct ep *ep)
{
    for (unsigned i = left.count; i > 0; i--) {
        if (i > left.count)
            continue;
        uint32_t tid = left.tid[i - 1];
        left.tid[i - 1] = left.tid[--left.count];
        if (!settled(ep, tid))
            left.tid[left.count++] = tid;
    }
}

static void begin(struct ep *ep, uint64_t now)
{
    left.run = ep->run;
    left.count = 0;
    left.until_ns =
        now + (ep->snapshot_for & EP_SNAPSHOT_PUSH || ep->interval_ns < PULL_NS ? ep->interval_ns : PULL_NS);
    left.pause_ns = FIRST_LOOK_NS;
    if (ep_port_threads_each(first_look) != 0)
        ep_lose(ep, EP_LOSS_NO_STACK, 1, 0);
}

static void end(struct ep *ep)
{
    while (left.count > 0)
        give_up(ep, left.tid[--left.count]);
    ep->snapshot_next_ns = 0;
    if (ep->snapshot_for & EP_SNAPSHOT_PUSH)
        atomic_store(&ep->flush, true);
}

static void round_of(struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();
    bool stopping = atomic_load(&ep->stopping);

    if (!ep->snapshot_next_ns && (ep->snapshot_for = atomic_exchange(&ep->snapshot_asked, 0)) == 0)
        return;
    if (!ep->snapshot_next_ns)
        begin(ep, now);
    else if (now >= ep->snapshot_next_ns)
        look_again(ep);
    else if (left.count > 0 && !stopping)
        return;
    if (left.count == 0 || now >= left.until_ns || stopping) {
        end(ep);
        return;
    }
    ep->snapshot_next_ns = now + left.pause_ns;
    if (left.pause_ns < MOST_NS)
        left.pause_ns *= 2;
}

void ep_snapshot_ask(struct ep *ep, unsigned who)
{
    static const struct ep_snapshot snapshot = {.round = round_of, .wants = wants};

    atomic_store(&ep->snapshot, &snapshot);
    (void)atomic_fetch_or(&ep->snapshot_asked, who);
    ep_collect_wake(ep);
}

bool ep_snapshot_pending(const struct ep *ep)
{
    return atomic_load(&ep->snapshot_asked) & EP_SNAPSHOT_PULL ||
           (ep->snapshot_next_ns && ep->snapshot_for & EP_SNAPSHOT_PULL);
}

int ep_threads_dump(void)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return -ESRCH;
    ep_snapshot_ask(ep, EP_SNAPSHOT_PUSH);
    ep_release();
    return 0;
}
