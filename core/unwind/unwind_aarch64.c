/*
 * Rules for aarch64 code: tables for the frame that was interrupted, frame records after it.
 *
 *   table_rule -> epilogue   interrupted: instructions from pc lead straight to a return
 *              -> top_rule   interrupted: .eh_frame's row, or a leaf's lr
 *              -> fault_rule .NET's thrower of hardware faults, known by its code
 *              -> call_rule  a return address: the record {x29, x30} that x29 points to, as the AAPCS64 wants and all
 *                            managed methods have. .NET's funclets leave x29 at their parent's record: theirs is found
 *                            by the table, from sp.
 *   code_rule  -> ep_aarch64_path   where tables are missing or silent
 *
 * Tables for all frames would be worse: code that adjusts sp without a table row is common, code without records is
 * not. Encodings are
 * from the Arm Architecture Reference Manual for A-profile, C6.2; the signal frame from Linux'
 * arch/arm64/kernel/signal.c.
 */
#include "core/unwind/cfi.h"
#include "core/unwind/path_aarch64.h"

#include <string.h>

#define WORD          8
#define BASE          19 /* where .NET's code mostly keeps a method's object */
#define FP            29
#define LR            30
#define SP            31
#define EPILOGUE_MOST 24
#define PROLOGUE_MOST 24
#define BODY_MOST     96
#define RECORD_WORDS  2
#define FAULT_WORDS   10 /* of .NET's RhpThrowHwEx, from its {sp, pc} of the fault to the end of its frame */
#define FAULT_FP      24 /* its own record, which begins with the fault's {x29, x30} */
#define OFFSET_MOST   (INT16_MAX * WORD) /* that a rule can say */
#define SIGNAL_MOST   0x20000            /* of the kernel's frame: with all of SVE and SME it is 74 KiB */

const struct ep_cfi_registers ep_cfi_registers = {.sp = SP, .fp = FP, .base = BASE, .ra = LR};

/* Straight-line execution from pc: where sp would be, from sp or x29 at pc, and where x29 and x30 were loaded from. */
struct line {
    uintptr_t at, end;
    bool from_fp;
    int32_t offset;
    struct loaded {
        bool done;
        int32_t offset;
    } fp, lr;
    uint32_t constant_reg; /* holds `constant`, by mov and movk; 0: none */
    int32_t constant;
};

static uint32_t instruction(uintptr_t at)
{
    uint32_t word;
    memcpy(&word, (const void *)at, sizeof word);
    return word;
}

static int32_t sign_extended(uint32_t value, unsigned bits)
{
    return (int32_t)(value << (32 - bits)) >> (32 - bits);
}

static void load_from(struct line *line, uint32_t reg, int32_t offset)
{
    if (reg == FP)
        line->fp = (struct loaded){.done = true, .offset = offset};
    else if (reg == LR)
        line->lr = (struct loaded){.done = true, .offset = offset};
}

/* ldp x, x, [sp, #n] and ldp x, x, [sp], #n; the same for d registers, which do not matter. */
static bool load_pair(struct line *line, uint32_t code)
{
    uint32_t form = code & 0xffc003e0;
    int32_t amount = sign_extended(code >> 15 & 0x7f, 7) * WORD;
    bool post = form == 0xa8c003e0 || form == 0x6cc003e0;

    if (!post && form != 0xa94003e0 && form != 0x6d4003e0)
        return false;
    if (form >> 28 == 0xa) {
        int32_t at = line->offset + (post ? 0 : amount);
        load_from(line, code & 31, at);
        load_from(line, code >> 10 & 31, at + WORD);
    }
    if (post)
        line->offset += amount;
    return true;
}

/* ldr x, [sp, #n] and ldr x, [sp], #n. */
static bool load_one(struct line *line, uint32_t code)
{
    if ((code & 0xffc003e0) == 0xf94003e0) {
        load_from(line, code & 31, line->offset + (int32_t)(code >> 10 & 0xfff) * WORD);
        return true;
    }
    if ((code & 0xffe00fe0) == 0xf84007e0) {
        load_from(line, code & 31, line->offset);
        line->offset += sign_extended(code >> 12 & 0x1ff, 9);
        return true;
    }
    return false;
}

