/*
 * The thread table. It is in the caller's memory and used only between ep_hold() and ep_release().
 */
#ifndef EP_LINUX_THREAD_TABLE_H
#define EP_LINUX_THREAD_TABLE_H

#include "linux.h"

enum { EP_LINUX_SLOT_FREE, EP_LINUX_SLOT_BUSY, EP_LINUX_SLOT_ARMED };

/* What makes a thread's samples: a timer that expires every period, one that expires on every kernel tick that finds it
 * running (cpu_clock.h), or a perf event (perf_clock.h). */
enum { EP_LINUX_BY_TIMER, EP_LINUX_BY_TICK, EP_LINUX_BY_PERF };

/* How to settle a slot's CPU time on release: read the clock, use the last known value, or discard. */
enum ep_linux_used { EP_LINUX_USED_NOW, EP_LINUX_USED_BEFORE, EP_LINUX_USED_NOTHING };

struct ep_linux_slot {
    /* Reported by ep_thread_missed() and not yet contained in a tick, in EP_LINUX_USED_UNIT. First: every tick looks.
     */
    atomic_uint missed;
    atomic_uint state;
    atomic_uint tid;
    atomic_uint generation;      /* distinguishes ticks of this owner from those of the last one */
    _Atomic uint64_t base_ns;    /* CPU time of the thread when it was armed */
    _Atomic uint64_t seen_ns;    /* CPU time at the last scan */
    _Atomic uint64_t charged_ns; /* since it was armed */
    _Atomic uint64_t carried_ns; /* charged, but for the next sample: the ring had no room */
    atomic_uint period_ns;       /* the nominal time between two samples */
    atomic_uint lately;          /* CPU time between the last two scans, in EP_LINUX_USED_UNIT */
    atomic_int timer;            /* EP_LINUX_BY_PERF: the event's descriptor */
    atomic_bool seen;
    atomic_uchar perf_part; /* the period of its perf event, see perf_period() in tick_handler.c */
    atomic_uchar clock;
};

/* The part of a perf event's period that stands for period_ns. */
#define EP_LINUX_PERF_MEAN 64u

/* The table of ep_linux_slot_count entries, set by ep_linux_slots_begin(). Those behind ep_linux_slots_to were never
 * used. */
extern __attribute__((visibility("hidden"))) struct ep_linux_slot *ep_linux_slots;
extern __attribute__((visibility("hidden"))) unsigned ep_linux_slot_count;
extern __attribute__((visibility("hidden"))) atomic_uint ep_linux_slots_to;

/* Sets the table. memory: zeroed entries. Context: init. */
void ep_linux_slots_begin(struct ep_linux_slot *memory, unsigned count);

/* Each slot that is or was used. */
#define EP_LINUX_EACH_SLOT(slot)                                                                                       \
    for (struct ep_linux_slot *slot = ep_linux_slots, *slot_end = slot + atomic_load(&ep_linux_slots_to);              \
         slot < slot_end; slot++)

/* The armed slot of the calling thread whose perf event has this descriptor, or NULL: a late signal. Context: signal.
 */
struct ep_linux_slot *ep_linux_slot_by_perf(int fd, uint32_t tid);

/* In a forked child: closes the parent's perf events. Context: init. */
void ep_linux_perf_forked(void);

/* The armed slot of a thread, or NULL. Context: any thread. */
struct ep_linux_slot *ep_linux_slot_of(uint32_t tid);

/* Gives the thread a slot, and a perf event or a timer. base_ns: its CPU time already accounted for. Returns 0;
 * -EXFULL: the table is full; else the timer's error. Context: any thread. */
int ep_linux_arm(uint32_t tid, uint64_t base_ns, uint32_t period_ns);

/* Removes the timer and reports the residual CPU time. If several threads do so at once, one of them wins.
 * Context: any thread. */
void ep_linux_disarm(struct ep_linux_slot *slot, enum ep_linux_used until);

/* Accounts for the CPU time of a thread that disarms itself just now, as it would itself a moment later. Before a
 * report that no other one follows. Context: init, collect. */
void ep_linux_slot_cover(struct ep_linux_slot *slot);

/* Reports the thread's CPU time without ticks if it is more than chance explains: its runs end before a tick. With a
 * perf event it was in the kernel. used: its CPU time. Context: collect. */
void ep_linux_missed(struct ep_linux_slot *slot, uint32_t tid, uint64_t used);

/* The armed slot of the thread that used least between the last two scans, less than `used`; or NULL.
 * Context: collect. */
struct ep_linux_slot *ep_linux_slot_idlest(unsigned used);

/* True if the thread has a second slot, because it was found and announced itself at the same moment. Ticks of this
 * slot were charged twice; discarding its residual CPU time corrects that. Context: collect. */
bool ep_linux_slot_is_twin(const struct ep_linux_slot *slot);

/* True if the thread keeps edgeprof's signal blocked, judged by CPU time without ticks. used: its CPU time.
 * Context: any thread. */
bool ep_linux_keeps_blocked(const struct ep_linux_slot *slot, uint32_t tid, uint64_t used);

#endif
