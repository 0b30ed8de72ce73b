/*
 * noreturn.c and noreturn_x86_64.c on any machine: the caller of a function that never returns is the word of the stack
 * that lies behind a call of it and where its instructions say, and no other one.
 */

#include "unit.h"

#include "core/unwind/code_x86_64.c"
#include "core/unwind/noreturn.c"
#undef WORD
#include "core/unwind/noreturn_x86_64.c"

#define CODE  128
#define WORDS 16u

static _Alignas(64) uint8_t code[CODE];

static void code_set(unsigned at, const char *hex)
{
    for (char *next; *hex; hex = next + (*next == ' '))
        code[at++] = (uint8_t)strtoul(hex, &next, 16);
}

struct frame {
    const char *what, *hex;
    unsigned size; /* of what is executed */
    bool found;
    int16_t cfa;
    uint8_t fp_slot, base_slot;
};

static const struct frame frames[] = {
    {"musl's abort: sub $0x48,%rsp", "48 83 ec 48 bf 06 00 00 00", 9, true, 10, 0, 0},
    {"push %rbp; push %rbx; push %rax", "55 53 50", 3, true, 4, 2, 3},
    {"before the sub", "48 83 ec 48", 0, true, 1, 0, 0},
    {"behind a return: push %rbx; pop %rbx; ret", "53 5b c3 90", 4, true, 2, 0, 2},
    {"more is popped than was pushed", "5b 5b 90", 3, false, 0, 0, 0},
    {"no instruction", "06 06", 2, false, 0, 0, 0},
};

TEST(test_frames)
{
    const struct ep_module module = {.start = (uintptr_t)code, .end = (uintptr_t)code + CODE};
    for (unsigned i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        const struct frame *f = &frames[i];
        struct ep_rule rule = {0};
        unsigned index = 0;
        memset(code, 0x90, sizeof code);
        code_set(0, f->hex);
        bool found = ep_noreturn_frame(&module, module.start, module.start + f->size, &rule, &index);
        if (found != f->found || (found && (rule.cfa != f->cfa || rule.fp_slot != f->fp_slot ||
                                            rule.base_slot != f->base_slot || index + 1 != (unsigned)f->cfa)))
            fail_msg("%s: found %d, cfa %d, slots %d and %d, word %u", f->what, found, rule.cfa, rule.fp_slot,
                     rule.base_slot, index);
    }
}

/* abort at 0; a function that calls it at 32, .plt at 48 with its word at 72, a function that calls that at 80, and one
 * that calls by the word at 96. */
static void program_set(void)
{
    const uintptr_t abort_at = (uintptr_t)code;

    memset(code, 0x90, sizeof code);
    code_set(0, "53 48 83 ec 48 e8 51 00 00 00 f4");
    code_set(32, "50 e8 da ff ff ff");
    code_set(48, "f3 0f 1e fa f2 ff 25 0d 00 00 00");
    memcpy(code + 72, &abort_at, sizeof abort_at);
    code_set(80, "e8 db ff ff ff");
    code_set(96, "ff 15 e2 ff ff ff");
}

enum { DIRECT = 38, BY_PLT = 85, BY_WORD = 102, PC = 9, INDEX = 10 };

TEST(test_the_caller_is_found)
{
    static const struct {
        unsigned at, caller;
        bool stale, found;
    } stacks[] = {{INDEX, DIRECT, false, true},     {INDEX, BY_PLT, false, true},      {INDEX, BY_WORD, true, true},
                  {INDEX, DIRECT, true, true},      {INDEX - 1, DIRECT, false, false}, {INDEX + 1, BY_PLT, true, false},
                  {INDEX, DIRECT - 1, false, false}};
    static struct ep_unwinder unwinder;
    const struct ep_registers registers = {0};

    if (sizeof(uintptr_t) != 8) /* the stack's words are the machine's */
        skip();
    program_set();
    unwinder.modules.slot[0] = (struct ep_module){.start = (uintptr_t)code, .end = (uintptr_t)code + CODE};
    atomic_store(&unwinder.modules.count, 1);
    for (unsigned i = 0; i < sizeof stacks / sizeof stacks[0]; i++) {
        uintptr_t stack[WORDS] = {0};
        stack[3] = stacks[i].stale ? (uintptr_t)code + DIRECT : 0;
        stack[stacks[i].at] = (uintptr_t)code + stacks[i].caller;
        const struct ep_walk walk = {.unwinder = &unwinder,
                                     .registers = &registers,
                                     .frame = {.pc = (uintptr_t)code + PC + 1, .sp = (uintptr_t)stack},
                                     .end = (uintptr_t)(stack + WORDS)};
        const struct ep_rule guess = {.kind = EP_RULE_GUESS, .cfa = 2}, exact = {.kind = EP_RULE_SP, .cfa = 3};
        ep_unwind_thorough(&unwinder, false);
        assert_int_equal(ep_noreturn_rule(&walk, guess).kind, EP_RULE_GUESS);
        ep_unwind_thorough(&unwinder, true);
        assert_int_equal(ep_noreturn_rule(&walk, exact).cfa, 3);
        struct ep_rule rule = ep_noreturn_rule(&walk, guess);
        bool found = rule.kind == EP_RULE_SP;
        if (found != stacks[i].found || (found && (rule.cfa != INDEX + 1 || rule.base_slot != 2)))
            fail_msg("stack %u: found %d, cfa %d, slot %d", i, found, rule.cfa, rule.base_slot);
    }
}

TEST_MAIN
