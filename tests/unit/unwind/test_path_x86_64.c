/*
 * path_x86_64.c and code_x86_64.c on any machine: known code leads to the rule that is right, and no code at all is
 * read outside its module (guard pages on both sides) or followed for ever.
 */
#include "code.h"

#define ep_cfi_starts starts_tabled
#include "core/unwind/code_x86_64.c"
#include "core/unwind/path_x86_64.c"

#define MOST 64

/* The rule that is found; NONE: none is. */
#define RULE(kind, cfa, fp, base)                                                                                      \
    {                                                                                                                  \
        kind, fp, base, 0, cfa                                                                                         \
    }
#define SP(cfa, fp, base) RULE(EP_RULE_SP, cfa, fp, base)
#define FP(cfa, fp, base) RULE(EP_RULE_FP, cfa, fp, base)
#define NONE              RULE(EP_RULE_EMPTY, 0, 0, 0)

enum from { INTERRUPTED, CALLED };

struct known {
    const char *what, *code;
    unsigned at; /* where execution stands, or a return address */
    enum from from;
    struct ep_rule rule;
    unsigned tabled; /* where another function with tables starts, or 0 */
};

/* musl's longjmp from mov 40(%rdi),%r15 on: mov 48(%rdi),%rsp; jmp *56(%rdi). */
#define LONGJMP "4c 8b 6f 18 4c 8b 77 20 4c 8b 7f 28 48 8b 67 30 ff 67 38"

