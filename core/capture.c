/*
 * Capture: what runs in a handler or hook on the service's own thread. Unwinds, writes one record, nothing else.
 *
 * Holding: the profiler's memory belongs to the caller and goes away after ep_stop(). Whoever touches it from a thread
 * that the profiler does not own brackets that by ep_hold() and ep_release(); ep_stop() unpublishes the profiler and
 * then waits until nobody holds it.
 *
 * A record: tid, what it is, value, for events more of that, the span when there is one, pc ... (EP_WORD_* in
 * internal.h). Rest record: tid, low half, high half.
 *
 *   ep_capture, ep_hook_event -> take -> record (record_timed) -> ep_work_read, ep_unwind
 */
#include "internal.h"

#include <errno.h>

#define REST_WORDS 3

_Atomic(struct ep *) ep_current;
atomic_uint ep_run;
static atomic_uint holders;

void ep_publish(struct ep *ep)
{
    atomic_store(&ep_run, ep ? ep->run : 0);
    atomic_store(&ep_current, ep);
}

bool ep_held(void)
{
    return atomic_load(&holders) != 0;
}

struct ep *ep_hold(void)
{
    (void)atomic_fetch_add(&holders, 1);
    struct ep *ep = atomic_load(&ep_current);
    if (!ep)
        (void)atomic_fetch_sub(&holders, 1);
    return ep;
}

void ep_release(void)
{
    (void)atomic_fetch_sub_explicit(&holders, 1, memory_order_release);
}

int ep_enter(void)
{
    return ep_hold() != NULL;
}

void ep_leave(void)
{
    ep_release();
}

void ep_forked(void)
{
    ep_level_end();
    ep_publish(NULL);
    ep_spool = NULL; /* its files are the parent's */
    atomic_store(&holders, 0);
}

static void put(atomic_uintptr_t *word, uint64_t value)
{
    atomic_store_explicit(word, (uintptr_t)value, memory_order_relaxed);
}

static void put_wide(atomic_uintptr_t *word, uint64_t value)
{
    put(&word[0], value & UINT32_MAX);
    put(&word[1], value >> 32);
}

static void put_span(atomic_uintptr_t *word, const struct ep_work *work)
{
    put_wide(&word[0], work->span_id);
    put_wide(&word[2], work->trace_high);
    put_wide(&word[4], work->trace_low);
}

static void put_event(atomic_uintptr_t *payload, const struct ep_hook_event *event)
{
    put(&payload[EP_WORD_COUNT], event->count);
    put(&payload[EP_WORD_TYPE], event->type);
    put(&payload[EP_WORD_TOKEN], event->token);
}

static int lost(struct ep *ep, enum ep_kind kind, uint64_t value)
{
    (void)atomic_fetch_add_explicit(&ep->lost_samples, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&ep->lost_value[kind], value, memory_order_relaxed);
    ep_port_wake(&ep->collect_event);
    return -ENOSPC;
}

/* What is to be recorded. event: NULL for a CPU sample. info: EP_WORD_INFO without tags and span. */
struct what {
    struct ep *ep;
    const struct ep_work *work;
    const struct ep_hook_event *event;
    uint64_t value;
    uint32_t tid, info;
};

static __attribute__((noinline)) int record(const struct what *what, const struct ep_context *context)
{
    struct ep *ep = what->ep;
    bool wake, span;
    unsigned head = what->event ? EP_EVENT_WORDS : EP_SAMPLE_WORDS;
    uint32_t info = what->info | ep_work_read(ep, what->work, &span);
    unsigned words = head + (span ? EP_SPAN_WORDS : 0), most = words + EP_MAX_DEPTH;

    int at = ep_ring_reserve(&ep->ring, most, &wake);
    if (at < 0)
        return lost(ep, (enum ep_kind)(info >> EP_INFO_KIND_SHIFT & 0xf), what->value);
    atomic_uintptr_t *payload = ep_ring_payload(&ep->ring, at);
    struct ep_stack stack;
    stack.pc = payload + words;
    ep_unwind(context, &stack);
    put(&payload[EP_WORD_TID], what->tid);
    put(&payload[EP_WORD_INFO], info | (span ? EP_INFO_SPAN : 0));
    put_wide(&payload[EP_WORD_VALUE], what->value);
    if (what->event)
        put_event(payload, what->event);
    if (span)
        put_span(payload + head, what->work);
    struct ep_record header = {.kind = what->event ? EP_RECORD_EVENT : EP_RECORD_SAMPLE,
                               .quality = stack.quality,
                               .end = stack.end,
                               .count = words + stack.depth};
    ep_ring_commit(&ep->ring, at, most, ep_ring_header(&header));
    if (wake)
        ep_port_wake(&ep->collect_event);

    if (stack.misses)
        (void)atomic_fetch_add_explicit(&ep->rule_misses, stack.misses, memory_order_relaxed);
    return 0;
}

