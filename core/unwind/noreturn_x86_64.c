/*
 * x86-64 code for noreturn.c. Encodings: Intel SDM, volume 2.
 */
#include <string.h>

#include "core/unwind/code_x86_64.h"
#include "core/unwind/noreturn.h"

#define WORD 8
#define RBX  3
#define RBP  5

static uintptr_t relative(uintptr_t after)
{
    int32_t distance;

    memcpy(&distance, (const void *)(after - sizeof distance), sizeof distance);
    return after + (uintptr_t)(intptr_t)distance;
}

/* [endbr64;] [bnd] jmp *n(%rip): the word that it names is the linker's, and stays mapped with the code. */
static uintptr_t through_plt(const struct ep_module *module, uintptr_t at)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    uintptr_t target = at, slot;

    if (!ep_noreturn_has_code(module, at, 16) || at % 8)
        return target;
    if (memcmp((const void *)at, endbr64, sizeof endbr64) == 0)
        at += sizeof endbr64;
    const uint8_t *b = (const uint8_t *)at;
    b += b[0] == 0xf2;
    if (b[0] != 0xff || b[1] != 0x25)
        return target;
    slot = relative((uintptr_t)b + 6);
    if (slot % WORD == 0)
        memcpy(&target, (const void *)slot, sizeof target);
    return target;
}

uintptr_t ep_noreturn_called(const struct ep_module *module, uintptr_t word)
{
    const uint8_t *after = (const uint8_t *)word;

    if (!ep_noreturn_has_code(module, word - 6, 6))
        return 0;
    if (after[-5] == 0xe8)
        return through_plt(module, relative(word));
    uintptr_t slot = relative(word), target = 0;
    if (after[-6] == 0xff && after[-5] == 0x15 && slot % WORD == 0) /* call *n(%rip) */
        memcpy(&target, (const void *)slot, sizeof target);
    return target;
}

static bool push(struct ep_noreturn_stack *stack, uint8_t reg)
{
    if (!ep_noreturn_move(stack, WORD))
        return false;
    if (reg == RBP && !stack->fp)
        stack->fp = stack->depth;
    if (reg == RBX && !stack->base)
        stack->base = stack->depth;
    return true;
}

static bool follow(struct ep_noreturn_stack *stack, const struct ep_x86_effect *e)
{
    switch (e->kind) {
    case EP_X86_PUSH:
        return push(stack, e->reg);
    case EP_X86_POP:
        return ep_noreturn_move(stack, -WORD);
    case EP_X86_MOVE_SP:
        return ep_noreturn_move(stack, -e->amount);
    case EP_X86_RETURN: /* what follows it has the frame again */
        stack->depth = stack->deepest;
        return true;
    default:
        return e->kind != EP_X86_UNKNOWN;
    }
}

bool ep_noreturn_frame(const struct ep_module *module, uintptr_t start, uintptr_t pc, struct ep_rule *rule,
                       unsigned *index)
{
    struct ep_noreturn_stack stack = {.depth = WORD, .deepest = WORD};

    for (uintptr_t at = start; at < pc;) {
        struct ep_x86_effect e = ep_x86_decode((const uint8_t *)at, (const uint8_t *)module->end);
        if (e.size == 0)
            return false;
        at += e.size;
        if (at <= pc && !follow(&stack, &e))
            return false;
    }
    *rule = (struct ep_rule){.kind = EP_RULE_SP, .cfa = (int16_t)(stack.depth / WORD)};
    rule->fp_slot = (uint8_t)(stack.fp / WORD);
    rule->base_slot = (uint8_t)(stack.base / WORD);
    *index = (unsigned)(stack.depth / WORD - 1);
    return stack.depth % WORD == 0 && stack.depth >= WORD && stack.fp / WORD <= UINT8_MAX &&
           stack.base / WORD <= UINT8_MAX;
}
