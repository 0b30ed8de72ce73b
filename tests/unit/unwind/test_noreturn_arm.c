/*
 * noreturn_arm.c on any machine: what the instructions of a function that never returns have saved where, and which
 * function a call leads to, also by way of .plt.
 */
#include "unit.h"

#include "core/unwind/code_arm.c"
#include "core/unwind/noreturn_arm.c"

struct frame {
    const char *what;
    uint16_t code[16];
    unsigned size; /* halfwords that are executed */
    bool found;
    struct ep_rule rule;
    unsigned index;
};

static const struct frame frames[] = {
    {"glibc's abort: push {r7, lr}; sub sp, #144 among others",
     {0x4a4e, 0xee1d, 0x4f70, 0x4b4e, 0xf5a4, 0x64a0, 0x447a, 0x484d, 0xb580, 0x4478, 0x58d3, 0xb0a4, 0x681b},
     13,
     true,
     {.cfa = 38, .base_slot = 2},
     37},
    {"before its push", {0x4a4e, 0xee1d, 0x4f70, 0xb580}, 3, false, {0}, 0},
    {"variadic: push {r1, r2, r3}; push {r4, lr}; sub sp, #8",
     {0xb40e, 0xb510, 0xb082},
     3,
     true,
     {.cfa = 7, .ra_extra = 3},
     3},
    {"push.w {r4, r11, lr}", {0xe92d, 0x4810}, 2, true, {.cfa = 3, .fp_slot = 2}, 2},
    {"behind a return: push {r4, lr}; pop {r4, pc}", {0xb510, 0xbd10, 0x46c0}, 3, true, {.cfa = 2}, 1},
    {"alloca: push {r7, lr}; sub.w sp, sp, r3", {0xb580, 0xebad, 0x0d03}, 3, false, {0}, 0},
};

TEST(test_frames)
{
    for (unsigned i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const struct frame *f = &frames[i];
        const struct ep_module module = {.start = (uintptr_t)f->code, .end = (uintptr_t)f->code + sizeof f->code};
        struct ep_rule rule = {0};
        unsigned index = 0;
        bool found = ep_noreturn_frame(&module, module.start | 1, module.start + f->size * 2, &rule, &index);
        if (found != f->found || (found && (rule.cfa != f->rule.cfa || rule.ra_extra != f->rule.ra_extra ||
                                            rule.fp_slot != f->rule.fp_slot || rule.base_slot != f->rule.base_slot ||
                                            rule.kind != EP_RULE_SP || index != f->index)))
            fail_msg("%s: found %d, cfa %d, return address %d, slots %d and %d, word %u", f->what, found, rule.cfa,
                     rule.ra_extra, rule.fp_slot, rule.base_slot, index);
    }
}

#define NOWHERE 255u

/* Offsets in bytes. A PLT stub is at 32, or with bx pc at 28; its word, at 56, is `word`. */
struct call {
    const char *what;
    uint16_t code[4];
    unsigned after, target; /* the return address; odd: Thumb */
};

static const struct call calls[] = {
    {"Thumb: bl 64", {0xf000, 0xf81e}, 4 | 1, 64 | 1},
    {"Thumb: bl backwards, to itself", {0xf7ff, 0xfffe}, 4 | 1, 0 | 1},
    {"Thumb: blx 64", {0xf000, 0xe81e}, 4 | 1, 64},
    {"Thumb: blx 32, .plt", {0xf000, 0xe80e}, 4 | 1, 81},
    {"Thumb: bl 28, bx pc before .plt", {0xf000, 0xf80c}, 4 | 1, 81},
    {"Thumb: blx r3", {0x46c0, 0x4798}, 4 | 1, NOWHERE},
    {"ARM: bl 64", {0x000e, 0xeb00}, 4, 64},
    {"ARM: blx 66", {0x000e, 0xfb00}, 4, 66 | 1},
    {"ARM: bl 32, .plt", {0x0006, 0xeb00}, 4, 81},
    {"ARM: no call", {0x0000, 0xe1a0}, 4, NOWHERE},
};

TEST(test_calls)
{
    static const uint32_t plt[] = {0xe28fc600, 0xe28cca00, 0xe5bcf010};
    static _Alignas(64) uint8_t code[128];
    const struct ep_module module = {.start = (uintptr_t)code, .end = (uintptr_t)code + sizeof code};
    const uintptr_t word = (uintptr_t)code + 81;

    memcpy(code + 28, "\x78\x47\xc0\x46", 4);
    memcpy(code + 32, plt, sizeof plt);
    memcpy(code + 56, &word, sizeof word);
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const struct call *c = &calls[i];
        memcpy(code, c->code, sizeof c->code);
        uintptr_t found = ep_noreturn_called(&module, (uintptr_t)code + c->after);
        if (found != (c->target == NOWHERE ? 0 : (uintptr_t)code + c->target))
            fail_msg("%s: %ld", c->what, (long)(found - (uintptr_t)code));
    }
}

TEST_MAIN
