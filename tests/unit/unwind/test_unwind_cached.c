/*
 * unwind_cached.c compared with unwind.c: with any cached rules and any stack, both walks are equal frame by frame, and
 * read nothing outside the stack (guard pages).
 */
#include <sys/mman.h>

#include "unit.h"

#include "core/unwind/unwind_cached.c"

static struct ep_rule derive(const struct ep_modules *modules, uintptr_t pc, bool exact);
#define ep_rule_derive          derive
#define ep_rule_derive_by_table derive
#include "core/unwind/rules.c"

static bool shortcuts;
static unsigned strides, roots; /* frames that unwind_cached.c handled, walks that it ended */

static enum ep_cached cached(struct ep_walk *on, struct ep_stack *stack)
{
    unsigned before = stack->depth;
    enum ep_cached done = shortcuts ? ep_unwind_cached(on, stack) : EP_CACHED_NOTHING;

    assert_int_equal(done != EP_CACHED_NOTHING, stack->depth != before);
    strides += stack->depth - before;
    roots += done == EP_CACHED_ROOT;
    return done;
}
#undef WORD
#define is_root is_root_of_frame
#undef RECORD_WORDS
#define ep_unwind_cached cached
#include "core/unwind/unwind.c"

#define PAGE   4096u
#define BYTES  (2 * PAGE)
#define WORDS  (BYTES / sizeof(uintptr_t))
#define CODE   ((uintptr_t)0x400000)
#define CODES  97
#define ROUNDS 200000u

static struct ep_unwinder unwinder;
static uint64_t dice = 1;
static struct ep_rule rules[CODES];
static uintptr_t *stack_words;
static bool tame; /* a program whose stacks are mostly walked to the end */

static uintptr_t some_code(void)
{
    return CODE + unit_random(&dice) % CODES;
}

/* A frame's size in words. */
static int some_size(void)
{
    if (tame && EP_RULE_PLAIN == EP_RULE_CHAIN)
        return 2; /* the next record may follow directly */
    return (int)tame + (int)(unit_random(&dice) % 8);
}

static struct ep_rule some_rule(void)
{
    static const uint8_t kinds[] = {EP_RULE_PLAIN, EP_RULE_PLAIN,   EP_RULE_SP,    EP_RULE_FP,    EP_RULE_FP,
                                    EP_RULE_BASE,  EP_RULE_LINK,    EP_RULE_CHAIN, EP_RULE_CHAIN, EP_RULE_CHAIN,
                                    EP_RULE_ROOT,  EP_RULE_RESTART, EP_RULE_STOP,  EP_RULE_GUESS, EP_RULE_RECORD};
    bool odd = !tame && unit_random(&dice) % 16 == 0;
    size_t kinds_used = tame ? 2 : sizeof kinds - (unit_random(&dice) % 16 ? 3 : 0);
    struct ep_rule rule = {
        .kind = kinds[unit_random(&dice) % kinds_used],
        .fp_slot = (uint8_t)(unit_random(&dice) % (odd ? 256 : 4)),
        .base_slot = (uint8_t)(unit_random(&dice) % (odd ? 40 : 4)),
        .ra_extra =
            (uint8_t)(unit_random(&dice) % 4 || sizeof(uintptr_t) == 8 ? 0 : unit_random(&dice) % (odd ? 256 : 3)),
        .cfa = (int16_t)(odd ? (int)(unit_random(&dice) % 2400) - 1200 : some_size()),
    };

    if (unit_random(&dice) % 2)
        rule.fp_slot = rule.base_slot = 0;
    return rule;
}

static struct ep_rule derive(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    (void)modules;
    (void)exact;
    return pc - CODE < CODES ? rules[pc - CODE] : (struct ep_rule){.kind = EP_RULE_STOP};
}

/* A return address, an address above this word on the stack, or an invalid word. */
static uintptr_t some_word(unsigned at)
{
    const uintptr_t wrong[] = {0, (uintptr_t)-1, (uintptr_t)-8, (uintptr_t)-4096, sizeof(uintptr_t), 1};
    uintptr_t start = (uintptr_t)stack_words;

    switch (unit_random(&dice) % 64) {
    case 0:
        return wrong[unit_random(&dice) % (sizeof wrong / sizeof wrong[0])];
    case 1:
        return start + unit_random(&dice) % (BYTES + 256) - 128;
    case 2:
        return start + BYTES - unit_random(&dice) % 5 * sizeof(uintptr_t);
    case 3:
        return some_code() | (uintptr_t)unit_random(&dice) << (4 * sizeof(uintptr_t)); /* 64 bits: tagged or invalid */
    default:
        return tame || unit_random(&dice) % 3 ? some_code() : (uintptr_t)&stack_words[at + unit_random(&dice) % 12];
    }
}

