/*
 * The interface of core/deliver, which sends messages out of the process.
 *
 * In: messages in the outbox. Out: calls of the transport, and files of the spool. All of it runs on the deliver
 * thread, which may wait for the network, always with a deadline.
 */
#ifndef EP_DELIVER_H
#define EP_DELIVER_H

#include "core/deliver/state.h"
#include "core/sample/feature.h"
#include "core/sample/profiler.h"

/* The result of a send: send()'s error, the HTTP status of the answer (0: none), and a line about it or "". */
struct ep_sent {
    int error;
    unsigned status;
    const char *why;
};

/* The last send was one to a second endpoint, so its result says nothing about new profiles. Context: deliver. */
extern bool ep_apart;

void ep_deliver_thread(void);

/* Makes a deadline earlier, never later. Context: any thread. */
void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns);

/* Delivers messages until deadline_ns (uptime). Returns 0 if nothing is left to do, else a negative errno value, and
 * ep->deliver->due_ns is the time of the next round.
 * Context: deliver. */
int ep_deliver_round(struct ep *ep, uint64_t deadline_ns);

#endif
