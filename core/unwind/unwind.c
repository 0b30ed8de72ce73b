/*
 * The walk from an interrupted frame to the root, one rule a frame.
 *
 * A stack that is not the thread's own, such as a coroutine's, has no known bounds: the walk asks the system page by
 * page, as far as frames reach.
 *
 * A stack that is deeper than EP_MAX_DEPTH keeps both sides: the inner half of the room holds the leaf side, the outer
 * half is a ring that ends up with the root side, and EP_FRAME_DEEP between them stands for the others.
 *
 * Bounded by DEPTH_MOST frames; each step moves the CFA towards the root and reads only whole, aligned words in
 * [sp, end of the stack), so a wrong register ends the walk and never faults. A frame is never invented: where no
 * rule leads on, the stack says that it was cut.
 */
#include "core/unwind/noreturn.h"
#include "core/unwind/rule_word.h"

#include <edgeprof/port.h>

#include <string.h>

#define WORD         sizeof(uintptr_t)
#define RECORD_WORDS 2
/* What is asked for at once, at most a page of any system. */
#define PAGE_LEAST ((uintptr_t)4096)
/* What compilers align functions to, so that few return addresses are looked up. */
#define FUNCTION_ALIGN (sizeof(uintptr_t) == 8 ? 8u : 4u)
/* Frames that stay at the leaf side of a deeper stack, and where its root side begins. */
#define KEPT  (EP_MAX_DEPTH / 2)
#define OUTER (KEPT + 1)
/* Frames of one walk, about; root sides of deeper stacks are not reached. */
#define DEPTH_MOST 16384u
/* Frames of generated code between two known ones, at most. */
#define GENERATED_MOST 256u
/* Bytes of one frame on a foreign stack, at most. */
#define FRAME_MOST ((uintptr_t)256 << 10)
/* The registers in a signal frame are below. */
#define SIGNAL_MOST ((uintptr_t)1280)

static uintptr_t stack_end(const struct ep_registers *registers, uintptr_t sp)
{
    if (sp - registers->stack_start < registers->stack_end - registers->stack_start)
        return registers->stack_end;
    if (sp - registers->alt_start < registers->alt_end - registers->alt_start)
        return registers->alt_end;
    return 0;
}

/* Finds the end of the stack that sp is on. */
static void stack_enter(struct ep_walk *walk)
{
    uintptr_t sp = walk->frame.sp;

    walk->end = stack_end(walk->registers, sp);
    walk->foreign = walk->end == 0 && !walk->registers->moved && ep_port_readable(sp);
    if (walk->foreign)
        walk->end = (sp | (PAGE_LEAST - 1)) + 1;
}

/* Moves the end of a foreign stack up to an address, if that far can be read. Returns true if the end moved. */
static bool stack_extend(struct ep_walk *walk, uintptr_t to)
{
    uintptr_t before = walk->end;

    if (!walk->foreign || to <= before || to - before > FRAME_MOST)
        return false;
    while (walk->end < to && ep_port_readable(walk->end))
        walk->end += PAGE_LEAST;
    return walk->end != before;
}

/* A slot below sp was popped already: in epilogues tables go on naming it, and the register is the caller's again. */
static bool saved(const struct ep_walk *walk, unsigned slot, uintptr_t at, uintptr_t *value)
{
    return slot == 0 || at < walk->frame.sp || ep_walk_load(walk, at, value);
}