/* add sp, sp, #n; add or sub sp, x29, #n (n 0: mov sp, x29). */
static bool stack_move(struct line *line, uint32_t code)
{
    int32_t amount = (int32_t)(code >> 10 & 0xfff) << (code >> 22 & 1 ? 12 : 0);

    if ((code & 0xff8003ff) == 0x910003ff) {
        line->offset += amount;
        return true;
    }
    if (((code & 0xff8003ff) == 0x910003bf || (code & 0xff8003ff) == 0xd10003bf) && !line->fp.done) {
        line->from_fp = true;
        line->offset = code >> 30 & 1 ? -amount : amount;
        return true;
    }
    return false;
}

/* mov x, #n; movk x, #n, lsl #16; add sp, sp, x: frames too large for an immediate. */
static bool stack_move_large(struct line *line, uint32_t code)
{
    int32_t value = (int32_t)(code >> 5 & 0xffff);

    if ((code & 0xffe00000) == 0xd2800000 || (code & 0xffe00000) == 0x52800000) {
        line->constant_reg = code & 31;
        line->constant = value;
        return line->constant_reg != FP && line->constant_reg != LR;
    }
    if (((code & 0xffe00000) == 0xf2a00000 || (code & 0xffe00000) == 0x72a00000) && line->constant_reg == (code & 31)) {
        line->constant |= (value & 0x7ff) << 16;
        return value <= 0x7ff;
    }
    if ((code & 0xffe0ffff) == 0x8b2063ff && line->constant_reg && line->constant_reg == (code >> 16 & 31)) {
        line->offset += line->constant;
        return true;
    }
    return false;
}

static bool follow(struct line *line)
{
    uint32_t code = instruction(line->at);

    line->at += 4;
    return load_pair(line, code) || load_one(line, code) || stack_move(line, code) || stack_move_large(line, code) ||
           code == 0xd503201f || /* nop */
           code == 0xd50323bf || /* autiasp */
           code == 0xd50323ff;   /* autibsp */
}

/* A jump to where nothing has been pushed; what it jumps to has tables or is not part of a function that has. */
static bool is_entry(const struct ep_module *module, uintptr_t pc)
{
    struct ep_cfi_row row;

    return ep_cfi_find(module, &ep_cfi_registers, pc, &row) != 0 ||
           (row.rules.cfa == EP_CFI_SP && row.rules.cfa_offset == 0);
}

static bool leaves(const struct line *line, const struct ep_module *module, const struct ep_cfi_row *row)
{
    uint32_t code = instruction(line->at);

    if (code == 0xd65f03c0 || (code & 0xfffffbff) == 0xd65f0bff) /* ret, retaa, retab */
        return true;
    if ((code & 0xfffffc1f) == 0xd61f0000) /* br: a jump table's unless the frame has just gone */
        return line->lr.done;
    if ((code & 0xfc000000) != 0x14000000 || !row) /* b */
        return false;
    uintptr_t target = line->at + (uintptr_t)(intptr_t)(sign_extended(code & 0x3ffffff, 26) * 4);
    return target - row->start >= row->end - row->start && is_entry(module, target);
}

/* The rule of a line that leaves the function. */
static bool line_rule(const struct line *line, struct ep_rule *rule)
{
    int32_t record = line->lr.offset - WORD;

    if (!line->lr.done) {
        *rule = (struct ep_rule){.kind = EP_RULE_LINK, .cfa = (int16_t)(line->offset / WORD)};
        return !line->from_fp && !line->fp.done && line->offset >= 0;
    }
    if (!line->fp.done || line->fp.offset != record || record % WORD || line->offset % WORD)
        return false;
    if (line->from_fp) {
        *rule = (struct ep_rule){.kind = EP_RULE_CHAIN, .cfa = (int16_t)(line->offset / WORD)};
        return record == 0;
    }
    *rule = (struct ep_rule){
        .kind = EP_RULE_RECORD, .fp_slot = (uint8_t)(record / WORD), .cfa = (int16_t)(line->offset / WORD)};
    return record >= 0 && record / WORD <= UINT8_MAX;
}

