/*
 * The thread table: threads with a timer, and how much of their CPU time is accounted for.
 */
#include "thread_table.h"

#include <errno.h>
#include <limits.h>

#include <edgeprof/edgeprof.h>
#include "cpu_clock.h"
#include "own_signal.h"
#include "perf_clock.h"

/* A thread with this much CPU time without ticks may block the signal, or run only between ticks. */
#define MISSED_PERIODS 8u
#define MISSED_NS      20000000u
/* Ticks that come by chance are behind by at most so many (kernel_tick() in tick_handler.c: 10 standard deviations). */
#define MISSED_TICKS 16u

struct ep_linux_slot *ep_linux_slots;
unsigned ep_linux_slot_count;
atomic_uint ep_linux_slots_to;

void ep_linux_slots_begin(struct ep_linux_slot *memory, unsigned count)
{
    ep_linux_slots = memory;
    ep_linux_slot_count = count;
    atomic_store(&ep_linux_slots_to, 0);
}

struct ep_linux_slot *ep_linux_slot_of(uint32_t tid)
{
    EP_LINUX_EACH_SLOT (slot)
        if (atomic_load(&slot->tid) == tid && atomic_load(&slot->state) == EP_LINUX_SLOT_ARMED)
            return slot;
    return NULL;
}

/* Descriptors that follow each other differ, so that a late signal of the last owner is recognised. */
static unsigned perf_place(const struct ep_linux_slot *slot)
{
    return 2 * (unsigned)(slot - ep_linux_slots) + (atomic_load(&slot->generation) >> 1 & 1);
}

static bool has_perf(const struct ep_linux_slot *slot, int fd, uint32_t tid)
{
    return atomic_load_explicit(&slot->timer, memory_order_relaxed) == fd &&
           atomic_load_explicit(&slot->clock, memory_order_relaxed) == EP_LINUX_BY_PERF &&
           atomic_load_explicit(&slot->tid, memory_order_relaxed) == tid &&
           atomic_load_explicit(&slot->state, memory_order_relaxed) == EP_LINUX_SLOT_ARMED;
}

struct ep_linux_slot *ep_linux_slot_by_perf(int fd, uint32_t tid)
{
    unsigned likely = ep_linux_perf_place(fd) / 2;

    if (likely < ep_linux_slot_count && has_perf(ep_linux_slots + likely, fd, tid))
        return ep_linux_slots + likely;
    EP_LINUX_EACH_SLOT (slot)
        if (has_perf(slot, fd, tid))
            return slot;
    return NULL;
}

void ep_linux_perf_forked(void)
{
    EP_LINUX_EACH_SLOT (slot)
        if (atomic_load(&slot->state) == EP_LINUX_SLOT_ARMED && atomic_load(&slot->clock) == EP_LINUX_BY_PERF)
            ep_linux_perf_close(atomic_load(&slot->timer), atomic_load(&slot->tid));
}

static struct ep_linux_slot *slot_claim(void)
{
    for (unsigned i = 0; i < ep_linux_slot_count; i++) {
        struct ep_linux_slot *slot = ep_linux_slots + i;
        unsigned free = EP_LINUX_SLOT_FREE, to = i;
        (void)atomic_compare_exchange_strong(&ep_linux_slots_to, &to, i + 1);
        if (atomic_compare_exchange_strong(&slot->state, &free, EP_LINUX_SLOT_BUSY))
            return slot;
    }
    return NULL;
}

/* A thread that has ended needs no timer. */
static int unless_ended(int error)
{
    return error == -EINVAL || error == -ESRCH ? 0 : error;
}

/* A slot whose signals may come before this returns: they find it armed, or are a part of the residual CPU time. */
static int arm_perf(struct ep_linux_slot *slot, uint32_t tid, uint32_t period)
{
    atomic_store(&slot->clock, EP_LINUX_BY_PERF);
    atomic_store(&slot->perf_part, EP_LINUX_PERF_MEAN);
    int fd = ep_linux_perf_open(tid, perf_place(slot), period);
    if (fd < 0)
        return fd;
    atomic_store(&slot->timer, fd);
    atomic_store(&slot->tid, tid);
    atomic_store(&slot->state, EP_LINUX_SLOT_ARMED);
    return 0;
}

