/*
 * The interface of core/deliver, which sends messages out of the process.
 *
 * In: messages in the outbox. Out: calls of the transport, and files of the spool. All of it runs on the deliver
 * thread, which may wait for the network, always with a deadline.
 */
#ifndef EP_DELIVER_H
#define EP_DELIVER_H

#include "core/sample/profiler.h"

struct ep_spool {
    uint32_t (*largest)(void);     /* bytes of the largest message that it can store. Context: init */
    void (*thread)(struct ep *ep); /* instead of ep_deliver_thread() */
    int (*round)(struct ep *ep, uint64_t deadline_ns); /* instead of ep_deliver_round() */
    void (*stop)(struct ep *ep, uint64_t deadline_ns); /* called when ep_stop() begins. Context: init */
};
/* NULL: no spool. Written before ep_start(). */
extern const struct ep_spool *ep_spool;

/* The result of a send: send()'s error, the HTTP status of the answer (0: none), and a line about it or "". */
struct ep_sent {
    int error;
    unsigned status;
    const char *why;
};

/* The last send was one to a second endpoint, so its result says nothing about new profiles. Context: deliver. */
extern bool ep_apart;

struct ep_notice {
    void (*start)(struct ep *ep);                            /* called when a run begins. Context: init */
    void (*sent)(struct ep *ep, const struct ep_sent *sent); /* called after each send. Context: deliver */
    void (*unread)(const char *path, int error);             /* the token's file. Context: init, deliver */
};
/* NULL: nothing is said. Written before ep_start(). */
extern const struct ep_notice *ep_notice;

struct ep_token {
    const char *(*start)(struct ep *ep);          /* the headers to send, valid until the next call. Context: init */
    void (*sent)(struct ep *ep, unsigned status); /* called after each send. Context: deliver */
};
/* NULL: no token's file. Written before ep_start(). */
extern const struct ep_token *ep_token;

void ep_deliver_thread(void);

/* Makes a deadline earlier, never later. Context: any thread. */
void ep_deadline_shrink(struct ep_deadline *deadline, uint64_t at_ns);

/* Delivers messages until deadline_ns (uptime). Returns 0 if the outbox is empty, else a negative errno value.
 * Context: deliver. */
int ep_deliver_round(struct ep *ep, uint64_t deadline_ns);

#endif
