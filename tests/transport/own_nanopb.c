/*
 * A program that brings its own nanopb, of which every function is broken: calls of the library that ended up here
 * would spoil its messages. Profiles itself into EDGEPROF_ENDPOINT and prints what must be in there.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <edgeprof/edgeprof.h>

bool pb_encode_varint(void *stream, uint64_t value);
bool pb_encode_tag(void *stream, unsigned type, uint32_t number);
bool pb_encode_fixed64(void *stream, const void *value);
bool pb_encode_string(void *stream, const uint8_t *bytes, size_t size);
bool pb_write(void *stream, const uint8_t *bytes, size_t size);
bool pb_encode(void *stream, const void *fields, const void *message);
void burn(void);

static volatile unsigned calls, work;

bool pb_encode_varint(void *stream, uint64_t value)
{
    (void)stream;
    calls++;
    return value & 1;
}

bool pb_encode_tag(void *stream, unsigned type, uint32_t number)
{
    return pb_encode_varint(stream, type + number);
}

bool pb_encode_fixed64(void *stream, const void *value)
{
    return pb_encode_varint(stream, (uintptr_t)value);
}

bool pb_encode_string(void *stream, const uint8_t *bytes, size_t size)
{
    (void)bytes;
    return pb_encode_varint(stream, size);
}

bool pb_write(void *stream, const uint8_t *bytes, size_t size)
{
    return pb_encode_string(stream, bytes, size);
}

bool pb_encode(void *stream, const void *fields, const void *message)
{
    (void)fields;
    return pb_encode_fixed64(stream, message) && pb_write(stream, NULL, 1) && pb_encode_tag(stream, 0, 0);
}

__attribute__((noinline)) void burn(void)
{
    for (unsigned i = 0; i < 1000000; i++)
        work = work + i;
}

int main(void)
{
    static uint8_t memory[EP_MEMORY_DEFAULT];
    struct ep_config config = {.memory = memory, .memory_size = sizeof memory, .rate_hz = 250, .interval_ms = 200};
    struct ep_stats stats = {0};

    (void)pb_encode(NULL, NULL, NULL); /* the linker keeps them */
    calls = 0;
    if (ep_config_from_env(&config) != 1 || (ep_pprof_from_env(&config) > 0 && ep_pprof_start() != 0) ||
        ep_start(&config) != 0) {
        fprintf(stderr, "own_nanopb: %s: set EDGEPROF_ENDPOINT\n", ep_start_error());
        return 1;
    }
    while (stats.samples < 100 || stats.messages < 3) {
        burn();
        if (ep_stats_get(&stats) != 0)
            return 1;
    }
    int error = ep_stop(60000);
    if (error || ep_stats_get(&stats) != 0 || calls > 0) {
        fprintf(stderr, "own_nanopb: ep_stop: %d; the library called us %u times\n", error, calls);
        return 1;
    }
    printf("%llu %llu\n", (unsigned long long)stats.samples, (unsigned long long)stats.weight_ns);
    return 0;
}
