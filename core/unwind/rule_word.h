/*
 * A cached rule as one 64-bit word, read and written whole, for those who look it up: rules.c and unwind_cached.c.
 *
 *   64-bit machines   63           25 24  21 20     16 15       11 10         0
 *                     [ pc, high bits ][ kind ][ fp slot ][ base slot ][ CFA, words ]
 *   32-bit machines   63 32 31      25
 *                     [ pc ][ ra_extra ] the same
 *
 * The bucket is the pc's low bits mixed with its high ones, so the two together are the whole pc and a hit is never
 * wrong. On 64 bits the low ones are mixed into the fields: one exclusive or with the pc leaves the fields alone, and
 * something larger when the word is another pc's. Two ways a bucket, the newer in front; finding
 * one writes nothing, so threads share them without disturbing each other. A word 0 is no rule.
 *
 * On x86-64 user programs leave another bit of a pc at 0, so there are four ways. All lie in one cache line, and whose
 * fields are least is the pc's if any is: looking at all of them takes no branch. Memory is what a walk waits for.
 *
 * The plain rules are those of this architecture's most common kind, with nothing but a CFA: their fields are the CFA.
 * On aarch64 keys are inverted: no pc's fields are plain in a word 0, and a chain without a CFA is marked, so that
 * plain is a single comparison.
 */
#ifndef EP_RULE_WORD_H
#define EP_RULE_WORD_H

#include "core/unwind/walk.h"

#define EP_RULE_NARROW     (sizeof(uintptr_t) == 4)
#define EP_RULE_WIDE       (!EP_RULE_NARROW && !EP_RULE_INVERTED)
#define EP_RULE_WAYS       (EP_RULE_WIDE ? 4u : 2u)
#define EP_RULE_BUCKETS    (EP_RULE_CACHE / EP_RULE_WAYS)
#define EP_RULE_PC_SHIFT   (EP_RULE_NARROW ? 32 : EP_RULE_WIDE ? 17 : 16)
#define EP_RULE_PC_END     (UINTPTR_MAX >> (EP_RULE_NARROW ? 0 : EP_RULE_PC_SHIFT))
#define EP_RULE_FIELDS     (EP_RULE_NARROW ? 32 : 25) /* bits */
#define EP_RULE_RA_SHIFT   25
#define EP_RULE_KIND_SHIFT 21
#define EP_RULE_RA_MOST    (EP_RULE_NARROW ? 127u : 0u)
#define EP_RULE_CFA_BITS   11
#define EP_RULE_SLOT_MAX   31u

/* Whose rules may be plain. Kinds are stored exclusive-or'ed with it: this one is 0 there. */
#ifndef EP_RULE_PLAIN
#ifdef __aarch64__
#define EP_RULE_PLAIN EP_RULE_CHAIN
#else
#define EP_RULE_PLAIN EP_RULE_SP
#endif
#endif

/* The least CFA of a plain rule, in words, and one more than the largest. */
#define EP_RULE_PLAIN_LEAST (EP_RULE_PLAIN == EP_RULE_CHAIN ? 2u : 1u)
#define EP_RULE_PLAIN_END   (1u << (EP_RULE_CFA_BITS - 1))
#define EP_RULE_INVERTED    (EP_RULE_PLAIN == EP_RULE_CHAIN)

/* Fields of no rule, and of the root's. */
#define EP_RULE_NONE        ((uintptr_t)EP_RULE_PLAIN << EP_RULE_KIND_SHIFT)
#define EP_RULE_ROOT_FIELDS ((uintptr_t)(EP_RULE_ROOT ^ EP_RULE_PLAIN) << EP_RULE_KIND_SHIFT)

static inline uintptr_t ep_rule_bucket(uintptr_t pc)
{
    uintptr_t mixed = pc ^ pc / EP_RULE_BUCKETS;

    return (EP_RULE_NARROW ? mixed / 2 : mixed) % EP_RULE_BUCKETS; /* return addresses - 1 of Thumb code are odd */
}

/* Returns true if a word has room for the pc. Every user-space pc fits. */
static inline bool ep_rule_has_place(uintptr_t pc)
{
    return EP_RULE_NARROW ? pc != 0 : pc - EP_RULE_BUCKETS < EP_RULE_PC_END - 2 * EP_RULE_BUCKETS;
}

/* Returns true if the cache may have a word of the pc. With inverted keys this also excludes the empty word, 0. */
static inline bool ep_rule_may_be(uintptr_t pc)
{
    return EP_RULE_INVERTED ? (uint64_t)pc >> (64 - EP_RULE_PC_SHIFT) == 0 : ep_rule_has_place(pc);
}

