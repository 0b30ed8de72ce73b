/*
 * unwind.c with the test's own rules: any rules with any registers on any stack read nothing outside the stacks' bounds
 * (guard pages on both sides), the walk ends, and its result is consistent. With correct rules every kind of frame
 * leads to its caller.
 */
#include <sys/mman.h>

#include "unit.h"

static struct ep_rule rule_for(struct ep_unwinder *unwinder, uintptr_t pc, bool exact, struct ep_stack *stack);
#define ep_rule_get rule_for
#include "core/unwind/unwind.c"

#define PAGES  2u
#define PAGE   4096u
#define BYTES  (PAGES * PAGE)
#define ROUNDS 300000u

static struct ep_unwinder rules;
static atomic_uintptr_t pcs[EP_MAX_DEPTH];
static uint64_t dice = 1;
static struct ep_rule fixed[8]; /* by call number; random rules when empty */
static unsigned fixed_count, asked;

static struct ep_rule random_rule(void)
{
    struct ep_rule rule = {
        .kind = (uint8_t)(EP_RULE_EMPTY + unit_random(&dice) % 16),
        .fp_slot = (uint8_t)(unit_random(&dice) % 4 ? unit_random(&dice) % 8 : unit_random(&dice)),
        .base_slot = (uint8_t)(unit_random(&dice) % 4 ? 0 : unit_random(&dice)),
        .ra_extra = (uint8_t)(unit_random(&dice) % 8 ? 0 : unit_random(&dice)),
        .cfa = (int16_t)(unit_random(&dice) % 4 ? unit_random(&dice) % 16 : unit_random(&dice)),
    };

    if (unit_random(&dice) % 4)
        rule.kind = (uint8_t)(EP_RULE_SP + unit_random(&dice) % 5);
    return rule;
}

static struct ep_rule rule_for(struct ep_unwinder *unwinder, uintptr_t pc, bool exact, struct ep_stack *stack)
{
    (void)unwinder;
    (void)pc;
    (void)exact;
    stack->hits++;
    asked++;
    return asked <= fixed_count ? fixed[asked - 1]
           : fixed_count        ? (struct ep_rule){.kind = EP_RULE_ROOT}
                                : random_rule();
}

static uint8_t *fenced(void)
{
    uint8_t *area = mmap(NULL, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(mprotect(area + PAGE, BYTES, PROT_READ | PROT_WRITE), 0);
    return area + PAGE;
}

static uintptr_t some_word(uint8_t *const stacks[2])
{
    uintptr_t start = (uintptr_t)stacks[unit_random(&dice) % 2];

    switch (unit_random(&dice) % 8) {
    case 0:
        return (uintptr_t)((uint64_t)unit_random(&dice) << 33 | unit_random(&dice));
    case 1:
        return start + BYTES - unit_random(&dice) % 5 * sizeof(uintptr_t);
    case 2:
        return start + unit_random(&dice) % 5 * sizeof(uintptr_t);
    case 3:
        return start + unit_random(&dice) % (BYTES + 256) - 128;
    default:
        return start + unit_random(&dice) % BYTES / sizeof(uintptr_t) * sizeof(uintptr_t);
    }
}

static struct ep_stack walk_checked(const struct ep_registers *registers)
{
    struct ep_stack stack = {.pc = pcs};

    asked = 0;
    ep_unwind(&rules, registers, &stack);
    assert_true(stack.depth >= 1 && stack.depth <= EP_MAX_DEPTH && stack.quality <= EP_STACK_CUT);
    assert_int_equal(stack.quality == EP_STACK_CUT, stack.end != EP_FRAME_NONE);
    return stack;
}

TEST(test_any_rule_stays_in_bounds)
{
    uint8_t *const stacks[2] = {fenced(), fenced()};
    uint64_t depths = 0;

    fixed_count = 0;
    for (size_t at = 0; at < 2 * BYTES / sizeof(uintptr_t); at++)
        ((uintptr_t *)(void *)stacks[at % 2])[at / 2] = some_word(stacks);
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned n = 0; n < 24; n++) {
            uintptr_t *words = (uintptr_t *)(void *)stacks[n % 2];
            words[unit_random(&dice) % (BYTES / sizeof(uintptr_t))] = some_word(stacks);
        }
        struct ep_registers c = {
            .pc = 0x1000,
            .sp = i % 4 ? ((uintptr_t)stacks[0] + unit_random(&dice) % BYTES / 2) & ~(sizeof(uintptr_t) - 1)
                        : some_word(stacks),
            .fp = some_word(stacks),
            .lr = some_word(stacks),
            .base = some_word(stacks),
            .stack_start = (uintptr_t)stacks[0],
            .stack_end = (uintptr_t)stacks[0] + BYTES,
            .alt_start = i % 4 ? (uintptr_t)stacks[1] : 0,
            .alt_end = i % 4 ? (uintptr_t)stacks[1] + BYTES : 0,
        };
        depths += walk_checked(&c).depth;
    }
    print_message("             %.2f frames a stack\n", (double)depths / ROUNDS);
    assert_true(depths > ROUNDS * 6 / 5);
}

