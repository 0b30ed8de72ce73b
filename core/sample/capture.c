/*
 * Capture: unwinds the interrupted or calling thread of the service and writes one record into the ring. All of it runs
 * in the signal handler or in a hook, and never blocks.
 *
 * record.h has the layout of records.
 *
 *   ep_capture, ep_hook_event -> record_sample -> record (or record_timed) -> ep_work_read, ep_unwind
 */
#include "core/sample/capture.h"
#include "core/sample/record.h"

#include <errno.h>

/* 2^30 ns are about a second. */
#define SECOND_SHIFT 30

/* A stack that is cut, or through unknown code, may be in a module that was loaded meanwhile, or be one whose bounds
 * the collect thread looks up: about once a second while that thread finds nothing new. Nothing else mends such stacks,
 * so parked threads start. */
static __attribute__((noinline)) void cut_tell(struct ep *ep, const struct ep_registers *registers,
                                               const struct ep_stack *stack)
{
    unsigned second = (unsigned)(ep_port_uptime_ns() >> SECOND_SHIFT) | EP_CUT_TOLD;

    if (registers->stack_end != 0 && atomic_load_explicit(&ep->cut_told, memory_order_relaxed) == second)
        return;
    atomic_store_explicit(&ep->cut_told, second, memory_order_relaxed);
    if (registers->stack_end == 0 || stack->outside)
        ep_collect_wake(ep);
    else
        ep_port_wake(&ep->collect_event);
}

static __attribute__((noinline, hot)) int record(const struct ep_record_args *args,
                                                 const struct ep_registers *registers)
{
    struct ep *ep = args->ep;
    struct ep_record_open record;
    struct ep_stack stack;
    int error = ep_record_begin(args, registers, &record, &stack);

    if (error)
        return error;
    ep_record_end(args, &record, &stack);
    ep_record_tell(ep, record.wake, &stack);
    if (stack.quality == EP_STACK_CUT || stack.outside)
        cut_tell(ep, registers, &stack);
    return 0;
}

static __attribute__((noinline)) int record_timed(const struct ep_record_args *args,
                                                  const struct ep_registers *registers)
{
    struct ep *ep = args->ep;
    uint32_t faults = 0;
    uint64_t start_ns = ep_timing_begin(ep, &faults);
    int result = record(args, registers);

    if (atomic_load_explicit(&ep->parked, memory_order_relaxed))
        ep_parked_look(ep);
    if (start_ns && result == 0)
        ep_timing_end(ep, start_ns, faults);
    return result;
}

static inline int record_sample(const struct ep_record_args *args, const struct ep_registers *registers)
{
    bool timed = atomic_load_explicit(&args->ep->timing.to_time, memory_order_relaxed) != 0;

    return timed ? record_timed(args, registers) : record(args, registers);
}

__attribute__((hot)) int ep_capture(struct ep *ep, const struct ep_registers *registers, uint32_t tid, uint64_t ns)
{
    int awaited = 0;

    if (!ep_hook_wants(EP_KIND_CPU) || ep_capture_awaited(ep, registers, tid, ns, &awaited))
        return awaited;
    struct ep_record_args args;
    args.ep = ep;
    args.work = ep_work_of_sample();
    args.event = NULL;
    args.value = ns;
    args.tid = tid;
    args.info = EP_KIND_CPU << EP_INFO_KIND_SHIFT;
    return record_sample(&args, registers);
}

static int record_event(struct ep *ep, const struct ep_work *work, const struct ep_registers *registers, uint32_t tid,
                        uint32_t info, const struct ep_hook_event *event)
{
    const struct ep_record_args args = {.ep = ep,
                                        .work = work,
                                        .event = event,
                                        .value = event->value,
                                        .tid = tid,
                                        .info = info | (uint32_t)event->kind << EP_INFO_KIND_SHIFT |
                                                event->frame << EP_INFO_FRAME_SHIFT};
    return record_sample(&args, registers);
}

