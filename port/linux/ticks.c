/*
 * A counter for durations: the processor's, which programs can read in a few ns, or the clock where there is none.
 * Nothing names its rate reliably, so it is measured against the clock: at start while the cost of a tick is measured,
 * later with every scan for threads.
 */
#include "linux.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define SCALE_BITS 24
/* A clock and the counter cannot be read at the same time; the tightest of so many readings counts. */
#define READINGS 5u
/* The least time over which the rate is measured at start; later measurements take longer. */
#define FIRST_NS 10000u
#define LATER_NS 1000000000u
/* A measurement is used if it is wrong by less than 1 / EXACT. */
#define EXACT 64u

struct reading {
    uint64_t ticks, ns, width;
};

static atomic_bool busy; /* guards the two below: a thread that finds it set measures nothing */
static struct reading base;
static bool doubted;
static atomic_uint scale; /* ns per tick, in 2^-SCALE_BITS; 0: the clock is used */

#if defined __x86_64__
static bool is_invariant(void)
{
    const unsigned power = 0x80000007, invariant = 1u << 8;
    unsigned a, b, c, d = 0;

    return __get_cpuid(power, &a, &b, &c, &d) && (d & invariant);
}

/* Asks the processor once: in a virtual machine each question takes 20 us and more. */
static bool has_counter(void)
{
    enum { UNKNOWN, NO, YES };
    static atomic_int known;

    if (atomic_load_explicit(&known, memory_order_relaxed) == UNKNOWN)
        atomic_store_explicit(&known, is_invariant() ? YES : NO, memory_order_relaxed);
    return atomic_load_explicit(&known, memory_order_relaxed) == YES;
}

static inline uint64_t counter(void)
{
    return __builtin_ia32_rdtsc();
}
#elif defined __aarch64__
static bool has_counter(void)
{
    return true;
}

static inline uint64_t counter(void)
{
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}
#else
/* Whether a program may read it depends on the kernel. */
static bool has_counter(void)
{
    return false;
}

static inline uint64_t counter(void)
{
    return 0;
}
#endif

uint64_t ep_port_ticks(void)
{
    return atomic_load_explicit(&scale, memory_order_relaxed) ? counter() : ep_port_uptime_ns();
}

uint64_t ep_port_ticks_ns(uint64_t ticks)
{
    uint64_t factor = atomic_load_explicit(&scale, memory_order_relaxed);

    if (ticks >> 63) /* of two processors whose counters differ */
        return 0;
    if (factor == 0)
        return ticks;
    return (ticks >> SCALE_BITS) * factor + ((ticks & ((1u << SCALE_BITS) - 1)) * factor >> SCALE_BITS);
}

static struct reading read_both(void)
{
    struct reading best = {.width = UINT64_MAX};

    for (unsigned i = 0; i < READINGS; i++) {
        uint64_t before = counter(), ns = ep_port_uptime_ns(), width = counter() - before;
        if (width < best.width)
            best = (struct reading){.ticks = before + width / 2, .ns = ns, .width = width};
    }
    return best;
}

void ep_linux_ticks_begin(void)
{
    if (!has_counter() || atomic_exchange(&busy, true))
        return;
    base = read_both();
    atomic_store(&busy, false);
}

/* A rate that differs by more than 1 / EXACT counts only if the next measurement confirms it: the system slept, and the
 * counter did not count. */
static bool is_believed(uint64_t now, uint64_t before)
{
    bool differs = before && (now > before ? now - before : before - now) > before / EXACT;

    doubted = differs && !doubted;
    return !doubted;
}

static void adjust(void)
{
    uint64_t before = atomic_load_explicit(&scale, memory_order_relaxed);
    struct reading now = read_both();
    uint64_t ns = now.ns - base.ns, ticks = now.ticks - base.ticks;

    if (ns < (before ? LATER_NS : FIRST_NS))
        return;
    bool exact = ticks / EXACT > base.width + now.width && ns >> (64 - SCALE_BITS) == 0;
    uint64_t found = exact ? (ns << SCALE_BITS) / ticks : 0;
    base = now;
    if (found > 0 && found <= UINT32_MAX && is_believed(found, before))
        atomic_store_explicit(&scale, (unsigned)found, memory_order_relaxed);
}

void ep_linux_ticks_adjust(void)
{
    if (!has_counter() || !base.ns || atomic_exchange(&busy, true))
        return;
    adjust();
    atomic_store(&busy, false);
}