static bool cfa_of(const struct ep_walk *walk, struct ep_rule rule, uintptr_t *cfa)
{
    uintptr_t offset = (uintptr_t)((intptr_t)rule.cfa * (intptr_t)WORD);

    switch (rule.kind) {
    case EP_RULE_LINK:
        *cfa = offset + (rule.ra_extra == EP_LINK_FP     ? walk->frame.fp
                         : rule.ra_extra == EP_LINK_BASE ? walk->frame.base
                                                         : walk->frame.sp);
        return true;
    case EP_RULE_SP:
    case EP_RULE_APART:
    case EP_RULE_RECORD:
        *cfa = walk->frame.sp + offset;
        return true;
    case EP_RULE_CHAIN:
        *cfa = walk->frame.fp + (rule.cfa ? offset : RECORD_WORDS * WORD);
        return true;
    case EP_RULE_FP:
    case EP_RULE_GUESS:
    case EP_RULE_RESTART:
        *cfa = walk->frame.fp + offset;
        return true;
    case EP_RULE_BASE:
        *cfa = walk->frame.base + offset;
        return true;
    case EP_RULE_FP_LOAD:
        return ep_walk_load(walk, walk->frame.fp + offset, cfa);
    case EP_RULE_AWAY:
        return EP_HAS_AWAY && ep_away_cfa(walk, rule, cfa);
    default:
        return false;
    }
}

/* By slots below the CFA. */
static bool by_slots(const struct ep_walk *walk, struct ep_rule rule, struct ep_frame *caller)
{
    uintptr_t cfa = caller->sp;
    uintptr_t fp_at = rule.kind == EP_RULE_FP_LOAD ? walk->frame.fp : cfa - rule.fp_slot * WORD;

    if (rule.kind == EP_RULE_LINK && !walk->exact) /* lr is known of an interrupted frame only */
        return false;
    if (rule.kind == EP_RULE_LINK)
        caller->pc = walk->frame.lr;
    else if (rule.kind == EP_RULE_APART && rule.ra_extra)
        return ep_walk_load(walk, walk->frame.sp + (rule.base_slot - 1u) * WORD, &caller->pc) &&
               saved(walk, rule.fp_slot, walk->frame.sp + (rule.fp_slot - 1u) * WORD, &caller->fp);
    else if (rule.kind == EP_RULE_APART)
        return ep_walk_load(walk, cfa - rule.base_slot * WORD, &caller->pc) &&
               saved(walk, rule.fp_slot, fp_at, &caller->fp);
    else if (!ep_walk_load(walk, cfa - (1u + rule.ra_extra) * WORD, &caller->pc))
        return false;
    return saved(walk, rule.fp_slot, fp_at, &caller->fp) &&
           saved(walk, rule.base_slot, cfa - rule.base_slot * WORD, &caller->base);
}

/* By a record of two words, caller's fp and return address. */
static bool by_record(const struct ep_walk *walk, uintptr_t record, struct ep_frame *caller)
{
    return ep_walk_load(walk, record, &caller->fp) && ep_walk_load(walk, record + WORD, &caller->pc);
}

static bool needs_sp(struct ep_rule rule)
{
    return rule.kind == EP_RULE_SP || rule.kind == EP_RULE_LINK || rule.kind == EP_RULE_APART ||
           rule.kind == EP_RULE_RECORD;
}

/* Returns true if a guessed return address lies in code from which the walk can continue. */
static bool is_known(struct ep_unwinder *unwinder, uintptr_t pc)
{
    struct ep_stack unused = {0};
    unsigned kind = ep_rule_get(unwinder, pc - 1, false, &unused).kind;

    return kind == EP_RULE_SP || kind == EP_RULE_FP || kind == EP_RULE_BASE || kind == EP_RULE_ROOT;
}

/* Returns true if the CFA is in a register of the interrupted frame, which may have changed it: a guess. */
static bool is_from_callee(const struct ep_walk *walk, struct ep_rule rule)
{
    return EP_HAS_AWAY && rule.kind == EP_RULE_AWAY && !walk->exact && !ep_away_is_load(rule);
}

