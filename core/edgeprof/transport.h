/*
 * Encoded profiles leave the process through two small tables of functions, which users can implement:
 *
 *   struct ep_transport   delivers whole messages to a receiver (HTTP, a file, an MQTT client, a serial line ...)
 *   struct ep_stream      moves bytes for transports with a connection (TCP here, TLS in tls/)
 *
 * Everything here runs on the deliver thread, for which only ep_stop() waits. transport/README.md shows how to write a
 * transport, and transport/contract/ tests one.
 */
#ifndef EP_TRANSPORT_H
#define EP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <edgeprof/atomic.h>
#include <edgeprof/edgeprof.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A deadline is a time on the scale of ep_port_uptime_ns(); 0 has always passed. ep_stop() may make it earlier while a
 * call runs, never later. So a function that waits must read its deadline at least every 100 ms.
 */
struct ep_deadline {
    EP_ATOMIC(uint64_t) at_ns;
};

static inline uint64_t ep_deadline_ns(const struct ep_deadline *deadline)
{
    return EP_ATOMIC_READ(deadline->at_ns);
}

/* Returns the time on that scale; core/edgeprof/port.h declares it, too. Context: signal. */
uint64_t ep_port_uptime_ns(void);

/* Returns true if the deadline has passed. Context: any thread. */
static inline bool ep_deadline_passed(const struct ep_deadline *deadline)
{
    return ep_port_uptime_ns() >= ep_deadline_ns(deadline);
}

/* A message is an encoded profile; pprof is compressed by gzip. `data` stays valid and unchanged until send returns. */
struct ep_message {
    const uint8_t *data;
    size_t size;
    enum ep_format format;
    const char *family; /* pprof: the group of its value types, "process_cpu", "memory" ...; else NULL */
    uint64_t segment;   /* compact: the dictionary's id; segment and sequence identify a message permanently */
    uint32_t sequence;
    uint64_t start_unix_ns, end_unix_ns; /* by the clock as it is now; 0: the device has no clock */
    uint64_t age_ns;                     /* since the end of its interval; UINT64_MAX: unknown; 0: not told */
};

struct ep_target {
    const char *endpoint;       /* as configured; may be NULL for a user's own transport */
    const char *service;        /* service and tags are those of the run that made the message */
    const char *tags;           /* "key=value,key=value" or "" */
    const char *headers;        /* request header lines as in struct ep_config, or NULL; a secret */
    const struct ep_push *push; /* pprof over HTTP */
};

/* A sink receives bytes. If write is NULL, it only counts them. */
struct ep_sink {
    void (*write)(void *to, const void *bytes, size_t size);
    void *to;
    uint64_t size; /* bytes so far */
};

static inline void ep_sink_put(struct ep_sink *sink, const void *bytes, size_t size)
{
    sink->size += size;
    if (sink->write)
        sink->write(sink->to, bytes, size);
}

/*
 * A push makes the body of the HTTP request that carries a pprof message. ep_push_pyroscope (push_pyroscope.c) is one.
 *
 *   path_and_type  the path behind the endpoint's prefix, NUL, the content type
 *   write          writes the body in pieces; a repeated call writes the same bytes
 *
 * Context: deliver.
 */
struct ep_push {
    const char *path_and_type;
    void (*write)(const struct ep_target *target, const struct ep_message *message, struct ep_sink *sink);
};

/*
 * A transport is code without variables. The library gives it `state`: at least state_size bytes of memory, aligned to
 * 8 bytes and zeroed before open, which nobody else uses until close has returned.
 *
 * open    reads *target (valid until close). No I/O that can block. Returns 0, or -EINVAL if the endpoint is invalid.
 *         May be NULL. Context: init.
 * send    delivers one whole message before the deadline. Returns
 *             0            the receiver has accepted it
 *             -ESTALE      the receiver does not know the segment: the sender must start a new one
 *             -EBADMSG     refused permanently because of its content: the message is dropped. Do not return it for
 *                          an error that a new token or setting repairs
 *             -EMSGSIZE    refused permanently because of its size
 *             -EAGAIN      the receiver asks to retry later (429, 503); *retry_ns, 0 before the call, may be set to
 *                          the minimum time until the next send; more than a day counts as a day
 *             -ETIME       the whole message was sent, and the deadline passed before the answer: the next send has a
 *                          later deadline
 *             any other    not delivered, or unknown: the same bytes will be sent again
 *         It must return within 100 ms of the current deadline, whatever the far end does, because ep_stop() waits for
 *         it. Only a slow disk and the system's name lookup (see ep_stream) may delay it. Context: deliver.
 * answer  returns the HTTP status of the answer to the last send; 0: no answer came. *why is one line that explains a
 *         failure which the errno value does not explain, else "". May be NULL. Context: deliver.
 * close   frees what open and send have allocated. Called once after a successful open. May be NULL. Context: init.
 */
struct ep_transport {
    const char *name;
    size_t state_size; /* at most EP_TRANSPORT_BYTES */
    int (*open)(void *state, const struct ep_target *target);
    int (*send)(void *state, const struct ep_message *message, const struct ep_deadline *deadline, uint64_t *retry_ns);
    void (*close)(void *state);
    unsigned (*answer)(const void *state, const char **why);
};

/*
 * A stream is one connection at a time. Its state is like a transport's. Context of all calls: deliver.
 *
 * connect  connects to host and port before the deadline. Returns 0 or a negative errno value. It starts no name lookup
 *          after the deadline, but it cannot interrupt one. DNS takes about a second for each name server that does not
 *          answer (resolv.conf has three at most); other sources may take any time. A numeric address needs no lookup.
 * read     returns
 *              1..size     bytes
 *              0           the far end has closed
 *              -ETIMEDOUT  the deadline passed and nothing has arrived
 *          If the deadline had passed before the call, it returns at once what has arrived. http.c uses that to check
 *          whether a kept connection is still open.
 * write    returns 1..size, the bytes written, never 0; -ETIMEDOUT: the deadline passed and nothing could be written.
 * close    may be called any time after connect, and twice.
 */
struct ep_stream {
    size_t state_size;
    int (*connect)(void *state, const char *host, const char *port, const struct ep_deadline *deadline);
    long (*read)(void *state, void *bytes, size_t size, const struct ep_deadline *deadline);
    long (*write)(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline);
    void (*close)(void *state);
};

/* Returns the number of bytes at the start of the text that are valid UTF-8 (utf8.c). Context: any thread. */
size_t ep_utf8_run(const char *text, size_t size);

extern const struct ep_transport ep_transport_http; /* http.c: POST, over ep_stream_tcp */
extern const struct ep_transport ep_transport_file; /* file.c: appends length-prefixed messages */
extern const struct ep_transport ep_transport_null; /* null.c: accepts and discards everything */

extern const struct ep_stream ep_stream_tcp;

/* Returns the transport for an endpoint's scheme: http, file, null, and https after ep_tls_setup(). NULL: the scheme is
 * unknown. Context: init. */
const struct ep_transport *ep_transport_find(const char *endpoint);

#ifdef __cplusplus
}
#endif

#endif
