/*
 * Triggers on the program's threads. They only note what happened, in one place, and wake the collect thread: it may be
 * a signal handler that calls. While the place is taken, further triggers are counted.
 *
 * Spans are for work with a limit, on any thread. The thread that ends one compares its time; the collect thread looks
 * at those that stay open. A place's serial number is odd while it is taken, so that a token is never that of a later
 * span, and a reader knows that the place has not changed meanwhile.
 */
#include "core/features/incident/incident.h"

#include <errno.h>
#include <string.h>

#define LOOK_LEAST_MS 50u
#define SPANS         64u
#define MS            1000000u
#define NAME_WORDS    (EP_INCIDENT_NAME / 8)
#define NAME_TRIES    1000u

enum { SLOT_FREE, SLOT_WRITING, SLOT_SET };

struct ep_trigger_limits ep_trigger_limits;

static struct {
    atomic_uint state;
    struct ep_trigger trigger;
    _Atomic uint64_t passed;
} slot;

static struct span {
    atomic_uint serial;
    atomic_uint told; /* serial of the span that was noted while it was open */
    atomic_uint limit_ms, tid;
    _Atomic uint64_t start_ns;         /* 0: not complete */
    _Atomic uint64_t name[NAME_WORDS]; /* its last byte counts changes: odd while another name replaces this one */
} spans[SPANS];

static struct {
    atomic_bool spans;    /* there has been a span */
    atomic_uint least_ms; /* the least limit of all spans */
    atomic_uint next;
    _Atomic uint64_t beat_ns; /* the last heartbeat, 0: none yet */
    atomic_uint beat_tid;
    uint64_t told_ns; /* of the collect thread: that heartbeat's absence was noted */
} used;

/* ---- the place ---- */

static void wake_collect(void)
{
    struct ep *ep = ep_hold();

    if (!ep)
        return;
    ep_collect_wake(ep);
    ep_release();
}

int ep_trigger_note(const struct ep_trigger *trigger)
{
    unsigned free = SLOT_FREE;

    if (!atomic_compare_exchange_strong(&slot.state, &free, SLOT_WRITING)) {
        ep_trigger_pass(1);
        return -EAGAIN;
    }
    slot.trigger = *trigger;
    atomic_store(&slot.state, SLOT_SET);
    wake_collect();
    return 0;
}

bool ep_trigger_take(struct ep_trigger *trigger)
{
    if (atomic_load(&slot.state) != SLOT_SET)
        return false;
    *trigger = slot.trigger;
    atomic_store(&slot.state, SLOT_FREE);
    return true;
}

uint64_t ep_triggers_passed(void)
{
    return atomic_exchange(&slot.passed, 0);
}

void ep_trigger_pass(uint64_t count)
{
    (void)atomic_fetch_add(&slot.passed, count);
}

void ep_triggers_clear(void)
{
    atomic_store(&slot.state, SLOT_FREE);
    atomic_store(&slot.passed, 0);
    for (unsigned i = 0; i < SPANS; i++) {
        unsigned serial = atomic_load(&spans[i].serial);
        atomic_store(&spans[i].start_ns, 0);
        atomic_store(&spans[i].serial, (serial + 1) & ~1u);
    }
    atomic_store(&used.spans, false);
    atomic_store(&used.least_ms, UINT32_MAX);
    atomic_store(&used.beat_ns, 0);
    used.told_ns = 0;
}

static void name_copy(char name[EP_INCIDENT_NAME], const char *text, size_t size)
{
    memset(name, 0, EP_INCIDENT_NAME);
    memcpy(name, text, size < EP_INCIDENT_NAME ? size : EP_INCIDENT_NAME - 1);
}

static size_t name_size(const char *text)
{
    size_t size = 0;

    while (text && size < EP_INCIDENT_NAME - 1 && text[size])
        size++;
    return size;
}

static uint32_t own_tid(void)
{
    struct ep_registers registers;

    return ep_port_here(&registers); /* with sp: a thread that nobody announced is found by it */
}

int ep_incident(const char *name)
{
    struct ep_trigger trigger = {.cause = EP_INCIDENT_CALL, .time_ns = ep_port_uptime_ns()};

    if (!atomic_load(&ep_trigger_limits.on))
        return -ESRCH;
    trigger.tid = own_tid();
    name_copy(trigger.name, name ? name : "", name_size(name));
    return ep_trigger_note(&trigger);
}

