/*
 * path_aarch64.c on any machine: known code leads to the rule that is right, and no code at all is read outside its
 * module (guard pages on both sides) or followed for ever.
 */
#include <sys/mman.h>

#include "unit.h"

#include "core/unwind/cfi.h"

/* A function with tables of its own starts there; 0: none does. */
static uintptr_t tabled;

static bool starts_tabled(const struct ep_module *module, uintptr_t pc)
{
    (void)module;
    return tabled == pc;
}

#define ep_cfi_starts starts_tabled
#include "core/unwind/path_aarch64.c"

#define PAGE   4096u
#define ROUNDS 200000u
#define MOST   8

#define RET       0xd65f03c0u
#define NOP       0xd503201fu
#define BRK       0xd4200000u
#define BL        0x94000400u
#define STP_32    0xa9be7bfdu /* stp x29, x30, [sp, #-32]! */
#define LDP_32    0xa8c27bfdu /* ldp x29, x30, [sp], #32 */
#define FP_SP     0x910003fdu /* mov x29, sp */
#define SP_FP     0x910003bfu /* mov sp, x29 */
#define SUB_48    0xd100c3ffu /* sub sp, sp, #48 */
#define ADD_48    0x9100c3ffu /* add sp, sp, #48 */
#define STP_AT_32 0xa9027bfdu /* stp x29, x30, [sp, #32] */
#define LDP_AT_32 0xa9427bfdu /* ldp x29, x30, [sp, #32] */
#define FP_SP_32  0x910083fdu /* add x29, sp, #32 */
#define STR_LR    0xf81f0ffeu /* str x30, [sp, #-16]! */
#define LDR_LR    0xf84107feu /* ldr x30, [sp], #16 */
#define ADR_10    0x1000008au /* adr x10, four words further */
#define ADD_10    0x8b0b094au /* add x10, x10, x11, lsl #2 */
#define BR_10     0xd61f0140u
#define LDP_X0_80 0xa945781du /* ldp x29, x30, [x0, #80] */
#define LDR_X2    0xf9403402u /* ldr x2, [x0, #104] */
#define SP_X2     0x9100005fu /* mov sp, x2 */
#define BR_30     0xd61f03c0u

static uint64_t dice = 1;

struct known {
    const char *what;
    uint32_t code[MOST];
    uint8_t size, from; /* words */
    bool called, found;
    uint8_t kind;
    uint8_t fp_slot, base_slot;
    int16_t cfa;
    uint8_t tabled, end; /* words: where another function with tables starts; where this one ends that has a table */
};

