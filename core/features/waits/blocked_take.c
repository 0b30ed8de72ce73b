/*
 * The stack of a thread that is blocked in the kernel, read by the collect thread. A file of its own, so that only
 * programs that dump threads or watch waits link the port's function.
 */
#include "core/features/waits/waits.h"
#include "core/sample/capture.h"

#include <errno.h>

int ep_blocked_take(struct ep *ep, uint32_t tid, const struct ep_registers *at, uint64_t ran_ns,
                    const struct ep_hook_event *event)
{
    static const struct ep_work nothing;
    struct ep_registers copy = *at, after;
    uint64_t ran_after = 0;

    if (!ep_copy_stack(ep, tid, &copy))
        return -ENOMEM;
    int error = ep_port_thread_blocked(tid, &after, &ran_after);
    if (error)
        return error;
    if (ran_ns != ran_after || at->pc != after.pc || at->sp != after.sp)
        return -EAGAIN;
    ep_capture_for(ep, &nothing, &copy, tid, event);
    return 0;
}