/* Execution stands behind the mov, or the movk: they are still to be seen. */
static void constant_before(struct line *line, const struct ep_cfi_row *row)
{
    uintptr_t at = line->at;

    for (int i = 0; i < 2 && at - row->start >= 4; i++) {
        uint32_t code = instruction(at - 4);
        bool movk = (code & 0xffe00000) == 0xf2a00000 || (code & 0xffe00000) == 0x72a00000;
        if (!movk && (code & 0xffe00000) != 0xd2800000 && (code & 0xffe00000) != 0x52800000)
            break;
        at -= 4;
        if (!movk)
            break;
    }
    for (; at < line->at; at += 4)
        (void)stack_move_large(line, instruction(at));
}

static bool epilogue(const struct ep_module *module, uintptr_t pc, const struct ep_cfi_row *row, struct ep_rule *rule)
{
    struct line line = {.at = pc, .end = module->end};

    if (row)
        constant_before(&line, row);
    for (int i = 0; i < EPILOGUE_MOST && line.end - line.at >= 4; i++) {
        if (leaves(&line, module, row))
            return line_rule(&line, rule);
        if (!follow(&line) || line.offset > OFFSET_MOST || line.offset < -OFFSET_MOST)
            return false;
    }
    return false;
}

/* Words that have been pushed since the function's start. .NET's tables tell of a prologue's instructions only when the
 * last of them is through: the return address is in lr until then, but sp moves. */
static int32_t pushed_before(uintptr_t start, uintptr_t pc)
{
    int32_t depth = 0;

    for (int i = 0; i < PROLOGUE_MOST && start < pc; i++, start += 4) {
        uint32_t code = instruction(start);
        if ((code & 0xffc003e0) == 0xa98003e0 || (code & 0xffc003e0) == 0x6d8003e0) /* stp pair, [sp, #n]! */
            depth -= sign_extended(code >> 15 & 0x7f, 7);
        else if ((code & 0xffe00fe0) == 0xf8000fe0) /* str x, [sp, #n]! */
            depth -= sign_extended(code >> 12 & 0x1ff, 9) / WORD;
        else if ((code & 0xffc003ff) == 0xd10003ff) /* sub sp, sp, #n */
            depth += (int32_t)(code >> 10 & 0xfff) / WORD;
        else if ((code & 0x1c000000) == 0x14000000) /* branches */
            break;
    }
    return depth;
}

/* The return address and perhaps fp lie so many words below the CFA. In a large frame they are near sp instead. */
static struct ep_rule apart_rule(int32_t cfa, int32_t ra_slot, int32_t fp_slot)
{
    struct ep_rule rule = {.kind = EP_RULE_APART, .cfa = (int16_t)cfa};

    if (ra_slot > UINT8_MAX || fp_slot > UINT8_MAX) {
        rule.ra_extra = 1;
        ra_slot = cfa - ra_slot + 1;
        fp_slot = fp_slot ? cfa - fp_slot + 1 : 0;
    }
    if (ra_slot < 1 || ra_slot > UINT8_MAX || fp_slot < 0 || fp_slot > UINT8_MAX)
        return (struct ep_rule){.kind = EP_RULE_STOP};
    rule.fp_slot = (uint8_t)fp_slot;
    rule.base_slot = (uint8_t)ra_slot;
    return rule;
}

/* The row of an interrupted frame. */
static struct ep_rule top_rule(const struct ep_cfi_row *row)
{
    const struct ep_cfi_rules *rules = &row->rules;
    const struct ep_rule stop = {.kind = EP_RULE_STOP};
    bool saved = rules->state[EP_CFI_REG_RA] == EP_CFI_SAVED;
    int32_t fp = rules->offset[EP_CFI_REG_FP], ra = rules->offset[EP_CFI_REG_RA];
    int32_t cfa = rules->cfa_offset / WORD;

