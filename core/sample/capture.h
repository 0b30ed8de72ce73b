/*
 * The part of core/sample that runs on the program's own threads.
 *
 * In: registers of a sample, or a hook's event. Out: one record in the ring. The threads' side of waits and tags is
 * here too. Nothing here blocks.
 */
#ifndef EP_CAPTURE_H
#define EP_CAPTURE_H

#include "core/sample/profiler.h"

/* Reads the pair that a set adds to its parent set. False: no such set. Context: any thread. */
struct ep_tag_pair {
    unsigned parent;
    const char *key, *value;
};
bool ep_tags_pair(const struct ep_tags *tags, unsigned set, struct ep_tag_pair *pair);
/* ep_tags_text: the text at a place below EP_TAG_STRINGS, "" if it is free. ep_tags_string: the place of a text that
 * ep_tags_pair() returned. Context: any thread. */
const char *ep_tags_text(const struct ep_tags *tags, unsigned place);
unsigned ep_tags_string(const struct ep_tags *tags, const char *text);
/* True if the key of the pair that `inner` adds appears again between `set` and `inner`, so that it hides this pair.
 * Context: any thread. */
bool ep_tags_hidden(const struct ep_tags *tags, unsigned set, unsigned inner);

/* The set that adds a pair to a set, without the limits of ep_tags_add(): for a copy of another table. 0: no room.
 * Context: deliver. */
unsigned ep_tags_copy(struct ep_tags *tags, unsigned set, const char *key, unsigned key_size, const char *value,
                      unsigned value_size);

/* The calling thread's span or tags have changed. NULL in programs that do not publish thread contexts
 * (core/features/otel/threads.c). Context: any thread. */
__attribute__((weak)) void ep_work_changed(const struct ep_work *work);
/* Likewise: a set with this key was made. Context: any thread. */
__attribute__((weak)) void ep_tag_added(const char *key, unsigned size);

/* What samples and events of the calling thread show, up to `waiting`. Context: signal. */
static inline struct ep_work *ep_work_of_sample(void)
{
    return ep_work_shown ? ep_work_shown() : ep_port_work();
}

/* Records an event of another thread, from a copy of its registers and stack in *registers. Context: collect. */
void ep_capture_for(struct ep *ep, const struct ep_work *work, const struct ep_registers *registers, uint32_t tid,
                    const struct ep_hook_event *event);

/* Records a CPU sample with async parents, which ep_hook_interrupted() finds. False: there are none, and nothing is
 * recorded. Context: signal. */
bool ep_capture_awaited(struct ep *ep, const struct ep_registers *registers, uint32_t tid, uint64_t ns, int *result);

/* Bracket a sample that is to be timed. ep_timing_begin() returns 0 if this sample is not timed. *faults: the thread's
 * page faults so far, for ep_timing_end(). Context: signal. */
uint64_t ep_timing_begin(struct ep *ep, uint32_t *faults);
void ep_timing_end(struct ep *ep, uint64_t start_ns, uint32_t faults);

/* Returns the thread's tag set; *span: whether the ids in *work are valid. Context: signal. */
static inline unsigned ep_work_read(const struct ep *ep, const struct ep_work *work, bool *span)
{
    bool whole = (atomic_load_explicit(&work->guard, memory_order_relaxed) & 1) == 0;

    *span = whole && (work->span_id | work->trace_high | work->trace_low) != 0;
    return whole && work->run == ep->run ? work->tags : 0;
}

/* ep_governor.timed has the number of timed samples in these low bits and their ns above them. */
#define EP_TIMED_BITS 16
/* CPU time of hooks that took no sample, of all runs of the profiler, in ns. */
extern _Atomic uint64_t ep_hooks_ns;

#endif
