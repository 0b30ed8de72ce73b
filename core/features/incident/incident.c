/*
 * Incidents: start, and what a trigger leads to. Only programs that call ep_incident_start() link this.
 *
 *   ep_incident_start -> the memory is divided, the limits hold from the next ep_start() on
 *   history_sample     -> ep_past_add
 *   round -> a trigger waits -> limits_allow -> incident_begin: a dump of all threads
 *         -> the tail is over -> incident_freeze: open waits; from here on the history stays as it is
 *         -> parts_send -> ep_incident_message -> the outbox, behind it a new segment of profiles
 *
 * A message of an incident is a segment of its own. The spool and a restart of queued messages rely on segments that
 * are in one piece, so the profiles behind it begin a new one.
 */
#include "core/features/incident/incident.h"
#include "core/features/dump/dump.h"
#include <edgeprof/transport.h>

#include <errno.h>
#include <string.h>

#define MS                        1000000u
#define DAY_NS                    86400000000000u
#define DUMP_NS                   2500000000u /* a dump of all threads has ended by then */
#define DUMP_LOOK_NS              50000000u   /* the dump itself wakes, too */
#define RETRY_NS                  100000000u
#define RETRY_MOST                10000000000u
#define WAIT_LEAST                1000000u /* shorter waits are not in the history */
#define DEFAULT(value, otherwise) ((value) ? (value) : (otherwise))

enum phase { IDLE, TAIL, FROZEN };

static struct {
    struct ep_incident_config config;
    uint32_t run;
    uint64_t next_ns;
    enum phase phase;
    struct ep_trigger trigger;
    uint64_t end_ns;                    /* of the tail */
    uint64_t total_then[EP_PAST_PARTS]; /* samples at the trigger */
    uint64_t retry_ns, retry_pause_ns;
    uint64_t passed, missing; /* to be told with this incident */
    struct ep_incident_part part;
    uint64_t last_ns[EP_INCIDENT_CAUSES]; /* uptime of the last incident of a cause, 0: none */
    unsigned today[EP_INCIDENT_CAUSES];
    uint64_t day_ns; /* begin of the day that these are of */
    _Atomic uint64_t captured, suppressed, lost, day_bytes;
} incident;

/* ---- limits ---- */

static void day_begin(uint64_t now)
{
    if (incident.day_ns && now < incident.day_ns + DAY_NS)
        return;
    incident.day_ns = now;
    memset(incident.today, 0, sizeof incident.today);
    atomic_store(&incident.day_bytes, 0);
}

static bool limits_allow(unsigned cause, uint64_t now)
{
    const struct ep_incident_config *config = &incident.config;

    day_begin(now);
    if (incident.last_ns[cause] && now < incident.last_ns[cause] + config->gap_ms * (uint64_t)MS)
        return false;
    if (incident.today[cause] >= config->per_day || atomic_load(&incident.day_bytes) >= config->day_bytes)
        return false;
    incident.last_ns[cause] = now;
    incident.today[cause]++;
    return true;
}

/* ---- samples ---- */

/* The duration of a wait: the sample stands for `count` such waits. */
static uint64_t value_of(const struct ep_sample *sample)
{
    const bool each = (sample->kind == EP_KIND_WAIT || sample->kind == EP_KIND_GC) && sample->count > 1;

    return each ? sample->value / sample->count : sample->value;
}

static uint64_t tick_of(const struct ep_sample *sample)
{
    uint64_t now = ep_port_uptime_ns() >> EP_TIME_SHIFT;

    return now - (uint32_t)((uint32_t)now - sample->tick);
}

/* After a trigger at most half of a part may be new, so that what led to it stays. */
static bool has_room(unsigned part)
{
    const struct ep_past *past = &ep_past.part[part];

    return incident.phase == IDLE ||
           (incident.phase == TAIL && past->total - incident.total_then[part] < past->capacity / 2);
}

