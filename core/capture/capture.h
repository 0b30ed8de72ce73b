/*
 * The face of core/capture: what runs on the service's own threads.
 *
 * In: registers of a sample, or an event of a hook. Out: one record in the ring. The thread side of waits and tags is
 * here as well. Nothing here blocks.
 */
#ifndef EP_CAPTURE_H
#define EP_CAPTURE_H

#include "core/state/profiler.h"

/* One pair of a set; parent: the rest. False: no such set. Context: any thread. */
struct ep_tag_pair {
    unsigned parent;
    const char *key, *value;
};
bool ep_tags_pair(const struct ep_tags *tags, unsigned set, struct ep_tag_pair *pair);
/* Texts by place below EP_TAG_STRINGS, "" where there is none; and the place of one that ep_tags_pair() gave.
 * Context: any thread. */
const char *ep_tags_text(const struct ep_tags *tags, unsigned place);
unsigned ep_tags_string(const struct ep_tags *tags, const char *text);
/* Whether the pair that `inner` adds on the way from `set` to 0 has a key that was met before. Context: any thread. */
bool ep_tags_hidden(const struct ep_tags *tags, unsigned set, unsigned inner);

/* An event on another thread, whose registers and stack, a copy, are in *context. Context: collect. */
void ep_capture_for(struct ep *ep, const struct ep_work *work, const struct ep_context *context, uint32_t tid,
                    const struct ep_hook_event *event);

/* Start and end of a sample that is to be timed; begin returns 0 when it is not. Context: signal. */
uint64_t ep_timing_begin(struct ep *ep);
void ep_timing_end(struct ep *ep, uint64_t start_ns);

/* What the thread works for, as words of a record: returns the tag set; *span: whether *work's ids count.
 * Context: signal. */
static inline unsigned ep_work_read(const struct ep *ep, const struct ep_work *work, bool *span)
{
    bool whole = (atomic_load_explicit(&work->guard, memory_order_relaxed) & 1) == 0;

    *span = whole && (work->span_id | work->trace_high | work->trace_low) != 0;
    return whole && work->run == ep->run ? work->tags : 0;
}

/* ep_governor.timed: how many were timed is in these low bits, their ns above them. */
#define EP_TIMED_BITS 16
/* CPU time of hooks that took no sample, of all runs of the profiler, in ns. */
extern _Atomic uint64_t ep_hooks_ns;

#endif
