/*
 * Hooks of a language runtime or of a library report events with a stack, and the labels and the span of a thread,
 * through this interface. Authors of hooks use it (port/nativeaot/, port/linux/preload*.c); programs use edgeprof.h.
 *
 *   if (ep_hook_wants(EP_KIND_ALLOC)) {
 *       event.value = ep_stratum_advance(&stratum, bytes, ep_hook_period(EP_KIND_ALLOC));
 *       if (event.value)
 *           ep_hook_event(&event);
 *   }
 *
 * No function here blocks, allocates or takes a lock. Hooks may call all of them where a garbage collector must not
 * run.
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

/* The enabled kinds (0: no profiler runs), and the mean distance between samples of each kind, in its unit (ns of
 * waiting, bytes allocated), including the governor's stretch. core/collect/level.c writes both. The upper half of the
 * bits has the kinds for the history of incidents. */
extern EP_ATOMIC(unsigned) ep_hook_kinds, ep_hook_periods[EP_KINDS];
/* The kinds of the history; bit 0: each record has its time. Written before ep_start(). */
extern uint32_t ep_history_kinds;
/* The kinds of the history whose events are in no profile. The collect thread writes it. */
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
 * Stratified sampling chooses one unit of every `period` units at random. The event that the unit belongs to becomes
 * the sample, so the probability of an event is proportional to its size. Each thread needs one stratum for each kind.
 * A zero-initialised stratum is ready for use.
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

/* Advances by `size` units that may belong to many events. They are always part of the sequence, and may cover several
 * strata. Returns the weight in units; 0: none of these units was chosen. Context: signal. */
uint64_t ep_stratum_lay(struct ep_stratum *stratum, uint64_t size, uint64_t period);

/* Is the slow path of ep_stratum_advance(). Context: signal. */
uint64_t ep_stratum_choose(struct ep_stratum *stratum, uint64_t size, uint64_t period);

/* Advances by an event of `size` units. Returns the weight in units if this event was chosen, else 0. An event that is
 * apart returns its own size. Context: signal. */
static inline uint64_t ep_stratum_advance(struct ep_stratum *stratum, uint64_t size, uint64_t period)
{
    uint64_t before = stratum->position, after = before + size;

    if (after >= stratum->length || (before <= stratum->chosen && stratum->chosen < after))
        return ep_stratum_choose(stratum, size, period);
    stratum->position = after;
    return 0;
}

/* Returns the least size of an event that changes more of the stratum than its position. Context: signal. */
static inline uint64_t ep_stratum_reach(const struct ep_stratum *stratum)
{
    bool ahead = stratum->chosen >= stratum->position;

    return ahead ? stratum->chosen - stratum->position + 1 : stratum->length - stratum->position;
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
    unsigned skip;  /* frames to omit at the leaf, at most 6; without registers, counted from the caller of
                       ep_hook_event() */
    /* The place where the unwinder starts; NULL: the caller of ep_hook_event(). pc is the next instruction, or with
     * lr = EP_LR_CALLED a return address. ep_port_bounds() fills in the stack bounds. */
    const struct ep_registers *registers;
};

/* Records the event. An EP_KIND_WAIT with the frame [lock] also counts as EP_KIND_LOCK, with token as its count. The
 * collect thread ignores kinds that are off. Keeps errno.
 * Returns 0; -ENOSPC: no room, counted as lost; -ESRCH: no profiler runs. Context: signal. */
int ep_hook_event(const struct ep_hook_event *event);

/* These measure the cost of hook calls that take no sample, for the budget and ep_stats.handler_ns. A hook times one
 * call of EP_HOOK_TIMED_ONE_IN, which stands for the others, because most calls take no longer than two readings of a
 * counter.
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

/* Returns true if this call is to be timed: one call of EP_HOOK_TIMED_ONE_IN, chosen at random. The choice is fair to
 * threads that make only a few calls, and to programs with a pattern, such as read and write in turn. Context: signal.
 */
bool ep_hook_choose(struct ep_hook_timer *timer);
static inline bool ep_hook_is_timed(struct ep_hook_timer *timer)
{
    return timer->left-- == 0 && ep_hook_choose(timer);
}

/* Adds the cost of a call that began at `from` (ep_port_ticks()) and stands for `calls` calls. It does not read the
 * thread's CPU clock, because that system call slows the following code by 400 ns, more than a hook costs.
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

/* A class for ep_wait_begin(): the innermost caller that ep_wait_places() knows decides the real class. */
#define EP_WAIT_BY_CALLER EP_WAITS
/* A class for ep_wait_begin(): the descriptor of the last ep_wait_descriptor() decides the real class. edgeprof looks
 * it up only if the wait becomes a sample, because that takes a system call. */
#define EP_WAIT_BY_DESCRIPTOR (EP_WAITS + 1)
void ep_wait_descriptor(int fd);

/* Ends the calling thread's open waits, if there are any. A handler calls it before it leaves them by a jump.
 * Context: any thread. */
void ep_wait_leave(void);

/* Records also waits that nobody marks: while their kind is enabled, the collect thread looks at sleeping threads about
 * four times a second, without waking them. A program calls it before ep_start(). Returns 0, or -ENOSPC: there are too
 * many features. Context: init. */
int ep_waits_watch_start(void);

enum ep_wait_role {
    EP_PLACE_CLASS, /* the wait's class is that of the place */
    EP_PLACE_TASK,  /* waits for a task: says nothing by itself */
    /* The program's start, or a function that only waits for the program's end. If it, or the function that it has
     * called, waits for a task, the wait has the class of the place: the work is elsewhere. */
    EP_PLACE_ENTRY
};

