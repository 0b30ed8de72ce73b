/*
 * The rule cache: program counter -> how to find the caller, one 64-bit word an entry.
 *
 *   63           25 24   21 20       10 9       5 4         0
 *   [ pc, high bits ][ kind ][ CFA, words ][ fp slot ][ base slot ]
 *
 * The bucket is the pc's low bits mixed with its high ones; the high ones are in the word, so the two together are
 * the whole pc and a hit is never wrong. On 32 bits the top 7 of them are free and hold ra_extra. Two ways a bucket,
 * the newer in front. Words are read and written whole (relaxed): a race costs a derivation, nothing else. A rule that
 * does not fit is derived each time.
 */
#include "internal.h"

#define BUCKETS   (EP_RULE_CACHE / 2)
#define TAG_SHIFT 25
#define RA_SHIFT  (sizeof(uintptr_t) == 4 ? 57 : 63)
#define RA_MAX    (sizeof(uintptr_t) == 4 ? 127u : 0u)
#define TAG_BITS  (sizeof(uintptr_t) == 4 ? 31 : 39)
#define CFA_BITS  11
#define SLOT_MAX  31
#define CFA_BIAS  (1 << (CFA_BITS - 1))

static unsigned bucket_of(uintptr_t pc)
{
    return (unsigned)((pc ^ pc / BUCKETS ^ pc / BUCKETS / BUCKETS) & (BUCKETS - 1));
}

static bool pack(uintptr_t pc, struct ep_rule rule, uint64_t *word)
{
    uint64_t tag = (uint64_t)pc / BUCKETS;

    if (tag >> TAG_BITS || rule.fp_slot > SLOT_MAX || rule.base_slot > SLOT_MAX || (unsigned)rule.ra_extra > RA_MAX ||
        rule.cfa < -CFA_BIAS || rule.cfa >= CFA_BIAS)
        return false;
    *word = (uint64_t)rule.ra_extra << RA_SHIFT | tag << TAG_SHIFT | (uint64_t)rule.kind << 21 |
            (uint64_t)(rule.cfa + CFA_BIAS) << 10 | (uint64_t)rule.fp_slot << 5 | rule.base_slot;
    return true;
}

static struct ep_rule unpack(uint64_t word)
{
    return (struct ep_rule){
        .kind = (uint8_t)(word >> 21 & 0xf),
        .fp_slot = (uint8_t)(word >> 5 & SLOT_MAX),
        .base_slot = (uint8_t)(word & SLOT_MAX),
        .ra_extra = (uint8_t)(word >> RA_SHIFT & RA_MAX),
        .cfa = (int16_t)((int)(word >> 10 & ((1 << CFA_BITS) - 1)) - CFA_BIAS),
    };
}

static bool is_for(uint64_t word, uintptr_t pc)
{
    return word && (word >> TAG_SHIFT & (((uint64_t)1 << TAG_BITS) - 1)) == (uint64_t)pc / BUCKETS;
}

/* Kept out of line: the way of a hit stays short. */
static __attribute__((noinline)) struct ep_rule miss(_Atomic uint64_t *bucket, uintptr_t pc, bool exact,
                                                     struct ep_stack *stack)
{
    uint64_t newer = atomic_load_explicit(&bucket[0], memory_order_relaxed), packed;

    stack->misses++;
    struct ep_rule rule = ep_rule_derive(pc, exact);
    /* Not "no way on": the code's module may only have to be found yet. */
    if (rule.kind != EP_RULE_STOP && pack(pc, rule, &packed)) {
        atomic_store_explicit(&bucket[1], newer, memory_order_relaxed);
        atomic_store_explicit(&bucket[0], packed, memory_order_relaxed);
    }
    return rule;
}

struct ep_rule ep_rule_get(uintptr_t pc, bool exact, struct ep_stack *stack)
{
    _Atomic uint64_t *bucket = &ep_running()->rule[bucket_of(pc) * 2];
    uint64_t word = atomic_load_explicit(&bucket[0], memory_order_relaxed);

    if (!is_for(word, pc)) {
        uint64_t second = atomic_load_explicit(&bucket[1], memory_order_relaxed);
        if (!is_for(second, pc))
            return miss(bucket, pc, exact, stack);
        atomic_store_explicit(&bucket[1], word, memory_order_relaxed);
        atomic_store_explicit(&bucket[0], second, memory_order_relaxed);
        word = second;
    }
    stack->hits++;
    return unpack(word);
}
