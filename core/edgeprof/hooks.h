/*
 * The interface for hooks of a language runtime or of a library: events with a stack, and the labels and the span of a
 * thread. Authors of hooks use it (port/nativeaot/, port/linux/preload*.c); programs use edgeprof.h.
 *
 *   if (ep_hook_wants(EP_KIND_ALLOC)) {
 *       event.value = ep_stratum_advance(&stratum, bytes, ep_hook_period(EP_KIND_ALLOC));
 *       if (event.value)
 *           ep_hook_event(&event);
 *   }
 *
 * Nothing here blocks, allocates or takes a lock. All of it may be called where a garbage collector must not run.
 */
#ifndef EP_HOOKS_H
#define EP_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/atomic.h>
#include <edgeprof/edgeprof.h>
#include <edgeprof/port.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The enabled kinds, 0 when no profiler runs, and the mean distance between samples of a kind, in its unit (ns of
 * waiting, bytes allocated), with the governor's stretch. core/collect/level.c writes both. The upper half of the kinds
 * are those that only the history of incidents wants. */
extern EP_ATOMIC(unsigned) ep_hook_kinds, ep_hook_periods[EP_KINDS];
/* The kinds of that upper half; bit 0: each record has its time. Written before ep_start(). */
extern uint32_t ep_history_kinds;
/* Those of them whose events are in no profile. The collect thread writes it. */
extern EP_ATOMIC(unsigned) ep_history_alone;
#define EP_HISTORY_SHIFT         16
#define EP_KIND_BIT_EITHER(bits) ((bits) | (bits) << EP_HISTORY_SHIFT)

/* The reason why hooks cannot measure a kind in this process: a text without quotes that stays valid; NULL: they can.
 * Hooks write it, and then record no event of that kind. */
extern EP_ATOMIC(const char *) ep_kind_missing[EP_KINDS];

/* Returns true if the kind is enabled. Context: signal. */
static inline bool ep_hook_wants(enum ep_kind kind)
{
    return (EP_ATOMIC_READ(ep_hook_kinds) & EP_KIND_BIT_EITHER(EP_KIND_BIT(kind))) != 0;
}

/* Returns the kind's period in its unit; never 0. Context: signal. */
static inline uint64_t ep_hook_period(enum ep_kind kind)
{
    unsigned period = EP_ATOMIC_READ(ep_hook_periods[kind]);

    return period ? period : 1;
}

/*
 * Stratified sampling: one unit of every `period` units is chosen at random, and the event that it belongs to is the
 * sample. The probability of an event is proportional to its size. Each thread needs one stratum a kind. A
 * zero-initialised stratum is ready for use.
 *
 * The period may change from call to call. A stratum keeps the length that it began with; the new period begins with
 * the next stratum. The sum of the samples' weights is never more than two strata from the true sum.
 */
struct ep_stratum {
    uint64_t position, chosen, length, seed;
};

/* Returns true if an event of that size is not part of the sequence of strata, because it is at least as large as the
 * period and as the current stratum. ep_stratum_advance() then returns its own size. Context: signal. */
static inline bool ep_stratum_is_apart(const struct ep_stratum *stratum, uint64_t size, uint64_t period)
{
    return size >= period && size >= stratum->length;
}

/* Advances by `size` units that may belong to many events, so they are always part of the sequence and may cover
 * several strata. Returns the weight in units; 0: no unit of them was chosen. Context: signal. */
uint64_t ep_stratum_lay(struct ep_stratum *stratum, uint64_t size, uint64_t period);

/* Is the slow path of ep_stratum_advance(). Context: signal. */
uint64_t ep_stratum_choose(struct ep_stratum *stratum, uint64_t size, uint64_t period);

/* Advances by an event of `size` units. Returns the weight in units if this event was chosen, else 0; for an event that
 * is apart its own size. Context: signal. */
static inline uint64_t ep_stratum_advance(struct ep_stratum *stratum, uint64_t size, uint64_t period)
{
    uint64_t before = stratum->position, after = before + size;

    if (after >= stratum->length || (before <= stratum->chosen && stratum->chosen < after))
        return ep_stratum_choose(stratum, size, period);
    stratum->position = after;
    return 0;
}

