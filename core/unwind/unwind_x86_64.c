/*
 * Rules for x86-64 code: tables first, code where tables are silent.
 *
 *   ep_rule_derive -> epilogue        instructions from pc lead straight to a return: exact, whatever the tables say
 *                                     (those of the .NET compiler do not describe epilogues)
 *                  -> row_rule        .eh_frame's row; of execute-only code table_rule alone
 *                  -> frameless       no tables (the .NET runtime's own C++): frame pointer code, and the two
 *                                     instructions at its start where the frame is not there yet
 *
 * Encodings are from the Intel SDM volume 2; register numbers and the signal frame from the System V psABI and
 * Linux' arch/x86/include/uapi/asm/sigcontext.h.
 */
#include "core/unwind/cfi.h"
#include "core/unwind/code_x86_64.h"
#include "core/unwind/path_x86_64.h"

#include <string.h>

#include <edgeprof/port.h>

#define WORD             8
#define FP_RULE_CFA      2  /* push %rbp; mov %rsp,%rbp: CFA = rbp + 2 words, caller's rbp at CFA - 2 words */
#define FAULT_WORDS      11 /* pushed by .NET's RhpThrowHwEx, the return address that it has not included */
#define EPILOGUE_MOST    24
#define EPILOGUE_LOOKFAR 96
#define FRAME_MOST       (1 << 24)
#define RAX              0 /* by DWARF */
#define RSI              4
#define RED_ZONE         128
#define AWAY_MOST        (INT16_MAX / EP_AWAY_REGISTERS) /* words */

const struct ep_cfi_registers ep_cfi_registers = {.sp = 7, .fp = 6, .base = 3, .ra = 16};

/* Straight-line execution from pc: where the stack pointer would be, in bytes from sp or fp at pc. */
struct line {
    const uint8_t *at, *end;
    bool from_fp;
    int32_t offset;
    struct popped {
        bool done, from_fp;
        int32_t offset;
    } fp, base;
    unsigned moved; /* instructions that moved the stack pointer */
};

