/*
 * Fuzz target: tables, code, registers and stacks that nobody made on purpose, through unwind.c, rules.c, modules.c and
 * one architecture's unwinder: unwind_<arch>.c, what follows code (code_<arch>.c, path_<arch>.c), cfi.c or exidx.c.
 * Compiled for the machine that tests, with addresses as wide as the architecture's. struct head in fuzz.h says what an
 * input is.
 *
 * Invariants, by the name that is printed when one breaks:
 *   (ASan)   nothing outside the image, the two stacks and the profiler is read: their surroundings are poisoned
 *   table    a lookup returns 0, -ENOENT or -EINVAL; with 0 the pc lies in the function, the function in the module's
 *            code, and states and offsets are within what a row can say
 *   cache    what the cache returns for a pc is what is derived for it, whatever other pc was asked before
 *   depth    a walk ends, with 1 to EP_MAX_DEPTH frames and one rule a frame, the first frame is the pc
 *   end      the stack is cut if and only if it says what stands in for its root
 *   growth   up to a gap or dropped frames, each frame follows from the one before by its rule, with sp strictly
 *            greater (but out of an interrupted frame), read in bounds: model() walks by the contract in walk.h
 *            alone, as far as that goes
 *   same     the same input walks the same way again, from the rules in the cache as from the tables
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sanitizer/asan_interface.h>

#include "core/unwind/rule_word.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MARGIN      4096u
#define WORD        sizeof(uintptr_t)
#define OFFSET_MOST 0x1000000
#define PLACES      8u
#define SMALL       0x1000000u

/* modules.c and stats.c refer to them; no input gets there. */
_Atomic(struct ep *) ep_current;

void ep_unsampled_read(struct ep *ep, unsigned index, struct ep_unsampled *unsampled)
{
    (void)ep;
    (void)index;
    (void)unsampled;
}

static struct ep_unwinder unwinder;
static _Alignas(16) uint8_t image_area[IMAGE_MOST + 2 * MARGIN];
static _Alignas(16) uint8_t stack_area[STACK_MOST + 2 * MARGIN], alt_area[ALT_MOST + 2 * MARGIN];
static uint8_t *const image = image_area + MARGIN, *const stack = stack_area + MARGIN, *const alt = alt_area + MARGIN;

struct sizes {
    size_t stack, alt, image;
};

static void broken(const char *invariant, int line)
{
    fprintf(stderr, "fuzz_unwind.c:%d: broken invariant: %s\n", line, invariant);
    abort();
}

#define MUST(invariant, condition)                                                                                     \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            broken(invariant, __LINE__);                                                                               \
    } while (0)

static void forget_rules(void)
{
    memset(unwinder.rule, 0, sizeof unwinder.rule);
}

static void fence(uint8_t *area, size_t area_size, const uint8_t *start, size_t size)
{
    ASAN_POISON_MEMORY_REGION(area, area_size);
    ASAN_UNPOISON_MEMORY_REGION(start, size);
}

static void open_fences(void)
{
    ASAN_UNPOISON_MEMORY_REGION(image_area, sizeof image_area);
    ASAN_UNPOISON_MEMORY_REGION(stack_area, sizeof stack_area);
    ASAN_UNPOISON_MEMORY_REGION(alt_area, sizeof alt_area);
}

/* Real frame chains are addresses: two bits of a small word may make it one, of the stacks or of the code. */
static void relocate(const struct head *head, uint8_t *words, size_t size)
{
    for (size_t at = 0; head->relocate && at + WORD <= size; at += WORD) {
        uintptr_t word;
        memcpy(&word, words + at, sizeof word);
        if (word >= SMALL)
            continue;
        if ((word & 3) == 1)
            word = (uintptr_t)stack + (word >> 2) % (STACK_MOST + 64) / WORD * WORD;
        else if ((word & 3) == 2)
            word = (uintptr_t)image + head->code + (word >> 2) % (head->code_size + 1u);
        else if ((word & 3) == 3 && head->alt)
            word = (uintptr_t)alt + (word >> 2) % (ALT_MOST + 64) / WORD * WORD;
        memcpy(words + at, &word, sizeof word);
    }
}