/* Returns the number of events that a chosen event stands for: stands_for / size, rounded at random so that its mean is
 * exact. At least 1 when stands_for >= size. Context: signal. */
uint32_t ep_stratum_count(struct ep_stratum *stratum, uint64_t stands_for, uint64_t size);

/* An event on the calling thread. */
struct ep_hook_event {
    enum ep_kind kind;
    unsigned frame; /* enum ep_special, a frame at the leaf such as [lock]; 0: none */
    uintptr_t type; /* address of the object's type, shown as the leaf frame below `frame`; 0: none */
    uint32_t count; /* events that this one stands for */
    uint64_t value; /* in the kind's unit */
    uint32_t token; /* EP_KIND_ALLOC: of ep_live_take(); EP_KIND_WAIT: contentions, see ep_hook_event(); 0: none */
    unsigned skip;  /* frames to omit at the leaf, at most 6; with registers NULL: in addition to those up to the caller
                       of  ep_hook_event() */
    /* Where the unwinder starts; NULL: at the caller of ep_hook_event(). pc is the next instruction, or with lr =
     * EP_LR_CALLED a return address. ep_port_bounds() fills in the stack bounds. */
    const struct ep_registers *registers;
};

/* Records the event. An EP_KIND_WAIT with the frame [lock] also counts as EP_KIND_LOCK, with token as its count. The
 * collect thread ignores kinds that are off. Keeps errno.
 * Returns 0; -ENOSPC: no room, counted as lost; -ESRCH: no profiler runs. Context: signal. */
int ep_hook_event(const struct ep_hook_event *event);

/* Measures what hooks cost that take no sample, for the budget and ep_stats.handler_ns. One call of
 * EP_HOOK_TIMED_ONE_IN is timed and stands for the others, because reading a counter twice takes as long as most of
 * them.
 *
 *   uint64_t from = ep_hook_is_timed(&timer) ? ep_port_ticks() : 0;
 *   ...
 *   if (from)
 *       ep_hook_cost(from, EP_HOOK_TIMED_ONE_IN); */
#define EP_HOOK_TIMED_ONE_IN 512u

/* The timer of a thread. A zero-initialised timer is ready for use. */
struct ep_hook_timer {
    uint32_t left, rest, dice;
};

/* Returns true if this call is to be timed: one of each EP_HOOK_TIMED_ONE_IN, chosen at random. So threads that live
 * for a few calls are represented fairly, and a program's own pattern, such as read and write in turn, does not matter.
 * Context: signal. */
bool ep_hook_choose(struct ep_hook_timer *timer);
static inline bool ep_hook_is_timed(struct ep_hook_timer *timer)
{
    return timer->left-- == 0 && ep_hook_choose(timer);
}

/* Adds the cost of a call that began at `from` (ep_port_ticks()) and stands for `calls` calls. It does not use a
 * thread's CPU clock: that is a system call and slows what follows by 400 ns, more than the cost to be measured.
 * Context: signal. */
void ep_hook_cost(uint64_t from, unsigned calls);

/* ---- async parents: the methods that wait for a continuation (core/sample/awaited.c) ---- */

/* A walk through the frames of the calling thread, from a hook's registers towards the root. The profiler is held from
 * a successful begin to the end. */
struct ep_hook_walk {
    struct ep_caller at;
    unsigned depth; /* its place in the recorded stack, 0: the leaf */
    struct ep *ep;
};

/* Starts at *registers: pc is the next instruction, or with lr = EP_LR_CALLED a return address. Returns false if no
 * profiler runs. Context: signal. */
bool ep_hook_walk_begin(struct ep_hook_walk *walk, const struct ep_registers *registers);
/* Starts at its caller. Returns false if no profiler runs. Context: signal. */
bool ep_hook_walk_here(struct ep_hook_walk *walk);
/* Steps to the caller. Returns false if there is none, or if not all of its registers are certain. Context: signal. */
bool ep_hook_walk_next(struct ep_hook_walk *walk);
/* Returns where the frame's function begins, by its table; 0: it has none. Context: signal. */
uintptr_t ep_hook_walk_function(const struct ep_hook_walk *walk);
/* Ends the walk. Context: signal. */
void ep_hook_walk_end(struct ep_hook_walk *walk);

