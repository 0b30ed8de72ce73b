/*
 * From a frame to its caller, for those who need more of it than its program counter: one register that the caller's
 * code kept something in. Only the rules of ordinary code with a table are followed, so nothing in it is a guess.
 */
#include "core/unwind/walk.h"

#include <string.h>

#define WORD sizeof(uintptr_t)

/* A word of the stack, at or above sp. */
static bool load(const struct ep_context *bounds, uintptr_t sp, uintptr_t at, uintptr_t *word)
{
    if (at < sp || at >= bounds->stack_end || bounds->stack_end - at < WORD || at % WORD)
        return false;
    memcpy(word, (const void *)at, WORD);
    return true;
}

static bool saved(const struct ep_context *bounds, uintptr_t sp, uintptr_t cfa, unsigned slot, uintptr_t *value)
{
    return slot == 0 || load(bounds, sp, cfa - slot * WORD, value);
}

bool ep_unwind_caller(struct ep_unwinder *unwinder, const struct ep_context *bounds, struct ep_caller *frame)
{
    struct ep_stack cache = {0};

    if (frame->sp < bounds->stack_start || frame->sp >= bounds->stack_end || frame->pc == 0 ||
        (unwinder->hijack_stub && frame->pc == unwinder->hijack_stub))
        return false;
    const struct ep_rule rule = ep_rule_get(unwinder, frame->exact ? frame->pc : frame->pc - 1, frame->exact, &cache);
    uintptr_t from = rule.kind == EP_RULE_SP ? frame->sp : rule.kind == EP_RULE_FP ? frame->fp : 0;
    frame->misses += cache.misses;
    if (!from)
        return false;
    uintptr_t cfa = from + (uintptr_t)((intptr_t)rule.cfa * (intptr_t)WORD);
    struct ep_caller caller = {.sp = cfa, .fp = frame->fp, .base = frame->base, .misses = frame->misses};
    if (cfa <= frame->sp || cfa > bounds->stack_end ||
        !load(bounds, frame->sp, cfa - (1u + rule.ra_extra) * WORD, &caller.pc) ||
        !saved(bounds, frame->sp, cfa, rule.fp_slot, &caller.fp) ||
        !saved(bounds, frame->sp, cfa, rule.base_slot, &caller.base))
        return false;
    caller.pc = ep_code_address(caller.pc);
    *frame = caller;
    return caller.pc != 0;
}