static const struct known knowns[] = {
    {"a leaf: ret", {NOP, RET}, 2, 0, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"retaa", {0xd65f0bffu}, 1, 0, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"ret x1", {0xd65f0020u}, 1, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"at stp", {STP_32, FP_SP, NOP, LDP_32, RET}, 5, 0, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"at mov x29, sp", {STP_32, FP_SP, NOP, LDP_32, RET}, 5, 1, false, true, EP_RULE_RECORD, 0, 0, 4, 0, 0},
    {"behind it", {STP_32, FP_SP, NOP, LDP_32, RET}, 5, 2, false, true, EP_RULE_RECORD, 0, 0, 4, 0, 0},
    {"behind ldp", {STP_32, FP_SP, NOP, LDP_32, RET}, 5, 4, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"at sub sp",
     {SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET},
     6,
     0,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     0,
     0,
     0},
    {"behind it",
     {SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET},
     6,
     1,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     6,
     0,
     0},
    {"behind stp",
     {SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET},
     6,
     2,
     false,
     true,
     EP_RULE_RECORD,
     4,
     0,
     6,
     0,
     0},
    {"behind ldp, sp still down",
     {SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET},
     6,
     4,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     6,
     0,
     0},
    {"mov sp, x29", {SP_FP, LDP_32, RET}, 3, 0, false, true, EP_RULE_CHAIN, 0, 0, 4, 0, 0},
    {"lr alone", {STR_LR, NOP, LDR_LR, RET}, 4, 1, false, true, EP_RULE_APART, 0, 2, 2, 0, 0},
    {"lr alone, before it is stored", {STR_LR, NOP, LDR_LR, RET}, 4, 0, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"lr from elsewhere: ldr x30, [x0]", {0xf940001eu, RET}, 2, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"a large frame: add sp, sp, #1, lsl #12; ldp",
     {0x914007ffu, LDP_32, RET},
     3,
     0,
     false,
     true,
     EP_RULE_APART,
     4,
     3,
     516,
     0,
     0},
    {"a frame by a register: mov x12, #7664; ldp x29, x30, [sp]; add sp, sp, x12",
     {0xd283be0cu, 0xa9407bfdu, 0x8b2c63ffu, RET},
     4,
     1,
     true,
     true,
     EP_RULE_RECORD,
     0,
     0,
     958,
     0,
     0},
    {"the same, but x12 comes from elsewhere",
     {0xf940000cu, 0xa9407bfdu, 0x8b2c63ffu, RET},
     4,
     1,
     true,
     false,
     0,
     0,
     0,
     0,
     0,
     0},
    {"a call that never returns, then another function",
     {BL, STP_32, FP_SP, LDP_32, RET},
     5,
     0,
     false,
     false,
     0,
     0,
     0,
     0,
     0,
     0},
    {"a call that never returns, then a leaf", {BL, NOP, RET}, 3, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"bl; ldp; ret: its own frame", {BL, LDP_32, RET}, 3, 0, false, true, EP_RULE_RECORD, 0, 0, 4, 0, 0},
    {"a return address: ldp; ret", {LDP_32, RET}, 2, 0, true, true, EP_RULE_RECORD, 0, 0, 4, 0, 0},
    {"a return address, ret alone leads nowhere", {NOP, RET}, 2, 0, true, false, 0, 0, 0, 0, 0, 0},
    {"a return address, lr alone is not sure", {LDR_LR, RET}, 2, 0, true, false, 0, 0, 0, 0, 0, 0},
    {"but with a table that says where the function ends",
     {LDR_LR, RET},
     2,
     0,
     true,
     true,
     EP_RULE_APART,
     0,
     2,
     2,
     0,
     2},
    {"subs; b.ne back; ret", {0xf1000400u, 0x54ffffe1u, RET}, 3, 0, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"cbz over brk: the other way", {0xb4000040u, BRK, RET}, 3, 0, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"tbz over brk", {0x36000040u, BRK, RET}, 3, 0, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"b to itself", {0x14000000}, 1, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"b back behind a branch out of the loop",
     {0xb4000040u, 0x17ffffffu, LDP_32, RET},
     4,
     0,
     false,
     true,
     EP_RULE_RECORD,
     0,
     0,
     4,
     0,
     0},
    {"ldp; stp; ldp: the second saves the caller's",
     {LDP_32, STP_32, LDP_32, RET},
     4,
     0,
     false,
     false,
     0,
     0,
     0,
     0,
     0,
     0},
    {"brk", {BRK, RET}, 2, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"udf", {0, RET}, 2, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"a jump table: adr x10; add x10; br x10: on at its first case",
     {ADR_10, ADD_10, BR_10, BRK, RET},
     5,
     0,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     0,
     0,
     0},
    {"the same, at the br", {ADR_10, ADD_10, BR_10, BRK, RET}, 5, 2, false, true, EP_RULE_LINK, 0, 0, 0, 0, 0},
    {"the same, in its frame",
     {ADR_10, ADD_10, BR_10, BRK, LDP_32, RET},
     6,
     1,
     false,
     true,
     EP_RULE_RECORD,
     0,
     0,
     4,
     0,
     0},
    {"a jump table whose first case is unknown: ldp; ret",
     {ADD_10, BR_10, LDP_32, RET},
     4,
     0,
     false,
     true,
     EP_RULE_RECORD,
     0,
     0,
     4,
     0,
     0},
    {"ret alone behind it may be another function's", {ADD_10, BR_10, RET}, 3, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"a table of addresses: ldr x10, [x9, x8, lsl #3]",
     {0xf868792au, BR_10, LDP_32, RET},
     4,
     0,
     false,
     true,
     EP_RULE_RECORD,
     0,
     0,
     4,
     0,
     0},
    {"a tail call, then the rest of the function: the frame has gone",
     {LDP_32, BR_10, LDP_32, RET},
     4,
     1,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     0,
     0,
     0},
    {"the same with ldr x10, [x8, #104] between",
     {LDP_32, 0xf940350au, BR_10, LDP_32, RET},
     5,
     1,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     0,
     0,
     0},
    {"a jump of which nothing tells where it goes",
     {RET, 0xf940350au, BR_10, LDP_32, RET},
     5,
     1,
     false,
     false,
     0,
     0,
     0,
     0,
     0,
     0},
    {"a jump at the start of the code", {BR_10, LDP_32, RET}, 3, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"a tail call through memory: ldp; br x1", {LDP_32, 0xd61f0020u}, 2, 0, false, true, EP_RULE_RECORD, 0, 0, 4, 0, 0},
    {"ldp; b elsewhere", {LDP_32, 0x14000100}, 2, 0, false, true, EP_RULE_RECORD, 0, 0, 4, 0, 0},
    {"b to a function with tables", {0x14000002, BRK, BRK}, 3, 0, false, true, EP_RULE_LINK, 0, 0, 0, 2, 0},
    {"b into the function itself", {0x14000002, BRK, LDP_32, RET}, 4, 0, false, true, EP_RULE_RECORD, 0, 0, 4, 0, 0},
    {"sp from a register: mov sp, x9", {0x9100013fu, RET}, 2, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"sp is realigned: and sp, x9, #-16", {0x927cec3fu | 9 << 5, RET}, 2, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"longjmp: at ldp x29, x30, [x0, #80]", {LDP_X0_80, LDR_X2, SP_X2, BR_30}, 4, 0, false, false, 0, 0, 0, 0, 0, 0},
    {"longjmp: lr is the target's, sp not yet",
     {LDP_X0_80, LDR_X2, SP_X2, BR_30},
     4,
     1,
     false,
     false,
     0,
     0,
     0,
     0,
     0,
     0},
    {"longjmp: at the jump", {LDP_X0_80, LDR_X2, SP_X2, BR_30}, 4, 3, false, false, 0, 0, 0, 0, 0, 0},
    {"the old frame's lr, then another stack: ldp; mov sp, x2; br x10",
     {LDP_32, SP_X2, BR_10},
     3,
     2,
     false,
     false,
     0,
     0,
     0,
     0,
     0,
     0},
    {"the same with add sp, x9, #16", {LDP_32, 0x9100413fu, BR_10}, 3, 2, false, false, 0, 0, 0, 0, 0, 0},
    {"mov sp, x29; ldp; br x10: the frame has gone",
     {SP_FP, LDP_32, BR_10},
     3,
     2,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     0,
     0,
     0},
    {"ldp; add sp, sp, #48; br x10: likewise",
     {LDP_AT_32, ADD_48, BR_10},
     3,
     2,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     0,
     0,
     0},
    {"ldp; add sp, sp, x12; br x10: likewise",
     {LDP_AT_32, 0x8b2c63ffu, BR_10},
     3,
     2,
     false,
     true,
     EP_RULE_LINK,
     0,
     0,
     0,
     0,
     0},
    {"not out of a function with a table", {NOP, NOP, RET}, 3, 0, false, false, 0, 0, 0, 0, 0, 2},
};

