/*
 * A walk along frame pointers alone, as most samplers do it: the baseline that shows what an unwinder is worth, and
 * proof that the comparison can fail.
 */
#include "shadow.h"

static int prepare(void)
{
    return 0;
}

static void refresh(void) {}

static void walk(const struct ep_registers *registers, struct shadow_stack *stack)
{
    uintptr_t fp = registers->fp;
    stack->sure = false;
    stack->deep = false;
    stack->count = 0;
    stack->pc[stack->count++] = registers->pc;
    while (stack->count < SHADOW_DEPTH && fp >= registers->sp && fp % sizeof(uintptr_t) == 0 &&
           fp <= registers->stack_end - 2 * sizeof(uintptr_t)) {
        const uintptr_t *record = (const uintptr_t *)fp;
        stack->pc[stack->count++] = record[1];
        if (record[0] <= fp)
            break;
        fp = record[0];
    }
}

const struct shadow_walker shadow_walker_fp = {.name = "fp", .prepare = prepare, .refresh = refresh, .walk = walk};