/* A new run: nothing of an earlier one is left. */
static void run_begin(struct ep *ep)
{
    if (incident.run == ep->run)
        return;
    if (ep->config.flags & EP_SINCE_FORK) /* spans and heartbeats of the parent's threads */
        ep_triggers_clear();
    incident.run = ep->run;
    incident.phase = IDLE;
    incident.passed = 0;
    ep_past_clear();
    ep_watch_begin(&incident.config);
}

/* Locks are waits with a frame of their own. */
static bool is_wanted(const struct ep *ep, const struct ep_past_sample *sample)
{
    return ep_history_kinds & EP_KIND_BIT(sample->kind) ||
           (sample->kind == EP_KIND_WAIT && ep_history_kinds & EP_KIND_BIT(EP_KIND_LOCK) &&
            ep->collect->tree.node[sample->node].frame == EP_FRAME_WAIT + EP_WAIT_LOCK);
}

static bool history_sample(struct ep *ep, const struct ep_sample *added, unsigned node)
{
    struct ep_past_sample sample = {.kind = added->kind, .tid = added->tid, .node = node};
    const bool dump = sample.kind == EP_KIND_THREAD;
    const bool alone = dump ? ep_snapshot_for() == EP_SNAPSHOT_HISTORY
                            : (atomic_load(&ep_history_alone) & EP_KIND_BIT(sample.kind)) != 0;

    run_begin(ep);
    if (!dump && sample.kind != EP_KIND_CPU && !is_wanted(ep, &sample))
        return alone;
    sample.value_ns = dump ? 0 : value_of(added);
    sample.tick = tick_of(added);
    if (sample.kind == EP_KIND_WAIT && sample.value_ns < WAIT_LEAST)
        return alone;
    if (has_room(sample.kind == EP_KIND_CPU ? EP_PAST_CPU : EP_PAST_EVENTS))
        ep_past_add(&ep->collect->tree, &sample);
    else
        incident.missing++;
    ep_watch_sample(&sample);
    return alone;
}

/* ---- an incident ---- */

static void incident_begin(struct ep *ep, const struct ep_trigger *trigger)
{
    incident.trigger = *trigger;
    incident.phase = TAIL;
    incident.end_ns = trigger->time_ns + incident.config.tail_ms * (uint64_t)MS;
    incident.missing = 0;
    for (unsigned i = 0; i < EP_PAST_PARTS; i++)
        incident.total_then[i] = ep_past.part[i].total;
    (void)ep_snapshot_ask(ep, EP_SNAPSHOT_HISTORY); /* without a dump, an incident still has its samples */
}

static void suppress(uint64_t count)
{
    incident.passed += count;
    (void)atomic_fetch_add(&incident.suppressed, count);
}

static void triggers_take(struct ep *ep, uint64_t now)
{
    struct ep_trigger trigger;

    suppress(ep_triggers_passed());
    if (!ep_trigger_take(&trigger))
        return;
    if (incident.phase != IDLE || trigger.time_ns < ep->started_ns || EP_HAS_FEATURE(convert) ||
        !ep->deliver->transport || !limits_allow(trigger.cause, now))
        suppress(1);
    else
        incident_begin(ep, &trigger);
}

/* What is still in the ring is of before. Open waits would be recorded when they end, or at the interval's end. */
static void incident_freeze(struct ep *ep)
{
    ep_collect_gather(ep);
    ep_collect_drain(ep);
    ep_past_names();
    incident.phase = FROZEN;
    incident.retry_ns = 0;
    incident.retry_pause_ns = RETRY_NS;
    incident.part = (struct ep_incident_part){
        .trigger = &incident.trigger, .passed = incident.passed, .missing = incident.missing, .count = UINT32_MAX};
    while (incident.part.id == 0)
        ep_port_random(&incident.part.id, sizeof incident.part.id);
}

static void incident_end(bool captured)
{
    incident.phase = IDLE;
    if (captured)
        incident.passed -= incident.part.passed;
    (void)atomic_fetch_add(captured ? &incident.captured : &incident.lost, 1);
}

