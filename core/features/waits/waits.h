/*
 * The interface of core/features/waits for a dump of all threads, and what its own files share.
 */
#ifndef EP_FEATURES_WAITS_H
#define EP_FEATURES_WAITS_H

#include <edgeprof/hooks.h>

#include "core/sample/profiler.h"

/* Records the thread's open wait as an event of kind EP_KIND_THREAD. False: it has no open wait. Context: collect. */
bool ep_wait_take(struct ep *ep, uint32_t tid);

/* Returns true if the thread is in a wait that is marked, whether it is wanted or not. Context: collect. */
bool ep_wait_is_open(struct ep *ep, uint32_t tid);

/* Copies the thread's stack from at->sp on, as much as is mapped and fits into the free part of the outbox, and makes
 * *at refer to the copy. False: no room now. Context: collect. */
bool ep_copy_stack(struct ep *ep, uint32_t tid, struct ep_registers *at);

/* Records the event with the stack of a thread that is blocked at *at and has run ran_ns, from a copy.
 *
 * Returns
 *   0        recorded
 *   -ENOMEM  no room for a copy now
 *   -EAGAIN  the thread has run meanwhile
 *   others   ep_port_thread_blocked()'s error
 * Context: collect. */
int ep_blocked_take(struct ep *ep, uint32_t tid, const struct ep_registers *at, uint64_t ran_ns,
                    const struct ep_hook_event *event);

#endif
