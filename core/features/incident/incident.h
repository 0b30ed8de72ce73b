/*
 * Private to core/features/incident: what happened before a moment that was noticed.
 *
 *   history.c   single samples with their times, in fixed memory: the newest stay
 *   trigger.c   on any thread: notes that something is worth an incident; open spans, heartbeats
 *   watch.c     on the collect thread: limits that it checks itself
 *   incident.c  start; what a trigger leads to; rate limits
 *   message.c   makes the messages
 *
 * Times are uptime in units of 2^EP_TIME_SHIFT ns (1.05 ms), "ticks"; durations and CPU time in units of 2^16 ns (1/15
 * ms). So nothing divides on the way of a sample.
 */
#ifndef EP_INCIDENT_INCIDENT_H
#define EP_INCIDENT_INCIDENT_H

#include "core/collect/collect.h"
#include "core/sample/record.h"

#define EP_PAST_VALUE_SHIFT  16
#define EP_PAST_NOBODY       255u /* thread of a moment: not known, or there was no room */
#define EP_PAST_THREADS_MOST 254u
#define EP_INCIDENT_NAME     96u /* of spans: a multiple of 8 */

/* ---- history.c ---- */

/* One sample. TIME takes the place of a sample: the 48 bits of node, after and value are the time of the next one. */
struct ep_moment {
    uint16_t node; /* leaf of the stack in the history's own tree */
    uint8_t thread;
    uint8_t kind : 4; /* enum ep_kind, or EP_MOMENT_TIME */
    uint8_t wide : 1; /* value is in units 256 times as large */
    uint16_t after;   /* ticks since the one before in its part */
    uint16_t value;
};
#define EP_MOMENT_TIME 15u
_Static_assert(sizeof(struct ep_moment) == 8, "the size of a history is in the documentation");

/* CPU samples, and everything else: a storm of locks must not evict the CPU samples. */
enum { EP_PAST_CPU, EP_PAST_EVENTS, EP_PAST_PARTS };

struct ep_past {
    struct ep_moment *at;
    unsigned first, count, capacity;
    uint64_t first_tick, last_tick; /* of the oldest and the newest */
    uint64_t total;                 /* ever written, TIME included */
};

struct ep_past_thread {
    uint32_t tid; /* 0: free */
    char name[16];
};

struct ep_history_memory {
    struct ep_past part[EP_PAST_PARTS];
    struct ep_tree tree; /* no entries: node.entry is scratch */
    struct ep_past_thread *thread;
    unsigned threads; /* capacity */
};
extern struct ep_history_memory ep_past;

/* Divides the memory. Returns 0 or -ENOMEM. Context: init. */
int ep_past_init(void *memory, size_t size);
/* Forgets everything. Context: init. */
void ep_past_clear(void);

struct ep_past_sample {
    enum ep_kind kind;
    uint32_t tid;
    uint64_t tick, value_ns;
    unsigned node; /* of `tree` */
};
/* Adds a sample of the profiler's tree; the oldest give way. Context: collect. */
void ep_past_add(const struct ep_tree *tree, const struct ep_past_sample *sample);
/* Reads the names again of threads that still exist. Context: collect. */
void ep_past_names(void);

/* A walk through both parts in the order of time. Zeroed: at the beginning. */
struct ep_past_walk {
    unsigned at[EP_PAST_PARTS];
    uint64_t tick[EP_PAST_PARTS];
};
/* The next moment and its time; NULL at the end. Never TIME. Context: collect. */
const struct ep_moment *ep_past_next(struct ep_past_walk *walk, uint64_t *tick);
/* In units of 2^EP_PAST_VALUE_SHIFT ns. */
static inline uint64_t ep_moment_value(const struct ep_moment *moment)
{
    return (uint64_t)moment->value << (moment->wide ? 8 : 0);
}

/* ---- trigger.c ---- */

struct ep_trigger {
    unsigned cause; /* enum ep_incident_cause */
    uint32_t tid;   /* 0: none */
    uint64_t time_ns, value, limit;
    char name[EP_INCIDENT_NAME];
};

/* The limits in force, all 0 without a history; 0: no such trigger. The threads of the program read them. */
struct ep_trigger_limits {
    atomic_uint span_ms, heartbeat_ms;
    atomic_bool on;
};
extern struct ep_trigger_limits ep_trigger_limits;

/* Notes a trigger and wakes the collect thread. 0; -EAGAIN: another one waits, and this one is counted.
 * Context: signal. */
int ep_trigger_note(const struct ep_trigger *trigger);
/* Takes the one that waits. False: there is none. Context: collect. */
bool ep_trigger_take(struct ep_trigger *trigger);
/* Triggers that led to nothing, since the last call. Context: collect. */
uint64_t ep_triggers_passed(void);
/* Counts such triggers. Context: signal. */
void ep_trigger_pass(uint64_t count);
/* Forgets triggers, open spans and heartbeats. Context: init. */
void ep_triggers_clear(void);
/* Notes spans that are open for too long, and a missed heartbeat. Returns the uptime of the next look, UINT64_MAX: none
 * is due. Context: collect. */
uint64_t ep_triggers_look(uint64_t now_ns);

/* ---- watch.c ---- */

/* Begins to watch CPU time and memory. Context: init. */
void ep_watch_begin(const struct ep_incident_config *config);
/* Notes a limit that was exceeded for long enough. Returns the uptime of the next look. Context: collect. */
uint64_t ep_watch_look(uint64_t now_ns);
/* Looks at a sample: pauses of the garbage collector, and exceptions. Context: collect. */
void ep_watch_sample(const struct ep_past_sample *sample);

/* ---- message.c ---- */

/* A part of the history in a message. */
struct ep_incident_part {
    uint64_t id;
    unsigned number;
    struct ep_past_walk from; /* its first moment */
    unsigned count;           /* as many moments as fit; 0: none is left */
    bool more;                /* others follow */
    const struct ep_trigger *trigger;
    uint64_t passed, missing; /* triggers that led to nothing; samples that came while the history was full */
};
/* Encodes part->count moments or, if they do not fit, fewer, and updates part->count and part->more. divide false: all
 * or nothing. Returns the size; 0: there is no room. Context: collect. */
uint32_t ep_incident_message(struct ep *ep, struct ep_incident_part *part, bool divide, uint8_t *bytes, uint32_t size,
                             uint64_t *segment);

#endif
