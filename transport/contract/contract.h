/*
 * Tests whether a transport or a stream fulfils the contract of transport.h. It sends through the real code to a far
 * end that plays different roles. The author of the test supplies the far end; tests/transport/far.c has one for
 * sockets and serial lines.
 *
 * Not part of the library. Compile transport/contract/ with the test and link libedgeprof.a; it needs POSIX threads.
 * Each violation is one line on standard error. A call that does not return ends the program with exit code 1.
 *
 *   transport.c   struct ep_transport
 *   stream.c      struct ep_stream
 *   bench.c       common code: memory with guards, deadlines that are shortened, descriptors, signals
 */
#ifndef EP_CONTRACT_H
#define EP_CONTRACT_H

#include <edgeprof/transport.h>

/* What the far end does with each message (for a stream: with the bytes it receives) from now on. */
enum ep_far {
    EP_FAR_TAKES,     /* accepts it; for a stream: echoes the bytes */
    EP_FAR_SLOW,      /* the same, but slowly: a few bytes at a time, with pauses */
    EP_FAR_SILENT,    /* reads everything and never answers */
    EP_FAR_DEAF,      /* is connected, but neither reads nor answers */
    EP_FAR_HANGS_UP,  /* closes in the middle of a message */
    EP_FAR_RESETS,    /* the same, by a reset */
    EP_FAR_ABSENT,    /* does not listen, and drops its connections */
    EP_FAR_GARBAGE,   /* sends an invalid answer */
    EP_FAR_STALE,     /* answers that it does not know the segment */
    EP_FAR_REFUSES,   /* refuses permanently */
    EP_FAR_TOO_LARGE, /* refuses because of the size */
    EP_FAR_BUSY,      /* asks to retry later */
    EP_FARS
};
#define EP_FAR_BIT(part) (1u << (part))

/* A far end. It runs concurrently with the test, in a thread or another process; its descriptors close on exec. */
struct ep_contract_far {
    void *context;
    unsigned can; /* EP_FAR_BIT()s of the roles that it supports; EP_FAR_TAKES is required */
    void (*play)(void *context, enum ep_far part);
    /* Returns the size of the oldest accepted message not yet returned, after a short wait; -1: none. NULL: unknown. */
    long (*kept)(void *context, uint8_t *bytes, size_t size);
};

struct ep_contract_transport {
    const struct ep_transport *transport;
    struct ep_target target;
    const char *const *bad_endpoints; /* that open() must reject, terminated by NULL; NULL: none */
    size_t largest;                   /* maximum message size; larger ones must give -EMSGSIZE. 0: no limit */
    struct ep_contract_far far;
};

/* Runs the tests and returns the number of violations. Takes some seconds. */
unsigned ep_contract_transport(const struct ep_contract_transport *test);

struct ep_contract_stream {
    const char *name;
    const struct ep_stream *stream;
    const char *host, *port;
    struct ep_contract_far far; /* no `kept` */
};

/* The same for a stream. */
unsigned ep_contract_stream(const struct ep_contract_stream *test);

#endif
