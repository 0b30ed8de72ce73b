/*
 * The part of a walk that most frames are: the rule is in the cache and of a common kind. Here a step is made straight
 * from the cached word, with all that is needed in registers.
 *
 * Makes no step that ep_unwind's own would not make in the same way. Whatever else there is, errors too, is left to
 * that: the walk stands where it stood.
 */
#include "core/unwind/rule_word.h"

#include <edgeprof/port.h>

#define WORD         sizeof(uintptr_t)
#define RECORD_WORDS 2
/* No offset of a rule is larger: from a stack that keeps this distance to both ends of memory no sum wraps around. */
#define MARGIN ((uintptr_t)1 << 14)

_Static_assert(WORD << EP_RULE_CFA_BITS <= MARGIN, "an offset may be larger than MARGIN");

/* pc: what rules are looked up for, a return address - 1. mask: ep_code_mask(). */
struct registers {
    uintptr_t pc, sp, fp, base, mask;
};

static inline uintptr_t word_at(uintptr_t at)
{
    return *(const uintptr_t *)at;
}

static inline uintptr_t caller_of(const struct registers *at, uintptr_t return_address)
{
    return (return_address & at->mask) - 1;
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
    at->pc = caller_of(at, word_at(cfa - (1 + ep_rule_ra_extra(rule)) * WORD));
    if (ep_rule_has_slots(rule)) {
        take_slot(&at->fp, at->sp, cfa, ep_rule_fp_slot(rule));
        take_slot(&at->base, at->sp, cfa, ep_rule_base_slot(rule));
    }
    at->sp = cfa;
    return true;
}

/* Returns true if fp points to a whole record. */
static inline bool has_record(const struct registers *at, uintptr_t end, uintptr_t offset)
{
    return (at->fp >= at->sp) & (at->fp <= end - offset) && at->fp % WORD == 0;
}

static inline void step_to_record(struct registers *at, uintptr_t offset)
{
    uintptr_t record = at->fp;

    at->fp = word_at(record);
    at->pc = caller_of(at, word_at(record + WORD));
    at->sp = record + offset;
}

/* Nothing but an interrupted frame has its return address in lr, and a sleeping thread's lr is not known. */
static inline bool step_by_link(struct registers *at, uintptr_t end, uintptr_t rule, uintptr_t lr)
{
    if (ep_rule_kind(rule) != EP_RULE_LINK || ep_rule_has_slots(rule) || ep_rule_ra_extra(rule) != EP_LINK_SP ||
        ep_rule_cfa(rule) < 0 || at->sp + offset_of(rule) > end || lr == EP_PORT_UNKNOWN)
        return false;
    at->pc = caller_of(at, lr);
    at->sp += offset_of(rule);
    return true;
}

/* sp is aligned, and so is all that is a number of words from it. A chain's step: in one condition, without a branch
 * for each; fp's low bits make what they are shifted onto too large to be a plain rule; where the step leads to is only
 * looked at when the next one is to be made. */
static inline bool is_plain_step(const struct registers *at, uintptr_t end, uint64_t word, uintptr_t rule, bool room)
{
    if (EP_RULE_PLAIN == EP_RULE_CHAIN)
        return ((rule | at->fp << (8 * WORD - 3)) < EP_RULE_PLAIN_END) & (at->fp >= at->sp) &
               (at->fp <= end - RECORD_WORDS * WORD) & room;
    return ep_rule_is_plain(word, at->pc) && at->sp + rule * WORD <= end;
}

static inline void step_plain(struct registers *at, uintptr_t offset)
{
    if (EP_RULE_PLAIN == EP_RULE_CHAIN) {
        step_to_record(at, offset);
    } else {
        at->sp += offset;
        at->pc = caller_of(at, word_at(at->sp - WORD));
    }
}

/* The rule of code with frame pointers, apart from where base is: known by a comparison, so that a processor which
 * still waits for the rule runs ahead to the caller. */
#define FRAMED                                                                                                         \
    ((uintptr_t)(EP_RULE_FP ^ EP_RULE_PLAIN) << EP_RULE_KIND_SHIFT | (uintptr_t)RECORD_WORDS << 16 | RECORD_WORDS)
#define BASE_SLOT ((uintptr_t)EP_RULE_SLOT_MAX << EP_RULE_CFA_BITS)

static inline bool is_framed_step(const struct registers *at, uintptr_t end, uintptr_t rule)
{
    return EP_RULE_WIDE && (rule & ~BASE_SLOT) == FRAMED && has_record(at, end, RECORD_WORDS * WORD);
}

static inline void step_framed(struct registers *at, uintptr_t rule)
{
    uintptr_t sp = at->sp;

    step_to_record(at, RECORD_WORDS * WORD);
    take_slot(&at->base, sp, at->sp, ep_rule_base_slot(rule));
}

/* Where plain rules are chains there are none of the other kinds, and elsewhere no chains. */
static inline bool step_by(struct registers *at, uintptr_t end, uintptr_t rule)
{
    unsigned kind = ep_rule_kind(rule);
    uintptr_t cfa = offset_of(rule);

    if (EP_RULE_PLAIN == EP_RULE_CHAIN) {
        bool can = kind == EP_RULE_CHAIN && ep_rule_cfa(rule) >= RECORD_WORDS && has_record(at, end, cfa);
        if (can)
            step_to_record(at, cfa);
        return can;
    }
    if (kind == EP_RULE_SP)
        return step_to(at, end, rule, at->sp + cfa);
    if (kind != EP_RULE_FP && kind != EP_RULE_BASE)
        return false;
    cfa += kind == EP_RULE_FP ? at->fp : at->base;
    return cfa > at->sp && cfa - (1 + ep_rule_ra_extra(rule)) * WORD >= at->sp && cfa % WORD == 0 &&
           step_to(at, end, rule, cfa);
}

