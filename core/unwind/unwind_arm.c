/*
 * Rules for 32-bit ARM code, Thumb-2 and ARM: exception index tables for function bodies, the code itself for prologues
 * and epilogues, which the tables do not describe.
 *
 *   ep_rule_derive -> epilogue   interrupted: instructions from pc lead straight to a return
 *                  -> prologue   interrupted: from the function's start to pc not everything has been pushed yet
 *                  -> row_rule   what the table says
 *                  -> fault_rule .NET's thrower of hardware faults, known by its code
 *                  -> ep_arm_is_start   no tables, and nothing called it: the root
 *                  -> ep_arm_path       no tables (glibc has none): follows the code to a return
 *                  -> restart    no certain path: the nearest caller that r11 knows of, behind a gap
 *
 * An interrupted pc carries the Thumb bit. The walk tracks one more register, r7, the frame pointer of gcc's Thumb
 * code; r11 is the .NET compiler's frame pointer ({old r11, lr} at r11). Encodings: Arm Architecture Reference Manual
 * ARMv7-A, A6 and A8; signal frames: Linux' arch/arm/include/uapi/asm/{ucontext,sigcontext}.h.
 */
#include "core/unwind/code_arm.h"
#include "core/unwind/walk.h"

#include <errno.h>

#define WORD        4
#define FAULT_WORDS 28 /* of .NET's RhpThrowHwEx: what it knows of the fault, at the end of its frame */

static const struct ep_cfi_registers registers = {
    .sp = EP_ARM_SP, .fp = EP_ARM_FP, .base = EP_ARM_BASE, .ra = EP_ARM_LR};

/* A slot's distance below the CFA in words; false when a rule cannot say it. */
static bool slot_of(int32_t offset, uint8_t *slot)
{
    *slot = (uint8_t)(-offset / WORD);
    return offset % WORD == 0 && offset <= 0 && -offset / WORD <= UINT8_MAX;
}

/* A leaf function, whose return address is still in lr. Without optimization its frame hangs on r7 or r11. */
static struct ep_rule link_rule(struct ep_rule rule)
{
    if (rule.kind == EP_RULE_STOP)
        return rule;
    rule.ra_extra = rule.kind == EP_RULE_FP ? EP_LINK_FP : rule.kind == EP_RULE_BASE ? EP_LINK_BASE : EP_LINK_SP;
    rule.kind = EP_RULE_LINK;
    return rule;
}

static struct ep_rule row_rule(const struct ep_cfi_rules *rules)
{
    static const uint8_t kinds[] = {[EP_CFI_SP] = EP_RULE_SP,
                                    [EP_CFI_FP] = EP_RULE_FP,
                                    [EP_CFI_FP_LOAD] = EP_RULE_STOP,
                                    [EP_CFI_BASE] = EP_RULE_BASE,
                                    [EP_CFI_OTHER] = EP_RULE_STOP};
    const struct ep_rule stop = {.kind = EP_RULE_STOP};
    struct ep_rule rule = {.kind = kinds[rules->cfa], .cfa = (int16_t)(rules->cfa_offset / WORD)};
    uint8_t ra = 0;

    if (rules->cfa_offset % WORD || rules->cfa_offset / WORD > INT16_MAX || rules->cfa_offset / WORD < -INT16_MAX)
        return stop;
    if (rules->state[EP_CFI_REG_FP] == EP_CFI_SAVED && !slot_of(rules->offset[EP_CFI_REG_FP], &rule.fp_slot))
        return stop;
    if (rules->state[EP_CFI_REG_BASE] == EP_CFI_SAVED && !slot_of(rules->offset[EP_CFI_REG_BASE], &rule.base_slot))
        return stop;
    if (rules->state[EP_CFI_REG_RA] != EP_CFI_SAVED)
        return link_rule(rule);
    if (!slot_of(rules->offset[EP_CFI_REG_RA], &ra) || ra == 0)
        return stop;
    rule.ra_extra = (uint8_t)(ra - 1);
    return rule;
}