static void stacks_make(const struct head *head, const uint8_t *data, size_t size, struct sizes *sizes)
{
    sizes->alt = head->alt < size ? head->alt : size;
    sizes->alt = sizes->alt < ALT_MOST ? sizes->alt : ALT_MOST;
    size_t rest = size - sizes->alt;
    rest = rest < STACK_MOST ? rest : STACK_MOST;
    size_t at = head->gap_at < rest ? head->gap_at : rest, gap = STACK_MOST - rest;
    gap = head->gap < gap ? head->gap : gap;

    memcpy(stack, data, at);
    memset(stack + at, 0, gap);
    memcpy(stack + at + gap, data + at, rest - at);
    memcpy(alt, data + size - sizes->alt, sizes->alt);
    sizes->stack = rest + gap;
    relocate(head, stack, sizes->stack);
    relocate(head, alt, sizes->alt);
}

static bool module_make(const struct head *head, size_t image_size)
{
    struct ep_module *m = &unwinder.modules.slot[0];
    uintptr_t start = (uintptr_t)image;

    if (head->code_size == 0 || (size_t)head->code + head->code_size > image_size ||
        (size_t)head->table + head->table_size > image_size)
        return false;
    forget_rules();
    *m = (struct ep_module){
        .start = start + head->code,
        .end = start + head->code + head->code_size,
        .bias = start,
        .table = head->table_size ? start + head->table : 0,
        .table_size = head->table_size,
        .image_start = start,
        .image_end = start + image_size,
        .path = "/fuzz",
    };
    unwinder.hijack_stub = head->flags & FLAG_HIJACK ? m->start + head->hijack % head->code_size : 0;
    atomic_store(&unwinder.modules.count, 1);
    return true;
}

static uintptr_t address(unsigned offset, bool on_alt, bool wild)
{
    if (wild)
        return on_alt ? 0 - (uintptr_t)offset : offset;
    return on_alt ? (uintptr_t)alt + offset % (ALT_MOST + 16) : (uintptr_t)stack + offset % (STACK_MOST + 16);
}

static struct ep_registers context_make(const struct head *head, const struct sizes *sizes)
{
    uintptr_t code = unwinder.modules.slot[0].start;

    return (struct ep_registers){
        .pc = fuzz_pc(code + head->pc % head->code_size),
        .lr = code + head->lr % (head->code_size + 1u),
        .sp = address(head->sp, head->flags & FLAG_SP_ALT, head->flags & FLAG_SP_WILD),
        .fp = address(head->fp, head->flags & FLAG_FP_ALT, head->flags & FLAG_FP_WILD),
        .base = (uintptr_t)stack + head->base % (STACK_MOST + 16),
        .stack_start = (uintptr_t)stack,
        .stack_end = (uintptr_t)stack + sizes->stack,
        .stack_root = head->flags & FLAG_ROOT ? (uintptr_t)stack + head->root % (STACK_MOST + 16) : 0,
        .alt_start = sizes->alt ? (uintptr_t)alt : 0,
        .alt_end = sizes->alt ? (uintptr_t)alt + sizes->alt : 0,
    };
}

static void check_table(const struct ep_module *m, uintptr_t pc)
{
    struct ep_cfi_row row;
    int error = fuzz_row(m, pc, &row);

    MUST("table", error == 0 || error == -ENOENT || error == -EINVAL);
    if (error)
        return;
    MUST("table", pc >= row.start && pc < row.end && row.start >= m->start && row.end <= m->end);
    MUST("table", row.rules.cfa <= EP_CFI_OTHER);
    MUST("table", abs(row.rules.cfa_offset) <= OFFSET_MOST + 8);
    for (unsigned reg = 0; reg < EP_CFI_REGS; reg++)
        MUST("table", row.rules.state[reg] <= EP_CFI_UNDEFINED && abs(row.rules.offset[reg]) <= 2 * OFFSET_MOST);
}

static bool rules_equal(struct ep_rule a, struct ep_rule b)
{
    return a.kind == b.kind && a.fp_slot == b.fp_slot && a.base_slot == b.base_slot && a.ra_extra == b.ra_extra &&
           a.cfa == b.cfa;
}

static void check_cache(uintptr_t pc, bool exact)
{
    struct ep_stack counted = {0};
    struct ep_rule derived = ep_rule_derive(&unwinder.modules, pc, exact),
                   got = ep_rule_get(&unwinder, pc, exact, &counted);

    MUST("cache", rules_equal(derived, got));
    MUST("cache", counted.hits + counted.misses == 1);
}

