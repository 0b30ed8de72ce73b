/*
 * aarch64 code for noreturn.c. Encodings: Arm Architecture Reference Manual for A-profile, C4.1.
 */
#include <string.h>

#include "core/unwind/noreturn.h"

#define WORD 8
#define FP   29u
#define LR   30u
#define SP   31u

static int32_t field(uint32_t code, unsigned low, unsigned bits)
{
    return (int32_t)(code << (32 - low - bits)) >> (32 - bits);
}

/* [bti c;] adrp x16, page; ldr x17, [x16, #n]; add x16, x16, #n; br x17: the word that they name is the linker's, and
 * stays mapped with the code. */
static uintptr_t through_plt(const struct ep_module *module, uintptr_t at)
{
    uint64_t target;
    uint32_t code[5];

    if (!ep_noreturn_has_code(module, at, sizeof code))
        return at;
    memcpy(code, (const void *)at, sizeof code);
    const unsigned first = code[0] == 0xd503245f;
    const uint32_t adrp = code[first], ldr = code[first + 1];
    if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211 ||
        (code[first + 2] & 0xff8003ff) != 0x91000210 || code[first + 3] != 0xd61f0220)
        return at;
    const intptr_t pages = (intptr_t)field(adrp, 5, 19) * 4 + (intptr_t)(adrp >> 29 & 3);
    const uintptr_t page = (at + first * 4) & ~(uintptr_t)0xfff;
    memcpy(&target, (const void *)(page + (uintptr_t)pages * 4096 + (uintptr_t)(ldr >> 10 & 0xfff) * WORD),
           sizeof target);
    return (uintptr_t)target;
}

uintptr_t ep_noreturn_called(const struct ep_module *module, uintptr_t word)
{
    const uintptr_t call = ep_code_address(word) - 4;
    uint32_t code;

    if (call % 4 || !ep_noreturn_has_code(module, call, sizeof code))
        return 0;
    memcpy(&code, (const void *)call, sizeof code);
    return code >> 26 == 0x25 ? through_plt(module, call + (uintptr_t)((intptr_t)field(code, 0, 26) * 4)) : 0;
}

static void save(struct ep_noreturn_stack *stack, uint32_t reg, int32_t below)
{
    int32_t *place = reg == LR ? &stack->ra : reg == FP ? &stack->fp : NULL;

    if (place && *place == 0)
        *place = below;
}

/* ldp and stp of any registers: behind the access 1, none 2, before it 3. */
static bool pair(struct ep_noreturn_stack *stack, uint32_t code)
{
    const bool vector = code >> 26 & 1, words = !vector && code >> 30 == 2, load = code >> 22 & 1;
    const int32_t amount = field(code, 15, 7) * (vector ? 4 << (code >> 30) : words ? WORD : 4);
    const unsigned form = code >> 23 & 3;

    if ((code >> 5 & 31) != SP)
        return true;
    if (form == 3 && !ep_noreturn_move(stack, -amount))
        return false;
    const int32_t below = stack->depth - (form == 2 ? amount : 0);
    if (words && !load) {
        save(stack, code & 31, below);
        save(stack, code >> 10 & 31, below - WORD);
    }
    return form != 1 || ep_noreturn_move(stack, -amount);
}

/* ldr and str of one register: [sp, #n], [sp, #n]!, [sp], #n. */
static bool single(struct ep_noreturn_stack *stack, uint32_t code)
{
    const bool scaled = code >> 24 & 1, words = code >> 30 == 3 && !(code >> 26 & 1), load = code >> 22 & 1;
    const bool indexed = !scaled && !(code >> 21 & 1) && code >> 10 & 1, behind = indexed && !(code >> 11 & 1);
    const int32_t amount = scaled ? (int32_t)(code >> 10 & 0xfff) * WORD : field(code, 12, 9);

    if ((code >> 5 & 31) != SP || (!scaled && code >> 21 & 1))
        return true;
    if (indexed && !behind && !ep_noreturn_move(stack, -amount))
        return false;
    if (words && !load)
        save(stack, code & 31, stack->depth - (indexed ? 0 : amount));
    return !behind || ep_noreturn_move(stack, -amount);
}

static bool follow(struct ep_noreturn_stack *stack, uint32_t code)
{
    const int32_t amount = (int32_t)(code >> 10 & 0xfff) << (code >> 22 & 1 ? 12 : 0);

    if ((code & 0x3a000000) == 0x28000000)
        return pair(stack, code);
    if ((code & 0x3a000000) == 0x38000000)
        return single(stack, code);
    if ((code & 0xff8003ff) == 0xd10003ff || (code & 0xff8003ff) == 0x910003ff) /* sub, add sp, sp, #n */
        return ep_noreturn_move(stack, code >> 30 & 1 ? amount : -amount);
    if ((code & 0xfffffc1f) == 0xd65f0000 || code >> 26 == 5) /* ret, b: what follows has the frame again */
        stack->depth = stack->deepest;
    return (code & 0xbfe0ffff) != 0x8b2063ff; /* add, sub sp, sp, register */
}

bool ep_noreturn_frame(const struct ep_module *module, uintptr_t start, uintptr_t pc, struct ep_rule *rule,
                       unsigned *index)
{
    struct ep_noreturn_stack stack = {0};
    uint32_t code;

    for (uintptr_t at = start; at + sizeof code <= pc; at += sizeof code) {
        if (!ep_noreturn_has_code(module, at, sizeof code))
            return false;
        memcpy(&code, (const void *)at, sizeof code);
        if (!follow(&stack, code))
            return false;
    }
    *rule = (struct ep_rule){.kind = EP_RULE_APART, .cfa = (int16_t)(stack.depth / WORD)};
    rule->fp_slot = (uint8_t)(stack.fp / WORD);
    rule->base_slot = (uint8_t)(stack.ra / WORD);
    *index = (unsigned)((stack.depth - stack.ra) / WORD);
    return stack.ra > 0 && stack.ra <= stack.depth && stack.depth % WORD == 0 && stack.ra / WORD <= UINT8_MAX &&
           stack.fp / WORD <= UINT8_MAX;
}
