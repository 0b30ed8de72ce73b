/*
 * The profiling level: which kinds are measured, and how often, at the start and after changes.
 *
 * The setters only store the new values. The collect thread applies them (ep_level_apply), because it owns the port's
 * timers. Kinds take effect at once, since every hook checks them. A sample carries its own weight, so no total depends
 * on when a change takes effect.
 */
#include "core/collect/collect.h"
#include "core/sample/capture.h"

#include <errno.h>
#include <string.h>

struct level {
    uint16_t rate_hz;
    uint16_t kinds;
};

#define MEDIUM_KINDS                                                                                                   \
    (EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_ALLOC) | EP_KIND_BIT(EP_KIND_LIVE) | EP_KIND_BIT(EP_KIND_LOCK) |   \
     EP_KIND_BIT(EP_KIND_HEAP))

static const struct level levels[] = {
    [EP_LEVEL_DEFAULT] = {19, EP_KIND_BIT(EP_KIND_CPU)},
    [EP_LEVEL_LOW] = {19, EP_KIND_BIT(EP_KIND_CPU)},
    [EP_LEVEL_MEDIUM] = {97, MEDIUM_KINDS},
    [EP_LEVEL_HIGH] = {251, EP_KINDS_ALL},
};

static uint32_t period_of_rate(uint32_t rate_hz)
{
    return 1000000000u / rate_hz;
}

static uint32_t stretched(const struct ep *ep, uint32_t base)
{
    uint64_t period = (uint64_t)base * ep->collect->governor.stretch / EP_STRETCH_NONE;

    return period < UINT32_MAX ? (uint32_t)period : UINT32_MAX;
}

void ep_level_periods(struct ep *ep)
{
    for (unsigned kind = EP_KIND_WAIT; kind < EP_KINDS; kind++)
        atomic_store(&ep_hook_periods[kind], stretched(ep, ep_rates_distance(ep, (enum ep_kind)kind)));
}

/* The port's timers serve CPU samples only. */
static void periods_store(struct ep *ep, uint32_t kinds)
{
    ep_level_periods(ep);
    ep->period_applied_ns = stretched(ep, atomic_load(&ep->period_ns));
    atomic_store(&ep_hook_periods[EP_KIND_CPU], ep->period_applied_ns);
    ep->collect->timers_ns = kinds & EP_KIND_BIT(EP_KIND_CPU) ? ep->period_applied_ns : 0;
}

uint32_t ep_level_kinds(enum ep_level level)
{
    return levels[level].kinds;
}

void ep_level_begin(struct ep *ep)
{
    const struct ep_config *config = &ep->config;
    const struct level *level = &levels[config->level];

    atomic_store(&ep->level, config->level ? (unsigned)config->level : EP_LEVEL_LOW);
    atomic_store(&ep->period_ns, period_of_rate(config->rate_hz ? config->rate_hz : level->rate_hz));
    ep_governor_begin(ep);
    ep_rates_begin(ep);
    ep->collect->kinds = config->kinds ? config->kinds : level->kinds;
    periods_store(ep, ep->collect->kinds);
    atomic_store(&ep_hook_kinds, ep->collect->kinds | ep_history_kinds << EP_HISTORY_SHIFT);
}

void ep_level_end(void)
{
    atomic_store(&ep_hook_kinds, 0);
}

void ep_level_apply(struct ep *ep)
{
    uint32_t before = ep->collect->timers_ns, kinds = atomic_load(&ep_hook_kinds) & EP_KINDS_ALL;
    const struct ep_applied applied = {kinds, atomic_load(&ep->period_ns), ep->collect->governor.stretch};

    if (memcmp(&applied, &ep->collect->applied, sizeof applied) == 0)
        return;
    ep->collect->applied = applied;
    if (kinds && kinds != ep->collect->kinds) { /* 0: stopping; records in the ring still count */
        ep->collect->kinds = kinds;
        EP_EACH_FEATURE (at, kinds_changed)
            at.feature->kinds_changed(ep);
    }
    periods_store(ep, kinds);
    if (ep->collect->timers_ns != before)
        ep_port_sampling_period(ep->collect->timers_ns);
}

static void notify_collect(struct ep *ep)
{
    atomic_store(&ep->flush, true);
    ep_collect_wake(ep);
}

int ep_level_set(enum ep_level level)
{
    if (level < EP_LEVEL_LOW || level > EP_LEVEL_HIGH)
        return -EINVAL;
    struct ep *ep = ep_hold();
    if (!ep)
        return -ESRCH;
    atomic_store(&ep->level, level);
    atomic_store(&ep_hook_kinds, levels[level].kinds | ep_history_kinds << EP_HISTORY_SHIFT);
    atomic_store(&ep->period_ns, period_of_rate(levels[level].rate_hz));
    notify_collect(ep);
    ep_release();
    return 0;
}

static int kinds_store(uint32_t keep, uint32_t on)
{
    if (on & ~EP_KINDS_ALL)
        return -EINVAL;
    struct ep *ep = ep_hold();
    if (!ep)
        return -ESRCH;
    unsigned before = atomic_load(&ep_hook_kinds);
    while (!atomic_compare_exchange_weak(&ep_hook_kinds, &before, (before & (keep | ~EP_KINDS_ALL)) | on)) {
    }
    notify_collect(ep);
    ep_release();
    return 0;
}

int ep_kinds_set(uint32_t kinds)
{
    return kinds_store(0, kinds);
}

int ep_kinds_change(uint32_t on, uint32_t off)
{
    return kinds_store(~off, on & ~off);
}

enum ep_level ep_level_get(void)
{
    struct ep *ep = ep_hold();
    enum ep_level level = ep ? (enum ep_level)atomic_load(&ep->level) : EP_LEVEL_DEFAULT;

    if (ep)
        ep_release();
    return level;
}

uint32_t ep_kinds_get(void)
{
    return atomic_load(&ep_hook_kinds) & EP_KINDS_ALL;
}
