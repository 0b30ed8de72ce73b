/*
 * The rule cache: program counter -> how to find the caller, one 64-bit word an entry (rule_word.h). A race costs a
 * derivation, nothing else. A rule that does not fit into a word is derived each time.
 */
#include "core/unwind/rule_word.h"

#define CFA_MOST (1 << (EP_RULE_CFA_BITS - 1))

static bool pack(uintptr_t pc, struct ep_rule rule, uint64_t *word)
{
    unsigned cfa = (unsigned)rule.cfa & ((1u << EP_RULE_CFA_BITS) - 1);

    if (!ep_rule_has_place(pc) || rule.fp_slot > EP_RULE_SLOT_MAX || rule.base_slot > EP_RULE_SLOT_MAX ||
        rule.ra_extra > EP_RULE_RA_MOST || rule.cfa < -CFA_MOST || rule.cfa >= CFA_MOST ||
        (rule.kind == EP_RULE_SP && rule.cfa <= rule.ra_extra))
        return false;
    *word = ep_rule_key(pc) ^
            ((uint64_t)rule.ra_extra << EP_RULE_RA_SHIFT | (uint64_t)(rule.kind ^ EP_RULE_PLAIN) << EP_RULE_KIND_SHIFT |
             (uint64_t)rule.fp_slot << 16 | (uint64_t)rule.base_slot << EP_RULE_CFA_BITS | cfa);
    return true;
}

static struct ep_rule unpack(uintptr_t fields)
{
    return (struct ep_rule){
        .kind = (uint8_t)ep_rule_kind(fields),
        .fp_slot = (uint8_t)ep_rule_fp_slot(fields),
        .base_slot = (uint8_t)ep_rule_base_slot(fields),
        .ra_extra = (uint8_t)ep_rule_ra_extra(fields),
        .cfa = (int16_t)ep_rule_cfa(fields),
    };
}

/* Kept out of line: the way of a hit stays short. */
static __attribute__((noinline)) struct ep_rule miss(struct ep_unwinder *unwinder, uintptr_t pc, bool exact,
                                                     struct ep_stack *stack)
{
    _Atomic uint64_t *bucket = &unwinder->rule[ep_rule_bucket(pc) * 2];
    uint64_t newer = atomic_load_explicit(&bucket[0], memory_order_relaxed), packed;

    stack->misses++;
    struct ep_rule rule = ep_rule_derive(&unwinder->modules, pc, exact);
    /* Not "no way on": the code's module may only have to be found yet. Not a return into the hijack stub: a walk along
     * cached rules would go through it. */
    if (rule.kind != EP_RULE_STOP && pc + 1 != unwinder->hijack_stub && pack(pc, rule, &packed)) {
        atomic_store_explicit(&bucket[1], newer, memory_order_relaxed);
        atomic_store_explicit(&bucket[0], packed, memory_order_relaxed);
    }
    return rule;
}

struct ep_rule ep_rule_get(struct ep_unwinder *unwinder, uintptr_t pc, bool exact, struct ep_stack *stack)
{
    uintptr_t fields = ep_rule_find(unwinder->rule, pc);

    if (fields == EP_RULE_NONE)
        return miss(unwinder, pc, exact, stack);
    stack->hits++;
    return unpack(fields);
}