struct ep_wait_place {
    uintptr_t function; /* 0: not in this program */
    enum ep_wait wait;
    enum ep_wait_role role;
};

/* Registers the functions of a language runtime that wait, with their classes. The array is kept by reference.
 * Context: init. */
void ep_wait_places(const struct ep_wait_place *place, unsigned count);

/* ---- edgeprof's own CPU time in the program's threads ---- */

/* The code of edgeprof in programs where edgeprof is a module of its own, such as the preload library. */
struct ep_own_text {
    uintptr_t inside;                 /* any function of the module */
    uintptr_t calls_start, calls_end; /* its functions that call the C library for edgeprof alone */
};
/* Shows CPU samples whose leaf is in that code as [edgeprof]. Call it once, before ep_start(). Context: init. */
void ep_own_text_is(const struct ep_own_text *text);

/* ---- the live heap: objects that are followed until they are freed (core/features/live/live.c) ---- */

/* A place in the hook's table. The hook owns `object`, which points to the word of a weak reference. The word becomes 0
 * when the object is gone. edgeprof owns the other members; if all are zero, the place is free. */
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
    /* The runtime's exact figures in bytes; edgeprof scales its estimate to them. Both NULL: the runtime has none. They
     * must not block. */
    uint64_t (*allocated)(void); /* allocated by all threads so far; called in ep_start() */
    /* By place: the part of the object that is in use, of EP_LIVE_WHOLE; NULL: all of each. */
    const EP_ATOMIC(unsigned) * left;
    uint64_t (*in_use)(void); /* in use after the last collection, 0: not known; the collect thread calls it */
};

/* A runtime's objects and native memory have tables of their own. */
#define EP_LIVE_TABLES      2u
#define EP_LIVE_PLACES_MOST (1u << 20)
#define EP_LIVE_WHOLE       65536u

/* Registers a table. Call it before ep_start(). The table and everything it points to must stay valid until the process
 * ends. Returns its number, -EINVAL, or -ENOSPC: there are EP_LIVE_TABLES already. Context: init. */
int ep_live_attach(const struct ep_live_table *table);

/* Reserves a place for one more object in table number `table`. Returns a token; 0: the table is full, or EP_KIND_LIVE
 * is off. Pass the token on as ep_hook_event.token of an EP_KIND_ALLOC, or return it with ep_live_drop().
 * Context: signal. */
uint32_t ep_live_take(unsigned table);
void ep_live_drop(uint32_t token);
/* Returns true if there is more than one table. Context: signal. */
bool ep_live_is_shared(void);
/* The index of a token's place in its table. */
#define EP_LIVE_PLACE(token) (((token)-1) % EP_LIVE_PLACES_MOST)

/* ---- sizes of a garbage-collected heap, a gauge (core/features/heap/heap.c) ---- */

/* A part of the heap. */
struct ep_heap_part {
    uint8_t frame;  /* enum ep_special, a generation */
    uint8_t inner;  /* a frame below it, 0: none */
    uint64_t bytes; /* without other parts */
};
#define EP_HEAP_PARTS 11

/* Registers the function that reads the sizes, once a process, before ep_start(). The collect thread calls `read` at
 * the end of an interval. It fills `part`, returns the number of parts, and must not block. Context: init. */
void ep_heap_attach(unsigned (*read)(struct ep_heap_part part[EP_HEAP_PARTS]));

/* ---- writes to files (core/features/write/write.c) ---- */

/* Makes the profiles show what edgeprof itself writes as [edgeprof]. Context: init. */
void ep_write_attach(void);
/* Counts a write or sync of edgeprof's own: bytes of EP_KIND_WRITE, ns of EP_KIND_SYNC. Context: any thread. */
void ep_write_own(enum ep_kind kind, uint64_t value);

/* ---- pending work of a language runtime, on demand (core/features/control/tasks.c) ---- */

/* A source of lists of pending work. A list has lines of UTF-8 without quotes, backslashes and control characters.
 * Context: any thread. */
struct ep_tasks_source {
    /* Asks for a list and does not wait for it. All callers share a list that is being made. Returns the list's number,
     * from 1 on; -ENOSYS: there is no list here. */
    int (*ask)(void);
    /* Copies the part of list *list that begins at `from`, as many whole characters as fit. If `from` is 0, a later
     * list serves as well, and *list becomes its number.
     *
     * Returns
     *   the size  of the part; 0: the end of the list
     *   -EAGAIN   the list is not made yet
     *   -ESTALE   a later list has replaced it
     *   -ENOSYS   the runtime is not known
     *   -ESRCH    the profiler is stopping */
    int (*read)(unsigned *list, size_t from, char *text, size_t room);
};
#define EP_TASKS_BYTES (1u << 20) /* a list has less */

/* Registers the source, which must stay valid until the process ends. Context: any thread. */
void ep_tasks_attach(const struct ep_tasks_source *source);

/* ---- names that only a language runtime knows (core/features/names/names.c) ---- */

/* Answers the last question and waits for the next one; a dedicated thread of the runtime calls it in a loop. The
 * answer is the `size` bytes at `name`, which must stay valid; size 0: no name, also in the first call. The question is
 * *address, a place in code or, if *type is set, an object's type. Returns 0, or -ESRCH after ep_names_end().
 * Context: any thread. */
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
