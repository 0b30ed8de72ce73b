/*
 * path_arm.c and code_arm.c on any machine: known code gives the correct rule. No code makes them read outside its
 * module (guard pages on both sides) or loop forever.
 */
#include "code.h"

#include "core/unwind/code_arm.c"
#include "core/unwind/path_arm.c"

/* Not in braces: clang-format would write each value of a long row in a line of its own. */
#define HALVES(...)                                                                                                    \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

struct known {
    const char *what;
    uint16_t code[12];
    unsigned from; /* offset in halfwords */
    bool interrupted, found, saved;
    int32_t cfa, ra;
};

/* musl's: ldmia ip!, {r2, lr}; mov sp, r2; ldr r1, [r1, r2]; bx lr. */
#define LONGJMP 0xe8bc, 0x4004, 0x4695, 0x5889, 0x4770

static const struct known knowns[] = {
    {"a leaf that returns by lr", HALVES(0x1840, 0x4770), 0, true, true, false, 0, 0},
    {"lr is spoiled: mov lr, r0; bx lr", HALVES(0x4686, 0x4770), 0, true, false, false, 0, 0},
    {"after a call, bx lr alone leads nowhere", HALVES(0x1840, 0x4770), 0, false, false, false, 0, 0},
    {"adds; add sp, #8; pop {r4, pc}", HALVES(0x1840, 0xb002, 0xbd10), 0, false, true, true, 16, -4},
    {"before push {r4, lr}; sub sp, #8; add sp, #8; pop {r4, pc}", HALVES(0xb510, 0xb082, 0xb002, 0xbd10), 0, true,
     true, false, 0, 0},
    {"behind it", HALVES(0xb510, 0xb082, 0xb002, 0xbd10), 1, true, true, true, 8, -4},
    {"cbz over udf: the other way", HALVES(0xb100, 0xde00, 0xbd10), 0, true, true, true, 8, -4},
    {"a call that never returns, then another function", HALVES(0xf000, 0xf800, 0xb510, 0xbd10), 0, true, false, false,
     0, 0},
    {"b to itself", HALVES(0xe7fe), 0, true, false, false, 0, 0},
    {"a loop that is left by beq back to pop {r4, pc}", HALVES(0xb510, 0xbd10, 0x1c40, 0xd0fc, 0xe7fc), 2, true, true,
     true, 8, -4},
    {"sp from a register that is not followed", HALVES(0x46a5, 0xbd10), 0, true, false, false, 0, 0},
    {"pop {r4}, then a function that pushes lr where r4 was", HALVES(0xf85d, 0x4b04, 0xe7ff, 0xb570, 0xbd70), 0, true,
     true, false, 4, 0},
    {"alloca: sub.w sp, sp, r3; add r7, #8; mov sp, r7; pop {r7, pc}", HALVES(0xebad, 0x0d03, 0x3708, 0x46bd, 0xbd80),
     0, false, true, true, 16, -4},
    {"alloca, and sp never comes back: pop {r7, pc}", HALVES(0xebad, 0x0d03, 0xbd80), 0, false, false, false, 0, 0},
    {"alloca, bx lr", HALVES(0xebad, 0x0d03, 0x4770), 0, true, false, false, 0, 0},
    {"add.w r7, r7, #6000; mov sp, r7; pop {r7, pc}", HALVES(0xf507, 0x57bb, 0x3708, 0x46bd, 0xbd80), 0, false, true,
     true, 6000, -4},
    {"add sp, r3; mov sp, r7; pop {r7, pc}", HALVES(0x449d, 0x46bd, 0xbd80), 0, false, true, true, 8, -4},
    {"sp from two registers: sub.w sp, r4, r3; mov sp, r7; pop {r7, pc}", HALVES(0xeba4, 0x0d03, 0x46bd, 0xbd80), 0,
     false, false, false, 0, 0},
    {"pop {r4, lr}, then elsewhere", HALVES(0xe8bd, 0x4010, 0xe7ff, 0xb510, 0xbd10), 0, true, true, true, 8, -4},
    {"longjmp: at ldmia ip!, {r2, lr}", HALVES(LONGJMP), 0, true, false, false, 0, 0},
    {"longjmp: lr is the target's, sp not yet: at mov sp, r2", HALVES(LONGJMP), 2, true, false, false, 0, 0},
    {"longjmp: both are the target's", HALVES(LONGJMP), 3, true, true, false, 0, 0},
    {"another stack, ldr.w pc, [r0, #4]: at ldr.w sp, [r0]", HALVES(0xf8d0, 0xd000, 0xf8d0, 0xf004, 0xde00), 0, true,
     false, false, 0, 0},
    {"the same, at the jump", HALVES(0xf8d0, 0xd000, 0xf8d0, 0xf004, 0xde00), 2, true, false, false, 0, 0},
    {"another stack, bx r3, at the jump", HALVES(0x4695, 0x4718, 0xde00), 1, true, false, false, 0, 0},
};