/* Loops one behind the other, and then the return: straight on lie only ways that may have left the function. */
static void test_end_of_large_function(void **state)
{
    enum { LOOPS = 5, BODY = 40, SIZE = LOOPS * BODY + 1 };
    static uint32_t words[SIZE];
    const uintptr_t start = (uintptr_t)words;
    struct ep_module module = {.start = start, .end = start + sizeof words};
    struct ep_aarch64_code code = {start, module.end, false};
    struct ep_rule rule = {0};

    (void)state;
    for (unsigned i = 0; i < SIZE; i++)
        words[i] = NOP;
    for (unsigned i = 0; i < LOOPS; i++) {
        words[i * BODY] = 0xb4000000u | BODY << 5;             /* cbz x0, next loop */
        words[i * BODY + BODY - 1] = 0x18000000u - (BODY - 1); /* b back */
    }
    words[SIZE - 1] = RET;
    assert_true(ep_aarch64_path(&module, code, start, true, &rule));
    assert_int_equal(rule.kind, EP_RULE_LINK);
    words[SIZE - 1] = BRK;
    assert_false(ep_aarch64_path(&module, code, start, true, &rule));
}

static void test_known_code(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof knowns / sizeof knowns[0]; i++) {
        const struct known *k = &knowns[i];
        uintptr_t start = (uintptr_t)k->code;
        struct ep_module module = {.start = start, .end = start + k->size * 4u};
        struct ep_aarch64_code code = {start, start + (k->end ? k->end : k->size) * 4u, k->end != 0};
        struct ep_rule rule = {0};
        tabled = k->tabled ? start + k->tabled * 4u : 0;
        bool found = ep_aarch64_path(&module, code, start + k->from * 4u, !k->called, &rule);
        if (found != k->found || (found && (rule.kind != k->kind || rule.cfa != k->cfa || rule.fp_slot != k->fp_slot ||
                                            rule.base_slot != k->base_slot)))
            fail_msg("%s: found %d, kind %d, cfa %d, slots %d and %d", k->what, found, rule.kind, rule.cfa,
                     rule.fp_slot, rule.base_slot);
    }
    tabled = 0;
}