static int32_t le32(const uint8_t *bytes)
{
    int32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static bool pop(struct line *line, unsigned reg, unsigned size)
{
    struct popped popped = {.done = true, .from_fp = line->from_fp, .offset = line->offset};

    if (reg == 3)
        line->base = popped;
    else if (reg == 5)
        line->fp = popped;
    else if (reg == 4) /* pop %rsp */
        return false;
    line->offset += WORD;
    line->moved++;
    line->at += size;
    return true;
}

/* Frames are not larger, and sums of what a few instructions add stay within an int. */
static bool is_sane(int32_t offset)
{
    return offset <= FRAME_MOST && offset >= -FRAME_MOST;
}

static bool stack_from_fp(struct line *line, int32_t offset, unsigned size)
{
    if (line->fp.done || !is_sane(offset))
        return false;
    line->from_fp = true;
    line->offset = offset;
    line->moved++;
    line->at += size;
    return true;
}

static bool stack_add(struct line *line, int32_t amount, unsigned size)
{
    if (!is_sane(amount))
        return false;
    line->offset += amount;
    line->moved++;
    line->at += size;
    return true;
}

/* REX.W forms: add $n,%rsp; lea n(%rbp),%rsp; lea n(%rsp),%rsp; mov %rbp,%rsp. */
static bool wide(struct line *line)
{
    const uint8_t *b = line->at;
    size_t left = (size_t)(line->end - b);

    if (left >= 4 && b[1] == 0x83 && b[2] == 0xc4)
        return stack_add(line, (int8_t)b[3], 4);
    if (left >= 7 && b[1] == 0x81 && b[2] == 0xc4)
        return stack_add(line, le32(b + 3), 7);
    if (left >= 4 && b[1] == 0x8d && b[2] == 0x65)
        return stack_from_fp(line, (int8_t)b[3], 4);
    if (left >= 7 && b[1] == 0x8d && b[2] == 0xa5)
        return stack_from_fp(line, le32(b + 3), 7);
    if (left >= 5 && b[1] == 0x8d && b[2] == 0x64 && b[3] == 0x24)
        return stack_add(line, (int8_t)b[4], 5);
    if (left >= 8 && b[1] == 0x8d && b[2] == 0xa4 && b[3] == 0x24)
        return stack_add(line, le32(b + 4), 8);
    if (left >= 3 && ((b[1] == 0x89 && b[2] == 0xec) || (b[1] == 0x8b && b[2] == 0xe5)))
        return stack_from_fp(line, 0, 3);
    return false;
}

/* Follows one instruction that epilogues are made of; false for any other. */
static bool follow(struct line *line)
{
    const uint8_t *b = line->at;
    size_t left = (size_t)(line->end - b);

    if (left >= 1 && (b[0] & 0xf8) == 0x58)
        return pop(line, b[0] & 7u, 1);
    if (left >= 2 && b[0] == 0x41 && (b[1] & 0xf8) == 0x58)
        return pop(line, 8u + (b[1] & 7u), 2);
    if (left >= 1 && b[0] == 0xc9) /* leave */
        return stack_from_fp(line, 0, 1) && pop(line, 5, 0);
    if (left >= 3 && b[0] == 0xc5 && b[1] == 0xf8 && b[2] == 0x77) { /* vzeroupper */
        line->at += 3;
        return true;
    }
    return left >= 3 && b[0] == 0x48 && wide(line);
}

static bool is_return(const struct line *line)
{
    const uint8_t *b = line->at;
    size_t left = (size_t)(line->end - b);

    return (left >= 1 && (b[0] == 0xc3 || b[0] == 0xc2)) || (left >= 2 && b[0] == 0xf3 && b[1] == 0xc3);
}

/* Returns true if a jump out of the function to pc can be a call in disguise: at pc only the return address is on the
 * stack. Code without tables is never part of a function that has some. */
static bool is_entry(const struct ep_module *module, uintptr_t pc)
{
    struct ep_cfi_row row;

    return ep_cfi_find(module, &ep_cfi_registers, pc, &row) != 0 ||
           (row.rules.cfa == EP_CFI_SP && row.rules.cfa_offset == WORD);
}

/* The linker's .plt begins by push *n(%rip), jmp *n(%rip): that jump has two words too many on the stack. */
static bool is_plt_start(const uint8_t *jump, const struct ep_cfi_row *row)
{
    return row && (uintptr_t)jump - row->start == 6 && jump[-6] == 0xff && jump[-5] == 0x35;
}

/* A jump that leaves the function with its frame gone. A jump inside it, or into its cold part, is not one. */
static bool is_tail_jump(const struct line *line, const struct ep_module *module, const struct ep_cfi_row *row)
{
    const uint8_t *b = line->at;
    size_t left = (size_t)(line->end - b);
    uintptr_t target;

    if (left >= 3 && (b[0] & 0xf8) == 0x48 && b[1] == 0xff &&
        (b[2] & 0x38) == 0x20) /* rex.W jmp: the .NET compiler's mark */
        return true;
    if (left >= 2 && b[0] == 0xff && b[1] == 0x25) /* jmp *n(%rip) */
        return !is_plt_start(b, row);
    if (left >= 2 && b[0] == 0xff && (b[1] & 0x38) == 0x20)
        return line->moved > 0;
    if (left >= 5 && b[0] == 0xe9)
        target = (uintptr_t)b + 5 + (uintptr_t)(intptr_t)le32(b + 1);
    else if (left >= 2 && b[0] == 0xeb)
        target = (uintptr_t)b + 2 + (uintptr_t)(intptr_t)(int8_t)b[1];
    else
        return false;
    if (!row)
        return line->fp.done;
    return target - row->start >= row->end - row->start && is_entry(module, target);
}

static bool popped_slot(const struct line *line, const struct popped *popped, int32_t cfa, uint8_t *slot)
{
    int32_t words = popped->done ? (cfa - popped->offset) / WORD : 0;

    *slot = (uint8_t)words;
    return words >= 0 && words <= UINT8_MAX && (!popped->done || popped->from_fp == line->from_fp);
}

/* The rule that a line which has come to its return amounts to. */
static bool line_rule(const struct line *line, struct ep_rule *rule)
{
    int32_t cfa = line->offset + WORD;

    *rule = (struct ep_rule){.kind = line->from_fp ? EP_RULE_FP : EP_RULE_SP, .cfa = (int16_t)(cfa / WORD)};
    return cfa % WORD == 0 && cfa / WORD <= INT16_MAX && cfa / WORD >= -INT16_MAX &&
           popped_slot(line, &line->fp, cfa, &rule->fp_slot) && popped_slot(line, &line->base, cfa, &rule->base_slot);
}

/* True when execution from pc leads straight out of the function. row: NULL without tables. */
static bool epilogue(const struct ep_module *module, uintptr_t pc, const struct ep_cfi_row *row, struct ep_rule *rule)
{
    uintptr_t end = module->end - pc > EPILOGUE_LOOKFAR ? pc + EPILOGUE_LOOKFAR : module->end;
    struct line line = {.at = (const uint8_t *)pc, .end = (const uint8_t *)end};

    for (int i = 0; i < EPILOGUE_MOST; i++) {
        if (is_return(&line) || is_tail_jump(&line, module, row))
            return line_rule(&line, rule);
        if (!follow(&line))
            return false;
    }
    return false;
}

/* Where the row says a register is; false when a rule cannot say it. */
static bool row_slot(const struct ep_cfi_row *row, unsigned reg, uint8_t *slot)
{
    int32_t offset = row->rules.offset[reg];

    *slot = 0;
    if (row->rules.state[reg] == EP_CFI_SAVED_AT_FP) {
        *slot = 1;
        return row->rules.cfa == EP_CFI_FP_LOAD;
    }
    if (row->rules.state[reg] != EP_CFI_SAVED)
        return true;
    *slot = (uint8_t)(-offset / WORD);
    return offset < 0 && offset >= -UINT8_MAX * WORD && offset % WORD == 0;
}

/* .NET's RhpThrowHwEx: entered from a signal handler as if the faulting instruction had called it, without a return
 * address. It aligns the stack, which its table does not say, and pushes what it knows of the fault. */
static const uint8_t fault_thrower[] = {0x48, 0x89, 0xe0, 0x48, 0x83, 0xe4, 0xf0}; /* mov %rsp,%rax; and $-16,%rsp */

static bool is_fault_thrower(const struct ep_cfi_row *row)
{
    return row->end - row->start > sizeof fault_thrower &&
           memcmp((const void *)row->start, fault_thrower, sizeof fault_thrower) == 0;
}

/* Most samples find its first instruction, where the return from the signal handler leads. Between the alignment and
 * the last push the fault's sp is in rax alone. */
static struct ep_rule fault_rule(const struct ep_cfi_row *row, uintptr_t pc)
{
    if (pc - row->start < sizeof fault_thrower)
        return ep_fault_begun(0);
    if (row->rules.cfa_offset > FAULT_WORDS * WORD)
        return (struct ep_rule){.kind = EP_RULE_FAULT, .cfa = (int16_t)(row->rules.cfa_offset / WORD)};
    return (struct ep_rule){.kind = EP_RULE_FAULT, .base_slot = 1, .ra_extra = 1, .cfa = RAX};
}

/* A jump to a register's place behind the load of another stack pointer, as .NET's RhpCallCatchFunclet ends: the
 * frame that the table describes is gone, what is on the stack is the target's frame, and nothing but the frame pointer
 * leads to that one's caller. */
static bool has_switched_stack(uintptr_t pc, const struct ep_cfi_row *row)
{
    const uint8_t *b = (const uint8_t *)pc;
    size_t rex = row->end - pc >= 3 && (b[0] & 0xf0) == 0x40;

    return row->end - pc >= 2 && b[rex] == 0xff && (b[rex + 1] & 0x38) == 0x20 && ep_x86_set_sp(row->start, pc, true);
}

/* By the table alone: reads no code. */
static struct ep_rule table_rule(const struct ep_cfi_row *row)
{
    static const uint8_t kinds[] = {[EP_CFI_SP] = EP_RULE_SP,
                                    [EP_CFI_FP] = EP_RULE_FP,
                                    [EP_CFI_FP_LOAD] = EP_RULE_FP_LOAD,
                                    [EP_CFI_BASE] = EP_RULE_BASE,
                                    [EP_CFI_OTHER] = EP_RULE_STOP};
    uint8_t ra = row->rules.state[EP_CFI_REG_RA];
    struct ep_rule rule = {.kind = kinds[row->rules.cfa], .cfa = (int16_t)(row->rules.cfa_offset / WORD)};

    if (row->rules.cfa == EP_CFI_OTHER && row->rules.other < EP_CFI_REGISTERS &&
        row->rules.cfa_offset / WORD < AWAY_MOST && row->rules.cfa_offset / WORD >= -AWAY_MOST)
        rule =
            (struct ep_rule){.kind = EP_RULE_AWAY, .cfa = (int16_t)(rule.cfa * EP_AWAY_REGISTERS + row->rules.other)};
    if (row->signal_frame)
        return (struct ep_rule){.kind = EP_RULE_SIGNAL};
    if (ra == EP_CFI_UNDEFINED)
        return (struct ep_rule){.kind = EP_RULE_ROOT};
    if (ra != EP_CFI_SAVED || row->rules.offset[EP_CFI_REG_RA] != -WORD || row->rules.cfa_offset % WORD ||
        row->rules.cfa_offset / WORD > INT16_MAX || row->rules.cfa_offset / WORD < -INT16_MAX ||
        !row_slot(row, EP_CFI_REG_FP, &rule.fp_slot))
        return (struct ep_rule){.kind = EP_RULE_STOP};
    if (!row_slot(row, EP_CFI_REG_BASE, &rule.base_slot))
        rule.base_slot = 0;
    return rule;
}

static struct ep_rule row_rule(const struct ep_cfi_row *row, uintptr_t pc)
{
    return row->signal_frame || !is_fault_thrower(row) ? table_rule(row) : fault_rule(row, pc);
}

static struct ep_rule guess(void)
{
    return (struct ep_rule){.kind = EP_RULE_GUESS, .cfa = FP_RULE_CFA, .fp_slot = FP_RULE_CFA};
}

/* Code without tables, by its instructions: this is how frame-pointer code starts. */
static struct ep_rule frameless(const struct ep_module *module, uintptr_t pc, bool exact)
{
    static const uint8_t move[3] = {0x48, 0x89, 0xe5};              /* mov %rsp,%rbp */
    static const uint8_t unbox[5] = {0x48, 0x83, 0xc7, 0x08, 0xe9}; /* add $8,%rdi; jmp: a stub of .NET's */
    const uint8_t *b = (const uint8_t *)pc;

    if (exact && module->end - pc >= 8 && pc - module->start >= 8) {
        if (b[0] == 0x55 && memcmp(b + 1, move, sizeof move) == 0)
            return (struct ep_rule){.kind = EP_RULE_SP, .cfa = 1};
        if (b[-1] == 0x55 && memcmp(b, move, sizeof move) == 0)
            return (struct ep_rule){.kind = EP_RULE_SP, .cfa = 2, .fp_slot = 2};
        if (memcmp(b, unbox, sizeof unbox) == 0 || memcmp(b - 4, unbox, sizeof unbox) == 0)
            return (struct ep_rule){.kind = EP_RULE_SP, .cfa = 1};
        if (b[-1] == 0x5d && (b[0] == 0xe9 || b[0] == 0xeb)) /* pop %rbp; jmp elsewhere */
            return (struct ep_rule){.kind = EP_RULE_SP, .cfa = 1};
    }
    return guess();
}

/* follow: code without tables, to a return. */
static inline __attribute__((always_inline)) struct ep_rule derive(const struct ep_modules *modules, uintptr_t pc,
                                                                   bool exact, bool follow)
{
    const struct ep_module *module = ep_module_find(modules, pc);
    struct ep_cfi_row row;
    struct ep_rule rule;

    if (!module)
        return (struct ep_rule){.kind = EP_RULE_STOP};
    bool tables = ep_cfi_find(module, &ep_cfi_registers, pc, &row) == 0;
    if (module->execute_only)
        return tables ? table_rule(&row) : guess();
    if (exact && !(tables && row.signal_frame) && epilogue(module, pc, tables ? &row : NULL, &rule))
        return rule;
    if (tables && exact && !row.signal_frame && has_switched_stack(pc, &row))
        return guess();
    if (tables)
        return row_rule(&row, pc);
    if (!follow)
        return (struct ep_rule){.kind = EP_RULE_STOP};
    return ep_x86_path(module, exact ? pc : pc + 1, exact, &rule) ? rule : frameless(module, pc, exact);
}

__attribute__((hot)) struct ep_rule ep_rule_derive(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    return derive(modules, pc, exact, true);
}

struct ep_rule ep_rule_derive_by_table(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    return derive(modules, pc, exact, false);
}

/* A register by its DWARF number, as the kernel has saved it; only those that the walk does not follow. */
static bool saved_register(const struct ep_frame *frame, unsigned number, uintptr_t *value)
{
    static const uint8_t places[EP_AWAY_REGISTERS] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7};

    if (!frame->argument)
        return false;
    memcpy(value, (const void *)(frame->argument + (uintptr_t)places[number] * WORD), WORD);
    return true;
}

