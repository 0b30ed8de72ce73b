/*
 * The face of core/collect: what the collect thread does.
 *
 * In: records in the ring. Out: the tree, and messages in the outbox when an interval ends. It never blocks: no socket,
 * no file, no waiting for the next stage.
 */
#ifndef EP_COLLECT_H
#define EP_COLLECT_H

#include "core/state/profiler.h"

/* The thread's open wait becomes an event of kind EP_KIND_THREAD. False: it has none now. Context: collect. */
bool ep_wait_take(struct ep *ep, uint32_t tid);

/* As much of the stack from at->sp on as there is room for in the outbox, and *at leads there. False: no room now.
 * Context: collect. */
bool ep_copy_stack(struct ep *ep, uint32_t tid, struct ep_context *at);

struct ep_snapshot {
    void (*round)(struct ep *ep);               /* takes what can be taken now */
    bool (*wants)(struct ep *ep, uint32_t tid); /* the thread's next CPU sample */
};

/* Who gets it: the next message, or who pulls. */
enum { EP_SNAPSHOT_PUSH = 1, EP_SNAPSHOT_PULL = 2 };
/* Asks for one; the profiler is held, or it is the collect thread that asks. Context: any thread. */
void ep_snapshot_ask(struct ep *ep, unsigned who);
/* Whether one for who pulls is asked for or being taken. Context: collect. */
bool ep_snapshot_pending(const struct ep *ep);

struct ep_pull {
    /* What is about to be added to the profiler's own tree, whose node it is. True: that need not be done. */
    bool (*add)(struct ep *ep, unsigned node, enum ep_kind kind, unsigned context, uint32_t count, uint64_t value);
    void (*round)(struct ep *ep); /* answers what the endpoint's thread asks */
};
/* NULL: there is no such endpoint. */
extern _Atomic(const struct ep_pull *) ep_pull;

/* The same in the profiler's own; 0 and counted when there is no room. Context: collect. */
unsigned ep_context_find(struct ep *ep, const struct ep_context_key *key);
/* The thread's place in names + 1, 0 when there is no room. Context: collect. */
uint32_t ep_context_thread(struct ep *ep, uint32_t tid);
void ep_contexts_clear(struct ep *ep);

struct ep_live_stack {
    unsigned node, tags;
    uint32_t count;
    uint64_t value;
};

struct ep_live {
    void (*begin)(void); /* lets go of everything; also init */
    /* The object at that place has this stack, and stands for that much. token 0: it is not followed. */
    void (*bind)(struct ep *ep, uint32_t token, const struct ep_live_stack *stack);
    void (*miss)(uint64_t value);      /* objects were lost on the way here */
    void (*charge)(struct ep *ep);     /* puts what is in use into the tree, in place of what was there */
    void (*clear_tree)(struct ep *ep); /* ep_tree_clear(), but for the stacks of what is followed */
};
/* NULL: nothing follows objects. Written before ep_start(). */
extern const struct ep_live *ep_live;

/* Puts the sizes of a collector's heap into the tree, in place of what was there (heap.c). NULL: nobody knows any.
 * Written before ep_start(). Context: collect. */
extern void (*ep_heap_charge)(struct ep *ep);

/* Context: init. */
void ep_governor_begin(struct ep *ep);
/* That many records were taken from the ring; some of the next samples will be timed. Context: collect. */
void ep_governor_drained(struct ep *ep, unsigned events);
/* Measures and decides: when an interval has ended, or when that is long ago. Context: collect. */
void ep_govern(struct ep *ep, bool interval_ended);

/* Kinds that a level measures; it is a valid one. Context: any thread. */
uint32_t ep_level_kinds(enum ep_level level);
/* Level, kinds and periods as the configuration wants them. Context: init. */
void ep_level_begin(struct ep *ep);
void ep_level_end(void);
/* Applies a rate, or a stretch, that was changed. Context: collect. */
void ep_level_apply(struct ep *ep);

/* Begins a new segment: the dictionary is empty. Context: collect, init. */
void ep_segment_begin(struct ep *ep);

/* One round of collecting: drains the ring, looks for modules and threads, ends the interval when it is time.
 * Context: collect. */
void ep_collect_round(struct ep *ep);
/* Puts what is in the ring into the tree. Context: collect. */
void ep_collect_drain(struct ep *ep);
/* One of the kind's events without a stack. Context: collect. */
void ep_collect_special(struct ep *ep, enum ep_special frame, enum ep_kind kind, uint32_t tid, uint64_t value);
/* Encodes everything that was measured; with `last` as the end of the segment. False: the outbox has no room for
 * (all of) it. Context: collect. */
bool ep_collect_finish(struct ep *ep, bool last);

/* Thread bodies. Context: collect / deliver. */
void ep_collect_thread(void);

#endif
