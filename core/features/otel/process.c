/*
 * The process context (OTEP 4719): a small mapping that readers find by its name in /proc/PID/maps.
 *
 *   ep_otel_publish    -> ep_context_resource, then write_payload
 *   ep_context_renew   -> write_payload with the resource as it is and the keys that threads.c knows now
 *   write_payload      -> the slot that is not in use, published_ns 0, header, published_ns
 *
 * One writer at a time holds `writing`. A forked child does not have the mapping: ep_port_context_open() knows.
 */
#include "core/features/otel/context.h"

#include <errno.h>
#include <string.h>

#define VERSION 2u
#define POLL_NS 200000u

static _Atomic(const struct ep_context_keys *) context_keys; /* NULL: no thread contexts */

static struct {
    atomic_flag writing;
    bool follows_forks;
    atomic_size_t resource_size; /* at the beginning of the payload; 0: nothing is published */
    atomic_uint keys;            /* that it has */
    char instance[37];           /* service.instance.id of this process */
} context;

static bool try_write(void)
{
    return !atomic_flag_test_and_set_explicit(&context.writing, memory_order_acquire);
}

/* A writer never waits for anything, so it is over soon. */
static void write_begin(void)
{
    struct ep_event never = {0};

    while (!try_write())
        ep_port_wait(&never, 0, POLL_NS);
}

/* In the child, which has no mapping, but may have its parent's number in a namespace of its own. Another thread may
 * have been writing. */
static void forked(void)
{
    ep_port_context_close();
    context.resource_size = 0;
    atomic_flag_clear(&context.writing);
}

/* A random UUID (version 4). */
static void instance_make(void)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t random[16];
    char *at = context.instance;

    ep_port_random(random, sizeof random);
    random[6] = 0x40 | (random[6] & 0x0f);
    random[8] = 0x80 | (random[8] & 0x3f);
    for (unsigned i = 0; i < sizeof random; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = digits[random[i] >> 4];
        *at++ = digits[random[i] & 15];
    }
    *at = 0;
}

/* The slot that readers do not look at. */
static struct ep_bytes slot_next(struct ep_process_context *header)
{
    uint8_t *first = (uint8_t *)(header + 1);
    bool second = header->payload == (uintptr_t)first;

    return (struct ep_bytes){.at = first + (second ? EP_CONTEXT_PAYLOAD : 0), .room = EP_CONTEXT_RESOURCE};
}

/* Readers compare published_ns before and after, so it must rise. Stored last, it publishes. */
static void header_write(struct ep_process_context *header, const struct ep_bytes *payload)
{
    uint64_t before = atomic_load_explicit(&header->published_ns, memory_order_relaxed), now = ep_port_uptime_ns();

    atomic_store_explicit(&header->published_ns, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(header->signature, "OTEL_CTX", sizeof header->signature);
    header->version = VERSION;
    header->payload_size = (uint32_t)payload->size;
    header->payload = (uintptr_t)payload->at;
    atomic_thread_fence(memory_order_seq_cst);
    atomic_store_explicit(&header->published_ns, now > before ? now : before + 1, memory_order_relaxed);
}

/* Behind the resource in `payload` come the keys, for which there is always room. */
static int payload_publish(struct ep_process_context *header, struct ep_bytes *payload)
{
    const struct ep_context_keys *keys = atomic_load(&context_keys);

    context.resource_size = payload->size;
    context.keys = keys ? atomic_load(&keys->count) : 0;
    payload->room = EP_CONTEXT_PAYLOAD;
    if (keys)
        ep_context_schema(payload, keys->name, context.keys);
    header_write(header, payload);
    return ep_port_context_changed();
}

/* The same resource, other keys. */
static bool renew(void)
{
    void *memory;

    if (!ep_port_context_mine(&memory))
        context.resource_size = 0;
    if (!context.resource_size)
        return false;
    const struct ep_process_context *header = memory;
    struct ep_bytes payload = slot_next(memory);
    memcpy(payload.at, (const uint8_t *)(uintptr_t)header->payload, context.resource_size);
    payload.size = context.resource_size;
    return payload_publish(memory, &payload) == 0;
}

static bool keys_missing(void)
{
    const struct ep_context_keys *keys = atomic_load(&context_keys);

    return keys && atomic_load(&context.resource_size) && atomic_load(&context.keys) != atomic_load(&keys->count);
}

/* A thread that learnt a key meanwhile found this one writing. */
static void write_end(void)
{
    do {
        while (keys_missing())
            (void)renew();
        atomic_flag_clear_explicit(&context.writing, memory_order_release);
    } while (keys_missing() && try_write());
}

static int publish(const struct ep_resource *resource)
{
    void *memory;
    int error = ep_port_context_open(EP_CONTEXT_BYTES, &memory);

    if (error < 0)
        return ep_refuse(error, error == -EEXIST ? "another library has published this process' context"
                                                 : "this system has no memory for the process context");
    if (error == 0) /* a new process */
        instance_make();
    struct ep_bytes payload = slot_next(memory);
    error = ep_context_resource(&payload, resource);
    if (!error && payload_publish(memory, &payload) != 0)
        error = ep_refuse(-ENOTSUP, "readers cannot find a process context on this system");
    if (error && (error == -ENOTSUP || !context.resource_size)) {
        ep_port_context_close();
        context.resource_size = 0;
    }
    return error;
}

int ep_otel_publish(const struct ep_config *config, const char *attributes)
{
    const struct ep_resource resource = {.config = config, .attributes = attributes, .instance = context.instance};

    (void)ep_refuse(0, "");
    if (!context.follows_forks && ep_port_forks(forked) != 0)
        return ep_refuse(-ENOMEM, "cannot follow forks");
    context.follows_forks = true;
    write_begin();
    int error = publish(&resource);
    write_end();
    return error;
}

bool ep_context_renew(void)
{
    if (!try_write())
        return false;
    bool done = renew();
    write_end();
    return done;
}

void ep_context_keys_are(const struct ep_context_keys *keys)
{
    atomic_store(&context_keys, keys);
}

void ep_otel_withdraw(void)
{
    void *memory;

    write_begin();
    if (ep_port_context_mine(&memory)) {
        struct ep_process_context *header = memory;
        atomic_store_explicit(&header->published_ns, 0, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
        ep_port_context_close();
    }
    context.resource_size = 0;
    write_end();
}