TEST(test_known_code)
{
    for (unsigned i = 0; i < sizeof knowns / sizeof knowns[0]; i++) {
        const struct known *k = &knowns[i];
        struct ep_module module = code_of(k->code, sizeof k->code);
        struct ep_cfi_rules rules;
        bool found = ep_arm_path(&module, module.start + k->from * 2u, true, k->interrupted, &rules);
        if (found != k->found ||
            (found && ((rules.state[EP_CFI_REG_RA] == EP_CFI_SAVED) != k->saved || rules.cfa_offset != k->cfa ||
                       (k->saved && rules.offset[EP_CFI_REG_RA] != k->ra))))
            fail_msg("%s: found %d, cfa %d", k->what, found, (int)rules.cfa_offset);
    }
}

/* A function with its own table, "pop {r4, lr}"; the code after its end is another function. */
struct tabled {
    const char *what;
    uint16_t code[8];
    unsigned from, end; /* offsets in halfwords */
    bool leaves;        /* no frame here: lr is the caller's, whatever the table says */
    int prologue;
};

static const struct tabled tableds[] = {
    {"behind push {r4, lr}", HALVES(0xb510, 0x1c40, 0xbd10), 1, 3, false, -ENOENT},
    {"at it", HALVES(0xb510, 0x1c40, 0xbd10), 0, 3, false, 0},
    {"cbz to a part without a frame: adds; b elsewhere", HALVES(0xb110, 0xb510, 0xbd10, 0x46c0, 0x1c40, 0xe7ff, 0x4770),
     4, 6, true, -EINVAL},
    {"its b", HALVES(0xb110, 0xb510, 0xbd10, 0x46c0, 0x1c40, 0xe7ff, 0x4770), 5, 6, true, -EINVAL},
    {"its own frame may be there or not: cbz inside", HALVES(0xb108, 0xb510, 0x1c40, 0xb100, 0x1c40, 0xbd10), 4, 6,
     false, -EINVAL},
    {"b to itself", HALVES(0xb510, 0x1c40, 0xe7fe), 2, 3, false, -ENOENT},
    {"bx r3", HALVES(0xb510, 0xe8bd, 0x4010, 0x4718), 3, 4, true, -ENOENT},
    {"mov r3, r4; bx r3 behind a pop", HALVES(0xb510, 0xe8bd, 0x4010, 0x4623, 0x4718), 3, 5, true, -ENOENT},
    {"bx r3: goto *r3", HALVES(0xb510, 0x1c40, 0x4718, 0xbd10), 2, 4, false, -ENOENT},
    {"add ip, ip, #64 is not .plt", HALVES(0xb510, 0x1c40, 0xf10c, 0x0c40, 0xbd10), 2, 5, false, -ENOENT},
    {"mov pc, r3: into a jump table", HALVES(0xb510, 0x1c40, 0x469f, 0xbd10), 2, 4, false, -ENOENT},
    {"mov lr, r0 on the way out", HALVES(0xb510, 0x4686, 0xe7ff, 0x4770), 1, 3, false, -ENOENT},
    {"a veneer: bx pc; nop", HALVES(0x4778, 0x46c0, 0x4770, 0x4770), 0, 4, true, 0},
    {"another function, its entry merged with the first's", HALVES(0xb510, 0xbd10, 0xb510, 0x1c40, 0xbd10), 2, 5, false,
     -EINVAL},
};

TEST(test_tables_of_whole_functions)
{
    for (unsigned i = 0; i < sizeof tableds / sizeof tableds[0]; i++) {
        const struct tabled *t = &tableds[i];
        struct ep_module module = code_of(t->code, sizeof t->code);
        struct ep_cfi_row row = {
            .rules = {.cfa = EP_CFI_SP, .cfa_offset = 8}, .start = module.start, .end = module.start + t->end * 2u};
        uintptr_t pc = module.start + t->from * 2u;
        struct ep_cfi_rules rules;
        bool out = ep_arm_epilogue(&module, pc, true, &row, &rules);
        bool leaves =
            out && rules.cfa == EP_CFI_SP && rules.cfa_offset == 0 && rules.state[EP_CFI_REG_RA] != EP_CFI_SAVED;
        int prologue = ep_arm_prologue(&row, pc, true, &rules);

        if (leaves != t->leaves || prologue != t->prologue)
            fail_msg("%s: leaves %d, prologue %d", t->what, leaves, prologue);
    }
}

/* What starts a program or a thread; the last call in each is the one whose return address is asked for. */
struct start {
    const char *what;
    uint16_t code[12];
    unsigned size, pc; /* in halfwords */
    bool thumb, starts;
};

