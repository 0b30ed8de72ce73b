/*
 * The face of core/deliver: messages leave the process.
 *
 * In: messages in the outbox. Out: calls of the transport, and files of the spool. All of it is on the deliver thread,
 * which may wait for the network, always with a deadline.
 */
#ifndef EP_DELIVER_H
#define EP_DELIVER_H

#include "core/state/profiler.h"

struct ep_spool {
    void (*thread)(struct ep *ep);                     /* instead of ep_deliver_thread() */
    int (*round)(struct ep *ep, uint64_t deadline_ns); /* instead of ep_deliver_round() */
    void (*stop)(struct ep *ep, uint64_t deadline_ns); /* ep_stop() begins. Context: init */
};
/* NULL: there is none. Written before ep_start(). */
extern const struct ep_spool *ep_spool;

void ep_deliver_thread(void);

/* Brings a deadline nearer, never farther. Context: any thread. */
void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns);

/* Delivers what it can before deadline_ns (uptime). 0: the outbox is empty, else why not. Context: deliver. */
int ep_deliver_round(struct ep *ep, uint64_t deadline_ns);

#endif