uintptr_t ep_frame_argument(const struct ep_frame *frame)
{
    uintptr_t value;

    return saved_register(frame, RSI, &value) ? value : 0;
}

/* A word below an interrupted frame's stack pointer, where the kernel leaves 128 bytes alone. */
static bool load_below(const struct ep_walk *walk, uintptr_t at, uintptr_t *word)
{
    if (!walk->exact || walk->registers->moved || walk->frame.sp - at > RED_ZONE || at % WORD || !ep_port_readable(at))
        return false;
    memcpy(word, (const void *)at, WORD);
    return true;
}

bool ep_away_cfa(const struct ep_walk *walk, struct ep_rule rule, uintptr_t *cfa)
{
    const unsigned number = (unsigned)rule.cfa % EP_AWAY_REGISTERS;
    const uintptr_t offset = (uintptr_t)((rule.cfa - (int)number) / EP_AWAY_REGISTERS * WORD);

    if (!ep_away_is_load(rule)) {
        if (!saved_register(&walk->frame, number, cfa))
            return false;
        *cfa += offset;
        return true;
    }
    const uintptr_t at = (number == EP_AWAY_SP ? walk->frame.sp : walk->frame.fp) + offset;
    if (at < walk->frame.sp ? !load_below(walk, at, cfa) : !ep_walk_load(walk, at, cfa))
        return false;
    *cfa += WORD;
    return true;
}