bool ep_walk_step(struct ep_walk *walk, struct ep_rule rule)
{
    if (walk->sp_lost && needs_sp(rule))
        rule = (struct ep_rule){.kind = EP_RULE_CHAIN};
    struct ep_frame caller = {.fp = walk->frame.fp, .base = walk->frame.base};
    bool found;

    if (!cfa_of(walk, rule, &caller.sp) || caller.sp > walk->end || caller.sp < walk->frame.sp ||
        (caller.sp == walk->frame.sp && !walk->exact))
        return false;
    if (rule.kind == EP_RULE_CHAIN)
        found = by_record(walk, walk->frame.fp, &caller);
    else if (rule.kind == EP_RULE_RECORD)
        found = by_record(walk, walk->frame.sp + rule.fp_slot * WORD, &caller);
    else
        found = by_slots(walk, rule, &caller);
    caller.pc = ep_code_address(caller.pc);
    if (!found ||
        ((rule.kind == EP_RULE_RESTART || is_from_callee(walk, rule)) && !is_known(walk->unwinder, caller.pc)))
        return false;
    walk->sp_lost = rule.kind == EP_RULE_CHAIN && rule.cfa == 0;
    if (ep_is_guess(rule) || is_from_callee(walk, rule)) {
        walk->guessed = true;
        caller.base = 0;
    }
    /* Field by field: a copy by vector registers waits for the single stores before it. */
    walk->frame.pc = caller.pc;
    walk->frame.sp = caller.sp;
    walk->frame.fp = caller.fp;
    walk->frame.base = caller.base;
    walk->exact = false;
    return true;
}

/* Returns true if a table describes the code before a return address, so that the walk can continue there. */
static bool is_described(const struct ep_walk *walk, uintptr_t pc)
{
    struct ep_stack unused = {0};

    if (!ep_module_find(&walk->unwinder->modules, pc - 1))
        return false;
    struct ep_rule rule = ep_rule_get(walk->unwinder, pc - 1, false, &unused);
    return !ep_is_guess(rule) && rule.kind != EP_RULE_STOP && rule.kind != EP_RULE_LINK;
}

static bool guess_caller(struct ep_walk *walk, struct ep_frame caller)
{
    walk->frame = caller;
    walk->exact = false;
    walk->guessed = true;
    walk->sp_lost = EP_RULE_PLAIN == EP_RULE_CHAIN;
    return true;
}

/* From code of no known module, which may be generated: along frame pointers to the nearest caller with a table. Where
 * frame records lie in the middle of frames, its sp stays unknown. */
static bool step_by_records(struct ep_walk *walk)
{
    uintptr_t record = walk->frame.fp;
    struct ep_frame caller = {0};

    for (unsigned i = 0; i < GENERATED_MOST; i++) {
        (void)stack_extend(walk, record + RECORD_WORDS * WORD);
        if (!by_record(walk, record, &caller))
            return false;
        caller.pc = ep_code_address(caller.pc);
        if (is_described(walk, caller.pc)) {
            caller.sp = record + RECORD_WORDS * WORD;
            return guess_caller(walk, caller);
        }
        if (caller.fp <= record)
            return false;
        record = caller.fp;
    }
    return false;
}

static bool step_generated(struct ep_walk *walk)
{
    struct ep_frame caller;

    if (step_by_records(walk))
        return true;
    if (!EP_HAS_SEARCH || walk->sp_lost)
        return false;
    (void)stack_extend(walk, walk->frame.sp + EP_SEARCH_BYTES);
    return ep_search_caller(walk, &caller) && guess_caller(walk, caller);
}

/* From .NET's function for hardware faults before it has written its record: the registers are still the fault's. */
static bool fault_begun(struct ep_walk *walk, struct ep_rule rule, uintptr_t cfa)
{
    if (rule.ra_extra && !(EP_HAS_AWAY && ep_away_cfa(walk, rule, &cfa)))
        return false;
    walk->frame.pc = ep_lr_of(EP_HAS_AWAY ? ep_frame_argument(&walk->frame) : walk->frame.argument);
    walk->frame.sp = cfa;
    if (walk->frame.lr == walk->frame.pc) /* 32-bit ARM's function puts the address there */
        walk->frame.lr = 0;
    return walk->exact;
}