/* At places spread over the code, as interrupted and as behind a call. */
static void check_places(const struct head *head)
{
    const struct ep_module *m = &unwinder.modules.slot[0];
    unsigned step = head->code_size / PLACES + 1, first = head->pc % step;

    for (unsigned at = first; at < head->code_size; at += step)
        check_table(m, m->start + at);
    for (int exact = 0; exact <= 1; exact++) {
        forget_rules();
        for (unsigned at = first; at < head->code_size; at += step)
            check_cache(exact ? fuzz_pc(m->start + at) : (m->start + at) | 1, exact);
    }
    forget_rules();
}

/* ---- a walk by the contract alone ---- */

struct model {
    const struct ep_registers *registers;
    uintptr_t asked[2][EP_MAX_DEPTH]; /* for rules: behind calls, where interrupted */
    unsigned count[2];
    struct ep_frame frame;
    uintptr_t end;
    bool exact, sp_lost;
};

static uintptr_t bounds(const struct ep_registers *c, uintptr_t sp)
{
    return sp >= c->stack_start && sp < c->stack_end ? c->stack_end
           : sp >= c->alt_start && sp < c->alt_end   ? c->alt_end
                                                     : 0;
}

static bool word_at(const struct model *m, uintptr_t at, uintptr_t *word)
{
    if (at % WORD || at < m->frame.sp || at >= m->end || m->end - at < WORD)
        return false;
    memcpy(word, (const void *)at, WORD);
    return true;
}

static uintptr_t stripped(uintptr_t word)
{
    return WORD == 4 ? word & ~(uintptr_t)1 : word & (uintptr_t)0xffffffffffffu;
}

/* No interrupted frame's other registers are known here. */
static bool model_away(const struct model *m, struct ep_rule rule, uintptr_t *cfa)
{
    const int number = rule.cfa & (EP_AWAY_REGISTERS - 1);
    const uintptr_t offset = (uintptr_t)(intptr_t)((rule.cfa - number) / EP_AWAY_REGISTERS * (int)WORD);
    const uintptr_t at = (number == EP_AWAY_SP ? m->frame.sp : m->frame.fp) + offset;

    if (!EP_HAS_AWAY || !ep_away_is_load(rule))
        return false;
    if (at >= m->frame.sp ? !word_at(m, at, cfa)
                          : !m->exact || m->frame.sp - at > 128 || at % WORD || !ep_port_readable(at))
        return false;
    if (at < m->frame.sp)
        memcpy(cfa, (const void *)at, WORD);
    *cfa += WORD;
    return true;
}

static bool model_interrupted(struct model *m, struct ep_rule rule)
{
    uintptr_t cfa = (rule.fp_slot ? m->frame.fp : m->frame.sp) + (uintptr_t)rule.cfa * WORD;
    bool found = m->exact;

    if (rule.kind == EP_RULE_SIGNAL) {
        found = ep_signal_frame(&m->frame, m->end);
    } else if (rule.base_slot) {
        found = found && (!rule.ra_extra || model_away(m, rule, &cfa));
        m->frame.pc = ep_lr_of(EP_HAS_AWAY ? ep_frame_argument(&m->frame) : m->frame.argument);
        m->frame.sp = cfa;
        m->frame.lr = m->frame.lr == m->frame.pc ? 0 : m->frame.lr;
    } else {
        found = ep_fault_frame(&m->frame, cfa, m->end);
    }

    m->exact = true;
    m->end = found ? bounds(m->registers, m->frame.sp) : 0;
    return m->end != 0;
}

static bool model_cfa(const struct model *m, struct ep_rule rule, uintptr_t *cfa)
{
    uintptr_t offset = (uintptr_t)((intptr_t)rule.cfa * (intptr_t)WORD);

    switch (rule.kind) {
    case EP_RULE_LINK:
        *cfa = offset + (rule.ra_extra == EP_LINK_FP     ? m->frame.fp
                         : rule.ra_extra == EP_LINK_BASE ? m->frame.base
                                                         : m->frame.sp);
        return true;
    case EP_RULE_SP:
    case EP_RULE_APART:
    case EP_RULE_RECORD:
        *cfa = m->frame.sp + offset;
        return true;
    case EP_RULE_FP:
    case EP_RULE_GUESS:
    case EP_RULE_RESTART:
        *cfa = m->frame.fp + offset;
        return true;
    case EP_RULE_CHAIN:
        *cfa = m->frame.fp + (rule.cfa ? offset : 2 * WORD);
        return true;
    case EP_RULE_BASE:
        *cfa = m->frame.base + offset;
        return true;
    case EP_RULE_FP_LOAD:
        return word_at(m, m->frame.fp + offset, cfa);
    case EP_RULE_AWAY:
        return model_away(m, rule, cfa);
    default:
        return false;
    }
}

