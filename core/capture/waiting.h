/*
 * A thread's note about its own wait. The thread writes it, and the collect thread reads copies of it. Apart from
 * capture.h this is the only header of this room that other rooms may include.
 */
#ifndef EP_CAPTURE_WAITING_H
#define EP_CAPTURE_WAITING_H

#include "core/capture/capture.h"

#define EP_WAIT_MASK 7u
/* Waits that are open for less are recorded only when they end. */
#define EP_WAIT_OPEN_NS 100000000u

struct ep_waiting {
    atomic_uint sequence; /* odd while a wait is open */
    uint32_t run, slot;   /* place in ep->waiter + 1; 0: none */
    uint32_t depth;
    uint32_t wait;        /* enum ep_wait */
    bool same_lock;       /* belongs to the same lock acquisition as the last one */
    bool no_idle;         /* idle waits are left out */
    bool unmeasured;      /* the duration of this wait is not needed */
    unsigned passed;      /* waits skipped because of is_unwanted() */
    uintptr_t sampled_sp; /* stack pointer of the last wait that was sampled */
    /* A return address in the stack that marks waits at sampled_sp as unwanted while unwanted_kinds are on, 0: none;
     * and its place, in words above sampled_sp. */
    uintptr_t unwanted;
    uint32_t unwanted_at, unwanted_kinds;
    uint64_t start_ns, end_ns;
    struct ep_context at; /* where ep_wait_begin() was called */
    struct ep_stratum stratum[EP_WAITS + 1];
};

_Static_assert(sizeof(struct ep_waiting) <= sizeof(((struct ep_work *)0)->waiting), "EP_WORK_WAITING is too small");
_Static_assert(EP_WAITS < EP_WAIT_MASK, "a class has three bits");

static inline struct ep_waiting *ep_waiting_of(struct ep_work *work)
{
    return (struct ep_waiting *)(void *)work->waiting;
}

static inline bool ep_wait_left_out(const struct ep *ep, unsigned wait)
{
    return wait == EP_WAIT_IDLE && !(ep->config.flags & EP_IDLE_WAITS);
}

static inline unsigned ep_wait_frame(unsigned wait)
{
    return wait == EP_WAIT_BY_CALLER ? (unsigned)EP_FRAME_BY_CALLER : EP_FRAME_WAIT + wait;
}

static inline struct ep_hook_event ep_wait_event(const struct ep_waiting *waiting, uint32_t count, uint64_t value)
{
    return (struct ep_hook_event){.kind = EP_KIND_WAIT,
                                  .frame = ep_wait_frame(waiting->wait),
                                  .count = count,
                                  .value = value,
                                  .token = waiting->same_lock ? 0 : count,
                                  .context = &waiting->at};
}

#endif