/* Returns the bits that turn fields into the word of a pc, and that word back into fields. */
static inline uint64_t ep_rule_key(uintptr_t pc)
{
    uint64_t key = (uint64_t)pc << EP_RULE_PC_SHIFT;

    return EP_RULE_INVERTED ? ~key : key;
}

/* Returns true if a word from the pc's bucket belongs to the pc, which has a place. */
static inline bool ep_rule_is_for(uint64_t word, uintptr_t pc)
{
    return (word ^ ep_rule_key(pc)) >> EP_RULE_FIELDS == 0;
}

/* Of the pc's word. */
static inline uintptr_t ep_rule_fields(uint64_t word, uintptr_t pc)
{
    return (uintptr_t)(word ^ ep_rule_key(pc));
}

static inline unsigned ep_rule_kind(uintptr_t fields)
{
    return (unsigned)(fields >> EP_RULE_KIND_SHIFT & 0xf) ^ EP_RULE_PLAIN;
}

static inline intptr_t ep_rule_cfa(uintptr_t fields)
{
    unsigned above = 8 * sizeof(uintptr_t) - EP_RULE_CFA_BITS;

    return (intptr_t)(fields << above) >> above;
}

static inline unsigned ep_rule_fp_slot(uintptr_t fields)
{
    return (unsigned)(fields >> 16 & EP_RULE_SLOT_MAX);
}

static inline bool ep_rule_has_slots(uintptr_t fields)
{
    return (fields >> EP_RULE_CFA_BITS & (EP_RULE_SLOT_MAX << 5 | EP_RULE_SLOT_MAX)) != 0;
}

static inline unsigned ep_rule_base_slot(uintptr_t fields)
{
    return (unsigned)(fields >> EP_RULE_CFA_BITS & EP_RULE_SLOT_MAX);
}

/* The return address is 1 + that many words below the CFA. */
static inline unsigned ep_rule_ra_extra(uintptr_t fields)
{
    return EP_RULE_NARROW ? (unsigned)(fields >> EP_RULE_RA_SHIFT) : 0;
}

static inline __attribute__((always_inline)) uint64_t ep_rule_word(_Atomic uint64_t *rules, uintptr_t pc, unsigned way)
{
#ifdef __aarch64__ /* a plain load is as atomic, and takes an index */
    uint64_t word = ((const uint64_t *)(const void *)rules)[ep_rule_bucket(pc) * 2 + way];

    __asm__("" : "+r"(word)); /* loaded once */
    return word;
#else
    return atomic_load_explicit(&rules[ep_rule_bucket(pc) * EP_RULE_WAYS + way], memory_order_relaxed);
#endif
}

static inline uint64_t ep_rule_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The word to look at first: of four ways the pc's if any is, else that of the first way. */
static inline uint64_t ep_rule_likely(_Atomic uint64_t *rules, uintptr_t pc)
{
    uint64_t key = ep_rule_key(pc);

    if (EP_RULE_WAYS == 2)
        return ep_rule_word(rules, pc, 0);
    return key ^ ep_rule_least(ep_rule_least(ep_rule_word(rules, pc, 0) ^ key, ep_rule_word(rules, pc, 1) ^ key),
                               ep_rule_least(ep_rule_word(rules, pc, 2) ^ key, ep_rule_word(rules, pc, 3) ^ key));
}

/* Returns true if the word is the pc's and the rule a plain one. The pc has a place or is one less than a code address.
 */
static inline bool ep_rule_is_plain(uint64_t word, uintptr_t pc)
{
    uintptr_t fields = ep_rule_fields(word, pc);

    if (EP_RULE_NARROW)
        return (((uintptr_t)(word >> 32) ^ pc) | fields / EP_RULE_PLAIN_END) == 0;
    if (EP_RULE_INVERTED)
        return fields < EP_RULE_PLAIN_END;
    return fields - EP_RULE_PLAIN_LEAST < EP_RULE_PLAIN_END - EP_RULE_PLAIN_LEAST;
}

/* The fields of the rule for pc, EP_RULE_NONE when it is not there. first: ep_rule_likely(). Context: signal. */
static inline __attribute__((always_inline)) uintptr_t ep_rule_find(_Atomic uint64_t *rules, uintptr_t pc,
                                                                    uint64_t first)
{
    if (!ep_rule_may_be(pc) || (EP_RULE_INVERTED && first == 0)) /* the first way is filled first */
        return EP_RULE_NONE;
    if (__builtin_expect(ep_rule_is_for(first, pc), 1))
        return ep_rule_fields(first, pc);
    if (EP_RULE_WAYS != 2)
        return EP_RULE_NONE;
    uint64_t second = ep_rule_word(rules, pc, 1);
    return second != 0 && ep_rule_is_for(second, pc) ? ep_rule_fields(second, pc) : EP_RULE_NONE;
}

#endif
