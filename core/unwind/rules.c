/*
 * The rule cache: program counter -> how to find the caller, one 64-bit word an entry (rule_word.h). A race costs a
 * derivation, nothing else. A rule that does not fit into a word is derived each time.
 */
#include "core/unwind/ahead.h"
#include "core/unwind/cfi.h"
#include "core/unwind/rule_word.h"

#define CFA_MOST (1 << (EP_RULE_CFA_BITS - 1))

/* Of code that a first miss brings in: what derives rules, and what reads tables, in front of ep_cfi_find and there. */
#define DERIVING_BYTES 2304u
#define TABLES_FRONT   2304u
#define TABLES_BYTES   3264u

/* A chain that would be taken for a plain one: on aarch64 it gets a slot, which chains have not. */
static inline __attribute__((always_inline)) bool is_marked(unsigned kind, int cfa)
{
    return EP_RULE_INVERTED && kind == EP_RULE_PLAIN && cfa >= 0 && cfa < (int)EP_RULE_PLAIN_LEAST;
}

/* These and ep_rule_find() are inline: the second function that has them is only in some programs. */
static inline __attribute__((always_inline)) bool pack(uintptr_t pc, struct ep_rule rule, uint64_t *word)
{
    unsigned cfa = (unsigned)rule.cfa & ((1u << EP_RULE_CFA_BITS) - 1);

    if (!ep_rule_has_place(pc) || rule.fp_slot > EP_RULE_SLOT_MAX || rule.base_slot > EP_RULE_SLOT_MAX ||
        rule.ra_extra > EP_RULE_RA_MOST || rule.cfa < -CFA_MOST || rule.cfa >= CFA_MOST ||
        (rule.kind == EP_RULE_SP && rule.cfa <= rule.ra_extra) ||
        (is_marked(rule.kind, rule.cfa) && rule.base_slot != 0))
        return false;
    rule.base_slot |= is_marked(rule.kind, rule.cfa);
    *word = ep_rule_key(pc) ^
            ((uint64_t)rule.ra_extra << EP_RULE_RA_SHIFT | (uint64_t)(rule.kind ^ EP_RULE_PLAIN) << EP_RULE_KIND_SHIFT |
             (uint64_t)rule.fp_slot << 16 | (uint64_t)rule.base_slot << EP_RULE_CFA_BITS | cfa);
    return true;
}

static inline __attribute__((always_inline)) struct ep_rule unpack(uintptr_t fields)
{
    return (struct ep_rule){
        .kind = (uint8_t)ep_rule_kind(fields),
        .fp_slot = (uint8_t)ep_rule_fp_slot(fields),
        .base_slot = is_marked(ep_rule_kind(fields), (int)ep_rule_cfa(fields)) ? 0 : (uint8_t)ep_rule_base_slot(fields),
        .ra_extra = (uint8_t)ep_rule_ra_extra(fields),
        .cfa = (int16_t)ep_rule_cfa(fields),
    };
}

/* In front; the oldest of the bucket makes room. */
static inline __attribute__((always_inline)) void keep(_Atomic uint64_t *bucket, uint64_t word)
{
    for (unsigned way = EP_RULE_WAYS - 1; way > 0; way--)
        atomic_store_explicit(&bucket[way], atomic_load_explicit(&bucket[way - 1], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&bucket[0], word, memory_order_relaxed);
}

/* Not "no way on": the code's module may only have to be found yet. Not a return into the hijack stub: a walk along
 * cached rules would go through it. */
static inline bool is_kept(const struct ep_unwinder *unwinder, uintptr_t pc, struct ep_rule rule)
{
    return rule.kind != EP_RULE_STOP && pc + 1 != unwinder->hijack_stub;
}

/* Kept out of line: the way of a hit stays short. */
static __attribute__((noinline, hot)) struct ep_rule miss(struct ep_unwinder *unwinder, uintptr_t pc, bool exact,
                                                          struct ep_stack *stack)
{
    uint64_t packed;

    if (stack->misses++ == 0) {
        ep_code_ahead((uintptr_t)ep_rule_derive, DERIVING_BYTES);
        ep_code_ahead((uintptr_t)ep_cfi_find - TABLES_FRONT, TABLES_BYTES);
    }
    struct ep_rule rule = ep_rule_derive(&unwinder->modules, pc, exact);
    if (is_kept(unwinder, pc, rule) && pack(pc, rule, &packed))
        keep(&unwinder->rule[ep_rule_bucket(pc) * EP_RULE_WAYS], packed);
    return rule;
}

__attribute__((hot)) struct ep_rule ep_rule_get(struct ep_unwinder *unwinder, uintptr_t pc, bool exact,
                                                struct ep_stack *stack)
{
    uintptr_t fields = ep_rule_find(unwinder->rule, pc, ep_rule_likely(unwinder->rule, pc));

    if (fields == EP_RULE_NONE)
        return miss(unwinder, pc, exact, stack);
    stack->hits++;
    return unpack(fields);
}

struct ep_rule ep_rule_get_by_table(struct ep_unwinder *unwinder, uintptr_t pc, bool exact, unsigned *misses)
{
    const uintptr_t fields = ep_rule_find(unwinder->rule, pc, ep_rule_likely(unwinder->rule, pc));
    uint64_t packed;

    if (fields != EP_RULE_NONE)
        return unpack(fields);
    ++*misses;
    const struct ep_rule rule = ep_rule_derive_by_table(&unwinder->modules, pc, exact);
    if (is_kept(unwinder, pc, rule) && pack(pc, rule, &packed))
        keep(&unwinder->rule[ep_rule_bucket(pc) * EP_RULE_WAYS], packed);
    return rule;
}
