/*
 * Memory that runs out, at every place: https with an allocator that fails the n-th time. In place of arena.c, so that
 * each block is one of malloc's and ASan sees all of them. Nine in ten allocations are those of numbers, at few places:
 * each place fails some of the times that it comes by, and every STEP-th allocation fails whatever it is.
 *
 *     tls_faults ENDPOINT STEP        EDGEPROF_TLS_*; STEP 1: every one
 *
 * What fails must say so and nothing else, nothing may be left behind, and the next attempt must work.
 */
#include "../program.h"

#include <stdalign.h>

#include "ep_mbedtls_config.h"
#include <edgeprof/port.h>
#include "transport/tls/internal.h"

static alignas(16) uint8_t memory[sizeof(struct ep_tls) + 32];
static long held, calls, fail_at; /* 0: none fails */
static bool was_short;

#define CALLS_MAX  100000
#define PLACES_MAX 256
#define A_PLACE    10

/* Who asked, seen when none fails. */
static bool chosen[CALLS_MAX];
static struct place {
    const void *from;
    unsigned times;
} places[PLACES_MAX];

static void choose(const void *from)
{
    struct place *place = places;

    while (place->from && place->from != from && place < places + PLACES_MAX - 1)
        place++;
    place->from = from;
    if (calls < CALLS_MAX)
        chosen[calls] = place->times++ < A_PLACE;
}

void *ep_tls_calloc(size_t count, size_t size)
{
    calls++;
    if (fail_at == 0)
        choose(__builtin_return_address(0));
    if (calls == fail_at) {
        was_short = true;
        return NULL;
    }
    held++;
    return calloc(count, size);
}

void ep_tls_free(void *block)
{
    held -= block != NULL;
    free(block);
}

void ep_tls_arena_set(void *bytes, size_t size)
{
    (void)bytes, (void)size;
}

size_t ep_tls_arena_peak(void)
{
    return 0;
}

bool ep_tls_arena_short(void)
{
    bool answer = was_short;

    was_short = false;
    return answer;
}

void ep_tls_wipe(void *bytes, size_t size)
{
    memset(bytes, 0, size);
}

static int fail(const char *what, int err)
{
    fprintf(stderr, "tls_faults: allocation %ld: %s: %s: %s\n", fail_at, what, strerrorname_np(-err), ep_tls_error());
    return -1;
}

static int setup(void)
{
    struct ep_tls_config tls = {.memory = memory, .memory_size = sizeof memory};
    int err = ep_tls_config_from_env(&tls);

    return err ? err : ep_tls_setup(&tls);
}

static int send_one(void *state)
{
    struct ep_message message = {.data = (const uint8_t *)"test", .size = 4, .format = EP_FORMAT_COMPACT, .segment = 1};
    struct ep_deadline deadline = {ep_port_uptime_ns() + UINT64_C(20000000000)};
    uint64_t retry_ns = 0;

    return ep_transport_https->send(state, &message, &deadline, &retry_ns);
}

/* Three messages with connections of their own: a full handshake and two that resume. */
static int send_all(const char *endpoint)
{
    static uint64_t state[EP_TRANSPORT_BYTES / sizeof(uint64_t)];
    const struct ep_target target = {.endpoint = endpoint, .service = "test", .tags = ""};

    memset(state, 0, sizeof state);
    int err = ep_transport_https->open(state, &target), result = 0;
    if (err)
        return fail("open", err);
    for (int i = 0; i < 3 && result == 0; i++) {
        err = send_one(state);
        if (err && (err != -ENOMEM || fail_at == 0 || calls < fail_at))
            result = fail("send", err);
        if (err && send_one(state) != 0)
            result = fail("the message after it", err);
    }
    ep_transport_https->close(state);
    return result;
}

static int once(const char *endpoint)
{
    calls = 0;
    int err = setup(), result = 0;
    if (err == 0)
        result = send_all(endpoint);
    else if (err != -ENOMEM || fail_at == 0)
        result = fail("setup", err);
    ep_tls_end();
    if (held != 0)
        result = fail("blocks were left behind", 0);
    return result;
}

int main(int argc, char **argv)
{
    if (argc != 3 || once(argv[1]) != 0)
        return 1;
    const long all = calls < CALLS_MAX ? calls : CALLS_MAX - 1, step = strtol(argv[2], NULL, 10);

    long tried = 0, where = 0;
    for (fail_at = 1; fail_at <= all; fail_at++) {
        if (!chosen[fail_at] && fail_at % step != 0)
            continue;
        tried++;
        if (once(argv[1]) != 0)
            return 1;
    }
    while (where < PLACES_MAX && places[where].from)
        where++;
    printf("tls_faults: %ld of %ld allocations failed, at %ld places, each with a clean error\n", tried, all, where);
    return tried < 100;
}
