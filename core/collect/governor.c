/*
 * The governor: measures the cost of profiling and stretches all periods by one factor, to keep ep_config.budget_ppm.
 *
 * The cost of samples has three parts: time in ep_capture() and ep_hook_event(), of which about 1 in 128 is timed; the
 * port's estimate for a bare signal; and the collect thread's time for the ring. All other costs do not depend on the
 * number of samples: the rest of edgeprof's threads, and hooks without a sample (1 in 512 is timed). They are
 * subtracted from the budget, of which at least a quarter stays for samples.
 *
 *   core/sample:  ep_timing_begin, ep_timing_end, ep_hook_cost     on the service's threads
 *   ep_govern -> measure_costs -> add_to_minute -> stretch_wanted -> ep_level_apply
 */
#include "core/collect/collect.h"
#include "core/sample/capture.h"

#define SLOT_LEAST_NS 1000000000u
#define SLOT_MOST_NS  10000000000u
#define MINUTE_NS     60000000000u
#define MILLION       1000000u
/* Timing takes two readings of a thread's clock, more than the sample itself. So only 1 in TIMED_ONE_IN is timed,
 * and TIMED_LEAST after each measurement, for programs with few samples. */
#define TIMED_ONE_IN 128u
#define TIMED_LEAST  EVIDENCE
#define EVIDENCE     8u /* the least number of timed samples that is significant */
#define PARTS        1024u

static void stretch_to(struct ep *ep, uint32_t stretch)
{
    ep->collect->governor.stretch = stretch;
    atomic_store_explicit(&ep->counter[EP_COUNT_STRETCH_PCT], stretch * 100 / EP_STRETCH_NONE, memory_order_relaxed);
}

static uint64_t counter_read(struct ep *ep, enum ep_counter which)
{
    return atomic_load_explicit(&ep->counter[which], memory_order_relaxed);
}

/* Reads the meters and returns their increase since the last call. */
static void meters_read(struct ep *ep, uint64_t since[EP_METERS])
{
    const uint64_t now[EP_METERS] = {
        [EP_METER_PROCESS] = ep_port_process_cpu_ns(),
        [EP_METER_OWN] = counter_read(ep, EP_COUNT_COLLECT_CPU_NS) + counter_read(ep, EP_COUNT_DELIVER_CPU_NS),
        [EP_METER_DRAIN] = ep->collect->governor.drain_ns,
        [EP_METER_EVENTS] = ep->collect->governor.events,
        [EP_METER_TICKS] = counter_read(ep, EP_COUNT_SAMPLES),
        [EP_METER_HOOKS] = atomic_load_explicit(&ep_hooks_ns, memory_order_relaxed),
    };

    for (unsigned i = 0; i < EP_METERS; i++) {
        uint64_t more = now[i] - ep->collect->governor.seen[i];
        since[i] = more >> 63 ? 0 : more; /* the estimate of hooks may fall a little */
        ep->collect->governor.seen[i] += since[i];
    }
}

void ep_governor_begin(struct ep *ep)
{
    uint64_t unused[EP_METERS];

    ep->collect->governor.since_ns = ep_port_uptime_ns();
    meters_read(ep, unused);
    atomic_store_explicit(&ep->timing.to_time, TIMED_LEAST, memory_order_relaxed);
    stretch_to(ep, EP_STRETCH_NONE);
}

void ep_governor_drained(struct ep *ep, unsigned events)
{
    ep->collect->governor.events += events;
    ep->collect->governor.untimed += events;
    if (ep->collect->governor.untimed < TIMED_ONE_IN)
        return;
    atomic_store_explicit(&ep->timing.to_time, ep->collect->governor.untimed / TIMED_ONE_IN, memory_order_relaxed);
    ep->collect->governor.untimed %= TIMED_ONE_IN;
}