/* To a frame that was interrupted. */
static bool step_interrupted(struct ep_walk *walk, struct ep_rule rule)
{
    const uintptr_t cfa = (rule.fp_slot ? walk->frame.fp : walk->frame.sp) + (uintptr_t)rule.cfa * WORD;
    const uintptr_t moved = walk->registers->moved;
    bool found;

    if (!walk->exact)
        walk->frame.lr = 0; /* an inner frame's */
    if (rule.kind == EP_RULE_FAULT && rule.base_slot) {
        found = fault_begun(walk, rule, cfa);
    } else {
        walk->frame.sp += moved;
        found = rule.kind == EP_RULE_SIGNAL ? ep_signal_frame(&walk->frame, walk->end + moved)
                                            : ep_fault_frame(&walk->frame, cfa + moved, walk->end + moved);
    }
    walk->exact = true;
    walk->end = 0;
    if (found)
        stack_enter(walk);
    return walk->end != 0;
}

/* To the caller on a stack whose end may have to be moved first. */
static bool step_far(struct ep_walk *walk, struct ep_rule rule)
{
    uintptr_t cfa;

    if (ep_walk_step(walk, rule))
        return true;
    if (rule.kind == EP_RULE_FP_LOAD)
        (void)stack_extend(walk, walk->frame.fp + (uintptr_t)((intptr_t)rule.cfa * (intptr_t)WORD) + WORD);
    return cfa_of(walk, rule, &cfa) && stack_extend(walk, cfa) && ep_walk_step(walk, rule);
}

/* From a frame whose frame pointer and link register nobody knows, because its thread sleeps. */
static bool step_asleep(struct ep_walk *walk, struct ep_rule rule)
{
    struct ep_frame caller;

    if (!(EP_HAS_SEARCH || EP_HAS_RECORDS) || walk->frame.fp != EP_PORT_UNKNOWN || walk->sp_lost)
        return false;
    if (EP_HAS_RECORDS)
        return ep_search_record(walk, &caller) && guess_caller(walk, caller);
    return (rule.kind == EP_RULE_FP && ep_search_caller(walk, &caller) && guess_caller(walk, caller)) ||
           (rule.kind == EP_RULE_GUESS && ep_search_record(walk, &caller) && guess_caller(walk, caller));
}

/* A sleeping thread's caller is in its link register. */
static bool needs_unknown(const struct ep_walk *walk, struct ep_rule rule)
{
    return EP_HAS_RECORDS && rule.kind == EP_RULE_LINK && walk->exact && walk->frame.lr == EP_PORT_UNKNOWN;
}

/* From code without a table that never returns, such as a server's endless loop in main(): to what has called the
 * thread's first own frame, whose return address is the last word below the root. */
static bool step_root(struct ep_walk *walk, struct ep_rule rule)
{
    const uintptr_t root = walk->registers->stack_root;
    struct ep_frame caller = {.sp = root};
    struct ep_stack unused = {0};

    if (!EP_HAS_RESTART || rule.kind != EP_RULE_RESTART || walk->foreign || root < WORD || walk->frame.sp >= root ||
        !ep_walk_load(walk, root - WORD, &caller.pc))
        return false;
    caller.pc = ep_code_address(caller.pc);
    return ep_rule_get(walk->unwinder, caller.pc - 1, false, &unused).kind != EP_RULE_STOP &&
           guess_caller(walk, caller);
}

static bool leave(struct ep_walk *walk, struct ep_rule rule)
{
    if (rule.kind != EP_RULE_SIGNAL && rule.kind != EP_RULE_FAULT)
        return (!needs_unknown(walk, rule) && step_far(walk, rule)) || step_asleep(walk, rule) || step_root(walk, rule);
    (void)stack_extend(walk, walk->frame.sp + SIGNAL_MOST);
    return step_interrupted(walk, rule);
}