    if (rules->state[EP_CFI_REG_RA] == EP_CFI_UNDEFINED)
        return (struct ep_rule){.kind = EP_RULE_ROOT};
    if (rules->cfa_offset % WORD || cfa > INT16_MAX || cfa < 0 || (rules->cfa != EP_CFI_SP && rules->cfa != EP_CFI_FP))
        return stop;
    if (!saved)
        return rules->cfa == EP_CFI_SP ? (struct ep_rule){.kind = EP_RULE_LINK, .cfa = (int16_t)cfa} : stop;
    if (rules->state[EP_CFI_REG_FP] == EP_CFI_SAVED && ra == fp + WORD && rules->cfa == EP_CFI_FP)
        return rules->cfa_offset + fp == 0 ? (struct ep_rule){.kind = EP_RULE_CHAIN, .cfa = (int16_t)cfa} : stop;
    if (rules->state[EP_CFI_REG_FP] == EP_CFI_SAVED && ra == fp + WORD &&
        (rules->cfa_offset + fp) / WORD <= UINT8_MAX && rules->cfa_offset + fp >= 0)
        return (struct ep_rule){
            .kind = EP_RULE_RECORD, .fp_slot = (uint8_t)((rules->cfa_offset + fp) / WORD), .cfa = (int16_t)cfa};
    if (ra > OFFSET_MOST || ra < -OFFSET_MOST || fp < -OFFSET_MOST)
        return stop;
    /* glibc's resolver of lazily bound calls: the table knows nothing of the pair that the .plt has pushed. */
    int32_t above = ra > 0 ? ra + WORD : 0;
    cfa += above / WORD;
    /* Saved apart, or without x29. */
    int32_t ra_slot = (above - ra) / WORD;
    int32_t fp_slot = rules->state[EP_CFI_REG_FP] == EP_CFI_SAVED ? (above - fp) / WORD : 0;
    if (rules->cfa != EP_CFI_SP || cfa > INT16_MAX)
        return stop;
    return apart_rule(cfa, ra_slot, fp_slot);
}

/* Where x29 points at pc: to the function's own record, since mov x29, sp or add x29, sp, #n, or elsewhere, since a
 * load from elsewhere than the stack (.NET's RhpCallCatchFunclet loads that of the method that catches). */
enum fp_state { FP_CALLERS, FP_OWN, FP_REPLACED };

static enum fp_state fp_state(uintptr_t start, uintptr_t pc)
{
    enum fp_state state = FP_CALLERS;

    for (int i = 0; i < (state == FP_OWN ? BODY_MOST : PROLOGUE_MOST) && pc - start >= 4; i++, start += 4) {
        uint32_t code = instruction(start);
        if ((code & 0xff8003ff) == 0x910003fd)
            state = FP_OWN;
        else if (state == FP_OWN && (code & 0xffc0001f) == 0xf940001d && (code >> 5 & 31) != SP)
            return FP_REPLACED;
    }
    return state;
}

/* Of a function that has replaced x29: its record, by what its prologue pushes. The table says that x29 leads there. */
static bool replaced_rule(uintptr_t start, uintptr_t pc, struct ep_rule *rule)
{
    int32_t depth = 0, record = 0;

    for (int i = 0; i < BODY_MOST && start < pc; i++, start += 4) {
        uint32_t code = instruction(start);
        if ((code & 0xffc003e0) == 0xa98003e0) /* stp x, x, [sp, #n]! */
            depth -= sign_extended(code >> 15 & 0x7f, 7);
        else if ((code & 0xffc003ff) == 0xd10003ff) /* sub sp, sp, #n */
            depth += (int32_t)(code >> 10 & 0xfff) / WORD;
        if ((code & 0xffc07fff) == 0xa9807bfd)
            record = depth;
    }
    *rule = (struct ep_rule){.kind = EP_RULE_RECORD, .fp_slot = (uint8_t)(depth - record), .cfa = (int16_t)depth};
    return record >= RECORD_WORDS && depth >= record && depth - record <= UINT8_MAX && depth <= INT16_MAX;
}

