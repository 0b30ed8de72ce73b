/*
 * How encoded profiles leave the process. Two small vtables, both open to users:
 *
 *   struct ep_transport   takes whole messages to a receiver (HTTP, a file, an MQTT client, a serial line ...)
 *   struct ep_stream      moves bytes for transports that talk over a connection (TCP here, TLS later)
 *
 * Everything here runs on the deliver thread and nothing else waits for it. No function of a transport reads a
 * clock: times are passed in, absolute, on ep_port_uptime_ns()'s scale.
 */
#ifndef EP_TRANSPORT_H
#define EP_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "edgeprof.h"

/* One message, as encoded. data stays valid and unchanged until send returns. */
struct ep_message {
    const uint8_t *data;
    size_t size;
    enum ep_format format;
    uint64_t segment; /* compact: the dictionary; with sequence it identifies the message for ever */
    uint32_t sequence;
    uint64_t start_unix_ns, end_unix_ns; /* 0: the device has no clock */
};

struct ep_target {
    const char *endpoint; /* as configured, may be NULL for a user's own transport */
    const char *service;
    const char *tags; /* "key=value,key=value" or "" */
};

/*
 * A transport is stateless code and `state`, zeroed memory of at least state_size bytes that the library gives it.
 *
 * open    reads *target (valid until close). No I/O that can block. 0, or -EINVAL when the endpoint makes no sense.
 * send    delivers one whole message before deadline_ns. Returns
 *             0            the receiver has it; it may be forgotten here
 *             -ESTALE      the receiver does not know the segment: a new one must be started
 *             -EBADMSG     refused for good (a 4xx): sending it again is pointless
 *             -EMSGSIZE    refused because of its size, likewise for good
 *             -EAGAIN      the receiver asks for patience (429, 503); *retry_ns may be set to how long
 *             any other    not delivered, or not known to be: will be sent again, the same bytes
 *         Must return within a few milliseconds of the deadline, whatever the far end does.
 * close   gives back what open and send took. Called once after a successful open.
 */
struct ep_transport {
    const char *name;
    size_t state_size; /* at most EP_TRANSPORT_BYTES */
    int (*open)(void *state, const struct ep_target *target);
    int (*send)(void *state, const struct ep_message *message, uint64_t deadline_ns, uint64_t *retry_ns);
    void (*close)(void *state);
};

/*
 * A stream is one connection at a time.
 *
 * connect  to host and port before deadline_ns. 0 or a negative errno value.
 * read     1..size bytes; 0: the far end has closed; -ETIMEDOUT: the deadline passed with nothing to read.
 * write    1..size bytes taken; never 0; -ETIMEDOUT: the deadline passed and nothing could be written.
 * close    any time after connect was tried; may be called twice.
 */
struct ep_stream {
    size_t state_size;
    int (*connect)(void *state, const char *host, const char *port, uint64_t deadline_ns);
    long (*read)(void *state, void *bytes, size_t size, uint64_t deadline_ns);
    long (*write)(void *state, const void *bytes, size_t size, uint64_t deadline_ns);
    void (*close)(void *state);
};

extern const struct ep_transport ep_transport_http; /* http.c: POST, over ep_stream_tcp */
extern const struct ep_transport ep_transport_file; /* file.c: appends length-prefixed messages */
extern const struct ep_transport ep_transport_null; /* null.c: takes everything, keeps nothing */

extern const struct ep_stream ep_stream_tcp;

/* The transport for an endpoint's scheme: http, file, null. NULL: no such scheme. Context: init. */
const struct ep_transport *ep_transport_find(const char *endpoint);

#endif