static const struct start starts[] = {
    {"_start: mov fp, #0; mov lr, #0; pop {r1}; bl", HALVES(0xf04f, 0x0b00, 0xf04f, 0x0e00, 0xbc02, 0xf000, 0xf800), 7,
     7, true, false},
    {"and code behind it", HALVES(0xf04f, 0x0b00, 0xf04f, 0x0e00, 0xbc02, 0xf000, 0xf800, 0xbf00), 8, 7, true, true},
    {"its second call", HALVES(0xf04f, 0x0b00, 0xf04f, 0x0e00, 0xf000, 0xf800, 0xf000, 0xf800, 0xbf00), 9, 8, true,
     false},
    {"fp alone", HALVES(0xf04f, 0x0b00, 0xbc02, 0xf000, 0xf800, 0xbf00), 6, 5, true, false},
    {"a function behind", HALVES(0xf04f, 0x0b00, 0xf04f, 0x0e00, 0x4770, 0xf000, 0xf800, 0xbf00), 8, 7, true, false},
    {"ARM code: mov fp, #0; mov lr, #0; bl", HALVES(0xb000, 0xe3a0, 0xe000, 0xe3a0, 0, 0xeb00, 0, 0xe1a0), 8, 6, false,
     true},
    {"clone: blx ip; mov.w r7, #1; svc 0", HALVES(0x47e0, 0xf04f, 0x0701, 0xdf00), 4, 1, true, true},
    {"movs r7, #1; svc 0", HALVES(0x47e0, 0x2701, 0xdf00), 3, 1, true, true},
    {"another system call", HALVES(0x47e0, 0x2703, 0xdf00), 3, 1, true, false},
    {"the code ends before svc", HALVES(0x47e0, 0xf04f, 0x0701, 0xdf00), 3, 1, true, false},
    {"ARM code: mov r7, #1; svc 0", HALVES(0, 0xeb00, 0x7001, 0xe3a0, 0, 0xef00), 6, 2, false, true},
};

TEST(test_starts)
{
    for (unsigned i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        const struct start *s = &starts[i];
        struct ep_module module = code_of(s->code, s->size * 2u);

        if (ep_arm_is_start(&module, module.start + s->pc * 2u, s->thumb) != s->starts)
            fail_msg("%s: %d", s->what, !s->starts);
    }
}

/* Random code rarely contains branches, so some are added. */
static uint16_t some_half(void)
{
    static const uint16_t likely[] = {0xb510, 0xbd10, 0xe7f0, 0xe010, 0xd0f0, 0xd110, 0xb100, 0xf000,
                                      0xf8f0, 0x4770, 0x4778, 0xe92d, 0xe8bd, 0x4000, 0xf85d, 0xfb04,
                                      0x46bd, 0xaf00, 0x3708, 0xb082, 0xb002, 0xf10d, 0x0d08, 0xf1ad,
                                      0xea00, 0xeaff, 0xe12f, 0xff1e, 0xe59d, 0xf000, 0x8000, 0x9000};
    uint64_t any = unit_random(&dice);

    return any % 3 ? likely[any / 3 % (sizeof likely / sizeof likely[0])] : (uint16_t)(any >> 8);
}

TEST(test_any_code_stays_in_module)
{
    uint8_t *page = guarded_page();
    unsigned found = 0;

    struct ep_module module = code_of(page, PAGE);
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i % 64 == 0)
            for (unsigned at = 0; at < PAGE; at += 2) {
                uint16_t half = some_half();
                memcpy(page + at, &half, sizeof half);
            }
        uint64_t any = unit_random(&dice);
        struct ep_cfi_rules rules;
        (void)ep_arm_is_start(&module, module.start + any % PAGE, any >> 20 & 1);
        found += ep_arm_path(&module, module.start + any % PAGE, any >> 20 & 1, any >> 21 & 1, &rules);
    }
    assert_true(found > ROUNDS / 100);
    guarded_page_free(page);
}

/* -O0's leaf functions: push {r7}; add r7, sp, #0; add r7, #0; mov sp, r7; pop {r7}; bx lr, twice under one entry,
 * which linkers merge. The second one's prologue is not the first one's body. */
TEST(test_leaves_of_a_merged_entry)
{
    static const uint16_t leaf[] = {0xb480, 0xaf00, 0xe7ff, 0x3700, 0x46bd, 0xbc80, 0x4770};
    enum { SIZE = sizeof leaf / sizeof leaf[0] };
    uint16_t code[2 * SIZE];
    struct ep_cfi_rules rules;

    memcpy(code, leaf, sizeof leaf);
    memcpy(code + SIZE, leaf, sizeof leaf);
    struct ep_module module = code_of(code, sizeof code);
    struct ep_cfi_row row = {.rules = {.cfa = EP_CFI_BASE, .cfa_offset = 4}, .start = module.start, .end = module.end};
    assert_int_equal(ep_arm_prologue(&row, module.start, true, &rules), 0);
    assert_int_equal(ep_arm_prologue(&row, module.start + 2, true, &rules), 0);
    assert_int_equal(ep_arm_prologue(&row, module.start + 4, true, &rules), -ENOENT);
    assert_int_equal(ep_arm_prologue(&row, module.start + sizeof leaf, true, &rules), -EINVAL);
    assert_true(ep_arm_path(&module, module.start + sizeof leaf, true, true, &rules));
    assert_int_equal(rules.cfa_offset, 0);
    assert_int_equal(rules.state[EP_CFI_REG_BASE], EP_CFI_KEPT);
    assert_true(ep_arm_path(&module, module.start + sizeof leaf + 4, true, true, &rules));
    assert_int_equal(rules.cfa, EP_CFI_BASE);
    assert_int_equal(rules.cfa_offset, 4);
}

TEST_MAIN