/* A C library's code that starts a thread may say nothing of where it ends (musl's clone): above the thread's first own
 * frame there is nothing to miss. */
static bool starts_thread(const struct ep_walk *walk)
{
    return !walk->exact && ep_starts_thread(walk);
}

/* Who makes a coroutine may write the start of a function where its entry's return address is expected
 * (makecontext()). After a call that never returns there may be one as well: a guess, unless the table says that there
 * is no caller. */
static bool begins_coroutine(struct ep_walk *walk)
{
    struct ep_stack unused = {0};
    uintptr_t pc = ep_code_address(walk->frame.pc);

    if (!walk->foreign || walk->exact || pc % FUNCTION_ALIGN)
        return false;
    const struct ep_module *module = ep_module_find(&walk->unwinder->modules, pc);
    if (!module || ep_function_start(module, pc) != pc)
        return false;
    walk->guessed |= ep_rule_get(walk->unwinder, pc, false, &unused).kind != EP_RULE_ROOT;
    return true;
}

/* Assembly that a coroutine's entry returns to, such as boost.context's, has no table that says so: a guess. */
static bool starts_coroutine(struct ep_walk *walk, struct ep_rule rule)
{
    bool open = rule.kind == EP_RULE_STOP || rule.kind == EP_RULE_RESTART || rule.kind == EP_RULE_GUESS;

    if (!walk->foreign || walk->exact || !open || !ep_module_find(&walk->unwinder->modules, walk->frame.pc - 1))
        return false;
    walk->guessed = true;
    return true;
}

/* The outermost frame of a thread: by the table, by a chain's end, or, in a libc without tables, because it lies above
 * the thread's first own frame. Where that is not known, closeness to the end of the stack is taken for it, as a guess.
 */
static bool is_root(struct ep_walk *walk, struct ep_rule rule)
{
    if (rule.kind == EP_RULE_ROOT || (rule.kind == EP_RULE_CHAIN && walk->frame.fp == 0))
        return true;
    if (ep_is_guess(rule) && starts_thread(walk))
        return true;
    if (rule.kind != EP_RULE_RESTART || walk->exact)
        return false;
    bool outermost = ep_is_outermost(walk, walk->frame.sp);
    walk->guessed |= outermost && !walk->registers->stack_root;
    return outermost;
}

/* True if the stack has room for a frame, perhaps that of one of the middle. */
static bool has_room(struct ep_walk *walk, struct ep_stack *stack)
{
    if (stack->depth < EP_MAX_DEPTH)
        return true;
    if (walk->turns == DEPTH_MOST / (EP_MAX_DEPTH - OUTER))
        return false;
    walk->turns++;
    atomic_store_explicit(&stack->pc[KEPT], EP_FRAME_DEEP, memory_order_relaxed);
    stack->depth = OUTER;
    return true;
}

static void reverse(struct ep_stack *stack, unsigned from, unsigned to)
{
    for (; from + 1 < to; from++, to--) {
        uintptr_t one = atomic_load_explicit(&stack->pc[from], memory_order_relaxed);
        uintptr_t other = atomic_load_explicit(&stack->pc[to - 1], memory_order_relaxed);
        atomic_store_explicit(&stack->pc[from], other, memory_order_relaxed);
        atomic_store_explicit(&stack->pc[to - 1], one, memory_order_relaxed);
    }
}

/* The root side begins behind the frame that was written last. */
static void ring_straighten(struct ep_stack *stack)
{
    reverse(stack, OUTER, stack->depth);
    reverse(stack, stack->depth, EP_MAX_DEPTH);
    reverse(stack, OUTER, EP_MAX_DEPTH);
    stack->depth = EP_MAX_DEPTH;
}

static void finish(struct ep_stack *stack, const struct ep_walk *walk, unsigned end)
{
    if (walk->turns)
        ring_straighten(stack);
    stack->end = (uint8_t)end;
    stack->quality = end ? EP_STACK_CUT : walk->guessed ? EP_STACK_GAP : EP_STACK_EXACT;
}

