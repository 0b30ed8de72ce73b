/*
 * Private to core/unwind: the caller of a function that never returns, in code without tables. noreturn.c searches,
 * noreturn_<arch>.c reads the code.
 */
#ifndef EP_UNWIND_NORETURN_H
#define EP_UNWIND_NORETURN_H

#include "core/unwind/walk.h"

/* The rule at the walk's frame, which `rule` is for, or a better one: where that leads nowhere, or is only a guess.
 * Only programs that call ep_unwind_thorough() link it. Context: signal. */
__attribute__((weak)) struct ep_rule ep_noreturn_rule(const struct ep_walk *walk, struct ep_rule rule);

/* The function that the call before a return address leads to, also by way of .plt; 0: there is none, or the code does
 * not say it. On ARM with the Thumb bit, in `word` too. Context: signal. */
uintptr_t ep_noreturn_called(const struct ep_module *module, uintptr_t word);

/* The rule at pc in the function that starts there, from what its instructions before pc have done, and the word above
 * sp that has the return address. False: the code is not understood. Context: signal. */
bool ep_noreturn_frame(const struct ep_module *module, uintptr_t start, uintptr_t pc, struct ep_rule *rule,
                       unsigned *index);

/* Context: signal. */
static inline bool ep_noreturn_has_code(const struct ep_module *module, uintptr_t at, size_t size)
{
    return at >= module->start && at < module->end && module->end - at >= size;
}

/* What the instructions of a function have done to the stack so far, in bytes below the CFA. */
struct ep_noreturn_stack {
    int32_t depth, deepest;
    int32_t ra, fp, base; /* where they are saved; 0: nowhere */
};

/* Context: signal. */
static inline bool ep_noreturn_move(struct ep_noreturn_stack *stack, int32_t bytes)
{
    const int32_t most = 1 << 16;

    if (bytes > most || bytes < -most)
        return false;
    stack->depth += bytes;
    if (stack->depth > stack->deepest)
        stack->deepest = stack->depth;
    return stack->depth >= 0 && stack->depth <= most;
}

#endif