/* A frame in the middle of a call. readable: the code is; else only the table says where the record is. */
static struct ep_rule call_rule(const struct ep_cfi_row *row, uintptr_t pc, bool readable)
{
    struct ep_rule chain = {.kind = EP_RULE_CHAIN};

    if (!row)
        return chain;
    const struct ep_cfi_rules *rules = &row->rules;
    if (row->signal_frame)
        return (struct ep_rule){.kind = EP_RULE_SIGNAL};
    if (rules->state[EP_CFI_REG_RA] == EP_CFI_UNDEFINED)
        return (struct ep_rule){.kind = EP_RULE_ROOT};
    if (rules->state[EP_CFI_REG_RA] != EP_CFI_SAVED)
        return chain;
    int32_t record = rules->offset[EP_CFI_REG_FP];
    if (rules->state[EP_CFI_REG_FP] != EP_CFI_SAVED || !readable || fp_state(row->start, pc) != FP_OWN)
        return top_rule(row);
    if (record > -RECORD_WORDS * WORD || record / WORD < -INT16_MAX)
        return chain;
    chain.cfa = (int16_t)(-record / WORD);
    return chain;
}

/* adrp x16; ldr x17, [x16, #n]; add x16, x16, #n. */
static bool is_plt(const struct ep_module *module, uintptr_t at)
{
    return at - module->start < module->end - module->start && module->end - at >= 12 &&
           (instruction(at) & 0x9f00001f) == 0x90000010 && (instruction(at + 4) & 0xffc003ff) == 0xf9400211 &&
           (instruction(at + 8) & 0xffc003ff) == 0x91000210;
}

/* Words that the linker's .plt, which has no tables, has pushed at pc; negative: pc is elsewhere. In front of those
 * three stands bti c on request, or, in the first entry, stp x16, x30, [sp, #-16]!; behind them autia1716 on request,
 * br x17.
 */
static int plt_pushed(const struct ep_module *module, uintptr_t pc)
{
    const uint32_t code = instruction(pc), push = 0xa9bf7bf0;

    if ((code == push || code == 0xd503245f) && is_plt(module, pc + 4))
        return 0;
    for (unsigned i = 0; i < 5; i++) {
        uintptr_t at = pc - i * 4;
        if (is_plt(module, at) && (i < 3 || code == 0xd61f0220 || code == 0xd503219f))
            return at - module->start >= 4 && instruction(at - 4) == push ? 2 : 0;
    }
    return -1;
}

/* The kernel's trampoline, mov x8, #__NR_rt_sigreturn; svc #0: Linux' vdso has no tables for it on purpose, unwinders
 * are to know it by its code. */
static bool is_sigreturn(const struct ep_module *module, uintptr_t pc)
{
    return module->end - pc >= 8 && pc % 4 == 0 && instruction(pc) == 0xd2801168 && instruction(pc + 4) == 0xd4000001;
}

/* .NET's RhpThrowHwEx: entered from a signal handler as if the faulting instruction had called it, which x1 points to.
 * mov x3, sp; sub sp, sp, #0x50; stp x3, x1, [sp]. */
static const uint32_t fault_thrower[] = {0x910003e3, 0xd10143ff, 0xa90007e3};

#define FAULT_PUSHED_AT 8u
#define FAULT_PUSHED    10 /* words */

static bool is_fault_thrower(const struct ep_cfi_row *row)
{
    return row->end - row->start > sizeof fault_thrower &&
           memcmp((const void *)row->start, fault_thrower, sizeof fault_thrower) == 0;
}

static struct ep_rule fault_rule(const struct ep_cfi_row *row, uintptr_t pc)
{
    const struct ep_cfi_rules *rules = &row->rules;
    const struct ep_rule rule = {
        .kind = EP_RULE_FAULT, .fp_slot = rules->cfa == EP_CFI_FP, .cfa = (int16_t)(rules->cfa_offset / WORD)};

