/*
 * The collect thread: in each round it drains the ring, adds the losses of other threads, looks for new modules and
 * threads, and ends the interval when it is due.
 *
 *   ep_collect_round -> ep_collect_drain (add.c), collect_losses, scan, ep_collect_finish (interval.c), ep_govern
 *
 * It never blocks: no socket, no file, no waiting for the next stage.
 */
#include "core/collect/collect.h"
#include "core/sample/capture.h"
#include "core/sample/record.h"

#include <errno.h>

#define SCAN_ANNOUNCED_NS 10000000000u /* threads announce their start, so a scan only finds missed ends */
#define SCAN_NS           5000000000u
#define SCAN_SOON_NS      100000000u

/* Counts rule hits: frames without a miss. A miss may be counted before its record is read. */
static void count_rules(struct ep *ep, unsigned misses)
{
    ep_count(ep, EP_COUNT_RULE_MISSES, misses);
    ep->collect->misses += misses;
    if (ep->collect->frames < ep->collect->misses)
        return;
    ep_count(ep, EP_COUNT_RULE_HITS, ep->collect->frames - ep->collect->misses);
    ep->collect->frames = ep->collect->misses = 0;
}

/* Takes what other threads have added up. Usually nothing, and then a plain look is enough. */
static uint64_t take_wide(_Atomic uint64_t *sum)
{
    return atomic_load_explicit(sum, memory_order_relaxed) ? atomic_exchange(sum, 0) : 0;
}

static unsigned take(atomic_uint *sum)
{
    return atomic_load_explicit(sum, memory_order_relaxed) ? atomic_exchange(sum, 0) : 0;
}

/* Adds losses of other threads to the counters and to special frames, so that totals are right. */
static void collect_losses(struct ep *ep)
{
    static const uint8_t shown[EP_SHOWN] = {EP_FRAME_LOST_REFUSED, EP_FRAME_LOST_SEGMENT, EP_FRAME_LOST_SPOOL};

    for (unsigned kind = EP_KIND_CPU; kind < EP_KINDS; kind++) {
        uint64_t value = take_wide(&ep->lost_value[kind]);
        if (!value)
            continue;
        if (!ep_is_of_history((enum ep_kind)kind))
            ep_add_special(ep, EP_FRAME_LOST_RING, (enum ep_kind)kind, 0, value);
        ep_rates_note(ep, (enum ep_kind)kind, value);
        EP_EACH_FEATURE (at, lost)
            at.feature->lost(ep, (enum ep_kind)kind, value);
        ep_lose(ep, EP_LOSS_RING_FULL, 0, kind == EP_KIND_CPU ? value : 0);
    }
    ep_add_residual(ep, (int64_t)take_wide(&ep->owed_ns));
    unsigned lost = take(&ep->lost_samples);
    ep->collect->governor.events += lost;
    ep_lose(ep, EP_LOSS_RING_FULL, lost, 0);
    for (unsigned i = 0; i < EP_SHOWN; i++)
        ep_add_special(ep, (enum ep_special)shown[i], EP_KIND_CPU, 0, take_wide(&ep->deliver->lost_shown_ns[i]));
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++) {
        unsigned count = take(&ep->refused[reason]);
        if (count)
            ep_lose(ep, (enum ep_loss)reason, count, 0);
    }
    count_rules(ep, take(&ep->rule_misses));
}

bool ep_collect_abandon(struct ep *ep)
{
    struct ep_record record;
    struct ep_sample sample;
    uint64_t count = take(&ep->lost_samples), ns = take_wide(&ep->lost_value[EP_KIND_CPU]);

    for (; ep_ring_peek(&ep->ring, &record); ep_ring_pop(&ep->ring, &record)) {
        if (!ep_record_read(&record, &sample) || sample.residual || ep_is_of_history(sample.kind))
            continue;
        count++;
        ns += sample.kind == EP_KIND_CPU ? sample.value : 0;
    }
    ep_lose(ep, EP_LOSS_STOPPED, count, ns);
    return count != 0;
}

/* Threads rarely start alone: after the start, and after a scan that found more of them, the next one comes soon, then
 * ever later. Not at once: edgeprof's own threads may not be marked yet. */
