/*
 * Private to core/features/otel: OpenTelemetry's contexts (OTEP 4719 and 4947), which programs on the same machine
 * read.
 *
 *   process.c   publishes the process context: what this process is
 *   payload.c   its bytes
 *   threads.c   publishes the thread context: span and labels that a thread works for
 *   foreign.c   reads the thread context of another tracer in this process, for edgeprof's samples
 *
 * Only programs that call ep_otel_publish(), ep_otel_threads() or ep_otel_read() link the file behind it.
 */
#ifndef EP_CONTEXT_H
#define EP_CONTEXT_H

#include "core/sample/profiler.h"

/* A process context's header, in the byte order of the machine. published_ns 0: do not read. */
struct ep_process_context {
    char signature[8];
    uint32_t version, payload_size;
    _Atomic uint64_t published_ns;
    uint64_t payload; /* address, 64 bits everywhere */
};
_Static_assert(sizeof(struct ep_process_context) == 32, "as in the specification");

/* Two payloads fit behind the header and are used in turn, so that a reader does not see one being written. */
#define EP_CONTEXT_BYTES   8192u
#define EP_CONTEXT_PAYLOAD ((EP_CONTEXT_BYTES - sizeof(struct ep_process_context)) / 2)

/* The names of the keys of thread contexts, each ending with NUL, and what of a payload stays for the resource: a key
 * takes at most 6 bytes more than its name, the schema 128. */
#define EP_CONTEXT_KEYS     64u
#define EP_CONTEXT_NAMES    1024u
#define EP_CONTEXT_RESOURCE (EP_CONTEXT_PAYLOAD - EP_CONTEXT_NAMES - 6 * EP_CONTEXT_KEYS - 128)

/* A thread context's record: 28 bytes, then attributes {key's index, length, bytes}. Ids have the byte order of W3C's
 * Trace Context. */
struct ep_thread_record {
    uint8_t trace_id[16], span_id[8];
    uint8_t valid, trace_flags;
    uint16_t attributes_size;
};
_Static_assert(sizeof(struct ep_thread_record) == 28, "as in the specification");

/* Bytes that are being written; `full`: something did not fit. */
struct ep_bytes {
    uint8_t *at;
    size_t size, room;
    bool full;
};

/* The message Resource as field 1 of ProcessContext: attributes, config's service, OTEL_SERVICE_NAME,
 * OTEL_RESOURCE_ATTRIBUTES, config's tags, and what edgeprof knows, in this order. The first value of a key counts.
 * Returns 0 or -EINVAL (ep_start_error()). Context: init. */
struct ep_resource {
    const struct ep_config *config;
    const char *attributes;
    const char *instance; /* service.instance.id, if nothing else says it */
};
int ep_context_resource(struct ep_bytes *bytes, const struct ep_resource *resource);

/* The attributes that thread contexts need: their schema, and the names of `count` keys. name: each ends with NUL.
 * Context: any thread. */
void ep_context_schema(struct ep_bytes *bytes, const char *name, unsigned count);

/* The keys of thread contexts have changed: publishes the process context anew, if there is one and nobody else is
 * writing it. True: it has these keys. Context: any thread. */
bool ep_context_renew(void);

/* The names of keys, for the payload. */
struct ep_context_keys {
    char name[EP_CONTEXT_NAMES];
    _Atomic unsigned count;
    unsigned size;
};
/* Payloads have these keys from now on; without this call, none. Context: init. */
void ep_context_keys_are(const struct ep_context_keys *keys);

#endif