static const struct known knowns[] = {
    {"a leaf: mov (%rdi),%eax; ret", "8b 07 c3", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"rep ret", "f3 c3", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"at push %rbp", "55 48 89 e5 8b 07 5d c3", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"at mov %rsp,%rbp", "55 48 89 e5 8b 07 5d c3", 1, INTERRUPTED, SP(2, 2, 0), 0},
    {"behind it", "55 48 89 e5 8b 07 5d c3", 4, INTERRUPTED, SP(2, 2, 0), 0},
    {"at the ret", "55 48 89 e5 8b 07 5d c3", 7, INTERRUPTED, SP(1, 0, 0), 0},
    {"push %rbp; push %rbx; push %rax; pop %rcx; pop %rbx; pop %rbp; ret, in the middle", "55 53 50 90 59 5b 5d c3", 3,
     INTERRUPTED, SP(4, 2, 3), 0},
    {"behind push %rbp, before push %rbx: rbx is its own", "55 53 50 90 59 5b 5d c3", 1, INTERRUPTED, SP(2, 2, 0), 0},
    {"leave; ret", "c9 c3", 0, INTERRUPTED, FP(2, 2, 0), 0},
    {"lea -16(%rbp),%rsp; pop %rbx; pop %r14; pop %rbp; ret", "48 8d 65 f0 5b 41 5e 5d c3", 0, INTERRUPTED, FP(2, 2, 4),
     0},
    {"a large frame: add $0x2000,%rsp; pop %rbx; pop %rbp; ret", "48 81 c4 00 20 00 00 5b 5d c3", 0, INTERRUPTED,
     SP(1027, 2, 3), 0},
    {"before sub $0x98,%rsp: it comes back", "48 81 ec 98 00 00 00 90 48 81 c4 98 00 00 00 c3", 0, INTERRUPTED,
     SP(1, 0, 0), 0},
    {"mov 8(%rsp),%rbp; add $24,%rsp; ret", "48 8b 6c 24 08 48 83 c4 18 c3", 0, INTERRUPTED, SP(4, 3, 0), 0},
    {"a call that never returns, then another function", "e8 00 00 00 00 55 48 89 e5 5d c3", 0, INTERRUPTED, NONE, 0},
    {"a call that never returns, then a function without a frame", "e8 00 00 00 00 50 90 58 c3", 0, INTERRUPTED, NONE,
     0},
    {"call; pop %rbp; ret: its own frame", "e8 00 00 00 00 5d c3", 0, INTERRUPTED, SP(2, 2, 0), 0},
    {"a return address: add $16,%rsp; pop %rbp; ret", "48 83 c4 10 5d c3", 0, CALLED, SP(4, 2, 0), 0},
    {"a return address, ret alone leads nowhere", "c3", 0, CALLED, NONE, 0},
    {"a return address: add $8,%rsp; ret removes its own frame", "48 83 c4 08 c3", 0, CALLED, SP(2, 0, 0), 0},
    {"a return address, then a function that removes its own frame only", "53 48 83 ec 10 48 83 c4 10 5b c3", 0, CALLED,
     NONE, 0},
    {"a return address, then a function that calls and returns", "48 83 ec 08 e8 00 00 00 00 48 83 c4 08 c3", 0, CALLED,
     NONE, 0},
    {"a return address: pop %rbx; ret", "5b c3", 0, CALLED, SP(2, 0, 2), 0},
    {"push $0; call; pop %rcx; add $24,%rsp; ret", "6a 00 e8 00 00 00 00 59 48 83 c4 18 c3", 0, CALLED, SP(4, 0, 0), 0},
    {"mov 8(%rsp),%rbp; jmp back: rbp holds data, this is no tail call", "eb 06 48 83 c4 28 5d c3 48 8b 6c 24 08 eb f3",
     8, INTERRUPTED, SP(7, 2, 0), 0},
    {"dec %eax; jne back; ret", "ff c8 75 fc c3", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"jmp to itself", "eb fe", 0, INTERRUPTED, NONE, 0},
    {"a loop that only a branch leaves: je out; jmp back; out: pop %rbp; ret", "74 02 eb fc 5d c3", 0, INTERRUPTED,
     SP(2, 2, 0), 0},
    {"je over ud2: the other way", "74 02 0f 0b c3", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"int3", "cc c3", 0, INTERRUPTED, NONE, 0},
    {"a jump table: nop; movslq (%rdi,%rax,4),%rax; add %rdi,%rax; jmp *%rax; pop %rbp; ret",
     "90 48 63 04 87 48 01 f8 ff e0 5d c3", 0, INTERRUPTED, SP(2, 2, 0), 0},
    {"a jump table, ret alone behind it may be another function's", "90 48 63 04 87 48 01 f8 ff e0 c3", 0, INTERRUPTED,
     NONE, 0},
    {"jmp *%rax and no table", "90 90 90 90 90 90 90 ff e0 5d c3", 0, INTERRUPTED, NONE, 0},
    {"a tail call through memory: mov (%rdi),%rax; jmp *24(%rax)", "48 8b 07 ff 60 18", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"the same behind pop %rbp", "5d ff 60 18", 0, INTERRUPTED, SP(2, 2, 0), 0},
    {".plt: jmp *n(%rip)", "ff 25 00 00 00 00", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"jmp *table(,%rax,8)", "ff 24 c5 00 00 00 00 90", 0, INTERRUPTED, NONE, 0},
    {"pop %rbp; jmp elsewhere", "5d e9 10 00 00 00", 0, INTERRUPTED, SP(2, 2, 0), 0},
    {"jmp to a function with tables", "e9 01 00 00 00 cc f4 f4", 0, INTERRUPTED, SP(1, 0, 0), 6},
    {"jmp into the function itself", "eb 01 cc 5d c3", 0, INTERRUPTED, SP(2, 2, 0), 0},
    {"sp is realigned: and $-16,%rsp", "48 83 e4 f0 c3", 0, INTERRUPTED, NONE, 0},
    {"sp from a register: mov %rax,%rsp", "48 89 c4 c3", 0, INTERRUPTED, NONE, 0},
    {"sub $0x80000000,%rsp", "48 81 ec 00 00 00 80 c3", 0, INTERRUPTED, NONE, 0},
    {"sp below where it was: add $-16,%rsp; ret", "48 83 c4 f0 c3", 0, INTERRUPTED, NONE, 0},
    {"pop %rbp; push %rbp; pop %rbp: the second saves the caller's", "5d 55 5d c3", 0, INTERRUPTED, NONE, 0},
    {"push %rbp; mov 16(%rsp),%rbp; pop %rbp: its own", "55 48 8b 6c 24 10 5d c3", 0, INTERRUPTED, SP(1, 0, 0), 0},
    {"longjmp: before it loads sp", LONGJMP, 8, INTERRUPTED, NONE, 0},
    {"longjmp: at the load of sp", LONGJMP, 12, INTERRUPTED, NONE, 0},
    {"longjmp: sp is the target's, no return address is on the stack", LONGJMP, 16, INTERRUPTED, NONE, 0},
    {"the same with sp from (%rdi) and r8", "90 90 90 90 90 48 8b 27 49 8b e0 ff 67 38", 11, INTERRUPTED, NONE, 0},
    {"the same with mov %r8,%rsp", "90 90 90 90 90 90 4c 89 c4 ff 67 38", 9, INTERRUPTED, NONE, 0},
    {"the same with mov 0x100(%r12),%rsp", "90 90 49 8b a4 24 00 01 00 00 ff 67 38", 10, INTERRUPTED, NONE, 0},
    {"behind the load of sp, one instruction before the jump", "90 90 90 90 48 8b 67 30 48 8b 1f ff 67 38", 8,
     INTERRUPTED, NONE, 0},
    {"behind the load of sp, at the jump, one instruction between", "90 90 90 90 48 8b 67 30 48 8b 1f ff 67 38", 11,
     INTERRUPTED, NONE, 0},
    {"jmp *%rdx at the start of a line, sp has just been loaded",
     "90 90 90 90 90 90 48 8b 57 38 48 8b 67 30 89 f0 ff e2", 16, INTERRUPTED, NONE, 0},
    {"another stack, and ret: its return address is there", "90 90 90 90 48 8b 26 5d c3", 7, INTERRUPTED, SP(2, 2, 0),
     0},
    {"a tail call through memory, at the jump", "90 90 90 90 90 48 8b 07 ff 60 18", 8, INTERRUPTED, SP(1, 0, 0), 0},
    {"the same behind mov %rbp,%rsp; pop %rbp", "90 90 90 90 48 89 ec 5d ff 60 18", 8, INTERRUPTED, SP(1, 0, 0), 0},
    {"the module ends inside an instruction", "48 81", 0, INTERRUPTED, NONE, 0},
};