/* ---- heartbeats ---- */

void ep_heartbeat(void)
{
    if (atomic_load_explicit(&ep_trigger_limits.heartbeat_ms, memory_order_relaxed) == 0)
        return;
    atomic_store_explicit(&used.beat_tid, own_tid(), memory_order_relaxed);
    if (atomic_exchange_explicit(&used.beat_ns, ep_port_uptime_ns(), memory_order_release) == 0)
        wake_collect(); /* it begins to look */
}

static void heartbeat_look(uint64_t now_ns, unsigned limit_ms)
{
    uint64_t beat_ns = atomic_load(&used.beat_ns);
    struct ep_trigger trigger = {.cause = EP_INCIDENT_HEARTBEAT, .time_ns = now_ns, .limit = limit_ms * (uint64_t)MS};

    if (!beat_ns || beat_ns == used.told_ns || now_ns < beat_ns + trigger.limit)
        return;
    used.told_ns = beat_ns;
    trigger.value = now_ns - beat_ns;
    trigger.tid = atomic_load(&used.beat_tid);
    (void)ep_trigger_note(&trigger);
}

/* ---- spans ---- */

static unsigned char changes(uint64_t last_word)
{
    unsigned char bytes[sizeof last_word];

    memcpy(bytes, &last_word, sizeof bytes);
    return bytes[sizeof bytes - 1];
}

/* The word that counts is written last. */
static void span_name_set(struct span *span, const char *text, unsigned char count)
{
    char name[EP_INCIDENT_NAME];
    uint64_t word;

    name_copy(name, text ? text : "", name_size(text));
    name[EP_INCIDENT_NAME - 1] = (char)count;
    for (unsigned i = 0; i < NAME_WORDS; i++) {
        memcpy(&word, name + 8 * i, sizeof word);
        atomic_store_explicit(&span->name[i], word, memory_order_release);
    }
}

/* A name that is being replaced all the time is left out. */
static void span_name_get(struct span *span, char name[EP_INCIDENT_NAME])
{
    for (unsigned tries = 0; tries < NAME_TRIES; tries++) {
        uint64_t before = atomic_load(&span->name[NAME_WORDS - 1]);
        for (unsigned i = 0; i < NAME_WORDS; i++) {
            uint64_t word = atomic_load_explicit(&span->name[i], memory_order_acquire);
            memcpy(name + 8 * i, &word, sizeof word);
        }
        name[EP_INCIDENT_NAME - 1] = 0;
        if (!(changes(before) & 1) && atomic_load(&span->name[NAME_WORDS - 1]) == before)
            return;
    }
    memset(name, 0, EP_INCIDENT_NAME);
}

uint32_t ep_incident_span_begin(const char *name, uint32_t limit_ms)
{
    unsigned limit = limit_ms ? limit_ms : atomic_load_explicit(&ep_trigger_limits.span_ms, memory_order_relaxed);

    if (!limit || !atomic_load_explicit(&ep_trigger_limits.on, memory_order_relaxed))
        return 0;
    unsigned from = atomic_fetch_add_explicit(&used.next, 1, memory_order_relaxed);
    for (unsigned i = 0; i < SPANS; i++) {
        unsigned place = (from + i) % SPANS;
        struct span *span = &spans[place];
        unsigned serial = atomic_load_explicit(&span->serial, memory_order_relaxed);
        if (serial & 1 || !atomic_compare_exchange_strong(&span->serial, &serial, serial + 1))
            continue;
        atomic_store_explicit(&span->limit_ms, limit, memory_order_relaxed);
        if (limit < atomic_load_explicit(&used.least_ms, memory_order_relaxed))
            atomic_store_explicit(&used.least_ms, limit, memory_order_relaxed);
        atomic_store_explicit(&span->tid, own_tid(), memory_order_relaxed);
        span_name_set(span, name, 0);
        atomic_store_explicit(&span->start_ns, ep_port_uptime_ns(), memory_order_release);
        if (!atomic_load_explicit(&used.spans, memory_order_relaxed) && !atomic_exchange(&used.spans, true))
            wake_collect(); /* it begins to look */
        return (serial + 1) << 6 | place;
    }
    return 0;
}
_Static_assert(SPANS == 1 << 6, "a token has 6 bits for the place");