/* Its own frame comes on top of event->skip. */
__attribute__((noinline)) int ep_hook_event(const struct ep_hook_event *event)
{
    struct ep *ep = ep_hold();
    struct ep_registers registers;
    unsigned skip = event->skip;
    uint32_t tid;

    if (!ep)
        return -ESRCH;
    if (atomic_load(&ep_hook_kinds) == 0) { /* the profiler is stopping: nobody drains the ring any more */
        ep_release();
        return -ESRCH;
    }
    if (event->registers) {
        registers = *event->registers;
        tid = ep_port_bounds(&registers);
    } else {
        tid = ep_port_here(&registers);
        skip++;
    }
    int result = record_event(ep, ep_work_of_sample(), &registers, tid, skip << EP_INFO_SKIP_SHIFT, event);
    if (atomic_fetch_add_explicit(&ep->unseen, 1, memory_order_relaxed) == EP_EVENTS_UNSEEN)
        ep_port_wake(&ep->collect_event);
    ep_release();
    return result;
}

void ep_capture_for(struct ep *ep, const struct ep_work *work, const struct ep_registers *registers, uint32_t tid,
                    const struct ep_hook_event *event)
{
    (void)record_event(ep, work, registers, tid, 0, event);
}

/* An event that only the history wants is no loss of the profile. The value of a tick is not lost: ep_capture(). */
int ep_record_lost(struct ep *ep, const struct ep_record_args *args)
{
    const unsigned kind = args->info >> EP_INFO_KIND_SHIFT & 0xf;

    if (!(atomic_load_explicit(&ep_history_alone, memory_order_relaxed) & EP_KIND_BIT(kind)))
        (void)atomic_fetch_add_explicit(&ep->lost_samples, 1, memory_order_relaxed);
    if (args->event)
        (void)atomic_fetch_add_explicit(&ep->lost_value[kind], args->value, memory_order_relaxed);
    ep_collect_wake(ep);
    return -ENOSPC;
}

/* end: the frame that shows it, or 0: the balance of residuals. */
static void record_residual(uint32_t tid, int64_t residual_ns, enum ep_special end)
{
    struct ep *ep = ep_hold();
    const struct ep_record record = {.kind = EP_RECORD_RESIDUAL, .end = end, .count = EP_REST_WORDS};
    bool wake = false;

    if (!ep)
        return;
    if (tid == 0)
        (void)atomic_fetch_add_explicit(&ep->unsampled_ns, (uint64_t)residual_ns, memory_order_relaxed);
    int at = ep_ring_reserve(&ep->ring, EP_REST_WORDS, 0, &wake);
    if (at < 0 && end != EP_FRAME_NONE) {
        (void)atomic_fetch_add_explicit(&ep->lost_value[EP_KIND_CPU], (uint64_t)residual_ns, memory_order_relaxed);
    } else if (at < 0) {
        (void)atomic_fetch_add_explicit(&ep->owed_ns, (uint64_t)residual_ns, memory_order_relaxed);
        wake = true;
    } else {
        atomic_uintptr_t *payload = ep_ring_payload(&ep->ring, at);
        ep_store_word(&payload[EP_WORD_TID], tid);
        ep_store_wide(&payload[EP_WORD_RESIDUAL], (uint64_t)residual_ns);
        ep_ring_commit(&ep->ring, at, EP_REST_WORDS, ep_ring_header(&record));
    }
    if (wake)
        ep_collect_wake(ep);
    ep_release();
}

void ep_ticks_waited(struct ep *ep, uint32_t count)
{
    (void)atomic_fetch_add_explicit(&ep->refused[EP_LOSS_SMALL_STACK], count, memory_order_relaxed);
}

void ep_thread_residual(uint32_t tid, int64_t residual_ns)
{
    record_residual(tid, residual_ns, EP_FRAME_NONE);
}

void ep_thread_missed(uint32_t tid, uint64_t residual_ns)
{
    record_residual(tid, (int64_t)residual_ns, EP_FRAME_UNSAMPLED);
}

void ep_thread_in_kernel(uint32_t tid, uint64_t kernel_ns)
{
    record_residual(tid, (int64_t)kernel_ns, EP_FRAME_KERNEL);
}