static size_t parse(const char *hex, uint8_t *code)
{
    size_t size = 0;

    for (; *hex; hex += hex[2] ? 3 : 2)
        code[size++] = (uint8_t)strtoul((const char[]){hex[0], hex[1], '\0'}, NULL, 16);
    return size;
}

static void check(const struct known *k)
{
    _Alignas(16) uint8_t code[MOST];
    struct ep_module module = code_of(code, parse(k->code, code));
    struct ep_rule rule = {0};

    tabled = k->tabled ? module.start + k->tabled : 0;
    bool found = ep_x86_path(&module, module.start + k->at, k->from == INTERRUPTED, &rule);
    if (found != (k->rule.kind != EP_RULE_EMPTY) || (found && memcmp(&rule, &k->rule, sizeof rule) != 0))
        fail_msg("%s: found %d, kind %d, cfa %d, slots %d and %d", k->what, found, rule.kind, rule.cfa, rule.fp_slot,
                 rule.base_slot);
    tabled = 0;
}

TEST(test_known_code)
{
    for (unsigned i = 0; i < sizeof knowns / sizeof knowns[0]; i++)
        check(&knowns[i]);
}

/* Whether sp was set near the end of the code, and by its last instruction. */
static const struct {
    const char *what, *code;
    bool near, last;
} sets[] = {
    {"mov 48(%rdi),%rsp", "90 90 48 8b 67 30", true, true},
    {"mov (%rdi),%rsp", "90 90 48 8b 27", true, true},
    {"mov (%r12),%rsp", "90 90 49 8b 24 24", true, true},
    {"mov 0x100(%r12),%rsp", "49 8b a4 24 00 01 00 00", true, true},
    {"mov 0x100(%rip),%rsp", "48 8b 25 00 01 00 00", true, true},
    {"mov %r8,%rsp", "4c 89 c4", true, true},
    {"mov %rbp,%rsp", "90 90 48 89 ec", false, false},
    {"mov 48(%rdi),%r12", "90 90 4c 8b 67 30", false, false},
    {"mov %rsp,%r8", "90 90 49 89 e0", false, false},
    {"mov 48(%rdi),%rsp; mov (%rdi),%rbx", "48 8b 67 30 48 8b 1f", true, false},
    {"glibc's trampoline: mov %rbx,%rsp; mov (%rsp),%rbx; add $24,%rsp", "48 89 dc 48 8b 1c 24 48 83 c4 18", true,
     false},
    {"too far", "4c 89 c4 90 90 90 90 90 90 90 90 90 90 90 90 90 90", false, false},
    {"less than an instruction", "89 c4", false, false},
};

TEST(test_sets_sp)
{
    for (unsigned i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        uint8_t code[MOST] = {0};
        uintptr_t start = (uintptr_t)code, end = start + parse(sets[i].code, code);
        bool near = ep_x86_set_sp(start, end, false), last = ep_x86_set_sp(start, end, true);

        if (near != sets[i].near || last != sets[i].last)
            fail_msg("%s: near %d, last %d", sets[i].what, near, last);
    }
}

