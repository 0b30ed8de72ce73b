/*
 * noreturn_aarch64.c on any machine: what the instructions of a function that never returns have saved where, and which
 * function a call leads to, also by way of .plt.
 */
#include "unit.h"

#include "core/unwind/noreturn_aarch64.c"

#define MOST 6

struct frame {
    const char *what;
    uint32_t code[MOST];
    unsigned size; /* instructions that are executed */
    bool found;
    uint8_t fp_slot, ra_slot;
    int16_t cfa;
    unsigned index;
};

static const struct frame frames[] = {
    {"stp x29, x30, [sp, #-32]!", {0xa9be7bfd, 0x910003fd}, 2, true, 4, 3, 4, 1},
    {"str x30, [sp, #-16]!; sub sp, sp, #48", {0xf81f0ffe, 0xd100c3ff}, 2, true, 0, 2, 8, 6},
    {"sub sp, sp, #48; stp x29, x30, [sp, #32]", {0xd100c3ff, 0xa9027bfd}, 2, true, 2, 1, 6, 5},
    {"sub sp, sp, #48; str x30, [sp, #16]", {0xd100c3ff, 0xf9000bfe}, 2, true, 0, 4, 6, 2},
    {"behind a return: stp; ldp x29, x30, [sp], #32; ret", {0xa9be7bfd, 0xa8c27bfd, 0xd65f03c0}, 3, true, 4, 3, 4, 1},
    {"x30 is not saved", {0xd100c3ff}, 1, false, 0, 0, 0, 0},
    {"alloca: sub sp, sp, x3", {0xa9be7bfd, 0xcb2363ff}, 2, false, 0, 0, 0, 0},
};

TEST(test_frames)
{
    for (unsigned i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const struct frame *f = &frames[i];
        const struct ep_module module = {.start = (uintptr_t)f->code, .end = (uintptr_t)f->code + sizeof f->code};
        struct ep_rule rule = {0};
        unsigned index = 0;
        bool found = ep_noreturn_frame(&module, module.start, module.start + f->size * 4, &rule, &index);
        if (found != f->found ||
            (found && (rule.cfa != f->cfa || rule.fp_slot != f->fp_slot || rule.base_slot != f->ra_slot ||
                       rule.kind != EP_RULE_APART || index != f->index)))
            fail_msg("%s: found %d, cfa %d, slots %d and %d, word %u", f->what, found, rule.cfa, rule.fp_slot,
                     rule.base_slot, index);
    }
}

TEST(test_calls)
{
    static _Alignas(4096) uint32_t code[32];
    const struct ep_module module = {.start = (uintptr_t)code, .end = (uintptr_t)code + sizeof code};
    static const uint32_t plt[] = {0xd503245f, 0x90000010, 0xf9402211, 0x91010210, 0xd61f0220};
    const uint64_t target = (uintptr_t)code + 8;

    code[0] = 0x94000004;              /* bl: four instructions further */
    code[1] = 0x97ffffff;              /* one back */
    code[2] = 0x94000002;              /* .plt, at 4 */
    code[3] = 0xd63f0060;              /* blr x3 */
    memcpy(code + 4, plt, sizeof plt); /* the word is 64 bytes into the page */
    memcpy(code + 16, &target, sizeof target);
    code[10] = 0x97fffffb; /* .plt without bti, at 5 */
    assert_true(ep_noreturn_called(&module, (uintptr_t)(code + 1)) == (uintptr_t)target);
    assert_true(ep_noreturn_called(&module, (uintptr_t)(code + 2)) == (uintptr_t)code);
    assert_true(ep_noreturn_called(&module, (uintptr_t)(code + 3)) == (uintptr_t)target);
    assert_true(ep_noreturn_called(&module, (uintptr_t)(code + 4)) == 0);
    assert_true(ep_noreturn_called(&module, (uintptr_t)(code + 11)) == (uintptr_t)target);
    assert_true(ep_noreturn_called(&module, (uintptr_t)code) == 0);
}

TEST_MAIN
