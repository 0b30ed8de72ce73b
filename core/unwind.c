/*
 * The walk from an interrupted frame to the root, one rule a frame.
 *
 * Bounded by EP_MAX_DEPTH frames; each step moves the CFA towards the root and reads only whole, aligned words in
 * [sp, end of the stack), so a wrong register ends the walk and never faults. A frame is never invented: where no
 * rule leads on, the stack says that it was cut.
 */
#include "internal.h"

#include <string.h>

#define WORD sizeof(uintptr_t)

struct walk {
    struct ep_frame frame;
    uintptr_t end; /* of the stack that frame.sp is on; 0: unknown */
    bool exact;    /* frame.pc is where execution stands, not a return address */
    bool guessed;
};

static uintptr_t stack_end(const struct ep_context *context, uintptr_t sp)
{
    if (sp - context->stack_start < context->stack_end - context->stack_start)
        return context->stack_end;
    if (sp - context->alt_start < context->alt_end - context->alt_start)
        return context->alt_end;
    return 0;
}

static bool load(const struct walk *walk, uintptr_t at, uintptr_t *word)
{
    if (at < walk->frame.sp || at >= walk->end || walk->end - at < WORD || at % WORD)
        return false;
    memcpy(word, (const void *)at, WORD);
    return true;
}

/* A slot below sp was popped already: in epilogues tables go on naming it, and the register is the caller's again. */
static bool saved(const struct walk *walk, unsigned slot, uintptr_t at, uintptr_t *value)
{
    return slot == 0 || at < walk->frame.sp || load(walk, at, value);
}

static bool cfa_of(const struct walk *walk, struct ep_rule rule, uintptr_t *cfa)
{
    uintptr_t offset = (uintptr_t)((intptr_t)rule.cfa * (intptr_t)WORD);

    switch (rule.kind) {
    case EP_RULE_SP:
        *cfa = walk->frame.sp + offset;
        return true;
    case EP_RULE_FP:
    case EP_RULE_GUESS:
        *cfa = walk->frame.fp + offset;
        return true;
    case EP_RULE_BASE:
        *cfa = walk->frame.base + offset;
        return true;
    case EP_RULE_FP_LOAD:
        return load(walk, walk->frame.fp + offset, cfa);
    default:
        return false;
    }
}

/* To the caller; false when there is no way. */
static bool step(struct walk *walk, struct ep_rule rule)
{
    uintptr_t cfa, pc, fp = walk->frame.fp, base = walk->frame.base;

    if (!cfa_of(walk, rule, &cfa) || cfa <= walk->frame.sp || cfa > walk->end)
        return false;
    if (!load(walk, cfa - EP_RETURN_SLOT * WORD, &pc))
        return false;
    uintptr_t fp_at = rule.kind == EP_RULE_FP_LOAD ? walk->frame.fp : cfa - rule.fp_slot * WORD;
    if (!saved(walk, rule.fp_slot, fp_at, &fp) || !saved(walk, rule.base_slot, cfa - rule.base_slot * WORD, &base))
        return false;
    walk->frame = (struct ep_frame){.pc = pc, .sp = cfa, .fp = fp, .base = rule.kind == EP_RULE_GUESS ? 0 : base};
    walk->exact = false;
    walk->guessed |= rule.kind == EP_RULE_GUESS;
    return true;
}

/* To a frame that was interrupted: its registers are all in memory. */
static bool step_interrupted(struct walk *walk, struct ep_rule rule, const struct ep_context *context)
{
    uintptr_t cfa = walk->frame.sp + (uintptr_t)rule.cfa * WORD;
    bool found = rule.kind == EP_RULE_SIGNAL ? ep_signal_frame(&walk->frame, walk->end)
                                             : ep_fault_frame(&walk->frame, cfa, walk->end);

    walk->exact = true;
    walk->end = found ? stack_end(context, walk->frame.sp) : 0;
    return walk->end != 0;
}

static void finish(struct ep_stack *stack, const struct walk *walk, unsigned end)
{
    stack->end = (uint8_t)end;
    stack->quality = end ? EP_STACK_CUT : walk->guessed ? EP_STACK_GAP : EP_STACK_EXACT;
}

void ep_unwind(const struct ep_context *context, struct ep_stack *stack)
{
    struct walk walk = {
        .frame = {.pc = context->pc, .sp = context->sp, .fp = context->fp, .lr = context->lr, .base = context->base},
        .end = stack_end(context, context->sp),
        .exact = true};
    uintptr_t hijack_stub = ep_running()->hijack_stub;

    stack->depth = 0;
    stack->hits = stack->misses = 0;
    for (;;) {
        if (walk.frame.pc == 0) {
            finish(stack, &walk, EP_FRAME_NONE);
            return;
        }
        if (stack->depth == EP_MAX_DEPTH) {
            finish(stack, &walk, EP_FRAME_DEEP);
            return;
        }
        if (hijack_stub && walk.frame.pc == hijack_stub && !walk.exact) {
            finish(stack, &walk, EP_FRAME_HIJACK);
            return;
        }
        uintptr_t pc = walk.exact ? walk.frame.pc : walk.frame.pc - 1;
        struct ep_rule rule = ep_rule_get(pc, walk.exact, stack);
        atomic_store_explicit(&stack->pc[stack->depth++], pc, memory_order_relaxed);
        if (rule.kind == EP_RULE_ROOT) {
            finish(stack, &walk, EP_FRAME_NONE);
            return;
        }
        bool interrupted = rule.kind == EP_RULE_SIGNAL || rule.kind == EP_RULE_FAULT;
        bool went = walk.end && (interrupted ? step_interrupted(&walk, rule, context) : step(&walk, rule));
        if (!went) {
            finish(stack, &walk, EP_FRAME_CUT);
            return;
        }
    }
}
