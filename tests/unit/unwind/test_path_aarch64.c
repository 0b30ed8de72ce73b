/*
 * path_aarch64.c on any machine: known code leads to the rule that is right, and no code at all is read outside its
 * module (guard pages on both sides) or followed for ever.
 */
#include "code.h"

#define ep_cfi_starts starts_tabled
#include "core/unwind/path_aarch64.c"

#define MOST 8

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

/* The rule that is found; NONE: none is. */
#define RULE(kind, cfa, fp, base)                                                                                      \
    {                                                                                                                  \
        kind, fp, base, 0, cfa                                                                                         \
    }
#define LINK(cfa)            RULE(EP_RULE_LINK, cfa, 0, 0)
#define RECORD(cfa, fp)      RULE(EP_RULE_RECORD, cfa, fp, 0)
#define CHAIN(cfa)           RULE(EP_RULE_CHAIN, cfa, 0, 0)
#define APART(cfa, fp, base) RULE(EP_RULE_APART, cfa, fp, base)
#define NONE                 RULE(EP_RULE_EMPTY, 0, 0, 0)
#define CODE(...)            {__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4

enum from { INTERRUPTED, CALLED };

struct known {
    const char *what;
    uint32_t code[MOST];
    uint8_t size, at; /* words; `at` is where execution stands, or a return address */
    enum from from;
    struct ep_rule rule;
    uint8_t tabled, end; /* words: where another function with tables starts; where this one ends that has a table */
};

