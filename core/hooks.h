/*
 * What hooks of a language runtime, or of a library, tell the profiler: events with a stack, and whose work a thread
 * does. For those who write such hooks (port/nativeaot/, port/linux/preload*.c); programs use edgeprof.h.
 *
 *   if (ep_hook_wants(EP_KIND_ALLOC)) {
 *       event.value = ep_stratum_advance(&stratum, bytes, ep_hook_period(EP_KIND_ALLOC));
 *       if (event.value)
 *           ep_hook_event(&event);
 *   }
 *
 * Nothing here blocks, allocates or takes a lock; all of it may be called where a garbage collector must not run.
 */
#ifndef EP_HOOKS_H
#define EP_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "edgeprof.h"
#include "port/port.h"

/* The kinds that are on, 0 when no profiler runs; mean distance between samples of a kind, in its unit (ns of waiting,
 * bytes allocated), which the governor stretches. level.c writes them. */
extern atomic_uint ep_hook_kinds, ep_hook_periods[EP_KINDS];

/* Whether the kind is on. Context: signal. */
static inline bool ep_hook_wants(enum ep_kind kind)
{
    return (atomic_load_explicit(&ep_hook_kinds, memory_order_relaxed) & EP_KIND_BIT(kind)) != 0;
}

/* Never 0. Context: signal. */
static inline uint64_t ep_hook_period(enum ep_kind kind)
{
    unsigned period = atomic_load_explicit(&ep_hook_periods[kind], memory_order_relaxed);

    return period ? period : 1;
}

/*
 * Stratified sampling: of every `period` units one is chosen at random, and who it belongs to is the sample. Every
 * event is chosen with the probability that its size deserves, and the sum of what samples stand for is never more than
 * two periods away from the truth. One a thread and kind; zero-initialised is ready for use.
 */
struct ep_stratum {
    uint64_t position, chosen, length, seed;
};

/* The rarer part of ep_stratum_advance(). Context: signal. */
uint64_t ep_stratum_choose(struct ep_stratum *stratum, uint64_t size, uint64_t period);

/* Advances by `size` units and returns the units that this event stands for if it was chosen, else 0. An event of a
 * period or more always stands for itself. Context: signal. */
static inline uint64_t ep_stratum_advance(struct ep_stratum *stratum, uint64_t size, uint64_t period)
{
    uint64_t before = stratum->position, after = before + size;

    if (size >= period || after >= stratum->length || (before <= stratum->chosen && stratum->chosen < after))
        return ep_stratum_choose(stratum, size, period);
    stratum->position = after;
    return 0;
}

/* An event count for a chosen event: stands_for / size, rounded at random so that its mean is right. At least 1 when
 * stands_for >= size. Context: signal. */
uint32_t ep_stratum_count(struct ep_stratum *stratum, uint64_t stands_for, uint64_t size);

/* One event on the calling thread. */
struct ep_hook_event {
    enum ep_kind kind;
    unsigned frame; /* enum ep_special: a frame at the leaf side, [lock]; 0: none */
    uintptr_t type; /* address of the object's type, shown as the leaf frame, under the one above; 0: none */
    uint32_t count; /* events that this one stands for */
    uint64_t value; /* in the kind's unit */
    uint32_t token; /* EP_KIND_ALLOC: place in the live table + 1; EP_KIND_WAIT: contentions, see below; 0: none */
    unsigned skip;  /* frames to leave out at the leaf side, at most 6; with context NULL: beyond the caller of
                       ep_hook_event() itself */
    /* Where to walk from; NULL: from the caller of ep_hook_event(). pc is an instruction that is executed next, or
     * (lr = EP_LR_CALLED) where a call returns to. Bounds are filled in by ep_port_bounds(). */
    const struct ep_context *context;
};

/* Records it. An EP_KIND_WAIT whose frame is [lock] counts as EP_KIND_LOCK as well, with token as its count: what kinds
 * are off is left out by the collect thread. 0; -ENOSPC: no room, counted as lost; -ESRCH: none runs. Keeps errno.
 * Context: signal. */
