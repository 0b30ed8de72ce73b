/*
 * What a thread notes of its own wait: it writes the note, the collect thread reads copies of it. The second header
 * that other rooms may include.
 */
#ifndef EP_CAPTURE_WAITING_H
#define EP_CAPTURE_WAITING_H

#include "core/capture/capture.h"

#define EP_WAIT_MASK 7u
/* Open for less is told when it ends. */
#define EP_WAIT_OPEN_NS 100000000u

struct ep_waiting {
    atomic_uint sequence; /* odd: a wait is open */
    uint32_t run, slot;   /* place in ep->waiter + 1; 0: none */
    uint32_t depth;
    uint32_t wait;     /* enum ep_wait */
    bool again;        /* of the same acquire as the last one */
    bool no_idle;      /* idle waits are left out */
    bool unmeasured;   /* nobody needs to know how long this one is */
    unsigned passed;   /* unmeasured by what stood on the stack */
    uintptr_t told_sp; /* of the last one that was told */
    /* The caller, 0: none, that says that waits at told_sp are of a class that nobody wants while these kinds are on,
     * and where it is, in words above told_sp. */
    uintptr_t unwanted;
    uint32_t unwanted_at, unwanted_kinds;
    uint64_t start_ns, end_ns;
    struct ep_context at; /* where begin was called */
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
                                  .token = waiting->again ? 0 : count,
                                  .context = &waiting->at};
}

#endif