static const struct known knowns[] = {
    {"a leaf: ret", CODE(NOP, RET), 0, INTERRUPTED, LINK(0), 0, 0},
    {"retaa", CODE(0xd65f0bffu), 0, INTERRUPTED, LINK(0), 0, 0},
    {"ret x1", CODE(0xd65f0020u), 0, INTERRUPTED, NONE, 0, 0},
    {"at stp", CODE(STP_32, FP_SP, NOP, LDP_32, RET), 0, INTERRUPTED, LINK(0), 0, 0},
    {"at mov x29, sp", CODE(STP_32, FP_SP, NOP, LDP_32, RET), 1, INTERRUPTED, RECORD(4, 0), 0, 0},
    {"behind it", CODE(STP_32, FP_SP, NOP, LDP_32, RET), 2, INTERRUPTED, RECORD(4, 0), 0, 0},
    {"behind ldp", CODE(STP_32, FP_SP, NOP, LDP_32, RET), 4, INTERRUPTED, LINK(0), 0, 0},
    {"at sub sp", CODE(SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET), 0, INTERRUPTED, LINK(0), 0, 0},
    {"behind it", CODE(SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET), 1, INTERRUPTED, LINK(6), 0, 0},
    {"behind stp", CODE(SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET), 2, INTERRUPTED, RECORD(6, 4), 0, 0},
    {"behind ldp, sp still down", CODE(SUB_48, STP_AT_32, FP_SP_32, LDP_AT_32, ADD_48, RET), 4, INTERRUPTED, LINK(6), 0,
     0},
    {"mov sp, x29", CODE(SP_FP, LDP_32, RET), 0, INTERRUPTED, CHAIN(4), 0, 0},
    {"lr alone", CODE(STR_LR, NOP, LDR_LR, RET), 1, INTERRUPTED, APART(2, 0, 2), 0, 0},
    {"lr alone, before it is stored", CODE(STR_LR, NOP, LDR_LR, RET), 0, INTERRUPTED, LINK(0), 0, 0},
    {"lr from elsewhere: ldr x30, [x0]", CODE(0xf940001eu, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"a large frame: add sp, sp, #1, lsl #12; ldp", CODE(0x914007ffu, LDP_32, RET), 0, INTERRUPTED, APART(516, 4, 3), 0,
     0},
    {"a frame by a register: mov x12, #7664; ldp x29, x30, [sp]; add sp, sp, x12",
     CODE(0xd283be0cu, 0xa9407bfdu, 0x8b2c63ffu, RET), 1, CALLED, RECORD(958, 0), 0, 0},
    {"the same, but x12 comes from elsewhere", CODE(0xf940000cu, 0xa9407bfdu, 0x8b2c63ffu, RET), 1, CALLED, NONE, 0, 0},
    {"a call that never returns, then another function", CODE(BL, STP_32, FP_SP, LDP_32, RET), 0, INTERRUPTED, NONE, 0,
     0},
    {"a call that never returns, then a leaf", CODE(BL, NOP, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"bl; ldp; ret: its own frame", CODE(BL, LDP_32, RET), 0, INTERRUPTED, RECORD(4, 0), 0, 0},
    {"a return address: ldp; ret", CODE(LDP_32, RET), 0, CALLED, RECORD(4, 0), 0, 0},
    {"a return address, ret alone leads nowhere", CODE(NOP, RET), 0, CALLED, NONE, 0, 0},
    {"a return address, lr alone is not sure", CODE(LDR_LR, RET), 0, CALLED, NONE, 0, 0},
    {"but with a table that says where the function ends", CODE(LDR_LR, RET), 0, CALLED, APART(2, 0, 2), 0, 2},
    {"subs; b.ne back; ret", CODE(0xf1000400u, 0x54ffffe1u, RET), 0, INTERRUPTED, LINK(0), 0, 0},
    {"cbz over brk: the other way", CODE(0xb4000040u, BRK, RET), 0, INTERRUPTED, LINK(0), 0, 0},
    {"tbz over brk", CODE(0x36000040u, BRK, RET), 0, INTERRUPTED, LINK(0), 0, 0},
    {"b to itself", CODE(0x14000000), 0, INTERRUPTED, NONE, 0, 0},
    {"b back behind a branch out of the loop", CODE(0xb4000040u, 0x17ffffffu, LDP_32, RET), 0, INTERRUPTED,
     RECORD(4, 0), 0, 0},
    {"ldp; stp; ldp: the second saves the caller's", CODE(LDP_32, STP_32, LDP_32, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"brk", CODE(BRK, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"udf", CODE(0, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"a jump table: adr x10; add x10; br x10: on at its first case", CODE(ADR_10, ADD_10, BR_10, BRK, RET), 0,
     INTERRUPTED, LINK(0), 0, 0},
    {"the same, at the br", CODE(ADR_10, ADD_10, BR_10, BRK, RET), 2, INTERRUPTED, LINK(0), 0, 0},
    {"the same, in its frame", CODE(ADR_10, ADD_10, BR_10, BRK, LDP_32, RET), 1, INTERRUPTED, RECORD(4, 0), 0, 0},
    {"a jump table whose first case is unknown: ldp; ret", CODE(ADD_10, BR_10, LDP_32, RET), 0, INTERRUPTED,
     RECORD(4, 0), 0, 0},
    {"ret alone behind it may be another function's", CODE(ADD_10, BR_10, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"a table of addresses: ldr x10, [x9, x8, lsl #3]", CODE(0xf868792au, BR_10, LDP_32, RET), 0, INTERRUPTED,
     RECORD(4, 0), 0, 0},
    {"a tail call, then the rest of the function: the frame has gone", CODE(LDP_32, BR_10, LDP_32, RET), 1, INTERRUPTED,
     LINK(0), 0, 0},
    {"the same with ldr x10, [x8, #104] between", CODE(LDP_32, 0xf940350au, BR_10, LDP_32, RET), 1, INTERRUPTED,
     LINK(0), 0, 0},
    {"a jump of which nothing tells where it goes", CODE(RET, 0xf940350au, BR_10, LDP_32, RET), 1, INTERRUPTED, NONE, 0,
     0},
    {"a jump at the start of the code", CODE(BR_10, LDP_32, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"a tail call through memory: ldp; br x1", CODE(LDP_32, 0xd61f0020u), 0, INTERRUPTED, RECORD(4, 0), 0, 0},
    {"ldp; b elsewhere", CODE(LDP_32, 0x14000100), 0, INTERRUPTED, RECORD(4, 0), 0, 0},
    {"b to a function with tables", CODE(0x14000002, BRK, BRK), 0, INTERRUPTED, LINK(0), 2, 0},
    {"b into the function itself", CODE(0x14000002, BRK, LDP_32, RET), 0, INTERRUPTED, RECORD(4, 0), 0, 0},
    {"sp from a register: mov sp, x9", CODE(0x9100013fu, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"sp is realigned: and sp, x9, #-16", CODE(0x927cec3fu | 9 << 5, RET), 0, INTERRUPTED, NONE, 0, 0},
    {"longjmp: at ldp x29, x30, [x0, #80]", CODE(LDP_X0_80, LDR_X2, SP_X2, BR_30), 0, INTERRUPTED, NONE, 0, 0},
    {"longjmp: lr is the target's, sp not yet", CODE(LDP_X0_80, LDR_X2, SP_X2, BR_30), 1, INTERRUPTED, NONE, 0, 0},
    {"longjmp: at the jump", CODE(LDP_X0_80, LDR_X2, SP_X2, BR_30), 3, INTERRUPTED, NONE, 0, 0},
    {"the old frame's lr, then another stack: ldp; mov sp, x2; br x10", CODE(LDP_32, SP_X2, BR_10), 2, INTERRUPTED,
     NONE, 0, 0},
    {"the same with add sp, x9, #16", CODE(LDP_32, 0x9100413fu, BR_10), 2, INTERRUPTED, NONE, 0, 0},
    {"mov sp, x29; ldp; br x10: the frame has gone", CODE(SP_FP, LDP_32, BR_10), 2, INTERRUPTED, LINK(0), 0, 0},
    {"ldp; add sp, sp, #48; br x10: likewise", CODE(LDP_AT_32, ADD_48, BR_10), 2, INTERRUPTED, LINK(0), 0, 0},
    {"ldp; add sp, sp, x12; br x10: likewise", CODE(LDP_AT_32, 0x8b2c63ffu, BR_10), 2, INTERRUPTED, LINK(0), 0, 0},
    {"not out of a function with a table", CODE(NOP, NOP, RET), 0, INTERRUPTED, NONE, 0, 2},
};

/* Loops one behind the other, and then the return: straight on lie only ways that may have left the function. */
TEST(test_end_of_large_function)
{
    enum { LOOPS = 5, BODY = 40, SIZE = LOOPS * BODY + 1 };
    static uint32_t words[SIZE];
    const uintptr_t start = (uintptr_t)words;
    struct ep_module module = {.start = start, .end = start + sizeof words};
    struct ep_aarch64_code code = {start, module.end, false};
    struct ep_rule rule = {0};

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

TEST(test_known_code)
{
    for (unsigned i = 0; i < sizeof knowns / sizeof knowns[0]; i++) {
        const struct known *k = &knowns[i];
        uintptr_t start = (uintptr_t)k->code;
        struct ep_module module = {.start = start, .end = start + k->size * 4u};
        struct ep_aarch64_code code = {start, start + (k->end ? k->end : k->size) * 4u, k->end != 0};
        struct ep_rule rule = {0};
        tabled = k->tabled ? start + k->tabled * 4u : 0;
        bool found = ep_aarch64_path(&module, code, start + k->at * 4u, k->from == INTERRUPTED, &rule);
        if (found != (k->rule.kind != EP_RULE_EMPTY) || (found && memcmp(&rule, &k->rule, sizeof rule) != 0))
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

TEST(test_any_code_stays_inside)
{
    uint8_t *page = guarded_page();
    unsigned found = 0;

    uintptr_t start = (uintptr_t)page;
    struct ep_module module = {.start = start, .end = start + PAGE};
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i % 64 == 0)
            for (unsigned at = 0; at < PAGE; at += 4) {
                uint32_t word = some_word();
                memcpy(page + at, &word, sizeof word);
            }
        uint64_t any = unit_random(&dice);
        struct ep_aarch64_code code = {module.start, module.end, any >> 22 & 1};
        struct ep_rule rule;
        /* also at the end, and where no instruction starts */
        uintptr_t offset = any % 8 == 0 ? PAGE - 1 - any / 8 % 16 : any % PAGE & ~(uintptr_t)3;
        found += ep_aarch64_path(&module, code, start + offset, any >> 20 & 1, &rule);
    }
    assert_true(found > ROUNDS / 100);
    guarded_page_free(page);
}

TEST_MAIN