/* Puts the next part into the outbox. Returns its size; 0: there is no room now. */
static uint32_t part_put(struct ep *ep, uint64_t now)
{
    const bool empty = ep_outbox_empty(&ep->deliver->outbox);
    struct ep_box_header header = {.end_ns = now, .end_unix_ns = ep_port_unix_ns()};
    uint8_t *bytes;
    /* Only into an empty outbox: queued profiles of an older segment could not be completed after a restart. */
    const bool may =
        (empty || atomic_load(&ep->stopping)) && atomic_load(&ep->deliver->restart.state) == EP_RESTART_NONE;
    uint32_t room = may ? ep_outbox_room(&ep->deliver->outbox, &bytes) : 0;

    if (room > ep->deliver->message_bytes)
        room = ep->deliver->message_bytes;
    header.start_unix_ns = header.end_unix_ns;
    header.size = room ? ep_incident_message(ep, &incident.part, empty, bytes, room, &header.segment) : 0;
    if (header.size == 0)
        return 0;
    (void)ep_outbox_put(&ep->deliver->outbox, &header, false);
    ep_segment_begin(ep);
    ep_port_wake(&ep->deliver->event);
    (void)atomic_fetch_add(&incident.day_bytes, header.size);
    return header.size;
}

/* Sends as many parts as find room. A part that does not fit into an empty outbox never will. */
static void parts_send(struct ep *ep, uint64_t now)
{
    if (now < incident.retry_ns)
        return;
    while (incident.phase == FROZEN) {
        const bool empty = ep_outbox_empty(&ep->deliver->outbox);
        if (part_put(ep, now) == 0) {
            if (empty && atomic_load(&ep->deliver->restart.state) == EP_RESTART_NONE)
                incident_end(false);
            break;
        }
        if (!incident.part.more)
            incident_end(true);
        incident.part.number++;
        incident.part.count = UINT32_MAX;
        incident.retry_pause_ns = RETRY_NS;
    }
    incident.retry_ns = now + incident.retry_pause_ns;
    incident.retry_pause_ns = incident.retry_pause_ns < RETRY_MOST / 2 ? 2 * incident.retry_pause_ns : RETRY_MOST;
}

static void incident_go_on(struct ep *ep, uint64_t now)
{
    const bool stopping = atomic_load(&ep->stopping);

    if (incident.phase == TAIL && (stopping || (now >= incident.end_ns && (!ep_snapshot_pending(EP_SNAPSHOT_HISTORY) ||
                                                                           now >= incident.trigger.time_ns + DUMP_NS))))
        incident_freeze(ep);
    if (incident.phase == FROZEN)
        parts_send(ep, now);
    if (stopping && incident.phase == FROZEN)
        incident_end(false);
}

/* An event of waiting may be one of a lock. */
static void alone_set(const struct ep *ep)
{
    uint32_t of_profile = ep->collect->kinds | EP_KIND_BIT(EP_KIND_CPU);

    if (ep->collect->kinds & EP_KIND_BIT(EP_KIND_LOCK))
        of_profile |= EP_KIND_BIT(EP_KIND_WAIT);
    uint32_t of_history = ep_history_kinds & EP_KINDS_ALL;
    if (of_history & EP_KIND_BIT(EP_KIND_LOCK))
        of_history |= EP_KIND_BIT(EP_KIND_WAIT);
    atomic_store(&ep_history_alone, of_history & ~of_profile);
}

static void history_round(struct ep *ep, uint64_t now)
{
    run_begin(ep);
    alone_set(ep);
    uint64_t spans = ep_triggers_look(now), watch = ep_watch_look(now);
    triggers_take(ep, now);
    incident_go_on(ep, now);
    incident.next_ns = spans < watch ? spans : watch;
    uint64_t due = incident.phase == TAIL     ? (now < incident.end_ns ? incident.end_ns : now + DUMP_LOOK_NS)
                   : incident.phase == FROZEN ? incident.retry_ns
                                              : UINT64_MAX;
    if (due < incident.next_ns)
        incident.next_ns = due;
}