static __attribute__((noinline)) int record_timed(const struct what *what, const struct ep_context *context)
{
    uint64_t start_ns = ep_timing_begin(what->ep);
    int result = record(what, context);

    if (start_ns && result == 0)
        ep_timing_end(what->ep, start_ns);
    return result;
}

static inline int take(const struct what *what, const struct ep_context *context)
{
    bool timed = atomic_load_explicit(&what->ep->governor.to_time, memory_order_relaxed) != 0;

    return timed ? record_timed(what, context) : record(what, context);
}

void ep_capture(const struct ep_context *context, uint32_t tid, uint64_t ns)
{
    if (!ep_hook_wants(EP_KIND_CPU))
        return;
    struct what what;
    what.ep = ep_held_here();
    what.work = ep_port_work();
    what.event = NULL;
    what.value = ns;
    what.tid = tid;
    what.info = EP_KIND_CPU << EP_INFO_KIND_SHIFT;
    (void)take(&what, context);
}

static int take_event(struct ep *ep, const struct ep_work *work, const struct ep_context *context, uint32_t tid,
                      uint32_t info, const struct ep_hook_event *event)
{
    const struct what what = {.ep = ep,
                              .work = work,
                              .event = event,
                              .value = event->value,
                              .tid = tid,
                              .info = info | (uint32_t)event->kind << EP_INFO_KIND_SHIFT |
                                      event->frame << EP_INFO_FRAME_SHIFT};
    return take(&what, context);
}

/* Its own frame is the one above event->skip. */
__attribute__((noinline)) int ep_hook_event(const struct ep_hook_event *event)
{
    struct ep *ep = ep_hold();
    struct ep_context context;
    unsigned skip = event->skip;
    uint32_t tid;

    if (!ep)
        return -ESRCH;
    if (event->context) {
        context = *event->context;
        tid = ep_port_bounds(&context);
    } else {
        tid = ep_port_here(&context);
        skip++;
    }
    int result = take_event(ep, ep_port_work(), &context, tid, skip << EP_INFO_SKIP_SHIFT, event);
    ep_release();
    return result;
}

void ep_capture_for(struct ep *ep, const struct ep_work *work, const struct ep_context *context, uint32_t tid,
                    const struct ep_hook_event *event)
{
    (void)take_event(ep, work, context, tid, 0, event);
}

void ep_thread_rest(uint32_t tid, int64_t rest_ns)
{
    struct ep *ep = ep_running();
    const struct ep_record record = {.kind = EP_RECORD_REST, .count = REST_WORDS};
    bool wake = false;

    int at = ep_ring_reserve(&ep->ring, REST_WORDS, &wake);
    if (at < 0) {
        if (rest_ns > 0)
            (void)atomic_fetch_add_explicit(&ep->lost_value[EP_KIND_CPU], (uint64_t)rest_ns, memory_order_relaxed);
        return;
    }
    atomic_uintptr_t *payload = ep_ring_payload(&ep->ring, at);
    put(&payload[0], tid);
    put_wide(&payload[1], (uint64_t)rest_ns);
    ep_ring_commit(&ep->ring, at, REST_WORDS, ep_ring_header(&record));
    if (wake)
        ep_port_wake(&ep->collect_event);
}

void ep_thread_refused(unsigned reason)
{
    struct ep *ep = ep_running();

    if (reason < EP_LOSS_REASONS)
        (void)atomic_fetch_add_explicit(&ep->refused[reason], 1, memory_order_relaxed);
}