bool ep_signal_frame(struct ep_frame *frame, uintptr_t end)
{
    /* At __restore_rt sp points to struct ucontext; uc_mcontext.gregs starts at 40: r8..r15 rdi rsi rbp(+80) rbx ...
     * rsp(+120) rip(+128). */
    const uintptr_t registers = 40, rbp = 40 + 80, rbx = 40 + 88, rsp = 40 + 120, rip = 40 + 128;

    if (end < frame->sp || end - frame->sp < rip + WORD)
        return false;
    struct ep_frame next = {0};
    memcpy(&next.fp, (const void *)(frame->sp + rbp), WORD);
    next.argument = frame->sp + registers;
    memcpy(&next.base, (const void *)(frame->sp + rbx), WORD);
    memcpy(&next.sp, (const void *)(frame->sp + rsp), WORD);
    memcpy(&next.pc, (const void *)(frame->sp + rip), WORD);
    *frame = next;
    return true;
}

bool ep_fault_frame(struct ep_frame *frame, uintptr_t cfa, uintptr_t end)
{
    /* PAL_LIMITED_CONTEXT of .NET's src/coreclr/nativeaot/Runtime/PalLimitedContext.h: IP, Rsp, Rbp, Rax, Rbx ... */
    uintptr_t at = cfa - FAULT_WORDS * WORD;
    uintptr_t word[5];

    if (at < frame->sp || at > end || end - at < sizeof word)
        return false;
    memcpy(word, (const void *)at, sizeof word);
    *frame = (struct ep_frame){.pc = word[0], .sp = word[1], .fp = word[2], .base = word[4]};
    return true;
}