int ep_hook_event(const struct ep_hook_event *event);

/* For the budget: a hook took no sample, and ep_port_uptime_ns() was start_ns when it began; it stands for so many
 * calls, because reading a clock takes longer than most of them. A thread's CPU clock is a system call, which makes
 * what follows it 400 ns slower: more than what is to be measured. Context: signal. */
#define EP_HOOK_TIMED_ONE_IN 512u
void ep_hook_cost(uint64_t start_ns, unsigned calls);

/* Whether a thread's n-th call is to be timed. here: an address of the thread's own, so that threads do not begin
 * alike: short ones count as often as they deserve. Context: signal. */
static inline bool ep_hook_is_timed(unsigned n, const void *here)
{
    return (n + (unsigned)((uintptr_t)here / 4096) * 37u) % EP_HOOK_TIMED_ONE_IN == 0;
}

/* ---- waits ---- */

/* A class for ep_wait_begin(): the innermost caller that is one of the places below says which. */
#define EP_WAIT_BY_CALLER EP_WAITS

struct ep_wait_place {
    uintptr_t function; /* 0: this program does not have it */
    enum ep_wait wait;
};

/* Where in a language runtime waits are of which class; kept by reference. Context: init. */
void ep_wait_places(const struct ep_wait_place *place, unsigned count);

/* ---- the live heap: objects that are followed (live.c) ---- */

/* A place in the hook's table. `object` is the hook's: the word of a weak reference, 0 when the object is gone. The
 * rest is edgeprof's; zero is free. */
struct ep_live_place {
    const atomic_uintptr_t *object;
    uint64_t value;
    uint32_t count, since;
    uint16_t node, tags;
    atomic_uint state;
};

struct ep_live_table {
    struct ep_live_place *place;
    unsigned places;                /* a power of two */
    const atomic_uint *collections; /* that the garbage collector has made: what it has not looked at is not told */
};

/* The table, once a process, before ep_start(). What it points to stays for ever. 0 or -EINVAL. Context: init. */
int ep_live_attach(const struct ep_live_table *table);

/* A place for one more object: its number + 1, 0 when there is none or nobody wants any. It is handed on as
 * ep_hook_event.token of an EP_KIND_ALLOC, or dropped. Context: signal. */
uint32_t ep_live_take(void);
void ep_live_drop(uint32_t token);

/* ---- sizes of a collector's heap, a level (heap.c) ---- */

/* frame: enum ep_special, a generation; inner: one below it, 0: none. The bytes are of that place alone. */
struct ep_heap_part {
    uint8_t frame, inner;
    uint64_t bytes;
};
#define EP_HEAP_PARTS 11

/* Who knows them, once a process, before ep_start(): `read` is called by the collect thread at the end of an interval,
 * fills as many parts as it returns and must not block. Context: init. */
void ep_heap_attach(unsigned (*read)(struct ep_heap_part part[EP_HEAP_PARTS]));

/* ---- names that only a language's runtime knows (names.c) ---- */

/* For one thread of the runtime's own that does nothing else: answers the last question with size bytes at name, which
 * stay where they are (0: no name, and at the first call), and waits for the next one: a place in code, or, with *type,
 * an object's type. Returns 0, or -ESRCH when ep_names_end() was called. Context: any thread. */
int ep_names_next(const char *name, size_t size, uintptr_t *address, int *type);
/* Lets that thread go. Context: init. */
void ep_names_end(void);

/* ---- whose work a thread does, for languages where it moves between threads ---- */

/* The tag set that is `set` plus key=value (0: no tags). Strings need no terminator. Ids are valid until ep_stop(); a
 * stale one means no tags. Returns the id, or 0 when none runs. Context: any thread. */
uint32_t ep_tags_add(uint32_t set, const char *key, unsigned key_size, const char *value, unsigned value_size);

/* What the calling thread works for from now on. Context: any thread. */
void ep_work_set(uint32_t tags, uint64_t span_id, uint64_t trace_high, uint64_t trace_low);
uint32_t ep_work_tags(void);

#endif
