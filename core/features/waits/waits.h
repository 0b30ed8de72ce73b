/*
 * The interface of core/features/waits for a dump of all threads.
 */
#ifndef EP_FEATURES_WAITS_H
#define EP_FEATURES_WAITS_H

#include "core/sample/profiler.h"

/* Records the thread's open wait as an event of kind EP_KIND_THREAD. False: it has no open wait. Context: collect. */
bool ep_wait_take(struct ep *ep, uint32_t tid);

/* Copies the thread's stack from at->sp on, as much as fits into the free part of the outbox, and makes *at refer to
 * the copy. False: no room now. Context: collect. */
bool ep_copy_stack(struct ep *ep, uint32_t tid, struct ep_registers *at);

#endif
