/*
 * A dump of all threads' stacks, on request. The collect thread reads one after the other, so they are not of one
 * moment. No stack is torn: a copy is used only if its thread was blocked all the time.
 *
 *   ep_threads_dump -> ep_snapshot_ask -> (collect thread) dump_round -> dump_begin, then retry_pending: capture_thread
 *       in a marked wait         ep_wait_take, with all registers
 *       blocked in the kernel    capture_blocked: pc and sp are known, so the walk ends where a frame pointer is needed
 *       running                  dump_wants: its next CPU sample, or it is blocked at the next try
 *
 * A program that does not call ep_threads_dump() does not link this file, nor the port's functions that only it needs.
 */
#include "core/features/dump/dump.h"
#include "core/collect/collect.h"
#include "core/sample/record.h"
#include "core/features/waits/waits.h"
#include "core/sample/capture.h"

#include <errno.h>

#define FIRST_LOOK_NS 5000000u
#define MOST_NS       250000000u
#define PULL_NS       2000000000u /* a client waits for the answer */

static atomic_uint asked;  /* receivers: EP_SNAPSHOT_ */
static unsigned receivers; /* of the dump in progress, or of the last one */
static uint64_t next_ns;   /* time of the next try; 0: no dump in progress */

/* Threads still without a stack. Used by the collect thread only. */
static struct {
    uint32_t run; /* of the profiler */
    unsigned count;
    uint32_t *tid; /* EP_THREADS_MOST, still without a stack; from the first dump on */
    uint64_t until_ns, pause_ns;
} pending;

/* Returns 0 if the thread's stack is recorded, else a negative errno value; -ESRCH: the thread has ended. */
static int capture_blocked(struct ep *ep, uint32_t tid)
{
    const struct ep_hook_event event = {.kind = EP_KIND_THREAD, .count = 1, .value = 1};
    struct ep_registers at;
    uint64_t ran = 0;
    int error = ep_port_thread_blocked(tid, &at, &ran);

    return error ? error : ep_blocked_take(ep, tid, &at, ran, &event);
}

/* True if the thread's stack is recorded, or the thread has ended. */
static bool capture_thread(struct ep *ep, uint32_t tid)
{
    int error = ep_wait_take(ep, tid) ? 0 : capture_blocked(ep, tid);

    ep_collect_drain(ep); /* the ring may be too small for all stacks */
    return error == 0 || error == -ESRCH;
}

/* The history has a running thread's CPU samples anyway, and the profile nothing of the dump. */
static bool only_history(void)
{
    return receivers == EP_SNAPSHOT_HISTORY;
}

static void record_missing(struct ep *ep, uint32_t tid)
{
    if (only_history())
        return;
    ep_lose(ep, EP_LOSS_NO_STACK, 1, 0);
    ep_collect_special(ep, EP_FRAME_NO_STACK, EP_KIND_THREAD, tid, 1);
}

static void try_first(uint32_t tid)
{
    struct ep *ep = ep_running();

    if (capture_thread(ep, tid))
        return;
    if (pending.tid && pending.count < EP_THREADS_MOST)
        pending.tid[pending.count++] = tid;
    else
        record_missing(ep, tid);
}

static bool dump_wants(struct ep *ep, uint32_t tid)
{
    if (pending.run != ep->run)
        return false;
    for (unsigned i = 0; i < pending.count; i++) {
        if (pending.tid[i] != tid)
            continue;
        pending.tid[i] = pending.tid[--pending.count];
        return !only_history();
    }
    return false;
}

/* Takes each thread off the list while trying it, so that an older CPU sample does not add a second stack. A thread
 * put back, or moved into the hole, has been tried already. */
static void retry_pending(struct ep *ep)
{
    for (unsigned i = pending.count; i > 0; i--) {
        if (i > pending.count)
            continue;
        uint32_t tid = pending.tid[i - 1];
        pending.tid[i - 1] = pending.tid[--pending.count];
        if (!capture_thread(ep, tid))
            pending.tid[pending.count++] = tid;
    }
}

static void dump_begin(struct ep *ep, uint64_t now)
{
    if (!pending.tid)
        pending.tid = ep_port_memory(EP_THREADS_MOST * sizeof *pending.tid);
    pending.run = ep->run;
    pending.count = 0;
    pending.until_ns = now + (receivers & EP_SNAPSHOT_PUSH || ep->interval_ns < PULL_NS ? ep->interval_ns : PULL_NS);
    pending.pause_ns = FIRST_LOOK_NS;
    if (ep_port_threads_each(try_first) != 0 && !only_history())
        ep_lose(ep, EP_LOSS_NO_STACK, 1, 0);
}

static void dump_end(struct ep *ep)
{
    while (pending.count > 0)
        record_missing(ep, pending.tid[--pending.count]);
    next_ns = 0;
    if (receivers & EP_SNAPSHOT_PUSH)
        atomic_store(&ep->flush, true);
}

/* Tries again after 5, 10, 20 ... ms, until an interval is over; the remaining threads are counted and shown as
 * [no stack]. A dump for a message keeps the interval open and then ends it at once. A dump for the pull endpoint only
 * gives up after PULL_NS and leaves the interval alone; so does one for the history. */
static void dump_round(struct ep *ep, uint64_t now)
{
    bool stopping = atomic_load(&ep->stopping);

    if (!next_ns && (receivers = atomic_exchange(&asked, 0)) == 0)
        return;
    if (!next_ns)
        dump_begin(ep, now);
    else if (now >= next_ns)
        retry_pending(ep);
    else if (pending.count > 0 && !stopping)
        return;
    if (pending.count == 0 || now >= pending.until_ns || stopping) {
        dump_end(ep);
        return;
    }
    next_ns = now + pending.pause_ns;
    if (pending.pause_ns < MOST_NS)
        pending.pause_ns *= 2;
}

static void dump_start(struct ep *ep)
{
    (void)ep;
    atomic_store(&asked, 0);
    receivers = 0;
    next_ns = 0;
}

static uint64_t dump_next(const struct ep *ep)
{
    (void)ep;
    return next_ns ? next_ns : UINT64_MAX;
}

/* A dump must be in one profile. */
static bool dump_holds(const struct ep *ep)
{
    (void)ep;
    return next_ns && receivers & EP_SNAPSHOT_PUSH;
}

/* The next CPU sample of a running thread is its stack, too. */
static void dump_added(struct ep *ep, const struct ep_sample *sample, unsigned node)
{
    struct ep_label_key labels = sample->labels;

    if (sample->kind != EP_KIND_CPU || !dump_wants(ep, sample->tid))
        return;
    labels.thread = ep_label_thread(ep, sample->tid);
    ep_collect_add(ep, node, EP_KIND_THREAD, ep_label_find(ep, &labels), 1, 1);
}

int ep_snapshot_ask(struct ep *ep, unsigned who)
{
    static const struct ep_feature feature = {.name = "dump",
                                              .start = dump_start,
                                              .round = dump_round,
                                              .next = dump_next,
                                              .holds = dump_holds,
                                              .added = dump_added};
    const int error = ep_feature_add(&feature);

    if (error)
        return error;
    (void)atomic_fetch_or(&asked, who);
    ep_collect_wake(ep);
    return 0;
}

bool ep_snapshot_pending(unsigned who)
{
    return atomic_load(&asked) & who || (next_ns && receivers & who);
}

unsigned ep_snapshot_for(void)
{
    return receivers;
}

int ep_threads_dump(void)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return -ESRCH;
    const int error = ep_snapshot_ask(ep, EP_SNAPSHOT_PUSH);
    ep_release();
    return error;
}
