/*
 * Whether a transport or a stream keeps the contract of transport.h: a test for everybody who writes one. It talks to
 * the real thing against a far end that plays parts, which the writer of the test supplies: tests/transport/far.c has
 * one for sockets and serial lines to begin with.
 *
 * No part of the library. Compile transport/contract/ with the test and link libedgeprof.a; it needs POSIX threads.
 * What is broken is told on standard error, a line each; a call that does not come back ends the program with 1.
 *
 *   transport.c   struct ep_transport
 *   stream.c      struct ep_stream
 *   bench.c       what both need: memory with guards, deadlines that come nearer, descriptors, signals
 */
#ifndef EP_CONTRACT_H
#define EP_CONTRACT_H

#include "transport.h"

/* What the far end does with each message (a stream's: with what it is told) from now on. */
enum ep_far {
    EP_FAR_TAKES,     /* keeps it and says so; a stream's says back what it hears */
    EP_FAR_SLOW,      /* likewise, a few bytes at a time, with pauses */
    EP_FAR_SILENT,    /* hears all and never answers */
    EP_FAR_DEAF,      /* is connected, and neither hears nor answers */
    EP_FAR_HANGS_UP,  /* closes in the middle */
    EP_FAR_RESETS,    /* the same, without a goodbye */
    EP_FAR_ABSENT,    /* is not there, and forgets its connections */
    EP_FAR_GARBAGE,   /* answers what makes no sense */
    EP_FAR_STALE,     /* says that it does not know the segment */
    EP_FAR_REFUSES,   /* refuses for good */
    EP_FAR_TOO_LARGE, /* refuses for the size */
    EP_FAR_BUSY,      /* asks for patience */
    EP_FARS
};
#define EP_FAR_BIT(part) (1u << (part))

/* A far end. It runs beside the test, in a thread or another process; its descriptors close on exec. */
struct ep_contract_far {
    void *context;
    unsigned can; /* EP_FAR_BIT()s of the parts that it can play; EP_FAR_TAKES is one */
    void (*play)(void *context, enum ep_far part);
    /* Takes the oldest of the messages that were kept since the last call, waiting for it a little; its size, -1: there
     * is none. NULL: nobody can know. */
    long (*kept)(void *context, uint8_t *bytes, size_t size);
};

struct ep_contract_transport {
    const struct ep_transport *transport;
    struct ep_target target;
    const char *const *bad_endpoints; /* that open() has to refuse, ended by NULL; NULL: there is none */
    size_t largest;                   /* message that it takes; larger ones are -EMSGSIZE. 0: any */
    struct ep_contract_far far;
};

/* Returns the number of promises that were broken. Takes some seconds. */
unsigned ep_contract_transport(const struct ep_contract_transport *test);

struct ep_contract_stream {
    const char *name;
    const struct ep_stream *stream;
    const char *host, *port;
    struct ep_contract_far far; /* no `kept` */
};

/* Likewise. */
unsigned ep_contract_stream(const struct ep_contract_stream *test);

#endif