/* mov r7, #173 (rt_sigreturn) or #119 (sigreturn); svc 0: what a signal handler returns to. */
static bool returns_from_signal(const struct ep_module *module, uintptr_t pc)
{
    static const uint32_t arm[] = {0xe3a070ad, 0xef000000, 0xe3a07077};
    uint32_t code[2];

    if (pc % 2 || module->end - pc < sizeof code)
        return false;
    memcpy(code, (const void *)pc, sizeof code);
    if ((code[0] == 0x07adf04f || code[0] == 0x0777f04f) && (code[1] & 0xffff) == 0xdf00) /* glibc's, mov.w; svc */
        return true;
    return ((code[0] == arm[0] || code[0] == arm[2]) && code[1] == arm[1]) || code[0] == 0xdf0027ad ||
           code[0] == 0xdf002777;
}

static struct ep_rule restart(void)
{
    return (struct ep_rule){.kind = EP_RULE_RESTART, .cfa = 2, .fp_slot = 2};
}

/* .NET's RhpThrowHwEx: entered from a signal handler as if the faulting instruction had called it, which r1 points to.
 * Its table has the frame's size right, and takes the faulting instruction's address for a return address. */
static bool is_fault_thrower(const struct ep_cfi_row *row)
{
    static const uint16_t start[] = {0x4602, 0x4668, 0x468e}; /* mov r2, r0; mov r0, sp; mov lr, r1 */

    return row->end - row->start > sizeof start && memcmp((const void *)row->start, start, sizeof start) == 0;
}

static struct ep_rule fault_rule(const struct ep_cfi_row *row, uintptr_t pc, bool exact)
{
    const struct ep_rule rule = {.kind = EP_RULE_FAULT, .cfa = (int16_t)(row->rules.cfa_offset / WORD)};
    struct ep_cfi_rules rules;

    if (row->rules.cfa != EP_CFI_SP || rule.cfa < FAULT_WORDS || row->rules.cfa_offset / WORD > INT16_MAX)
        return (struct ep_rule){.kind = EP_RULE_STOP};
    if (exact && ep_arm_prologue(row, pc, true, &rules) == 0)
        return ep_fault_begun((int16_t)(rules.cfa_offset / WORD));
    return rule;
}

static struct ep_rule derive_interrupted(const struct ep_module *module, uintptr_t pc)
{
    struct ep_cfi_row row;
    struct ep_cfi_rules rules;
    uintptr_t at = pc & ~(uintptr_t)1;
    bool thumb = pc & 1;
    bool tables = ep_exidx_find(module, &registers, at, &row) == 0;

    if (tables && is_fault_thrower(&row))
        return fault_rule(&row, at, true);
    if (ep_arm_epilogue(module, at, thumb, tables ? &row : NULL, &rules))
        return row_rule(&rules);
    if (!tables)
        return ep_arm_path(module, at, thumb, true, &rules) ? row_rule(&rules) : restart();
    int error = ep_arm_prologue(&row, at, thumb, &rules);
    if (error == 0 || (error == -EINVAL && ep_arm_path(module, at, thumb, true, &rules)))
        return row_rule(&rules);
    return error == -EINVAL && !ep_arm_will_call(module, at, thumb) ? restart() : row_rule(&row.rules);
}

/* By the table alone, which says nothing of prologues and epilogues. */
static struct ep_rule execute_only_rule(const struct ep_module *module, uintptr_t pc, bool exact)
{
    struct ep_cfi_row row;

    if (ep_exidx_find(module, &registers, pc & ~(uintptr_t)1, &row) != 0)
        return restart();
    struct ep_rule rule = row_rule(&row.rules);
    return rule.kind == EP_RULE_LINK && !exact ? (struct ep_rule){.kind = EP_RULE_STOP} : rule;
}