static inline bool is_root(struct ep_walk *walk, const struct registers *at, uintptr_t rule, bool interrupted)
{
    unsigned kind = ep_rule_kind(rule);

    if (kind == EP_RULE_RESTART && !interrupted && ep_is_outermost(walk, at->sp)) {
        walk->guessed |= !walk->registers->stack_root;
        return true;
    }
    return kind == EP_RULE_ROOT || (kind == EP_RULE_CHAIN && at->fp == 0);
}

/* What the loop leaves: a rule that is second in its bucket, an interrupted function's frame, the root (as unwind.c
 * knows it). word: the first in its bucket. Out of line: the loop keeps its registers. */
static __attribute__((noinline, hot)) enum ep_cached step_rare(struct ep_walk *walk, struct registers *at,
                                                               uint64_t word, bool interrupted)
{
    uintptr_t rule = ep_rule_find(walk->unwinder->rule, at->pc, word);

    if (step_by(at, walk->end, rule) || (interrupted && step_by_link(at, walk->end, rule, walk->frame.lr)))
        return EP_CACHED_STEPS;
    return is_root(walk, at, rule, interrupted) ? EP_CACHED_ROOT : EP_CACHED_NOTHING;
}

/* No sum wraps around. */
static inline bool is_ordinary(const struct ep_walk *walk, uintptr_t pc)
{
    return walk->frame.sp >= MARGIN && walk->end <= UINTPTR_MAX - MARGIN && walk->frame.sp % WORD == 0 &&
           ep_rule_may_be(pc);
}

/* Makes steps until the limit or one that is not in the cache. Returns where the next frame goes; *done: whether the
 * last one is the root. */
static inline atomic_uintptr_t *steps(struct ep_walk *walk, struct registers *to, atomic_uintptr_t *const start,
                                      atomic_uintptr_t *const limit, enum ep_cached *done)
{
    _Atomic uint64_t *rules = walk->unwinder->rule;
    struct registers at = *to;
    atomic_uintptr_t *next = start;
    uintptr_t end = walk->end;

    while (EP_RULE_PLAIN == EP_RULE_CHAIN || next < limit) {
        uint64_t word = ep_rule_likely(rules, at.pc);
        uintptr_t rule = ep_rule_fields(word, at.pc), pc = at.pc;
        __asm__("" : "+r"(next)); /* one register, not one for each of the places where it is used */
        if (__builtin_expect(is_framed_step(&at, end, rule), EP_RULE_WIDE)) {
            *(uintptr_t *)(void *)next++ = pc;
            step_framed(&at, rule);
            continue;
        }
        if (__builtin_expect(is_plain_step(&at, end, word, rule, next < limit), 1)) {
            *(uintptr_t *)(void *)next++ = at.pc; /* published by the record's header */
            step_plain(&at, rule * WORD);
            continue;
        }
        if (EP_RULE_PLAIN == EP_RULE_CHAIN && (next >= limit || at.sp > end))
            break;
        bool known = EP_RULE_PLAIN != EP_RULE_CHAIN && ep_rule_is_for(word, pc) && ep_rule_has_place(pc);
        if (known && step_by(&at, end, rule)) {
            *(uintptr_t *)(void *)next++ = pc;
            continue;
        }
        if (rule == EP_RULE_ROOT_FIELDS && (known || EP_RULE_INVERTED)) {
            *done = EP_CACHED_ROOT;
        } else {
            struct registers copy = at;
            *done = step_rare(walk, &copy, word, walk->exact && next == start);
            if (*done == EP_CACHED_NOTHING)
                break;
            at = copy;
        }
        atomic_store_explicit(next++, pc, memory_order_relaxed);
        if (*done == EP_CACHED_ROOT)
            break;
    }
    *to = at;
    return next;
}

/* Where the walk stands. */
static inline struct registers registers_of(const struct ep_walk *walk)
{
    uintptr_t pc =
        EP_RULE_NARROW ? walk->frame.pc : ep_code_address(walk->frame.pc); /* the Thumb bit tells code apart */

    return (struct registers){.pc = pc - !walk->exact,
                              .sp = walk->frame.sp,
                              .fp = walk->frame.fp,
                              .base = walk->frame.base,
                              .mask = ep_code_mask()};
}

__attribute__((hot)) enum ep_cached ep_unwind_cached(struct ep_walk *walk, struct ep_stack *stack)
{
    atomic_uintptr_t *start = stack->pc + stack->depth, *next, *limit = stack->pc + EP_MAX_DEPTH;
    struct registers at;
    enum ep_cached done;

    if (!is_ordinary(walk, walk->frame.pc - !walk->exact))
        return EP_CACHED_NOTHING;
    for (;;) {
        at = registers_of(walk);
        done = EP_CACHED_STEPS;
        next = steps(walk, &at, start, limit, &done);
        if (EP_RULE_PLAIN != EP_RULE_CHAIN || __builtin_expect(at.sp <= walk->end, 1))
            break;
        limit = next - 1; /* once more, without the step that left the stack */
    }
    if (next == start)
        return EP_CACHED_NOTHING;
    if (EP_RULE_NARROW && walk->exact) /* without the Thumb bit */
        atomic_store_explicit(start, ep_code_address(walk->frame.pc), memory_order_relaxed);
    stack->depth = (uint16_t)(stack->depth + (next - start));
    stack->hits = (uint16_t)(stack->hits + (next - start));
    if (done == EP_CACHED_ROOT)
        return EP_CACHED_ROOT;
    walk->exact = false;
    walk->frame.pc = at.pc + 1;
    walk->frame.sp = at.sp;
    walk->frame.fp = at.fp;
    walk->frame.base = at.base;
    return EP_CACHED_STEPS;
}
