/*
 * How encoded profiles leave the process. Two small vtables, both open to users:
 *
 *   struct ep_transport   takes whole messages to a receiver (HTTP, a file, an MQTT client, a serial line ...)
 *   struct ep_stream      moves bytes for transports that talk over a connection (TCP here, TLS in tls/)
 *
 * Everything here runs on the deliver thread, and nothing waits for it but ep_stop(). README.md shows how to write one,
 * contract/ tests one.
 */
#ifndef EP_TRANSPORT_H
#define EP_TRANSPORT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "edgeprof.h"

/*
 * When a call has to be over: absolute, on ep_port_uptime_ns()'s scale, 0 has always passed. It may come nearer while
 * the call runs (ep_stop() was called), never farther: a function that waits looks again at least every 100 ms.
 */
struct ep_deadline {
    _Atomic uint64_t at_ns;
};

static inline uint64_t ep_deadline_ns(const struct ep_deadline *deadline)
{
    return atomic_load_explicit(&deadline->at_ns, memory_order_relaxed);
}

/* One message, as encoded. data stays valid and unchanged until send returns. */
struct ep_message {
    const uint8_t *data;
    size_t size;
    enum ep_format format;
    const char *family; /* pprof: what its value types have in common, "process_cpu", "memory" ...; else NULL */
    uint64_t segment;   /* compact: the dictionary; with sequence it identifies the message for ever */
    uint32_t sequence;
    uint64_t start_unix_ns, end_unix_ns; /* 0: the device has no clock */
};

struct ep_target {
    const char *endpoint;         /* as configured, may be NULL for a user's own transport */
    const char *service;          /* and tags: while send runs, of the run that made the message */
    const char *tags;             /* "key=value,key=value" or "" */
    const char *headers;          /* struct ep_config: lines of a request's head, or NULL; a secret */
    const struct ep_push *push;   /* pprof over HTTP */
    const struct ep_names *names; /* for push; NULL: addresses stay what they are */
};

/* Where somebody's bytes go: to write(), or, while that is NULL, only into the count. */
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

/* An address as a pprof has it. */
struct ep_place {
    const char *build_id; /* hexadecimal digits, build_id_size of them; not terminated, as the path */
    const char *path;
    size_t build_id_size, path_size;
    uint64_t address; /* ELF */
    unsigned hint;    /* the finder's, 0 before the first of a mapping; kept for the next */
};

#define EP_NAMED_MOST      1536u /* functions that have a name of their own */
#define EP_NAMED_LOCATIONS 8192u /* locations of one message; those beyond have their module's name */

/* What push knows of the message that it is sending with names. */
struct ep_named {
    unsigned functions, strings; /* that the message has itself */
    unsigned locations, count;   /* functions that are added */
    uint16_t of[EP_NAMED_LOCATIONS];
    uint16_t name[EP_NAMED_MOST + EP_MAX_MODULES];      /* of those; beyond EP_NAMED_MOST: of a mapping */
    uint16_t added[EP_NAMED_MOST + EP_MAX_MODULES + 1]; /* the function for a name; 0: none yet */
    uint64_t filename[EP_MAX_MODULES];                  /* of the mappings */
};

/*
 * Finds names of functions for pprof messages, for servers that cannot; ep_names_process (core/deliver/names.c) is the
 * one.
 *
 * begin  another message; names that would take longer than the deadline, which may come nearer, are not found
 * find   number of the name of the function at a place, 1..EP_NAMED_MOST; 0: none
 * text   the name with that number, until the next begin
 * Context: deliver.
 */
struct ep_names {
    void (*begin)(const struct ep_deadline *deadline);
    unsigned (*find)(struct ep_place *place);
    const char *(*text)(unsigned name);
    struct ep_named *memory; /* for push */
};

/* Sizes of a request's body: all of it, and what push keeps for itself. */
struct ep_push_size {
    uint64_t body, series, profile;
};