/* The costs since the last call, in 1024 ns so that products fit into 64 bits. Returns the number of timed samples. */
static unsigned measure_costs(struct ep *ep, uint64_t slot[EP_COSTS])
{
    struct ep_governor *governor = &ep->collect->governor;
    uint64_t since[EP_METERS], timed = atomic_exchange(&ep->timing.timed, 0);
    unsigned times = timed & ((1u << EP_TIMED_BITS) - 1);

    if (times)
        governor->event_ns = (timed >> EP_TIMED_BITS) / times;
    atomic_store_explicit(&ep->timing.to_time, TIMED_LEAST, memory_order_relaxed);
    meters_read(ep, since);
    uint64_t handlers = since[EP_METER_EVENTS] * governor->event_ns + since[EP_METER_TICKS] * ep_port_tick_cost_ns();
    ep_count(ep, EP_COUNT_HANDLER_NS, handlers + since[EP_METER_HOOKS]);
    slot[EP_COST_CPU] = since[EP_METER_PROCESS] / PARTS;
    slot[EP_COST_SAMPLES] = (handlers + since[EP_METER_DRAIN]) / PARTS;
    slot[EP_COST_OTHER] = since[EP_METER_HOOKS] / PARTS;
    if (since[EP_METER_OWN] > since[EP_METER_DRAIN])
        slot[EP_COST_OTHER] += (since[EP_METER_OWN] - since[EP_METER_DRAIN]) / PARTS;
    slot[EP_COST_DEMAND] = slot[EP_COST_SAMPLES] * governor->stretch;
    return times;
}

static __attribute__((noinline)) uint64_t ppm(uint64_t part, uint64_t of)
{
    return of ? part * MILLION / of : 0;
}

/* The unstretched cost (demand) does not depend on the current factor. So a mean over about a minute gives the right
 * factor at once, without oscillation. A demand that has doubled or halved starts a new mean. */
static void add_to_minute(uint64_t minute[EP_COSTS], const uint64_t slot[EP_COSTS], uint64_t length, unsigned timed)
{
    uint64_t before = ppm(minute[EP_COST_DEMAND], minute[EP_COST_CPU]);
    uint64_t demand = ppm(slot[EP_COST_DEMAND], slot[EP_COST_CPU]);
    bool another = timed >= EVIDENCE && (demand > 2 * before || 2 * demand < before);
    uint64_t keep = another || length >= MINUTE_NS ? 0 : PARTS - length * PARTS / MINUTE_NS;

    for (unsigned i = 0; i < EP_COSTS; i++)
        minute[i] = minute[i] * keep / PARTS + slot[i];
}

/* The target is 1 / 16 below the budget. Between 1 / 8 below and 1 / 16 above the current factor nothing changes. Over
 * budget: corrected at once. Under budget: half the distance per step. */
static uint32_t stretch_wanted(const uint64_t minute[EP_COSTS], uint32_t budget_ppm, uint32_t stretch)
{
    uint64_t all = minute[EP_COST_CPU] * budget_ppm, budget = all - all / 16;
    uint64_t other = minute[EP_COST_OTHER] * MILLION;
    uint64_t left = budget > other ? budget - other : 0;

    if (left < budget / 4)
        left = budget / 4;
    if (left == 0)
        return stretch;
    uint64_t to = minute[EP_COST_DEMAND] * MILLION / left;
    if (to > EP_STRETCH_MOST)
        to = EP_STRETCH_MOST;
    if (to > stretch + stretch / 16)
        return (uint32_t)to;
    if (to >= EP_STRETCH_NONE && to + stretch / 8 >= stretch)
        return stretch;
    to = (to + stretch) / 2;
    return to > EP_STRETCH_NONE ? (uint32_t)to : EP_STRETCH_NONE;
}

void ep_govern(struct ep *ep, bool interval_ended)
{
    struct ep_governor *governor = &ep->collect->governor;
    uint64_t now = ep_port_uptime_ns(), length = now - governor->since_ns, slot[EP_COSTS];

    if (length < (interval_ended ? SLOT_LEAST_NS : SLOT_MOST_NS))
        return;
    governor->since_ns = now;
    unsigned timed = measure_costs(ep, slot);
    add_to_minute(governor->minute, slot, length, timed);
    uint64_t cost = governor->minute[EP_COST_SAMPLES] + governor->minute[EP_COST_OTHER];
    atomic_store_explicit(&ep->counter[EP_COUNT_COST_PPM], ppm(cost, governor->minute[EP_COST_CPU]),
                          memory_order_relaxed);
    uint32_t stretch = ep->config.budget_ppm
                           ? stretch_wanted(governor->minute, ep->config.budget_ppm, governor->stretch)
                           : EP_STRETCH_NONE;
    if (stretch == governor->stretch)
        return;
    stretch_to(ep, stretch);
    ep_count(ep, EP_COUNT_STRETCHES, 1);
    ep_level_apply(ep);
}