/* The caller's value of a register, which lies `slot` words below the CFA unless that was popped. */
static bool model_saved(const struct model *m, unsigned slot, uintptr_t cfa, uintptr_t *value)
{
    uintptr_t at = cfa - slot * WORD;

    return slot == 0 || at < m->frame.sp || word_at(m, at, value);
}

static bool model_registers(const struct model *m, struct ep_rule rule, uintptr_t cfa, struct ep_frame *caller)
{
    uintptr_t record = rule.kind == EP_RULE_CHAIN ? m->frame.fp : m->frame.sp + rule.fp_slot * WORD;
    const bool near_sp = rule.kind == EP_RULE_APART && rule.ra_extra;
    unsigned ra_slot = rule.kind == EP_RULE_APART ? rule.base_slot : 1u + rule.ra_extra;

    if (rule.kind == EP_RULE_CHAIN || rule.kind == EP_RULE_RECORD)
        return word_at(m, record, &caller->fp) && word_at(m, record + WORD, &caller->pc);
    if (rule.kind == EP_RULE_LINK && !m->exact)
        return false;
    if (rule.kind == EP_RULE_LINK)
        caller->pc = m->frame.lr;
    else if (near_sp)
        return word_at(m, m->frame.sp + (rule.base_slot - 1u) * WORD, &caller->pc) &&
               (!rule.fp_slot || word_at(m, m->frame.sp + (rule.fp_slot - 1u) * WORD, &caller->fp));
    else if (!word_at(m, cfa - ra_slot * WORD, &caller->pc))
        return false;
    bool apart = rule.kind == EP_RULE_APART;
    if (!apart && !model_saved(m, rule.base_slot, cfa, &caller->base))
        return false;
    if (rule.kind == EP_RULE_FP_LOAD && rule.fp_slot)
        return m->frame.fp < m->frame.sp || word_at(m, m->frame.fp, &caller->fp);
    return model_saved(m, rule.fp_slot, cfa, &caller->fp);
}

static bool model_step(struct model *m, struct ep_rule rule)
{
    struct ep_frame caller = {.fp = m->frame.fp, .base = m->frame.base};
    bool from_sp = rule.kind == EP_RULE_SP || rule.kind == EP_RULE_LINK || rule.kind == EP_RULE_APART ||
                   rule.kind == EP_RULE_RECORD;

    if (m->sp_lost && from_sp)
        rule = (struct ep_rule){.kind = EP_RULE_CHAIN};
    if (!model_cfa(m, rule, &caller.sp) || caller.sp > m->end || caller.sp < m->frame.sp ||
        (caller.sp == m->frame.sp && !m->exact) || !model_registers(m, rule, caller.sp, &caller))
        return false;
    m->sp_lost = rule.kind == EP_RULE_CHAIN && rule.cfa == 0;
    if (m->sp_lost || rule.kind == EP_RULE_GUESS || rule.kind == EP_RULE_RESTART)
        caller.base = 0;
    caller.pc = stripped(caller.pc);
    m->frame = caller;
    m->exact = false;
    return true;
}

static struct ep_rule model_rule(struct model *m, uintptr_t pc)
{
    struct ep_stack unused = {0};

    m->asked[m->exact][m->count[m->exact]++] = pc;
    return ep_rule_get(&unwinder, pc, m->exact, &unused);
}

/* Whether one place was asked for both ways, which the cache does not tell apart: what a walk finds depends on what
 * was asked before. Compiled code has that in one place: on ARM, in front of a signal trampoline. */
static bool ambiguous(const struct model *m)
{
    for (unsigned i = 0; i < m->count[0]; i++)
        for (unsigned j = 0; j < m->count[1]; j++)
            if (m->asked[0][i] == m->asked[1][j])
                return true;
    return false;
}