static int arm_timer(struct ep_linux_slot *slot, uint32_t tid, uint32_t period)
{
    uintptr_t value = ep_linux_tick_value((uint32_t)(slot - ep_linux_slots), atomic_load(&slot->generation));
    bool by_tick = ep_linux_is_by_tick(period);
    int timer, error = ep_linux_timer_make(tid, value, &timer);

    if (error) {
        atomic_store(&slot->state, EP_LINUX_SLOT_FREE);
        return error;
    }
    atomic_store(&slot->clock, by_tick ? EP_LINUX_BY_TICK : EP_LINUX_BY_TIMER);
    atomic_store(&slot->timer, timer);
    atomic_store(&slot->tid, tid);
    atomic_store(&slot->state, EP_LINUX_SLOT_ARMED);
    error = ep_linux_timer_run(timer, by_tick ? EP_LINUX_EACH_TICK_NS : period);
    if (error)
        ep_linux_disarm(slot, EP_LINUX_USED_NOTHING);
    return error;
}

int ep_linux_arm(uint32_t tid, uint64_t base_ns, uint32_t period)
{
    struct ep_linux_slot *slot = slot_claim();

    if (!slot)
        return -EXFULL;
    (void)atomic_fetch_add(&slot->generation, 1);
    atomic_store(&slot->charged_ns, 0);
    atomic_store(&slot->carried_ns, 0);
    atomic_store(&slot->missed, 0);
    atomic_store(&slot->period_ns, period);
    atomic_store(&slot->base_ns, base_ns);
    atomic_store(&slot->seen_ns, base_ns);
    atomic_store(&slot->seen, true);
    atomic_store(&slot->lately, UINT_MAX); /* not comparable before one whole interval */
    if (ep_linux_perf_is_used() && arm_perf(slot, tid, period) == 0)
        return 0;
    return unless_ended(arm_timer(slot, tid, period));
}

/* CPU time of a thread whose clock is gone; its last ticks may be later than the last scan. */
static uint64_t used_last_known(const struct ep_linux_slot *slot)
{
    uint64_t seen = atomic_load(&slot->seen_ns), charged = atomic_load(&slot->base_ns) + atomic_load(&slot->charged_ns);

    return seen > charged ? seen : charged;
}

/* CPU time without ticks, 0: no more than `usual` and some periods. */
static uint64_t missed_of(const struct ep_linux_slot *slot, uint64_t used, uint64_t usual)
{
    uint64_t missed = used - atomic_load(&slot->base_ns) - atomic_load(&slot->charged_ns);

    usual += MISSED_PERIODS * (uint64_t)atomic_load(&slot->period_ns);
    return (int64_t)missed > (int64_t)usual ? missed : 0;
}

bool ep_linux_keeps_blocked(const struct ep_linux_slot *slot, uint32_t tid, uint64_t used)
{
    return missed_of(slot, used, MISSED_NS) && ep_linux_signal_blocked(tid, true);
}

/* An event expires once a period of CPU time, wherever the thread is: what has no sample was in the kernel. The last
 * period's sample may be on its way. */
static void report_in_kernel(struct ep_linux_slot *slot, uint32_t tid, uint64_t used)
{
    uint64_t period = atomic_load(&slot->period_ns);
    int64_t periods =
        (int64_t)(used - atomic_load(&slot->base_ns) - atomic_load(&slot->charged_ns)) / (int64_t)period - 1;

    if (periods <= 0 || atomic_load(&slot->tid) != tid)
        return;
    (void)atomic_fetch_add(&slot->charged_ns, (uint64_t)periods * period);
    ep_thread_in_kernel(tid, (uint64_t)periods * period);
}