/*
 * What http.c puts around a pprof message; ep_push_pyroscope (push_pyroscope.c) is the one.
 *
 * path_and_type  of the request: path behind the endpoint's prefix, NUL, content type
 * measure        the body's size; names are found for it before the deadline, and stay for write
 * write          the body, in pieces
 * Context: deliver.
 */
struct ep_push {
    const char *path_and_type;
    void (*measure)(struct ep_push_size *size, const struct ep_target *target, const struct ep_message *message,
                    const struct ep_deadline *deadline);
    void (*write)(const struct ep_push_size *size, const struct ep_target *target, const struct ep_message *message,
                  struct ep_sink *sink);
};

/*
 * A transport is stateless code and `state`: at least state_size bytes of memory that the library gives it, aligned to
 * 8 bytes, zeroed before open, untouched by anybody else until close has returned.
 *
 * open    reads *target (valid until close). No I/O that can block. 0, or -EINVAL when the endpoint makes no sense.
 *         May be NULL. Context: init.
 * send    delivers one whole message before the deadline. Returns
 *             0            the receiver has it; it may be forgotten here
 *             -ESTALE      the receiver does not know the segment: a new one must be started
 *             -EBADMSG     refused for good (a 4xx): sending it again is pointless
 *             -EMSGSIZE    refused because of its size, likewise for good
 *             -EAGAIN      the receiver asks for patience (429, 503); *retry_ns, 0 before the call, may be set to
 *                          the least time until the next send; more than a day counts as a day
 *             any other    not delivered, or not known to be: will be sent again, the same bytes
 *         Must return within 100 ms of the deadline, as it stands then, whatever the far end does: ep_stop() waits for
 *         it. Exceptions: a slow disk, and the system's lookup of a name (see ep_stream). Context: deliver.
 * close   gives back what open and send took. Called once after a successful open. May be NULL. Context: init.
 */
struct ep_transport {
    const char *name;
    size_t state_size; /* at most EP_TRANSPORT_BYTES */
    int (*open)(void *state, const struct ep_target *target);
    int (*send)(void *state, const struct ep_message *message, const struct ep_deadline *deadline, uint64_t *retry_ns);
    void (*close)(void *state);
};

/*
 * A stream is one connection at a time. Its state is as a transport's, and each call's context is deliver.
 *
 * connect  to host and port before the deadline. 0 or a negative errno value. A host that is a name is looked up by the
 *          system, which cannot be hurried once it has begun: with DNS about a second for each name server that does
 *          not answer (resolv.conf has three at most), with other sources as long as they take. It is not begun after
 *          the deadline. A numeric address is never looked up.
 * read     1..size bytes; 0: the far end has closed; -ETIMEDOUT: the deadline passed with nothing to read. A deadline
 *          that has passed before the call asks what there is now: the bytes that have arrived, 0, or, on a connection
 *          that is open and silent, -ETIMEDOUT. http.c tells by that whether a kept connection can be used again.
 * write    1..size bytes taken; never 0; -ETIMEDOUT: the deadline passed and nothing could be written.
 * close    any time after connect was tried; may be called twice.
 */
struct ep_stream {
    size_t state_size;
    int (*connect)(void *state, const char *host, const char *port, const struct ep_deadline *deadline);
    long (*read)(void *state, void *bytes, size_t size, const struct ep_deadline *deadline);
    long (*write)(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline);
    void (*close)(void *state);
};

/* Bytes at the start of the text that are UTF-8 (utf8.c). Context: any thread. */
size_t ep_utf8_run(const char *text, size_t size);

extern const struct ep_transport ep_transport_http; /* http.c: POST, over ep_stream_tcp */
extern const struct ep_transport ep_transport_file; /* file.c: appends length-prefixed messages */
extern const struct ep_transport ep_transport_null; /* null.c: takes everything, keeps nothing */

extern const struct ep_stream ep_stream_tcp;

/* The transport for an endpoint's scheme: http, file, null, and https after ep_tls_setup(). NULL: no such scheme.
 * Context: init. */
const struct ep_transport *ep_transport_find(const char *endpoint);

#endif
