/*
 * Event rates: allocations, exceptions, locks, waits, writes and syncs have a limit of events per second, whatever the
 * program does. The limit is kept by the sampling distance of a stream, in its unit: bytes, exceptions, ns of waiting.
 *
 * The weights of the events that arrive add up to the stream's volume. With a distance of volume per second / limit
 * there are at most `limit` events a second, whatever their sizes. Up: at most doubled, in a burst after every `limit`
 * events. Down: a quarter of the way a second. Never below the nominal distance. The governor's stretch comes on top.
 *
 *   ep_collect_drain -> ep_rates_note -> check_burst -> set_distance -> ep_level_periods
 *   ep_collect_round -> ep_rates_round -> settle_rate -> set_distance
 */
#include "core/collect/collect.h"
#include "core/sample/waiting.h"

#define KIB 1024u
#define MS  1000000u
/* A window ends after this time if it has `limit` events, and anyway after WINDOW_MOST_NS: with few samples the volume
 * is not well known. */
#define WINDOW_NS      1000000000u
#define WINDOW_MOST_NS 10000000000u
/* Steps down after a long window. */
#define STEPS_MOST 16u
/* The live heap follows sampled objects; each then stands for at most this, unless a budget asks for more. */
#define LIVE_DISTANCE (2048 * KIB)

struct stream {
    uint32_t nominal, most; /* distances */
};

/* Locks and waits are one stream: a wait's class is not always known when it is sampled. */
static const struct stream streams[EP_RATES] = {
    [EP_RATE_ALLOC] = {512 * KIB, 64 * 512 * KIB}, [EP_RATE_EXCEPTION] = {1, 1024},
    [EP_RATE_WAIT] = {10 * MS, EP_WAIT_OPEN_NS},   [EP_RATE_WRITE] = {64 * KIB, 512 * 64 * KIB},
    [EP_RATE_SYNC] = {10 * MS, EP_WAIT_OPEN_NS},
};

static unsigned stream_of(enum ep_kind kind)
{
    switch (kind) {
    case EP_KIND_ALLOC:
        return EP_RATE_ALLOC;
    case EP_KIND_EXCEPTION:
        return EP_RATE_EXCEPTION;
    case EP_KIND_WAIT:
    case EP_KIND_LOCK:
        return EP_RATE_WAIT;
    case EP_KIND_WRITE:
        return EP_RATE_WRITE;
    case EP_KIND_SYNC:
        return EP_RATE_SYNC;
    default:
        return EP_RATES;
    }
}

unsigned ep_rates_limit(const struct ep *ep, enum ep_kind kind)
{
    static const uint8_t limits[2][EP_KINDS] = {{[EP_KIND_ALLOC] = 20,
                                                 [EP_KIND_EXCEPTION] = 10,
                                                 [EP_KIND_LOCK] = 20,
                                                 [EP_KIND_WAIT] = 20,
                                                 [EP_KIND_WRITE] = 20,
                                                 [EP_KIND_SYNC] = 20},
                                                {[EP_KIND_ALLOC] = 50,
                                                 [EP_KIND_EXCEPTION] = 20,
                                                 [EP_KIND_LOCK] = 50,
                                                 [EP_KIND_WAIT] = 50,
                                                 [EP_KIND_WRITE] = 50,
                                                 [EP_KIND_SYNC] = 50}};
    unsigned high = atomic_load_explicit(&ep->level, memory_order_relaxed) == EP_LEVEL_HIGH;

    return ep->config.flags & EP_ALL_EVENTS ? 0 : limits[high][kind];
}

/* Of a stream without enabled kinds: only the history of incidents wants its events. */
#define LIMIT_HISTORY 10u

/* Of a stream: the sum of its enabled kinds. */
static unsigned stream_limit(const struct ep *ep, unsigned stream)
{
    unsigned sum = 0;

    for (unsigned kind = EP_KIND_CPU; kind < EP_KINDS; kind++)
        if (stream_of((enum ep_kind)kind) == stream && ep->collect->kinds & EP_KIND_BIT(kind))
            sum += ep_rates_limit(ep, (enum ep_kind)kind);
    return sum ? sum : stream == EP_RATE_ALLOC ? 1 : LIMIT_HISTORY;
}

