/*
 * From a frame to its caller, for those who need more of it than its program counter: one register that the caller's
 * code kept something in. Only the rules of code that tells where its caller is are followed, so nothing in it is a
 * guess.
 */
#include "core/unwind/rule_word.h"

#include <string.h>

#define WORD sizeof(uintptr_t)

struct registers {
    uintptr_t pc, sp, fp, base;
};

/* A step on its way. */
struct caller_step {
    struct ep_unwinder *unwinder;
    struct ep_caller *frame;
    struct ep_rule rule;
};

/* A word of the stack, at or above sp. */
static bool load(const struct caller_step *step, uintptr_t at, uintptr_t *word)
{
    const uintptr_t end = step->frame->end;

    if (at < step->frame->sp || at >= end || end - at < WORD || at % WORD)
        return false;
    memcpy(word, (const void *)at, WORD);
    return true;
}

static bool saved(const struct caller_step *step, uintptr_t cfa, unsigned slot, uintptr_t *value)
{
    return slot == 0 || load(step, cfa - slot * WORD, value);
}

/* Returns the register from which the caller's sp is counted; 0: this file does not follow such a rule. */
static uintptr_t cfa_from(const struct caller_step *step)
{
    switch (step->rule.kind) {
    case EP_RULE_SP:
    case EP_RULE_RECORD:
        return step->frame->sp;
    case EP_RULE_APART:
        return step->rule.ra_extra ? 0 : step->frame->sp;
    case EP_RULE_LINK: /* what lr held then is known of the interrupted frame alone */
        return !step->frame->exact                   ? 0
               : step->rule.ra_extra == EP_LINK_FP   ? step->frame->fp
               : step->rule.ra_extra == EP_LINK_BASE ? step->frame->base
                                                     : step->frame->sp;
    case EP_RULE_CHAIN:
        return step->rule.cfa ? step->frame->fp : 0;
    case EP_RULE_FP:
        return step->frame->fp;
    default:
        return 0;
    }
}

/* pc and fp; the caller's sp is known. */
static bool callers(const struct caller_step *step, struct registers *caller)
{
    const struct ep_rule rule = step->rule;
    const uintptr_t cfa = caller->sp;
    uintptr_t record = step->frame->fp;

    switch (rule.kind) {
    case EP_RULE_RECORD:
        record = step->frame->sp + rule.fp_slot * WORD;
        /* fall through */
    case EP_RULE_CHAIN:
        return load(step, record, &caller->fp) && load(step, record + WORD, &caller->pc);
    case EP_RULE_LINK:
        caller->pc = step->frame->lr;
        return saved(step, cfa, rule.fp_slot, &caller->fp);
    case EP_RULE_APART:
        return load(step, cfa - rule.base_slot * WORD, &caller->pc) && saved(step, cfa, rule.fp_slot, &caller->fp);
    default:
        return load(step, cfa - (1u + rule.ra_extra) * WORD, &caller->pc) &&
               saved(step, cfa, rule.fp_slot, &caller->fp);
    }
}

/* Sets base by its own rule; 0 if the table has none. An interrupted function may have restored it already. */
static void base_by_table(const struct caller_step *step, uintptr_t pc, struct registers *caller)
{
    const struct ep_rule rule = ep_rule_get_by_table(step->unwinder, EP_RULE_SAVED_AT(pc), false, &step->frame->misses);
    const uintptr_t at = caller->sp - rule.base_slot * WORD;
    const bool popped = step->frame->exact && at < step->frame->sp;

    if (rule.kind != EP_RULE_SAVED || (rule.fp_slot && step->rule.kind != EP_RULE_LINK))
        caller->base = 0;
    else if (rule.base_slot && !popped && !load(step, at, &caller->base))
        caller->base = 0;
}

bool ep_unwind_caller(struct ep_unwinder *unwinder, struct ep_caller *frame)
{
    const uintptr_t pc = frame->exact ? frame->pc : frame->pc - 1;
    struct caller_step step = {.unwinder = unwinder, .frame = frame};

    if (frame->sp < frame->start || frame->sp >= frame->end || frame->pc == 0 ||
        (unwinder->hijack_stub && frame->pc == unwinder->hijack_stub))
        return false;
    step.rule = ep_rule_get_by_table(unwinder, pc, frame->exact, &frame->misses);
    const uintptr_t from = cfa_from(&step);
    if (!from)
        return false;
    const uintptr_t cfa = from + (uintptr_t)((intptr_t)step.rule.cfa * (intptr_t)WORD);
    const uintptr_t least = frame->sp + (step.rule.kind == EP_RULE_LINK ? 0 : WORD);
    struct registers caller = {.sp = cfa, .fp = frame->fp, .base = frame->base};
    if (cfa < least || cfa > frame->end || !callers(&step, &caller))
        return false;
    if (EP_RULE_INVERTED)
        base_by_table(&step, pc, &caller);
    else if (!saved(&step, cfa, step.rule.base_slot, &caller.base))
        return false;
    frame->pc = ep_code_address(caller.pc);
    frame->sp = caller.sp;
    frame->fp = caller.fp;
    frame->base = caller.base;
    frame->exact = false;
    return frame->pc != 0;
}