    if (pc - row->start < sizeof fault_thrower)
        return ep_fault_begun(pc - row->start < FAULT_PUSHED_AT ? 0 : FAULT_PUSHED);
    if (rules->cfa_offset % WORD || rule.cfa < FAULT_WORDS || rule.cfa > FAULT_FP + UINT8_MAX ||
        (rules->cfa != EP_CFI_SP && rules->cfa != EP_CFI_FP))
        return (struct ep_rule){.kind = EP_RULE_STOP};
    return rule;
}

/* The table does not tell that the return address is on the stack. */
static bool lr_untold(const struct ep_cfi_row *row)
{
    return row->rules.state[EP_CFI_REG_RA] == EP_CFI_KEPT && row->rules.cfa == EP_CFI_SP && !row->signal_frame &&
           row->since == row->start;
}

static struct ep_rule execute_only_rule(const struct ep_module *module, uintptr_t pc, bool exact)
{
    struct ep_cfi_row row;
    bool tables = ep_cfi_find(module, &ep_cfi_registers, pc, &row) == 0;

    if (exact && tables && !row.signal_frame)
        return top_rule(&row);
    return call_rule(tables ? &row : NULL, pc, false);
}

/* Where the caller's x19 is, by the table alone. */
static __attribute__((noinline)) struct ep_rule saved_rule(const struct ep_module *module, uintptr_t pc)
{
    struct ep_rule rule = {.kind = EP_RULE_SAVED};
    struct ep_cfi_row row;

    if (ep_cfi_find(module, &ep_cfi_registers, pc, &row) != 0 || row.signal_frame)
        return (struct ep_rule){.kind = EP_RULE_STOP};
    const int32_t at = row.rules.offset[EP_CFI_REG_BASE];
    rule.fp_slot = lr_untold(&row);
    if (row.rules.state[EP_CFI_REG_BASE] == EP_CFI_KEPT)
        return rule;
    rule.base_slot = (uint8_t)(-at / WORD);
    return row.rules.state[EP_CFI_REG_BASE] == EP_CFI_SAVED && at < 0 && at % WORD == 0 && -at / WORD <= UINT8_MAX
               ? rule
               : (struct ep_rule){.kind = EP_RULE_STOP};
}

static struct ep_rule interrupted_rule(const struct ep_cfi_row *row, uintptr_t pc)
{
    struct ep_rule rule = top_rule(row);

    if (rule.kind == EP_RULE_LINK && row->since == row->start)
        rule.cfa = (int16_t)(rule.cfa + pushed_before(row->start, pc));
    return rule;
}

/* What is to be told from the code, where tables are missing or silent. */
static const struct ep_rule in_code = {.kind = EP_RULE_STOP, .fp_slot = 1};

/* This and the next are out of line: what they have on the stack is not there for the other. */
static __attribute__((noinline)) struct ep_rule table_rule(const struct ep_module *module, uintptr_t pc, bool exact)
{
    struct ep_cfi_row row;
    struct ep_rule rule;

    if (module->execute_only)
        return execute_only_rule(module, pc, exact);
    if (is_sigreturn(module, exact ? pc : pc + 1))
        return (struct ep_rule){.kind = EP_RULE_SIGNAL};
    bool tables = ep_cfi_find(module, &ep_cfi_registers, pc, &row) == 0;
    if (tables && is_fault_thrower(&row))
        return fault_rule(&row, pc);
    if (exact && tables && row.signal_frame)
        return (struct ep_rule){.kind = EP_RULE_SIGNAL};
    if (exact && epilogue(module, pc, tables ? &row : NULL, &rule))
        return rule;
    int pushed = !exact || tables || module->end - pc < 4 ? -1 : plt_pushed(module, pc);
    if (pushed >= 0)
        return (struct ep_rule){.kind = EP_RULE_LINK, .cfa = (int16_t)pushed};
    if (!tables || lr_untold(&row))
        return in_code;
    if (row.rules.cfa == EP_CFI_FP && fp_state(row.start, pc) == FP_REPLACED && replaced_rule(row.start, pc, &rule))
        return rule;
    return exact ? interrupted_rule(&row, pc) : call_rule(&row, pc, true);
}