#define EP_HOOK_PARENTS 32u

/* The frames that take the place of a recorded stack's frames from `depth` on: [awaited by], then `parent`, innermost
 * first. */
struct ep_hook_parents {
    unsigned depth;
    uintptr_t pc;   /* of the frame there; nothing is replaced if the recorded stack has another one */
    unsigned count; /* 0: nothing is replaced */
    bool more;      /* there are further ones: [deeper frames] */
    uintptr_t parent[EP_HOOK_PARENTS]; /* addresses of types */
};

/* Records the event with async parents. event->registers must be given. Context: signal. */
int ep_hook_event_awaited(const struct ep_hook_event *event, const struct ep_hook_parents *parents);

/* The hooks of a runtime may define these two; without them, waits and CPU samples have no parents. */

/* Records the end of a wait as ep_hook_event() does. The wait began at event->registers. Context: any thread. */
__attribute__((weak)) int ep_hook_wait_end(const struct ep_hook_event *event);

/* Finds the parents of the thread that a CPU sample has interrupted at *registers, whose bounds are known. Returns
 * false if there are none, or if it cannot tell. Context: signal. */
__attribute__((weak)) bool ep_hook_interrupted(const struct ep_registers *registers, struct ep_hook_parents *parents);

/* ---- waits ---- */

/* A class for ep_wait_begin(): the innermost caller that is among the places below has the real class. */
#define EP_WAIT_BY_CALLER EP_WAITS
/* A class for ep_wait_begin(): the descriptor that was passed to ep_wait_descriptor() before has the real class. It is
 * looked up only if the wait becomes a sample, because that takes a system call. */
#define EP_WAIT_BY_DESCRIPTOR (EP_WAITS + 1)
void ep_wait_descriptor(int fd);

/* Ends the calling thread's open waits, if there are any: for a handler that leaves them by a jump, before the jump.
 * Context: any thread. */
void ep_wait_leave(void);

struct ep_wait_place {
    uintptr_t function; /* 0: not in this program */
    enum ep_wait wait;
};

/* Registers the functions of a language runtime that wait, with their classes. The array is kept by reference.
 * Context: init. */
void ep_wait_places(const struct ep_wait_place *place, unsigned count);

/* ---- edgeprof's own CPU time in the program's threads ---- */

/* Makes CPU samples whose leaf is in edgeprof's module appear as [edgeprof], in programs in which edgeprof is a module
 * of its own, such as the preload library. inside: any function of it; from calls_start to calls_end: its functions
 * that call the C library for edgeprof alone. Registered once, before ep_start(). Context: init. */
struct ep_own_text {
    uintptr_t inside, calls_start, calls_end;
};
void ep_own_text_is(const struct ep_own_text *text);

/* ---- the live heap: objects that are followed until they are freed (core/features/live/live.c) ---- */

/* A place in the hook's table. The hook owns `object`, which points to the word of a weak reference; the word is 0 when
 * the object is gone. edgeprof owns the other members; all zero: free. */
struct ep_live_place {
    const EP_ATOMIC(uintptr_t) * object;
    uint64_t value;
    uint32_t count, since;
    uint16_t node, tags;
    EP_ATOMIC(unsigned) state;
};

struct ep_live_table {
    struct ep_live_place *place;
    unsigned places; /* a power of two */
    const EP_ATOMIC(unsigned) *
        collections; /* number of garbage collections so far; objects not yet seen by one are not reported */
    /* The exact figures of the runtime in bytes, to which the estimate is scaled; both NULL: it has none. They must not
     * block. */
    uint64_t (*allocated)(void); /* allocated by all threads so far; called in ep_start() */
    /* By place: the part of the object that is in use, of EP_LIVE_WHOLE; NULL: all of each. */
    const EP_ATOMIC(unsigned) * left;
    uint64_t (*in_use)(void); /* in use after the last collection, 0: not known; the collect thread calls it */
};