/* Frames as far as rules lead: it knows no root, so a real walk ends there or before. */
static unsigned model(struct model *m, uintptr_t *pcs)
{
    const struct ep_registers *c = m->registers;
    unsigned depth = 0;

    m->frame =
        (struct ep_frame){.pc = c->pc, .sp = c->sp, .fp = c->fp, .lr = c->lr, .base = c->base, .argument = c->argument};
    m->end = bounds(c, c->sp);
    m->exact = true;
    m->sp_lost = false;
    m->count[0] = m->count[1] = 0;
    while (depth < EP_MAX_DEPTH) {
        uintptr_t pc = m->exact ? m->frame.pc : m->frame.pc - 1;
        struct ep_rule rule = model_rule(m, pc);
        pcs[depth++] = m->exact || rule.kind == EP_RULE_SIGNAL ? stripped(m->frame.pc) : pc;
        bool interrupted = rule.kind == EP_RULE_SIGNAL || rule.kind == EP_RULE_FAULT;
        if (m->end == 0 || !(interrupted ? model_interrupted(m, rule) : model_step(m, rule)))
            break;
        if (rule.kind == EP_RULE_RESTART && depth < EP_MAX_DEPTH)
            pcs[depth++] = EP_FRAME_GAP;
    }
    return depth;
}

/* ---- the walk itself ---- */

/* Stacks that nobody announced end with a page, which these arrays do not. */
bool ep_port_readable(uintptr_t at)
{
    (void)at;
    return false;
}

static void walk(const struct ep_registers *registers, struct ep_stack *walked)
{
    unsigned gaps = 0;

    ep_unwind(&unwinder, registers, walked);
    MUST("depth", walked->depth >= 1 && walked->depth <= EP_MAX_DEPTH);
    MUST("depth", walked->pc[0] == stripped(registers->pc));
    for (unsigned i = 0; i < walked->depth; i++)
        gaps += walked->pc[i] == EP_FRAME_GAP || walked->pc[i] == EP_FRAME_DEEP;
    MUST("depth", walked->hits + walked->misses + gaps >= walked->depth);
    MUST("depth", walked->hits + walked->misses <= walked->depth || walked->pc[EP_MAX_DEPTH / 2] == EP_FRAME_DEEP);
    MUST("end", (walked->quality == EP_STACK_CUT) == (walked->end != EP_FRAME_NONE));
    MUST("end", walked->quality <= EP_STACK_CUT && walked->end < EP_FRAME_SPECIALS);
    MUST("end", walked->end != EP_FRAME_DEEP || walked->depth == EP_MAX_DEPTH);
}

static void compare(const struct ep_stack *a, const struct ep_stack *b)
{
    MUST("same", a->depth == b->depth && a->quality == b->quality && a->end == b->end);
    for (unsigned i = 0; i < a->depth; i++)
        MUST("same", a->pc[i] == b->pc[i]);
}

static bool is_left_out(uintptr_t pc)
{
    return pc == EP_FRAME_GAP || pc == EP_FRAME_DEEP;
}

static void check_walk(const struct head *head, const struct ep_registers *registers)
{
    static atomic_uintptr_t pcs[3][EP_MAX_DEPTH];
    static uintptr_t expected[EP_MAX_DEPTH];
    static struct model m;
    struct ep_stack cold = {.pc = pcs[0]}, warm = {.pc = pcs[1]}, late = {.pc = pcs[2]};

    m.registers = registers;
    unsigned depth = model(&m, expected);
    forget_rules();
    walk(registers, &cold);
    for (unsigned i = 0; i < cold.depth; i++) {
        if (is_left_out(cold.pc[i]) && (i >= depth || cold.pc[i] != expected[i]))
            break; /* frames by frame pointers, or after dropped ones, which the model does not know */
        MUST("growth", i < depth && cold.pc[i] == expected[i]);
    }
    walk(registers, &warm);
    if (!ambiguous(&m))
        compare(&cold, &warm);
    check_places(head);
    walk(registers, &late);
    compare(&cold, &late);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct head head;
    struct sizes sizes;

    if (size < sizeof head)
        return 0;
    memcpy(&head, data, sizeof head);
    data += sizeof head;
    size -= sizeof head;
    size_t stack_size = head.stack < size ? head.stack : size;
    sizes.image = size - stack_size < IMAGE_MOST ? size - stack_size : IMAGE_MOST;

    open_fences();
    if (!module_make(&head, sizes.image))
        return 0;
    stacks_make(&head, data, stack_size, &sizes);
    memcpy(image, data + stack_size, sizes.image);
    fence(image_area, sizeof image_area, image, sizes.image);
    fence(stack_area, sizeof stack_area, stack, sizes.stack);
    fence(alt_area, sizeof alt_area, alt, sizes.alt);
    struct ep_registers registers = context_make(&head, &sizes);
    check_walk(&head, &registers);
    open_fences();
    return 0;
}
