/*
 * A thread's note about its own wait. The thread writes it, and the collect thread reads copies of it. Apart from
 * capture.h this is the only header of this room that other rooms may include.
 */
#ifndef EP_CAPTURE_WAITING_H
#define EP_CAPTURE_WAITING_H

#include "core/sample/capture.h"

#define EP_WAIT_MASK 7u
/* Waits that are open for less are recorded only when they end. */
#define EP_WAIT_OPEN_NS 100000000u

struct ep_waiting {
    atomic_uint sequence; /* odd while a wait is open */
    uint32_t run, slot;   /* place in ep->waiter + 1; 0: none */
    uint32_t depth;
    uint32_t wait;                   /* enum ep_wait */
    uint32_t frame;                  /* enum ep_special, see ep_wait_find_frame() */
    int descriptor, next_descriptor; /* of this EP_WAIT_BY_DESCRIPTOR, and of the next one */
    bool same_lock;                  /* belongs to the same lock acquisition as the last one */
    bool no_idle;                    /* idle waits are left out */
    bool unmeasured;                 /* the duration of this wait is not needed */
    unsigned passed;                 /* waits skipped because of is_unwanted() */
    uintptr_t sampled_sp;            /* stack pointer of the last wait that was sampled */
    /* A return address in the stack that marks waits at sampled_sp as unwanted while unwanted_kinds are on, 0: none;
     * and its place, in words above sampled_sp. */
    uintptr_t unwanted;
    uint32_t unwanted_at, unwanted_kinds;
    struct ep_hook_timer timer;
    uint64_t timed_from;             /* ep_port_ticks() when this hook began; 0: it is not timed */
    uint64_t start_ticks, end_ticks; /* ep_port_ticks(); end_ticks: of the last wait that has ended */
    uint64_t start_ns, end_ns;       /* set only for a wait that becomes a sample */
    uint64_t accounted_ns;           /* what this thread stored last in its ep_waiter.accounted_ns */
    struct ep_registers at;          /* where ep_wait_begin() was called */
    struct ep_stratum stratum[EP_WAIT_BY_DESCRIPTOR + 1];
};

_Static_assert(sizeof(struct ep_waiting) <= sizeof(((struct ep_work *)0)->waiting), "EP_WORK_WAITING is too small");
_Static_assert(EP_WAIT_BY_DESCRIPTOR <= EP_WAIT_MASK, "a class has three bits");

static inline struct ep_waiting *ep_waiting_of(struct ep_work *work)
{
    return (struct ep_waiting *)(void *)work->waiting;
}

static inline bool ep_wait_left_out(const struct ep *ep, unsigned wait)
{
    return wait == EP_WAIT_IDLE && !(ep->config.flags & EP_IDLE_WAITS);
}

/* For a descriptor this is a system call. */
static inline void ep_wait_find_frame(struct ep_waiting *waiting)
{
    unsigned wait = waiting->wait;

    if (wait == EP_WAIT_BY_DESCRIPTOR)
        wait = ep_port_descriptor_wait(waiting->descriptor);
    waiting->frame = wait == EP_WAIT_BY_CALLER ? (unsigned)EP_FRAME_BY_CALLER : EP_FRAME_WAIT + wait;
}

/* After ep_wait_find_frame(). */
static inline struct ep_hook_event ep_wait_event(const struct ep_waiting *waiting, uint32_t count, uint64_t value)
{
    return (struct ep_hook_event){.kind = EP_KIND_WAIT,
                                  .frame = waiting->frame,
                                  .count = count,
                                  .value = value,
                                  .token = waiting->same_lock ? 0 : count,
                                  .registers = &waiting->at};
}

/* The collect thread's side of waits (core/features/waits/). A program in which no thread waits does not link it. */
extern const struct ep_feature ep_waits_feature;

#endif
