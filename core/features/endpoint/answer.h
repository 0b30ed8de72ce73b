/*
 * What the server passes to an endpoint: a client's request, without sockets, and the answer to it. A client sends one
 * HTTP/1.1 request without a body.
 */
#ifndef EP_ANSWER_H
#define EP_ANSWER_H

#include <stddef.h>
#include <stdint.h>

/* True if the request's head is complete, or if it has `room` bytes, the most that are accepted.
 * Context: any thread. */
int ep_request_complete(const char *request, size_t size, size_t room);

/* An answer to a client; all zero before the request is answered. */
struct ep_answer {
    size_t size;      /* bytes in the buffer, ready to be sent; 0: no answer yet */
    uint64_t look_ns; /* ... then the endpoint's look() is called at this time (uptime) */
    uint64_t body,
        sent; /* size of the body that follows, from the endpoint's piece(); serve.c counts what it has sent */
    /* private to the endpoint */
    uint64_t give_up_ns, period_ns;
    unsigned route, view, list, place;
};

#endif