/* Instructions that lead on are rare in noise. */
static uint32_t some_word(void)
{
    uint64_t any = (uint64_t)unit_random(&dice) << 20 ^ unit_random(&dice);
    unsigned which = (unsigned)(any >> 40) % 100;

    if (which < 10)
        return 0x54000000u | ((uint32_t)any & 0xffffef); /* b.cond */
    if (which < 20)
        return 0x14000000u | ((uint32_t)any & 0x3ffffff) >> (any >> 33 & 15);
    return which < 90 ? knowns[any % (sizeof knowns / sizeof knowns[0])].code[any >> 32 & 3] : (uint32_t)any;
}

static void test_any_code_stays_inside(void **state)
{
    uint8_t *area = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned found = 0;

    (void)state;
    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(mprotect(area + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    uintptr_t start = (uintptr_t)area + PAGE;
    struct ep_module module = {.start = start, .end = start + PAGE};
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i % 64 == 0)
            for (unsigned at = 0; at < PAGE; at += 4) {
                uint32_t word = some_word();
                memcpy(area + PAGE + at, &word, sizeof word);
            }
        uint64_t any = unit_random(&dice);
        struct ep_aarch64_code code = {module.start, module.end, any >> 22 & 1};
        struct ep_rule rule;
        /* also at the end, and where no instruction starts */
        uintptr_t offset = any % 8 == 0 ? PAGE - 1 - any / 8 % 16 : any % PAGE & ~(uintptr_t)3;
        found += ep_aarch64_path(&module, code, start + offset, any >> 20 & 1, &rule);
    }
    assert_true(found > ROUNDS / 100);
    assert_int_equal(munmap(area, 3 * PAGE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_code),
        cmocka_unit_test(test_end_of_large_function),
        cmocka_unit_test(test_any_code_stays_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
