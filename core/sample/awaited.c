/*
 * Events under a continuation of an async method: the pool's frames that run it give way to [awaited by] and the
 * methods that wait for it. The hook of a language runtime finds both; this file gives it the frames of the stack.
 *
 * A file of its own, so that programs without such a hook do not link it.
 *
 *   ep_hook_event_awaited                           an event whose hook has found the parents
 *   ep_capture_awaited -> ep_hook_interrupted       a CPU sample
 *     both -> record_timed -> record_awaited -> ep_unwind, replace
 */
#include "core/sample/capture.h"
#include "core/sample/record.h"

#include <errno.h>

bool ep_hook_walk_next(struct ep_hook_walk *walk)
{
    if (walk->depth + 1 >= EP_MAX_DEPTH || !ep_unwind_caller(&walk->ep->unwinder, &walk->at))
        return false;
    if (walk->at.misses)
        (void)atomic_fetch_add_explicit(&walk->ep->rule_misses, walk->at.misses, memory_order_relaxed);
    walk->at.misses = 0;
    walk->depth++;
    return true;
}

static void start(struct ep_hook_walk *walk, const struct ep_registers *registers)
{
    walk->at = (struct ep_caller){.pc = registers->pc,
                                  .sp = registers->sp,
                                  .fp = registers->fp,
                                  .base = registers->base,
                                  .lr = registers->lr,
                                  .start = registers->stack_start,
                                  .end = registers->stack_end,
                                  .exact = registers->lr != EP_LR_CALLED};
    walk->depth = 0;
}

bool ep_hook_walk_begin(struct ep_hook_walk *walk, const struct ep_registers *registers)
{
    struct ep_registers bounds = *registers;

    walk->ep = ep_hold();
    if (!walk->ep)
        return false;
    (void)ep_port_bounds(&bounds);
    start(walk, &bounds);
    return true;
}

bool ep_hook_walk_here(struct ep_hook_walk *walk)
{
    struct ep_registers here;

    walk->ep = ep_hold();
    if (!walk->ep)
        return false;
    (void)ep_port_here(&here);
    here.lr = EP_LR_CALLED;
    start(walk, &here);
    const bool left = ep_hook_walk_next(walk); /* this function's own frame, while it is there */
    walk->depth = 0;
    if (!left)
        ep_hook_walk_end(walk);
    return left;
}

uintptr_t ep_hook_walk_function(const struct ep_hook_walk *walk)
{
    const struct ep_module *module = ep_module_find(&walk->ep->unwinder.modules, walk->at.pc - 1);

    return module ? ep_function_start(module, walk->at.pc - 1) : 0;
}

void ep_hook_walk_end(struct ep_hook_walk *walk)
{
    walk->ep = NULL;
    ep_release();
}

/* The stack has been walked up to the replaced frame by the same rules, so what it was cut for is gone, too. */
static void replace(struct ep_stack *stack, const struct ep_hook_parents *parents)
{
    const unsigned depth = parents->depth;

    if (parents->count == 0 || depth >= stack->depth || depth + 1 + parents->count > EP_MAX_DEPTH ||
        atomic_load_explicit(&stack->pc[depth], memory_order_relaxed) != parents->pc - 1)
        return;
    ep_store_word(&stack->pc[depth], EP_FRAME_AWAITED);
    for (unsigned i = 0; i < parents->count; i++)
        ep_store_word(&stack->pc[depth + 1 + i], parents->parent[i]);
    for (unsigned i = depth + 1 + parents->count; i < stack->depth; i++)
        ep_store_word(&stack->pc[i], 0); /* of the ring: any word behind a record may become a header */
    stack->depth = (uint16_t)(depth + 1 + parents->count);
    stack->end = parents->more ? EP_FRAME_DEEP : EP_FRAME_NONE;
    stack->quality = parents->more ? EP_STACK_CUT : EP_STACK_EXACT;
}

/* This and the next are inline: it saves frames below the parents. */
static inline __attribute__((always_inline)) int record_awaited(const struct ep_record_args *args,
                                                                const struct ep_registers *registers,
                                                                const struct ep_hook_parents *parents)
{
    struct ep_record_open record;
    struct ep_stack stack;
    const int error = ep_record_begin(args, registers, &record, &stack);

    if (error)
        return error;
    replace(&stack, parents);
    ep_record_end(args, &record, &stack);
    ep_record_tell(args->ep, record.wake, &stack);
    return 0;
}

/* from, faults: by ep_timing_begin(). */
static inline __attribute__((always_inline)) int record_timed(const struct ep_record_args *args,
                                                              const struct ep_registers *registers,
                                                              const struct ep_hook_parents *parents, uint64_t from,
                                                              uint32_t faults)
{
    const int result = record_awaited(args, registers, parents);

    if (atomic_load_explicit(&args->ep->parked, memory_order_relaxed))
        ep_parked_look(args->ep);
    if (from && result == 0)
        ep_timing_end(args->ep, from, faults);
    return result;
}

int ep_hook_event_awaited(const struct ep_hook_event *event, const struct ep_hook_parents *parents)
{
    struct ep *ep = ep_hold();
    struct ep_registers registers = *event->registers;
    uint32_t faults = 0;

    if (!ep)
        return -ESRCH;
    if (atomic_load(&ep_hook_kinds) == 0) { /* the profiler is stopping: nobody drains the ring any more */
        ep_release();
        return -ESRCH;
    }
    const uint64_t from = ep_timing_begin(ep, &faults);
    const struct ep_record_args args = {.ep = ep,
                                        .work = ep_work_of_sample(),
                                        .event = event,
                                        .value = event->value,
                                        .tid = ep_port_bounds(&registers),
                                        .info = event->skip << EP_INFO_SKIP_SHIFT |
                                                (uint32_t)event->kind << EP_INFO_KIND_SHIFT |
                                                event->frame << EP_INFO_FRAME_SHIFT};
    const int result = record_timed(&args, &registers, parents, from, faults);
    if (atomic_fetch_add_explicit(&ep->unseen, 1, memory_order_relaxed) == EP_EVENTS_UNSEEN)
        ep_port_wake(&ep->collect_event);
    ep_release();
    return result;
}

static __attribute__((noinline)) int record_sample(struct ep *ep, const struct ep_registers *registers, uint32_t tid,
                                                   uint64_t ns, const struct ep_hook_parents *parents)
{
    uint32_t faults = 0;
    const struct ep_record_args args = {
        .ep = ep, .work = ep_work_of_sample(), .value = ns, .tid = tid, .info = EP_KIND_CPU << EP_INFO_KIND_SHIFT};
    const uint64_t from = ep_timing_begin(ep, &faults);

    return record_timed(&args, registers, parents, from, faults);
}

bool ep_capture_awaited(struct ep *ep, const struct ep_registers *registers, uint32_t tid, uint64_t ns, int *result)
{
    struct ep_hook_parents parents;

    if (!ep_hook_interrupted || !ep_hook_interrupted(registers, &parents))
        return false;
    *result = record_sample(ep, registers, tid, ns, &parents);
    return true;
}
