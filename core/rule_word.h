/*
 * A cached rule as one 64-bit word, read and written whole, for those who look it up: rules.c and unwind_cached.c.
 *
 *   64-bit machines   63           25        24   21 20       10 9       5 4         0
 *                     [ pc, high bits ]      [ kind ][ CFA, words ][ fp slot ][ base slot ]
 *   32-bit machines   63   32 31      25
 *                     [ pc ] [ 1 + ra_extra ] the same
 *
 * The bucket is the pc's low bits mixed with its high ones; the high ones are in the word, so the two together are
 * the whole pc and a hit is never wrong. Two ways a bucket, the newer in front. A word of kind 0 is no rule.
 */
#ifndef EP_RULE_WORD_H
#define EP_RULE_WORD_H

#include "internal.h"

#define EP_RULE_BUCKETS   (EP_RULE_CACHE / 2)
#define EP_RULE_NARROW    (sizeof(uintptr_t) == 4)
#define EP_RULE_TAG_SHIFT (EP_RULE_NARROW ? 32 : 25)
#define EP_RULE_TAG_BITS  (64 - EP_RULE_TAG_SHIFT)
#define EP_RULE_RA_SHIFT  25
#define EP_RULE_RA_MOST   (EP_RULE_NARROW ? 127u : 1u)
#define EP_RULE_CFA_BITS  11
#define EP_RULE_SLOT_MAX  31u
#define EP_RULE_SLOTS     (EP_RULE_SLOT_MAX << 5 | EP_RULE_SLOT_MAX) /* both fields */

static inline uintptr_t ep_rule_bucket(uintptr_t pc)
{
    return (pc ^ pc / EP_RULE_BUCKETS ^ pc / EP_RULE_BUCKETS / EP_RULE_BUCKETS) & (EP_RULE_BUCKETS - 1);
}

/* What of the pc is in the word; more than EP_RULE_TAG_BITS for addresses that no user program has. */
static inline uintptr_t ep_rule_tag(uintptr_t pc)
{
    return EP_RULE_NARROW ? pc : pc / EP_RULE_BUCKETS;
}

/* Of a word that is a rule. */
static inline bool ep_rule_is_for(uint64_t word, uintptr_t pc)
{
    return (uintptr_t)(word >> EP_RULE_TAG_SHIFT) == ep_rule_tag(pc);
}

static inline unsigned ep_rule_kind(uintptr_t word)
{
    return (unsigned)(word >> 21 & 0xf);
}

static inline intptr_t ep_rule_cfa(uintptr_t word)
{
    unsigned above = 8 * sizeof(uintptr_t) - EP_RULE_CFA_BITS;

    return (intptr_t)(word << (above - 10)) >> above;
}

static inline unsigned ep_rule_fp_slot(uintptr_t word)
{
    return (unsigned)(word >> 5 & EP_RULE_SLOT_MAX);
}

static inline unsigned ep_rule_base_slot(uintptr_t word)
{
    return (unsigned)(word & EP_RULE_SLOT_MAX);
}

/* The return address is that many words below the CFA. */
static inline unsigned ep_rule_ra(uintptr_t word)
{
    return EP_RULE_NARROW ? (unsigned)(word >> EP_RULE_RA_SHIFT) : 1;
}

/* The word for pc, on 32 bits without the pc, brought to the front of its bucket; 0 when it is not there. Context:
 * signal. */
static inline uintptr_t ep_rule_find(_Atomic uint64_t *rules, uintptr_t pc)
{
    _Atomic uint64_t *bucket = &rules[ep_rule_bucket(pc) * 2];
    uint64_t word = atomic_load_explicit(&bucket[0], memory_order_relaxed);

    if (__builtin_expect(ep_rule_is_for(word, pc), 1))
        return (uintptr_t)word;
    word = atomic_load_explicit(&bucket[1], memory_order_relaxed);
    if (!ep_rule_is_for(word, pc))
        return 0;
    uint64_t first = atomic_load_explicit(&bucket[0], memory_order_relaxed); /* again: that way it needs no register */
    atomic_store_explicit(&bucket[1], first, memory_order_relaxed);
    atomic_store_explicit(&bucket[0], word, memory_order_relaxed);
    return (uintptr_t)word;
}

#endif