/* A chain of frame records on the stack, each pointing to a higher one. */
static void some_chain(unsigned first)
{
    for (unsigned i = first; i + 8 < WORDS;) {
        unsigned next = i + 2 + unit_random(&dice) % 6;
        stack_words[i] = (uintptr_t)&stack_words[next];
        stack_words[i + 1] = some_code();
        i = next;
    }
}

/* Another program: other rules, an empty cache, the hijack stub elsewhere. */
static void some_program(void)
{
    tame = unit_random(&dice) % 4 == 0;
    for (unsigned i = 0; i < CODES; i++)
        rules[i] = some_rule();
    for (unsigned i = 0; i < EP_RULE_CACHE; i++)
        atomic_store(&unwinder.rule[i], 0);
    unwinder.hijack_stub = unit_random(&dice) % 3 ? 0 : some_code();
}

static void some_stack(unsigned round)
{
    if (round % 64 == 0)
        some_program();
    for (unsigned i = 0; i < (round % 64 ? 48 : 4 * WORDS); i++) {
        unsigned at = unit_random(&dice) % WORDS;
        stack_words[at] = some_word(at);
    }
    if (tame && EP_RULE_PLAIN == EP_RULE_CHAIN)
        some_chain(WORDS / 2);
    else if (!tame && round % 16 == 0)
        some_chain(unit_random(&dice) % 128);
}

static struct ep_registers some_context(void)
{
    uintptr_t start = (uintptr_t)stack_words;
    unsigned at = unit_random(&dice) % (WORDS / 2);

    return (struct ep_registers){
        .pc = unit_random(&dice) % 8 ? some_code() : some_word(at),
        .sp = unit_random(&dice) % 16 ? start + at * sizeof(uintptr_t) : some_word(at),
        .fp = tame && EP_RULE_PLAIN == EP_RULE_CHAIN ? (uintptr_t)&stack_words[WORDS / 2] : some_word(at),
        .lr = some_word(at),
        .base = some_word(at),
        .stack_start = start,
        .stack_end = start + BYTES - (unit_random(&dice) % 8 ? 0 : unit_random(&dice) % 16),
        .stack_root = unit_random(&dice) % 2 ? start + BYTES - 256 : 0,
    };
}

static struct ep_stack walk(const struct ep_registers *registers, atomic_uintptr_t *pcs, bool with)
{
    struct ep_stack stack = {.pc = pcs};

    shortcuts = with;
    ep_unwind(&unwinder, registers, &stack);
    return stack;
}

TEST(test_walks_are_equal)
{
    static atomic_uintptr_t expected_pcs[EP_MAX_DEPTH], pcs[EP_MAX_DEPTH];
    uint8_t *area = mmap(NULL, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned frames = 0;

    assert_ptr_not_equal(area, MAP_FAILED);
    assert_int_equal(mprotect(area + PAGE, BYTES, PROT_READ | PROT_WRITE), 0);
    stack_words = (uintptr_t *)(void *)(area + PAGE);
    for (unsigned i = 0; i < WORDS; i++)
        stack_words[i] = some_word(i);
    for (unsigned round = 0; round < ROUNDS; round++) {
        some_stack(round);
        struct ep_registers registers = some_context();
        struct ep_stack expected = walk(&registers, expected_pcs, false), stack = walk(&registers, pcs, true);
        assert_int_equal(stack.depth, expected.depth);
        assert_int_equal(stack.end, expected.end);
        assert_int_equal(stack.quality, expected.quality);
        assert_int_equal(stack.hits + stack.misses, expected.hits + expected.misses);
        for (unsigned i = 0; i < stack.depth; i++)
            assert_int_equal(pcs[i], expected_pcs[i]);
        frames += stack.depth;
    }
    print_message("             %.2f frames a stack, %.0f %% of them by cached steps, which ended %.0f %%\n",
                  (double)frames / ROUNDS, 100.0 * strides / frames, 100.0 * roots / ROUNDS);
    assert_true(frames > 3 * ROUNDS && strides > frames / 3 && roots > ROUNDS / 50);
}

TEST_MAIN
