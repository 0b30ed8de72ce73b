/*
 * 32-bit ARM code for noreturn.c. Encodings: Arm Architecture Reference Manual ARMv7-A, A8.8.25 (bl, blx) and A8.8.18.
 */
#include "core/unwind/code_arm.h"
#include "core/unwind/noreturn.h"

#define WORD 4

/* Of add with an immediate. */
static uintptr_t immediate_of(uint32_t code)
{
    const uint32_t byte = code & 0xff, by = code >> 7 & 30;

    return by ? byte >> by | byte << (32 - by) : byte;
}

/* add ip, pc, #n; add ip, ip, #n; ldr pc, [ip, #n]!: the word that they name is the linker's, and stays mapped with the
 * code. Thumb code may come by way of bx pc. */
static uintptr_t through_plt(const struct ep_module *module, uintptr_t target)
{
    const uintptr_t stub = 4; /* bx pc; nop */
    uint32_t code[3];
    uintptr_t at = target & ~(uintptr_t)1, word;

    if (target & 1 && ep_noreturn_has_code(module, at, stub) && memcmp((const void *)at, "\x78\x47", 2) == 0)
        at += stub;
    else if (target & 1)
        return target;
    if (at % 4 || !ep_noreturn_has_code(module, at, sizeof code))
        return target;
    memcpy(code, (const void *)at, sizeof code);
    if ((code[0] & 0xfffff000) != 0xe28fc000 || (code[1] & 0xfffff000) != 0xe28cc000 ||
        (code[2] & 0xfffff000) != 0xe5bcf000)
        return target;
    const uintptr_t slot = at + 8 + immediate_of(code[0]) + immediate_of(code[1]) + (code[2] & 0xfff);
    if (slot % WORD)
        return 0;
    memcpy(&word, (const void *)slot, sizeof word);
    return word;
}

static uintptr_t called_by_thumb(uintptr_t after)
{
    uint16_t half[2];

    memcpy(half, (const void *)(after - sizeof half), sizeof half);
    if ((half[0] & 0xf800) != 0xf000 || (half[1] & 0xc000) != 0xc000)
        return 0;
    const uint32_t s = half[0] >> 10 & 1, i1 = !((half[1] >> 13 & 1) ^ s), i2 = !((half[1] >> 11 & 1) ^ s);
    const uint32_t bits = s << 24 | i1 << 23 | i2 << 22 | (half[0] & 0x3ffu) << 12 | (half[1] & 0x7ffu) << 1;
    const uintptr_t distance = (uintptr_t)(intptr_t)((int32_t)(bits << 7) >> 7);
    const bool to_thumb = half[1] >> 12 & 1;

    return to_thumb ? (after + distance) | 1 : (after & ~(uintptr_t)3) + (distance & ~(uintptr_t)3);
}

static uintptr_t called_by_arm(uintptr_t after)
{
    uint32_t code;

    if (after % 4)
        return 0;
    memcpy(&code, (const void *)(after - sizeof code), sizeof code);
    const uintptr_t target = after + 4 + (uintptr_t)(intptr_t)((int32_t)(code << 8) >> 6);
    if ((code & 0xfe000000) == 0xfa000000) /* blx */
        return (target + (code >> 23 & 2)) | 1;
    return (code & 0x0f000000) == 0x0b000000 ? target : 0;
}

uintptr_t ep_noreturn_called(const struct ep_module *module, uintptr_t word)
{
    const uintptr_t after = word & ~(uintptr_t)1;

    if (!ep_noreturn_has_code(module, after - 4, 4))
        return 0;
    const uintptr_t target = word & 1 ? called_by_thumb(after) : called_by_arm(after);
    return target ? through_plt(module, target) : 0;
}

/* Registers of a mask lie in ascending order from sp on. */
static bool push(struct ep_noreturn_stack *stack, unsigned mask)
{
    if (!ep_noreturn_move(stack, __builtin_popcount(mask) * WORD))
        return false;
    int32_t at = stack->depth;
    for (unsigned reg = 0; mask >> reg; reg++) {
        int32_t *place = reg == EP_ARM_LR     ? &stack->ra
                         : reg == EP_ARM_FP   ? &stack->fp
                         : reg == EP_ARM_BASE ? &stack->base
                                              : NULL;
        if (!(mask >> reg & 1))
            continue;
        if (place && *place == 0)
            *place = at;
        at -= WORD;
    }
    return true;
}

/* Behind a return or a jump to another function the frame is there again. */
static bool follow(struct ep_noreturn_stack *stack, const struct ep_arm_effect *e)
{
    bool leaves =
        e->kind == EP_ARM_RETURN || e->kind == EP_ARM_BRANCH || (e->kind == EP_ARM_POP && e->mask >> EP_ARM_PC & 1);
    bool moves = e->kind == EP_ARM_PUSH || e->kind == EP_ARM_POP || e->kind == EP_ARM_MOVE_SP;

    if (e->kind == EP_ARM_LOSE_SP || e->kind == EP_ARM_UNKNOWN)
        return false;
    if (leaves && !e->conditional)
        stack->depth = stack->deepest;
    if (leaves || !moves || (e->conditional && e->kind == EP_ARM_POP))
        return true;
    if (e->conditional)
        return false;
    if (e->kind == EP_ARM_PUSH)
        return push(stack, e->mask);
    return ep_noreturn_move(stack, e->kind == EP_ARM_POP ? -__builtin_popcount(e->mask) * WORD : -e->amount);
}

bool ep_noreturn_frame(const struct ep_module *module, uintptr_t start, uintptr_t pc, struct ep_rule *rule,
                       unsigned *index)
{
    struct ep_noreturn_stack stack = {0};

    for (uintptr_t at = start & ~(uintptr_t)1; at < pc;) {
        struct ep_arm_effect e = ep_arm_decode(at, module->end, start & 1);
        if (e.size == 0)
            return false;
        at += e.size;
        if (at <= pc && !follow(&stack, &e))
            return false;
    }
    *rule = (struct ep_rule){.kind = EP_RULE_SP, .cfa = (int16_t)(stack.depth / WORD)};
    rule->ra_extra = (uint8_t)(stack.ra / WORD - 1);
    rule->fp_slot = (uint8_t)(stack.fp / WORD);
    rule->base_slot = (uint8_t)(stack.base / WORD);
    *index = (unsigned)((stack.depth - stack.ra) / WORD);
    return stack.ra > 0 && stack.ra <= stack.depth && stack.depth % WORD == 0 && stack.ra / WORD <= UINT8_MAX &&
           stack.fp / WORD <= UINT8_MAX && stack.base / WORD <= UINT8_MAX;
}