static void scan(struct ep *ep, uint64_t now)
{
    uint64_t longest = ep_port_threads_announced() ? SCAN_ANNOUNCED_NS : SCAN_NS;
    bool first = ep->collect->scan_pause_ns == 0;
    int threads = first ? -EAGAIN : ep_port_threads_scan();
    uint64_t clock_error;

    (void)ep_port_clock(&clock_error);
    atomic_store_explicit(&ep->counter[EP_COUNT_CLOCK_ERROR], clock_error, memory_order_relaxed);
    bool more = threads > (int)atomic_load_explicit(&ep->counter[EP_COUNT_THREADS], memory_order_relaxed);

    if (threads >= 0)
        atomic_store_explicit(&ep->counter[EP_COUNT_THREADS], (uint64_t)threads, memory_order_relaxed);
    ep->collect->scan_pause_ns = more || first ? SCAN_SOON_NS : 2 * ep->collect->scan_pause_ns;
    if (ep->collect->scan_pause_ns > longest)
        ep->collect->scan_pause_ns = longest;
    ep->collect->next_scan_ns = now + ep->collect->scan_pause_ns;
}

void ep_collect_gather(struct ep *ep)
{
    EP_EACH_FEATURE (at, gather)
        at.feature->gather(ep);
}

void ep_collect_round(struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();
    uint64_t generation = ep_port_modules_generation();

    ep_port_stacks_find();
    ep->unwinder.modules.refused = 0;
    if (generation != ep->unwinder.modules.generation && ep_modules_read(!(ep->config.flags & EP_NO_PIN)) == 0) {
        ep->unwinder.modules.generation = generation;
        atomic_store_explicit(&ep->cut_told, 0, memory_order_relaxed);
    }
    ep_level_apply(ep);
    if (now >= ep->collect->interval_due_ns || atomic_load(&ep->flush) || atomic_load(&ep->stopping))
        ep_collect_gather(ep);
    ep_collect_drain(ep);
    ep_restart_round(ep);
    collect_losses(ep);
    ep_rates_round(ep);
    EP_EACH_FEATURE (at, round)
        at.feature->round(ep, now);
    bool scanned = now >= ep->collect->next_scan_ns && !atomic_load(&ep->stopping);
    if (scanned)
        scan(ep, now);
    bool ended = !ep_collect_held(ep) && (now >= ep->collect->interval_due_ns || atomic_exchange(&ep->flush, false) ||
                                          atomic_load(&ep->encode_pending));
    if (ended || scanned || atomic_load(&ep->stopping))
        ep_unsampled_look(ep);
    if (ended)
        (void)ep_collect_finish(ep, false);
    ep_govern(ep, ended);
    atomic_store_explicit(&ep->counter[EP_COUNT_TREE_NODES], ep->collect->tree.nodes, memory_order_relaxed);
}

static uint64_t until_next(const struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();
    uint64_t next = ep->collect->interval_due_ns;

    if (next <= now) /* waiting for room in the outbox: the deliver thread wakes this one */
        next = now + ep->interval_ns;
    if (ep->collect->next_scan_ns < next)
        next = ep->collect->next_scan_ns;
    EP_EACH_FEATURE (at, next) {
        const uint64_t wanted = at.feature->next(ep);
        next = wanted < next ? wanted : next;
    }
    return next > now ? next - now : 1;
}

void ep_collect_thread(void)
{
    struct ep *ep = ep_running();
    unsigned seen = atomic_load(&ep->collect_event.value);

    while (!atomic_load(&ep->stopping)) {
        ep_collect_round(ep);
        atomic_store_explicit(&ep->counter[EP_COUNT_COLLECT_CPU_NS], ep_port_thread_cpu_ns(), memory_order_relaxed);
        ep_port_wait(&ep->collect_event, seen, until_next(ep));
        ep_count(ep, EP_COUNT_WAKEUPS, 1);
        seen = atomic_load(&ep->collect_event.value);
    }
    ep_collect_round(ep);
    atomic_store_explicit(&ep->counter[EP_COUNT_COLLECT_CPU_NS], ep_port_thread_cpu_ns(), memory_order_relaxed);
    while (!ep_collect_finish(ep, true) && ep_port_uptime_ns() < atomic_load(&ep->deliver->stop_deadline_ns)) {
        ep_port_wait(&ep->collect_event, seen, 10000000);
        seen = atomic_load(&ep->collect_event.value);
    }
    atomic_store(&ep->collected, true);
    ep_port_wake(&ep->deliver->event);
    while ((!ep_outbox_empty(&ep->deliver->outbox) || atomic_load(&ep->deliver->restart.state)) &&
           ep_port_uptime_ns() < atomic_load(&ep->deliver->stop_deadline_ns)) {
        ep_port_wait(&ep->collect_event, seen, 10000000);
        seen = atomic_load(&ep->collect_event.value);
        ep_restart_round(ep);
    }
}