void ep_linux_missed(struct ep_linux_slot *slot, uint32_t tid, uint64_t used)
{
    unsigned clock = atomic_load(&slot->clock);
    uint64_t chance = clock == EP_LINUX_BY_TICK ? MISSED_TICKS * (uint64_t)ep_linux_kernel_tick_ns() : 0;

    if (clock == EP_LINUX_BY_PERF) {
        report_in_kernel(slot, tid, used);
        return;
    }
    unsigned missed = (unsigned)(missed_of(slot, used, MISSED_NS + chance) / EP_LINUX_USED_UNIT);

    if (!missed || atomic_load(&slot->tid) != tid) /* the slot belongs to another thread by now */
        return;
    (void)atomic_fetch_add(&slot->missed, missed);
    (void)atomic_fetch_add(&slot->charged_ns, (uint64_t)missed * EP_LINUX_USED_UNIT);
    ep_thread_missed(tid, (uint64_t)missed * EP_LINUX_USED_UNIT);
}

static void clock_remove(struct ep_linux_slot *slot, uint32_t tid)
{
    if (atomic_load(&slot->clock) == EP_LINUX_BY_PERF)
        ep_linux_perf_end(atomic_load(&slot->timer), tid);
    else
        ep_linux_timer_delete(atomic_load(&slot->timer));
    (void)atomic_fetch_add(&slot->generation, 1); /* a pending tick is not charged any more */
}

/* Whole periods without a sample of a perf event were in the kernel. */
static void report_residual(const struct ep_linux_slot *slot, uint32_t tid, int64_t residual_ns)
{
    int64_t period = atomic_load(&slot->period_ns);

    if (tid && atomic_load(&slot->clock) == EP_LINUX_BY_PERF && residual_ns >= period) {
        ep_thread_in_kernel(tid, (uint64_t)(residual_ns / period * period));
        residual_ns %= period;
    }
    ep_thread_residual(tid, residual_ns);
}

void ep_linux_disarm(struct ep_linux_slot *slot, enum ep_linux_used until)
{
    unsigned armed = EP_LINUX_SLOT_ARMED;

    if (!atomic_compare_exchange_strong(&slot->state, &armed, EP_LINUX_SLOT_BUSY))
        return;
    uint32_t tid = atomic_load(&slot->tid);
    uint64_t used = until == EP_LINUX_USED_NOTHING ? atomic_load(&slot->base_ns)
                    : until == EP_LINUX_USED_NOW   ? ep_linux_cpu_ns(tid)
                                                   : 0;
    bool blocked = used && until == EP_LINUX_USED_NOW && ep_linux_keeps_blocked(slot, tid, used);
    clock_remove(slot, tid);
    const bool unread = !used && until != EP_LINUX_USED_NOTHING;
    if (unread)
        used = used_last_known(slot);
    report_residual(slot, blocked ? 0 : tid,
                    (int64_t)(used - atomic_load(&slot->base_ns)) -
                        (int64_t)(atomic_load(&slot->charged_ns) - atomic_load(&slot->carried_ns)));
    ep_linux_covered(used - atomic_exchange(&slot->seen_ns, used), unread);
    atomic_store(&slot->tid, 0);
    atomic_store(&slot->state, EP_LINUX_SLOT_FREE);
    if (blocked)
        (void)ep_linux_uncovered(tid, used, 0);
}

void ep_linux_slot_cover(struct ep_linux_slot *slot)
{
    const uint32_t tid = atomic_load(&slot->state) == EP_LINUX_SLOT_BUSY ? atomic_load(&slot->tid) : 0;
    const uint64_t now = tid ? ep_linux_cpu_ns(tid) : 0;

    if (now)
        ep_linux_covered(now - atomic_exchange(&slot->seen_ns, now), false);
}

struct ep_linux_slot *ep_linux_slot_idlest(unsigned used)
{
    struct ep_linux_slot *found = NULL;

    EP_LINUX_EACH_SLOT (slot) {
        unsigned lately = atomic_load(&slot->lately);
        if (lately < used && atomic_load(&slot->state) == EP_LINUX_SLOT_ARMED) {
            found = slot;
            used = lately;
        }
    }
    return found;
}

bool ep_linux_slot_is_twin(const struct ep_linux_slot *slot)
{
    return ep_linux_slot_of(atomic_load(&slot->tid)) != slot;
}