/* ---- correct rules ---- */

static uintptr_t words[32];

/* Walks one frame with the rule from sp = words + 2, fp = words + 10, base = words + 12. Returns the caller's
 * registers. */
static struct ep_stack one_step(struct ep_rule rule)
{
    const struct ep_registers c = {
        .pc = 0x1000,
        .sp = (uintptr_t)&words[2],
        .fp = (uintptr_t)&words[10],
        .base = (uintptr_t)&words[12],
        .lr = 0x7777,
        .stack_start = (uintptr_t)words,
        .stack_end = (uintptr_t)&words[32],
    };

    for (unsigned i = 0; i < 32; i++)
        words[i] = 0x2000 + i;
    words[14] = (uintptr_t)&words[20];
    fixed[0] = rule;
    fixed_count = 1;
    return walk_checked(&c);
}

TEST(test_each_kind)
{
    const struct {
        struct ep_rule rule;
        uintptr_t caller; /* expected return address */
    } cases[] = {
        {{.kind = EP_RULE_SP, .cfa = 4}, 0x2005},
        {{.kind = EP_RULE_SP, .cfa = 4, .ra_extra = 2}, 0x2003},
        {{.kind = EP_RULE_FP, .cfa = 2, .fp_slot = 2}, 0x200b},
        {{.kind = EP_RULE_BASE, .cfa = 3}, 0x200e + 0},
        {{.kind = EP_RULE_FP_LOAD, .cfa = 4, .fp_slot = 1}, 0x2013},
        {{.kind = EP_RULE_LINK, .cfa = 1}, 0x7777},
        {{.kind = EP_RULE_LINK, .cfa = 3, .ra_extra = EP_LINK_BASE, .base_slot = 1}, 0x7777},
        {{.kind = EP_RULE_LINK, .cfa = 1, .ra_extra = EP_LINK_FP, .fp_slot = 1}, 0x7777},
        {{.kind = EP_RULE_APART, .cfa = 6, .base_slot = 2}, 0x2006},
        {{.kind = EP_RULE_APART, .cfa = 6, .base_slot = 2, .ra_extra = 1}, 0x2003},
        {{.kind = EP_RULE_CHAIN, .cfa = 2}, 0x200b},
        {{.kind = EP_RULE_RECORD, .cfa = 6, .fp_slot = 3}, 0x2006},
        {{.kind = EP_RULE_GUESS, .cfa = 2, .fp_slot = 2}, 0x200b},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ep_rule rule = cases[i].rule;
        uintptr_t expected = cases[i].caller;
        struct ep_stack stack = one_step(rule);
        if (rule.kind == EP_RULE_BASE)
            expected = words[14];
        if (sizeof expected == 4)
            expected &= ~(uintptr_t)1; /* the Thumb bit */
        assert_int_equal(stack.depth, 2);
        assert_int_equal(pcs[0], 0x1000);
        assert_int_equal(pcs[1], expected - 1);
        assert_int_equal(stack.quality, rule.kind == EP_RULE_GUESS ? EP_STACK_GAP : EP_STACK_EXACT);
    }
}

/* A walk without progress towards the root ends, and is marked as truncated. */
TEST(test_no_progress)
{
    const struct ep_rule stuck[] = {{.kind = EP_RULE_SP, .cfa = -1},     {.kind = EP_RULE_FP, .cfa = -9},
                                    {.kind = EP_RULE_FP, .cfa = 23},     {.kind = EP_RULE_BASE, .cfa = -11},
                                    {.kind = EP_RULE_SP, .cfa = 31},     {.kind = EP_RULE_STOP},
                                    {.kind = EP_RULE_FP_LOAD, .cfa = -3}};

    for (size_t i = 0; i < sizeof stuck / sizeof stuck[0]; i++) {
        struct ep_stack stack = one_step(stuck[i]);
        assert_int_equal(stack.depth, 1);
        assert_int_equal(stack.end, EP_FRAME_CUT);
    }
}

TEST_MAIN