/* A runtime's objects and native memory have tables of their own. */
#define EP_LIVE_TABLES      2u
#define EP_LIVE_PLACES_MOST (1u << 20)
#define EP_LIVE_WHOLE       65536u

/* Registers a table, before ep_start(). What it points to must stay valid for ever. Returns its number, -EINVAL, or
 * -ENOSPC: there are EP_LIVE_TABLES already. Context: init. */
int ep_live_attach(const struct ep_live_table *table);

/* Reserves a place for one more object in the table of that number. Returns a token, or 0 if the table is full or
 * EP_KIND_LIVE is off. Pass the token on as ep_hook_event.token of an EP_KIND_ALLOC, or give it back with
 * ep_live_drop(). Context: signal. */
uint32_t ep_live_take(unsigned table);
void ep_live_drop(uint32_t token);
/* Returns true if there is more than one table. Context: signal. */
bool ep_live_is_shared(void);
/* The index of a token's place in its table. */
#define EP_LIVE_PLACE(token) (((token)-1) % EP_LIVE_PLACES_MOST)

/* ---- sizes of a garbage-collected heap, a gauge (core/features/heap/heap.c) ---- */

/* A part of the heap. frame: enum ep_special, a generation; inner: a frame below it, 0: none. bytes excludes other
 * parts. */
struct ep_heap_part {
    uint8_t frame, inner;
    uint64_t bytes;
};
#define EP_HEAP_PARTS 11

/* Registers the function that reads the sizes, once a process, before ep_start(). The collect thread calls `read` at
 * the end of an interval. It fills `part`, returns the number of parts, and must not block. Context: init. */
void ep_heap_attach(unsigned (*read)(struct ep_heap_part part[EP_HEAP_PARTS]));

/* ---- pending work of a language runtime, on demand (core/features/control/tasks.c) ---- */

/* A source of lists of pending work.
 *
 *   ask   asks for a list, in lines of UTF-8 without quotes, backslashes and control characters, and does not wait for
 *         it. Everybody shares a list in the making. Returns the list's number, from 1 on; -ENOSYS: there is no list
 * here read  copies what follows in that list, as many whole characters as fit. From 0 on, a later list serves as well,
 * and *list becomes its number. Returns the size, 0: the end of the list; -EAGAIN: it is not made yet; -ESTALE: a later
 * list has replaced it; -ENOSYS: the runtime is not known; -ESRCH: the profiler is stopping
 *
 * Context: any thread. */
struct ep_tasks_source {
    int (*ask)(void);
    int (*read)(unsigned *list, size_t from, char *text, size_t room);
};
#define EP_TASKS_BYTES (1u << 20) /* a list has less */

/* Registers the source, which must stay valid for ever. Context: any thread. */
void ep_tasks_attach(const struct ep_tasks_source *source);

/* ---- names that only a language runtime knows (core/features/names/names.c) ---- */

/* Serves a dedicated thread of the runtime. It answers the last question with `size` bytes at `name`, which must stay
 * valid (0: no name; also in the first call). Then it waits for the next question: *address is a place in code or, if
 * *type is set, an object's type. Returns 0, or -ESRCH after ep_names_end(). Context: any thread. */
int ep_names_next(const char *name, size_t size, uintptr_t *address, int *type);
/* Makes ep_names_next() return -ESRCH. Context: init. */
void ep_names_end(void);

/* ---- what a thread works for, for languages where work moves between threads ---- */

/* Returns the id of the set of labels that is `set` (0: none) plus key=value; 0 when no profiler runs. Strings need no
 * terminator. Ids are valid until ep_stop(); a stale id means no labels. Context: any thread. */
uint32_t ep_tags_add(uint32_t set, const char *key, unsigned key_size, const char *value, unsigned value_size);

/* Sets and reads the labels and the span of the calling thread. Context: any thread. */
void ep_work_set(uint32_t tags, uint64_t span_id, uint64_t trace_high, uint64_t trace_low);
uint32_t ep_work_tags(void);

#ifdef __cplusplus
}
#endif

#endif
