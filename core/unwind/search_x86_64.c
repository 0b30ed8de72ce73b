/*
 * From a frame to its caller by a search of the stack, where no table leads there: from generated code without frame
 * pointers (the translated code of QEMU, regular expressions of PCRE2, functions of LLVM and LuaJIT), and from a
 * function with a frame pointer of a thread whose registers are not known, because it sleeps.
 *
 * A function is called by its name. Generated code is called through a pointer. So its return address is a word of the
 * stack that points behind such a call, in code with a table. Calls leave old return addresses on the stack, too: most
 * of those are behind calls that name a function, and tables lead from the others to no root. A word counts only if
 * they do, call by call. It stays a guess.
 *
 * Code without tables that keeps frame pointers, such as Go's, of a thread that sleeps: two records of a frame pointer
 * and a return address in a row, the first of which points to the second.
 *
 * The architectures that keep the return address in a register say nothing of where sp was, so they have no such
 * search; aarch64 has one for frame records (search_aarch64.c).
 */
#include "core/unwind/walk.h"

#include <string.h>

#include <edgeprof/port.h>

#define WORD        sizeof(uintptr_t)
#define TRIALS_MOST 16u /* words that are followed; each costs some rules */
#define STEPS_MOST  128u
#define LEAF_MOST   1024u /* bytes of a function that makes a system call and no frame */
#define CALL_MOST   7u    /* bytes of a call without its prefix */
#define CALL        0xe8
#define GROUP       0xff /* call through a pointer: /2 */

/* A library's jump to a function of another one: endbr64, bnd, jmp *slot(%rip). */
#define JUMP_MOST    11u
#define JUMP_BOUND   0xf2
#define JUMP_BY_SLOT 0x25
#define JUMP_BYTES   6u /* jmp *slot(%rip) alone */

static const struct ep_module *code_before(const struct ep_walk *walk, uintptr_t word)
{
    const struct ep_module *module = ep_module_find(&walk->unwinder->modules, word - 1);

    return module && !module->execute_only && word - module->start >= CALL_MOST ? module : NULL;
}

/* Reads the pointer of an instruction such as call *n(%rip), which ends at `after`. False: the bytes are no such
 * instruction. */
static bool read_pointer(const uint8_t *after, uintptr_t *target)
{
    int32_t distance;
    uintptr_t slot;

    memcpy(&distance, after - sizeof distance, sizeof distance);
    slot = (uintptr_t)after + (uintptr_t)(intptr_t)distance;
    if (slot % WORD || !ep_port_readable(slot))
        return false;
    memcpy(target, (const void *)slot, sizeof *target);
    return true;
}

/* call *n(%rip), which is also a call of another library's function: the pointer tells. */
static bool leads_outside(const struct ep_walk *walk, const uint8_t *after)
{
    uintptr_t target;

    return read_pointer(after, &target) && !ep_module_find(&walk->unwinder->modules, target);
}

/* Returns true if the bytes before an address are a call through a pointer. Forms: register or memory, without, with 1
 * byte and with 4 bytes of displacement, each with or without an index. */
static bool is_by_pointer(const struct ep_walk *walk, const uint8_t *after)
{
    static const struct form {
        uint8_t size, mask, value;
    } forms[] = {{2, 0xf8, 0xd0}, {2, 0xf8, 0x10}, {3, 0xf8, 0x50}, {3, 0xff, 0x14},
                 {4, 0xff, 0x54}, {6, 0xf8, 0x90}, {7, 0xff, 0x94}};

    for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
        const uint8_t *call = after - forms[i].size;
        if (call[0] == GROUP && (call[1] & forms[i].mask) == forms[i].value)
            return true;
    }
    return after[-6] == GROUP && after[-5] == 0x15 && leads_outside(walk, after);
}

/* The function to which a call before an address leads, or 0. A call of another library's function leads to a jump. */
static uintptr_t callee_of(const struct ep_walk *walk, uintptr_t pc)
{
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
    const uint8_t *code = (const uint8_t *)pc;
    int32_t distance;
    uintptr_t target, other;

    if (code[-5] != CALL)
        return 0;
    memcpy(&distance, code - sizeof distance, sizeof distance);
    target = pc + (uintptr_t)(intptr_t)distance;
    const struct ep_module *module = ep_module_find(&walk->unwinder->modules, target);
    if (!module || module->execute_only || module->end - target < JUMP_MOST)
        return target;
    code = (const uint8_t *)target;
    code += memcmp(code, endbr, sizeof endbr) == 0 ? sizeof endbr : 0;
    code += *code == JUMP_BOUND;
    return code[0] == GROUP && code[1] == JUMP_BY_SLOT && read_pointer(code + JUMP_BYTES, &other) ? other : target;
}