/* As far as cached rules lead. */
static bool reaches_root(struct ep_walk *walk, struct ep_stack *stack)
{
    if (walk->sp_lost || !walk->end || walk->foreign || walk->registers->moved ||
        ep_unwind_cached(walk, stack) != EP_CACHED_ROOT)
        return false;
    finish(stack, walk, EP_FRAME_NONE);
    return true;
}

static bool is_hijacked(const struct ep_walk *walk)
{
    uintptr_t stub = walk->unwinder->hijack_stub;

    return stub && walk->frame.pc == stub && !walk->exact;
}

/* The frame's address in the stack. A signal handler returns to the first instruction of a function: in front of that
 * is another one. */
static uintptr_t shown(const struct ep_walk *walk, struct ep_rule rule, uintptr_t pc)
{
    return walk->exact || rule.kind == EP_RULE_SIGNAL ? ep_code_address(walk->frame.pc) : pc;
}

/* The rest of a walk, one rule a frame. Out of line: most walks end along cached rules, and save no registers for this.
 */
static __attribute__((noinline, hot)) void walk_on(struct ep_walk *walk, struct ep_stack *stack)
{
    for (;;) {
        if (walk->frame.pc == 0 && stack->depth > 0) {
            finish(stack, walk, walk->foreign || ep_is_outermost(walk, walk->frame.sp) ? EP_FRAME_NONE : EP_FRAME_CUT);
            return;
        }
        if (!has_room(walk, stack)) {
            finish(stack, walk, EP_FRAME_DEEP);
            return;
        }
        if (is_hijacked(walk)) {
            finish(stack, walk, EP_FRAME_HIJACK);
            return;
        }
        bool first = begins_coroutine(walk);
        uintptr_t pc = walk->exact || first ? walk->frame.pc : walk->frame.pc - 1;
        struct ep_rule rule = ep_rule_get(walk->unwinder, pc, walk->exact, stack);
        pc = shown(walk, rule, pc);
        atomic_store_explicit(&stack->pc[stack->depth++], pc, memory_order_relaxed);
        if (ep_noreturn_rule)
            rule = ep_noreturn_rule(walk, rule);
        if (first || is_root(walk, rule)) {
            finish(stack, walk, EP_FRAME_NONE);
            return;
        }
        bool outside = rule.kind == EP_RULE_STOP && !ep_module_find(&walk->unwinder->modules, pc);
        stack->outside |= outside;
        if (!walk->end || !(outside ? step_generated(walk) : leave(walk, rule))) {
            finish(stack, walk, starts_thread(walk) || starts_coroutine(walk, rule) ? EP_FRAME_NONE : EP_FRAME_CUT);
            return;
        }
        if ((outside || rule.kind == EP_RULE_RESTART) && has_room(walk, stack))
            atomic_store_explicit(&stack->pc[stack->depth++], EP_FRAME_GAP, memory_order_relaxed);
        if (reaches_root(walk, stack))
            return;
    }
}

__attribute__((hot)) void ep_unwind(struct ep_unwinder *unwinder, const struct ep_registers *registers,
                                    struct ep_stack *stack)
{
    struct ep_walk walk;

    walk.unwinder = unwinder;
    walk.registers = registers;
    walk.frame.pc = registers->pc;
    walk.frame.sp = registers->sp;
    walk.frame.fp = registers->fp;
    walk.frame.lr = registers->lr;
    walk.frame.base = registers->base;
    walk.frame.argument = registers->argument;
    stack_enter(&walk);
    walk.exact = registers->lr != EP_LR_CALLED;
    walk.guessed = walk.sp_lost = false;
    walk.turns = 0;
    stack->depth = 0;
    stack->outside = false;
    stack->hits = stack->misses = 0;
    if (!reaches_root(&walk, stack))
        walk_on(&walk, stack);
}