static uint32_t distance_most(const struct ep *ep, unsigned stream)
{
    bool live = stream == EP_RATE_ALLOC && ep->collect->kinds & EP_KIND_BIT(EP_KIND_LIVE);

    return live ? LIVE_DISTANCE : streams[stream].most;
}

uint32_t ep_rates_distance(const struct ep *ep, enum ep_kind kind)
{
    unsigned stream = stream_of(kind);

    if (stream == EP_RATES)
        return 1;
    uint32_t distance = ep->collect->rate[stream].distance, most = distance_most(ep, stream);
    return distance < most ? distance : most;
}

void ep_rates_begin(struct ep *ep)
{
    for (unsigned i = 0; i < EP_RATES; i++)
        ep->collect->rate[i] = (struct ep_rate){.distance = streams[i].nominal, .since_ns = ep_port_uptime_ns()};
}

static void set_distance(struct ep *ep, unsigned stream, uint32_t distance)
{
    if (ep->collect->rate[stream].distance == distance)
        return;
    ep->collect->rate[stream].distance = distance;
    ep_level_periods(ep);
}

/* The distance that would have kept the limit since the window began. */
static uint32_t distance_wanted(const struct ep *ep, unsigned stream)
{
    const struct ep_rate *rate = &ep->collect->rate[stream];
    uint64_t ms = (ep_port_uptime_ns() - rate->since_ns) / MS + 1;
    uint64_t wanted = rate->volume * 1000 / ms / stream_limit(ep, stream);
    uint32_t least = streams[stream].nominal, most = distance_most(ep, stream);

    return wanted < least ? least : wanted > most ? most : (uint32_t)wanted;
}

/* Also while the ring is being drained, because the events of a burst may be many. The window goes on, so events that
 * were taken with the old distance are not counted again. */
static void check_burst(struct ep *ep, unsigned stream)
{
    uint32_t distance = ep->collect->rate[stream].distance, wanted = distance_wanted(ep, stream);

    if (wanted / 3 > distance / 2) /* chance makes smaller differences */
        set_distance(ep, stream, wanted / 2 > distance ? 2 * distance : wanted);
}

void ep_rates_note(struct ep *ep, enum ep_kind kind, uint64_t value)
{
    unsigned stream = stream_of(kind);

    /* The distance has no effect on waits that are recorded individually. */
    if (stream == EP_RATES || ep->config.flags & EP_ALL_EVENTS || (stream == EP_RATE_WAIT && value > EP_WAIT_OPEN_NS))
        return;
    struct ep_rate *rate = &ep->collect->rate[stream];
    rate->volume += value;
    if (++rate->events < rate->check_at)
        return;
    uint32_t limit = stream_limit(ep, stream);
    if (rate->check_at || limit == 1)
        check_burst(ep, stream);
    rate->check_at = rate->events - rate->events % limit + limit;
}

/* The window has ended. */
static void settle_rate(struct ep *ep, unsigned stream, uint64_t seconds)
{
    struct ep_rate *rate = &ep->collect->rate[stream];
    uint32_t distance = rate->distance, wanted = distance_wanted(ep, stream);

    if (wanted > distance)
        distance += (wanted - distance + 1) / 2 < distance ? (wanted - distance + 1) / 2 : distance;
    for (unsigned i = 0; i < seconds && i < STEPS_MOST && wanted < distance; i++)
        distance -= distance - wanted < wanted / 16 ? distance - wanted : (distance - wanted + 3) / 4;
    set_distance(ep, stream, distance);
    rate->volume = 0;
    rate->events = rate->check_at = 0;
}

void ep_rates_round(struct ep *ep)
{
    uint64_t now = ep_port_uptime_ns();

    for (unsigned i = 0; i < EP_RATES; i++) {
        struct ep_rate *rate = &ep->collect->rate[i];
        uint64_t length = now - rate->since_ns;
        if (length < (rate->events < stream_limit(ep, i) ? WINDOW_MOST_NS : WINDOW_NS))
            continue;
        settle_rate(ep, i, length / WINDOW_NS);
        rate->since_ns = now;
    }
}