static uint64_t history_next(const struct ep *ep)
{
    (void)ep;
    return incident.next_ns;
}

static int history_trigger(const char *name, size_t size)
{
    struct ep_trigger trigger = {.cause = EP_INCIDENT_CONTROL, .time_ns = ep_port_uptime_ns()};

    memcpy(trigger.name, name, size < EP_INCIDENT_NAME ? size : EP_INCIDENT_NAME - 1);
    return ep_trigger_note(&trigger);
}

/* ---- start ---- */

static void defaults_set(struct ep_incident_config *config)
{
    config->tail_ms = DEFAULT(config->tail_ms, 2000);
    config->span_ms = DEFAULT(config->span_ms, 2000);
    config->gc_ms = DEFAULT(config->gc_ms, 200);
    config->for_ms = DEFAULT(config->for_ms, 10000);
    config->gap_ms = DEFAULT(config->gap_ms, 300000);
    config->per_day = DEFAULT(config->per_day, 10);
    config->day_bytes = DEFAULT(config->day_bytes, 1 << 20);
    config->kinds = DEFAULT(config->kinds, EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_WAIT) |
                                               EP_KIND_BIT(EP_KIND_LOCK) | EP_KIND_BIT(EP_KIND_GC));
    config->kinds |= config->exceptions ? EP_KIND_BIT(EP_KIND_EXCEPTION) : 0;
}

int ep_incident_start(const struct ep_incident_config *config)
{
    static const struct ep_feature feature = {.name = "incident",
                                              .round = history_round,
                                              .next = history_next,
                                              .sample = history_sample,
                                              .trigger = history_trigger};
    const uint32_t kinds = EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_WAIT) | EP_KIND_BIT(EP_KIND_LOCK) |
                           EP_KIND_BIT(EP_KIND_GC) | EP_KIND_BIT(EP_KIND_EXCEPTION);

    (void)ep_refuse(0, "");
    if (ep_running())
        return ep_refuse(-EALREADY, "incidents: the profiler runs; call ep_incident_start() before ep_start()");
    ep_feature_remove(&feature);
    ep_history_kinds = 0;
    atomic_store(&ep_history_alone, 0);
    atomic_store(&ep_trigger_limits.on, false);
    if (!config)
        return 0;
    if (config->kinds & ~kinds)
        return ep_refuse(-EINVAL, "incidents: kinds: only cpu, wait, lock, gc and exception have a history");
    if (config->tail_ms > 60000)
        return ep_refuse(-EINVAL, "incidents: tail_ms: must be at most 60000");
    if (!config->memory || ep_past_init(config->memory, config->memory_size) != 0)
        return ep_refuse(-ENOMEM, "incidents: memory_size: must be at least EP_INCIDENT_MEMORY_MIN");
    incident.config = *config;
    defaults_set(&incident.config);
    incident.run = 0;
    incident.next_ns = UINT64_MAX;
    incident.day_ns = 0;
    memset(incident.last_ns, 0, sizeof incident.last_ns);
    ep_triggers_clear();
    ep_history_kinds = incident.config.kinds | 1; /* records have their time */
    atomic_store(&ep_trigger_limits.span_ms, incident.config.span_ms);
    atomic_store(&ep_trigger_limits.heartbeat_ms, incident.config.heartbeat_ms);
    atomic_store(&ep_trigger_limits.on, true);
    return ep_feature_add(&feature);
}

void ep_incident_stats_get(struct ep_incident_stats *stats)
{
    *stats = (struct ep_incident_stats){.captured = atomic_load(&incident.captured),
                                        .suppressed = atomic_load(&incident.suppressed),
                                        .lost = atomic_load(&incident.lost),
                                        .day_bytes = atomic_load(&incident.day_bytes)};
}