/* Returns true if the bytes before an address may be the call of the walk's frame: of generated code, or of a function
 * whose frame pointer is not known. */
static bool may_call(const struct ep_walk *walk, uintptr_t pc, uintptr_t function)
{
    return is_by_pointer(walk, (const uint8_t *)pc) || (function && callee_of(walk, pc) == function);
}

static bool is_called(const struct ep_walk *walk, uintptr_t pc)
{
    const uint8_t *after = (const uint8_t *)pc;

    return code_before(walk, pc) &&
           (after[-5] == CALL || (after[-6] == GROUP && after[-5] == 0x15) || is_by_pointer(walk, after));
}

/* Returns true if the tables lead from a frame to the root, or to a signal's frame. An old frame's caller has made a
 * call through a pointer now, so frames that were called in this way may be old ones: *frame becomes the first that was
 * not. */
static bool leads_to_root(const struct ep_walk *walk, struct ep_frame *frame)
{
    struct ep_walk trial = *walk;
    struct ep_stack unused = {0};
    bool doubtful = true;

    trial.frame = *frame;
    trial.exact = trial.sp_lost = false;
    for (unsigned i = 0; i < STEPS_MOST; i++) {
        struct ep_rule rule = ep_rule_get(trial.unwinder, trial.frame.pc - 1, false, &unused);
        if (rule.kind == EP_RULE_ROOT || rule.kind == EP_RULE_SIGNAL)
            return true;
        if (!is_called(&trial, trial.frame.pc) || ep_is_guess(rule) || !ep_walk_step(&trial, rule))
            return false;
        doubtful &= code_before(&trial, trial.frame.pc) && is_by_pointer(&trial, (const uint8_t *)trial.frame.pc);
        if (doubtful)
            *frame = trial.frame;
    }
    return false;
}

/* A frame whose return address is at `at`. Its caller's rbp is still there, or was pushed first. */
static bool is_frame(const struct ep_walk *walk, uintptr_t at, uintptr_t word, struct ep_frame *caller)
{
    uintptr_t pushed;

    *caller = (struct ep_frame){.pc = word, .sp = at + WORD, .fp = walk->frame.fp};
    if (leads_to_root(walk, caller))
        return true;
    if (!ep_walk_load(walk, at - WORD, &pushed) || pushed - at >= walk->end - at)
        return false;
    *caller = (struct ep_frame){.pc = word, .sp = at + WORD, .fp = pushed};
    return leads_to_root(walk, caller);
}

bool ep_search_caller(const struct ep_walk *walk, struct ep_frame *caller)
{
    const uintptr_t most = walk->frame.sp + EP_SEARCH_BYTES, pc = walk->frame.pc - (walk->exact ? 0 : 1);
    const struct ep_module *module = ep_module_find(&walk->unwinder->modules, pc);
    const uintptr_t function = module ? ep_function_start(module, pc) : 0;
    uintptr_t word;

    for (uintptr_t at = walk->frame.sp, trials = 0; at < most && trials < TRIALS_MOST && ep_walk_load(walk, at, &word);
         at += WORD) {
        if (word - at < walk->end - at || !code_before(walk, word) || !may_call(walk, word, function))
            continue;
        trials++;
        if (is_frame(walk, at, word, caller))
            return true;
    }
    return false;
}

/* Returns true if a frame pointer and a return address are at `at`. */
static bool is_record(const struct ep_walk *walk, uintptr_t at, struct ep_frame *caller)
{
    uintptr_t fp, pc;

    if (!ep_walk_load(walk, at, &fp) || !ep_walk_load(walk, at + WORD, &pc) || fp <= at || fp >= walk->end ||
        fp % WORD || !is_called(walk, pc))
        return false;
    *caller = (struct ep_frame){.pc = pc, .sp = at + 2 * WORD, .fp = fp};
    return true;
}

bool ep_search_record(const struct ep_walk *walk, struct ep_frame *caller)
{
    const uintptr_t sp = walk->frame.sp;
    struct ep_frame next;
    uintptr_t word;

    if (walk->exact && ep_walk_load(walk, sp, &word) && code_before(walk, word) &&
        walk->frame.pc - callee_of(walk, word) < LEAF_MOST) {
        *caller = (struct ep_frame){.pc = word, .sp = sp + WORD, .fp = walk->frame.fp};
        return true;
    }
    for (uintptr_t at = sp; at < sp + EP_SEARCH_BYTES; at += WORD)
        if (is_record(walk, at, caller) && is_record(walk, caller->fp, &next))
            return true;
    return false;
}