struct ep_rule ep_rule_derive(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    const struct ep_module *module = ep_module_find(modules, pc);
    struct ep_cfi_row row;
    struct ep_cfi_rules rules;
    bool thumb;

    if (!module)
        return (struct ep_rule){.kind = EP_RULE_STOP};
    if (module->execute_only)
        return execute_only_rule(module, pc, exact);
    if (exact)
        return derive_interrupted(module, pc);
    if (returns_from_signal(module, pc + 1))
        return (struct ep_rule){.kind = EP_RULE_SIGNAL};
    if (!ep_arm_follows_call(module, pc + 1, &thumb))
        return (struct ep_rule){.kind = EP_RULE_STOP};
    if (ep_exidx_find(module, &registers, pc, &row) != 0) {
        if (ep_arm_is_start(module, pc + 1, thumb))
            return (struct ep_rule){.kind = EP_RULE_ROOT};
        return ep_arm_path(module, pc + 1, thumb, false, &rules) ? row_rule(&rules) : restart();
    }
    if (is_fault_thrower(&row))
        return fault_rule(&row, pc, false);
    struct ep_rule rule = row_rule(&row.rules);
    return rule.kind == EP_RULE_LINK ? (struct ep_rule){.kind = EP_RULE_STOP} : rule;
}

/* Following code takes little stack here. */
struct ep_rule ep_rule_derive_by_table(const struct ep_modules *modules, uintptr_t pc, bool exact)
{
    return ep_rule_derive(modules, pc, exact);
}

/* struct rt_sigframe is siginfo (128 bytes) and ucontext, struct sigframe the ucontext alone, whose uc_flags the kernel
 * sets to a number that no siginfo begins with. r0 lies 32 bytes into the ucontext, cpsr behind pc. */
bool ep_signal_frame(struct ep_frame *frame, uintptr_t end)
{
    const uint32_t sigframe_mark = 0x5ac3c35a;
    const uintptr_t info = 128, r0 = 32, thumb = 1u << 5;
    uintptr_t at = frame->sp, word[17];
    uint32_t first;

    if (end < at || end - at < info + r0 + sizeof word)
        return false;
    memcpy(&first, (const void *)at, sizeof first);
    at += (first == sigframe_mark ? 0 : info) + r0;
    memcpy(word, (const void *)at, sizeof word);
    *frame = (struct ep_frame){.pc = word[EP_ARM_PC] | (word[16] & thumb ? 1u : 0u),
                               .sp = word[EP_ARM_SP],
                               .fp = word[EP_ARM_FP],
                               .lr = word[EP_ARM_LR],
                               .base = word[EP_ARM_BASE],
                               .argument = word[1]};
    return true;
}

/* PAL_LIMITED_CONTEXT of .NET's src/coreclr/nativeaot/Runtime/PalLimitedContext.h: r0, r4 ... r11, lr, sp, pc, d8-d15.
 * The fault's lr is not among it. Managed code is Thumb code. */
bool ep_fault_frame(struct ep_frame *frame, uintptr_t cfa, uintptr_t end)
{
    enum { R7 = 4, R11 = 8, FAULT_SP = 10, FAULT_PC = 11 };
    uintptr_t at = cfa - FAULT_WORDS * WORD;
    uintptr_t word[FAULT_PC + 1];

    if (at < frame->sp || at > end || end - at < sizeof word)
        return false;
    memcpy(word, (const void *)at, sizeof word);
    *frame = (struct ep_frame){.pc = word[FAULT_PC] | 1, .sp = word[FAULT_SP], .fp = word[R11], .base = word[R7]};
    return true;
}

uintptr_t ep_function_end(const struct ep_modules *modules, uintptr_t function)
{
    const struct ep_module *module = ep_module_find(modules, function);
    struct ep_cfi_row row;

    return module && ep_exidx_find(module, &registers, function, &row) == 0 ? row.end : 0;
}

/* Linkers merge entries of neighbours that unwind alike: an entry's start may be another function's. */
uintptr_t ep_function_start(const struct ep_module *module, uintptr_t pc)
{
    (void)module;
    (void)pc;
    return 0;
}