/* The longest instructions, and how the last byte makes or breaks them. */
TEST(test_lengths_at_the_end)
{
    static const uint8_t codes[][16] = {
        {0xc3},
        {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8},                      /* movabs $n,%rax */
        {0x66, 0xc7, 0x84, 0x24, 1, 2, 3, 4, 5, 6},                /* movw $n,n(%rsp) */
        {0x48, 0xc7, 0x84, 0xc4, 1, 2, 3, 4, 5, 6, 7, 8},          /* movq $n,n(%rsp,%rax,8) */
        {0xc4, 0xe3, 0x7d, 0x39, 0xc1, 0x01},                      /* vextracti128 $1,%ymm0,%xmm1 */
        {0x62, 0xf1, 0x7c, 0x48, 0x10, 0x44, 0x24, 0x01},          /* vmovups n(%rsp),%zmm0 */
        {0x66, 0x0f, 0x3a, 0x63, 0x07, 0x1a},                      /* pcmpistri $n,(%rdi),%xmm0 */
        {0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0},    /* nopw */
        {0x64, 0x48, 0x81, 0x3c, 0x25, 0x28, 0, 0, 0, 1, 0, 0, 0}, /* cmpq $n,%fs:n */
    };
    static const uint8_t sizes[] = {1, 10, 10, 12, 6, 8, 6, 11, 13};

    for (unsigned i = 0; i < sizeof sizes; i++)
        for (unsigned end = 0; end <= 16; end++)
            assert_int_equal(ep_x86_decode(codes[i], codes[i] + end).size, end < sizes[i] ? 0 : sizes[i]);
}

/* Instructions that lead on are rare in noise. */
static uint8_t some_byte(void)
{
    static const uint8_t likely[] = {0x48, 0x55, 0x5d, 0x5b, 0xc3, 0xc9, 0x89, 0xe5, 0x83, 0xc4, 0x74, 0xf0,
                                     0x10, 0xeb, 0xe9, 0xe8, 0x00, 0x8d, 0x65, 0xff, 0x0f, 0x84, 0x66, 0x24};
    uint64_t any = unit_random(&dice);

    return any % 3 ? likely[any / 3 % sizeof likely] : (uint8_t)(any >> 8);
}

/* The usual instructions are read in a shorter way when there is room behind them; it finds the same. */
TEST(test_short_way_is_the_same)
{
    static const uint8_t prefixes[] = {0xf2, 0xf3, 0x66, 0x40, 0x41, 0x44, 0x45, 0x48, 0x49, 0x4c, 0x4d, 0x4f};
    unsigned quick_ones = 0;
    uint8_t code[17];

    for (unsigned i = 0; i < 20 * ROUNDS; i++) {
        uint64_t any = unit_random(&dice);
        unsigned at = 0;
        for (unsigned more = any % 4; more > 1; more--)
            code[at++] = prefixes[(any >>= 4) % sizeof prefixes];
        if (any >> 8 & 1)
            code[at++] = 0x0f;
        while (at < sizeof code)
            code[at++] = some_byte();
        struct ep_x86_effect shorter = ep_x86_decode(code, code + 16), whole = decode(code, code + 15);
        quick_ones += quick(code).size != 0;
        assert_int_equal(shorter.kind, whole.kind);
        assert_int_equal(shorter.size, whole.size);
        assert_int_equal(shorter.reg, whole.reg);
        assert_int_equal(shorter.amount, whole.amount);
        assert_int_equal(shorter.target, whole.target);
    }
    assert_true(quick_ones > ROUNDS);
}

TEST(test_any_code_stays_inside)
{
    uint8_t *page = guarded_page();
    unsigned found = 0;

    struct ep_module module = code_of(page, PAGE);
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (i % 64 == 0)
            for (unsigned at = 0; at < PAGE; at++)
                page[at] = some_byte();
        uint64_t any = unit_random(&dice);
        struct ep_rule rule;
        /* also at both ends */
        uintptr_t offset = any % 8 == 0 ? any / 8 % 16 : any % 8 == 1 ? PAGE - 1 - any / 8 % 16 : any % PAGE;
        found += ep_x86_path(&module, module.start + offset, any >> 20 & 1, &rule);
    }
    assert_true(found > ROUNDS / 100);
    guarded_page_free(page);
}

TEST_MAIN
