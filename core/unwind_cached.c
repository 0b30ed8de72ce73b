/*
 * The part of a walk that most frames are: the rule is in the cache and of a common kind. Here a step is made straight
 * from the cached word, with all that is needed in registers.
 *
 * Makes no step that ep_unwind's own would not make in the same way. Whatever else there is, errors too, is left to
 * that: the walk stands where it stood.
 */
#include "rule_word.h"

#define WORD         sizeof(uintptr_t)
#define RECORD_WORDS 2
/* No offset of a rule is larger: from a stack that keeps this distance to both ends of memory no sum wraps around. */
#define MARGIN ((uintptr_t)1 << 14)

_Static_assert(WORD << EP_RULE_CFA_BITS <= MARGIN, "an offset may be larger than MARGIN");

struct registers {
    uintptr_t pc, sp, fp, base;
};

static inline uintptr_t word_at(uintptr_t at)
{
    return *(const uintptr_t *)at;
}

static inline uintptr_t offset_of(uintptr_t rule)
{
    return (uintptr_t)ep_rule_cfa(rule) * WORD;
}

/* A slot below sp was popped already. */
static inline void take_slot(uintptr_t *value, uintptr_t sp, uintptr_t cfa, unsigned slot)
{
    if (slot && cfa - slot * WORD >= sp)
        *value = word_at(cfa - slot * WORD);
}

static inline bool step_to(struct registers *at, uintptr_t end, uintptr_t rule, uintptr_t cfa)
{
    if (cfa > end)
        return false;
    at->pc = word_at(cfa - ep_rule_ra(rule) * WORD);
    if (rule & EP_RULE_SLOTS) {
        take_slot(&at->fp, at->sp, cfa, ep_rule_fp_slot(rule));
        take_slot(&at->base, at->sp, cfa, ep_rule_base_slot(rule));
    }
    at->sp = cfa;
    return true;
}

/* EP_RULE_CHAIN with a known CFA. */
static inline bool step_by_chain(struct registers *at, uintptr_t end, uintptr_t rule)
{
    uintptr_t record = at->fp, offset = offset_of(rule);

    if ((record < at->sp) | (record > end - offset) | (ep_rule_cfa(rule) < RECORD_WORDS) || record % WORD)
        return false;
    at->fp = word_at(record);
    at->pc = word_at(record + WORD);
    at->sp = record + offset;
    return true;
}

/* Nothing but an interrupted frame has its return address in lr. */
static inline bool step_by_link(struct registers *at, uintptr_t end, uintptr_t rule, uintptr_t lr)
{
    if (ep_rule_kind(rule) != EP_RULE_LINK || rule & EP_RULE_SLOTS || ep_rule_cfa(rule) < 0 ||
        at->sp + offset_of(rule) > end)
        return false;
    at->pc = lr;
    at->sp += offset_of(rule);
    return true;
}

/* 32-bit machines have no chains. sp is aligned, and so is all that is a number of words from it. */
static inline bool step_by(struct registers *at, uintptr_t end, uintptr_t rule)
{
    unsigned kind = ep_rule_kind(rule);
    uintptr_t cfa = offset_of(rule);

    if (!EP_RULE_NARROW && __builtin_expect(kind == EP_RULE_CHAIN, 1))
        return step_by_chain(at, end, rule);
    if (__builtin_expect(kind == EP_RULE_SP, 1))
        return step_to(at, end, rule, at->sp + cfa);
    if (kind != EP_RULE_FP && kind != EP_RULE_BASE)
        return false;
    cfa += kind == EP_RULE_FP ? at->fp : at->base;
    return cfa > at->sp && cfa - ep_rule_ra(rule) * WORD >= at->sp && cfa % WORD == 0 && step_to(at, end, rule, cfa);
}

bool ep_unwind_cached(struct ep_frame *frame, uintptr_t end, bool exact, struct ep_stack *stack)
{
    _Atomic uint64_t *rules = ep_running()->rule;
    struct registers at = {.pc = frame->pc, .sp = frame->sp, .fp = frame->fp, .base = frame->base};
    atomic_uintptr_t *start = stack->pc + stack->depth, *next = start, *limit = stack->pc + EP_MAX_DEPTH;
    uintptr_t pc = exact ? at.pc : at.pc - 1;
    uintptr_t rule = 0;

    if (at.sp < MARGIN || end > UINTPTR_MAX - MARGIN || at.sp % WORD)
        return false;
    while (next < limit) {
        rule = ep_rule_find(rules, pc);
        if (!step_by(&at, end, rule) && (next != start || !exact || !step_by_link(&at, end, rule, frame->lr)))
            break;
        atomic_store_explicit(next++, pc, memory_order_relaxed);
        at.pc = ep_code_address(at.pc);
        pc = at.pc - 1;
    }
    if (next == start)
        return false;
    if (exact)
        atomic_store_explicit(start, ep_code_address(frame->pc), memory_order_relaxed);
    frame->pc = at.pc;
    frame->sp = at.sp;
    frame->fp = at.fp;
    frame->base = at.base;
    stack->depth = (uint16_t)(stack->depth + (next - start));
    stack->hits = (uint16_t)(stack->hits + (next - start));
    return true;
}