static struct ep_trigger span_trigger(struct span *span, unsigned cause, uint64_t start_ns, uint64_t now_ns)
{
    struct ep_trigger trigger = {.cause = cause, .time_ns = now_ns, .value = now_ns - start_ns};

    trigger.limit = atomic_load_explicit(&span->limit_ms, memory_order_relaxed) * (uint64_t)MS;
    trigger.tid = atomic_load_explicit(&span->tid, memory_order_relaxed);
    span_name_get(span, trigger.name);
    return trigger;
}

static bool span_is_open(const struct span *span, uint32_t token)
{
    unsigned serial = atomic_load_explicit(&span->serial, memory_order_relaxed);
    return serial & 1 && (serial << 6 | token % SPANS) == token;
}

void ep_incident_span_name(uint32_t token, const char *name)
{
    struct span *span = &spans[token % SPANS];
    uint64_t last = atomic_load(&span->name[NAME_WORDS - 1]), taken = last;
    const unsigned char count = changes(last);

    memset((char *)&taken + sizeof taken - 1, count + 1, 1);
    if (!span_is_open(span, token) || count & 1 ||
        !atomic_compare_exchange_strong(&span->name[NAME_WORDS - 1], &last, taken))
        return;
    atomic_thread_fence(memory_order_release);
    span_name_set(span, name, (unsigned char)(count + 2));
}

void ep_incident_span_end(uint32_t token)
{
    struct span *span = &spans[token % SPANS];
    unsigned serial = atomic_load_explicit(&span->serial, memory_order_relaxed);

    if (!span_is_open(span, token))
        return;
    uint64_t start_ns = atomic_load_explicit(&span->start_ns, memory_order_relaxed);
    const struct ep_trigger trigger = span_trigger(span, EP_INCIDENT_SPAN, start_ns, ep_port_uptime_ns());
    bool noted = atomic_load(&span->told) == serial;
    atomic_store_explicit(&span->start_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&span->serial, serial + 1, memory_order_release);
    if (trigger.value >= trigger.limit && !noted)
        (void)ep_trigger_note(&trigger);
}

/* Returns when the span is due, UINT64_MAX: it is not open, or was noted. */
static uint64_t span_look(struct span *span, uint64_t now_ns)
{
    unsigned serial = atomic_load(&span->serial);
    uint64_t start_ns = atomic_load(&span->start_ns);

    if (!(serial & 1) || !start_ns || now_ns < start_ns || atomic_load(&span->told) == serial)
        return UINT64_MAX;
    const struct ep_trigger trigger = span_trigger(span, EP_INCIDENT_OPEN_SPAN, start_ns, now_ns);
    if (trigger.value < trigger.limit)
        return start_ns + trigger.limit;
    atomic_store(&span->told, serial);
    if (atomic_load(&span->serial) == serial && atomic_load(&span->start_ns) == start_ns)
        (void)ep_trigger_note(&trigger);
    return UINT64_MAX;
}

/* A span that begins later is due no sooner than after the least limit that there has been. */
uint64_t ep_triggers_look(uint64_t now_ns)
{
    const unsigned beat_ms = atomic_load(&used.beat_ns) ? atomic_load(&ep_trigger_limits.heartbeat_ms) : 0;
    uint64_t next_ns = UINT64_MAX;

    if (beat_ms) {
        heartbeat_look(now_ns, beat_ms);
        const uint64_t due_ns = atomic_load(&used.beat_ns) + beat_ms * (uint64_t)MS;
        next_ns = due_ns > now_ns ? due_ns : now_ns + beat_ms * (uint64_t)MS;
    }
    if (!atomic_load(&used.spans))
        return next_ns;
    const unsigned least_ms =
        atomic_load(&used.least_ms); /* a span that is over its limit for less is found at its end */
    const uint64_t later_ns = now_ns + (least_ms > LOOK_LEAST_MS ? least_ms : LOOK_LEAST_MS) * (uint64_t)MS;
    next_ns = later_ns < next_ns ? later_ns : next_ns;
    for (unsigned i = 0; i < SPANS; i++) {
        const uint64_t due_ns = span_look(&spans[i], now_ns);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    return next_ns;
}
