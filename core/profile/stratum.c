/*
 * Stratified sampling by size (hooks.h): which events become samples, and how much each stands for.
 *
 * All units (bytes, nanoseconds) form one sequence, cut into strata of one period. One unit of each stratum is chosen
 * at random, and the event that it belongs to is the sample. Independent draws would add an error to the total;
 * choosing every n-th unit could run in lock-step with the program's own pattern.
 *
 * A stratum keeps the length that it began with, because the weight of its units depends on it. A changed period takes
 * effect with the next stratum.
 *
 *   ep_stratum_advance (hooks.h) -> ep_stratum_choose -> ep_stratum_lay -> stratum_begin -> random_below -> random_next
 */
#include <edgeprof/hooks.h>

/* xorshift64* (Vigna, 2016), upper half. */
static uint32_t random_next(struct ep_stratum *stratum)
{
    uint64_t x = stratum->seed;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    stratum->seed = x;
    return (uint32_t)(x * UINT64_C(0x2545f4914f6cdd1d) >> 32);
}

/* Uniform in [0, limit), with an error of at most 1 / 65536 of it. */
static uint64_t random_below(struct ep_stratum *stratum, uint64_t limit)
{
    uint32_t dice = random_next(stratum);

    if (limit >> 32 == 0)
        return limit * dice >> 32;
    return (limit >> 16) * (dice >> 16);
}

static void stratum_begin(struct ep_stratum *stratum, uint64_t period)
{
    stratum->length = period;
    stratum->chosen = random_below(stratum, period);
}

/* The first stratum begins in the middle, so that a thread's first units are as likely to be chosen as later ones. */
static void stratum_first(struct ep_stratum *stratum, uint64_t period)
{
    if (stratum->seed == 0)
        stratum->seed = ep_port_uptime_ns() ^ (uint64_t)(uintptr_t)stratum << 20 ^ 1u;
    stratum->seed += stratum->seed == 0;
    (void)random_next(stratum);
    stratum_begin(stratum, period);
    stratum->position = random_below(stratum, period);
}

uint64_t ep_stratum_lay(struct ep_stratum *stratum, uint64_t size, uint64_t period)
{
    uint64_t stands_for = 0;

    if (stratum->length == 0)
        stratum_first(stratum, period);
    uint64_t after = stratum->position + size;
    if (stratum->position <= stratum->chosen && stratum->chosen < after)
        stands_for = stratum->length;
    if (after >= stratum->length) {
        after -= stratum->length;
        if (after >= period) { /* strata that it fills */
            stands_for += after - after % period;
            after %= period;
        }
        stratum_begin(stratum, period);
        if (stratum->chosen < after)
            stands_for += stratum->length;
    }
    stratum->position = after;
    return stands_for;
}

uint64_t ep_stratum_choose(struct ep_stratum *stratum, uint64_t size, uint64_t period)
{
    return ep_stratum_is_apart(stratum, size, period) ? size : ep_stratum_lay(stratum, size, period);
}

uint32_t ep_stratum_count(struct ep_stratum *stratum, uint64_t stands_for, uint64_t size)
{
    if (size == 0 || stands_for == 0)
        return 1;
    uint64_t whole = stands_for / size, rest = stands_for % size;
    uint64_t count = whole + (random_below(stratum, size) < rest);
    return count > UINT32_MAX ? UINT32_MAX : (uint32_t)count;
}