/* By the code, or what is left to try. */
static __attribute__((noinline)) struct ep_rule code_rule(const struct ep_module *module, uintptr_t pc, bool exact)
{
    struct ep_aarch64_code code = {module->start, module->end, false};
    struct ep_cfi_row row;
    struct ep_rule rule;
    const bool tables = ep_cfi_find(module, &ep_cfi_registers, pc, &row) == 0;

    if (tables)
        code = (struct ep_aarch64_code){row.start, row.end, true};
    if (ep_aarch64_path(module, code, exact ? pc : pc + 1, exact, &rule))
        return rule;
    return exact && tables ? interrupted_rule(&row, pc) : call_rule(tables ? &row : NULL, pc, true);
}

struct ep_rule ep_rule_derive(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    const struct ep_module *module = ep_module_find(modules, pc);
    const struct ep_rule rule = module ? table_rule(module, pc, exact) : (struct ep_rule){.kind = EP_RULE_STOP};

    return rule.kind == in_code.kind && rule.fp_slot == in_code.fp_slot ? code_rule(module, pc, exact) : rule;
}

struct ep_rule ep_rule_derive_by_table(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    const struct ep_module *module = ep_module_find(modules, pc);

    if (!module)
        return (struct ep_rule){.kind = EP_RULE_STOP};
    return pc == EP_RULE_SAVED_AT(pc) ? saved_rule(module, pc) : table_rule(module, pc, exact);
}

/* x29 points to the record that the kernel put above its frame: {x29, pc} of what was interrupted. The frame lies below
 * it, its size depends on the processor: it is where the saved registers say the same. */
bool ep_signal_frame(struct ep_frame *frame, uintptr_t end)
{
    const uintptr_t info = 128, context = 176; /* sizeof siginfo_t; offset of uc_mcontext in struct ucontext */
    const uintptr_t x29 = info + context + 8 + 29 * WORD, size_least = 4560;
    uint64_t record[2], regs[4]; /* x29, x30, sp, pc */

    if (frame->fp < frame->sp || frame->fp > end || end - frame->fp < sizeof record || frame->fp % 16)
        return false;
    memcpy(record, (const void *)frame->fp, sizeof record);
    uintptr_t least = frame->fp - frame->sp > SIGNAL_MOST ? frame->fp - SIGNAL_MOST : frame->sp;
    for (uintptr_t at = frame->fp - size_least; at + size_least - least <= end - least && at >= least; at -= 16) {
        memcpy(regs, (const void *)(at + x29), sizeof regs);
        if (regs[0] == record[0] && regs[1] == record[1]) { /* arch/arm64/kernel/signal.c: next_frame */
            *frame = (struct ep_frame){.pc = regs[3], .sp = regs[2], .fp = regs[0], .lr = regs[1]};
            memcpy(&frame->argument, (const void *)(at + x29 - (29 - 1) * WORD), sizeof frame->argument);
            return true;
        }
    }
    return false;
}

/* What its frame ends with is PAL_LIMITED_CONTEXT of .NET's src/coreclr/nativeaot/Runtime/PalLimitedContext.h: x29, x30
 * ... sp, pc, d8-d15. x29 and x30 are stored last: before that they are still what they were. */
bool ep_fault_frame(struct ep_frame *frame, uintptr_t cfa, uintptr_t end)
{
    uintptr_t at = cfa - FAULT_WORDS * WORD, record = cfa - FAULT_FP * WORD, word[2];

    if (at < frame->sp || at > end || end - at < sizeof word)
        return false;
    if (record <= at && record >= frame->sp) {
        memcpy(word, (const void *)record, sizeof word);
        frame->fp = word[0];
        frame->lr = word[1];
    }
    memcpy(word, (const void *)at, sizeof word);
    frame->sp = word[0];
    frame->pc = word[1];
    return true;
}
