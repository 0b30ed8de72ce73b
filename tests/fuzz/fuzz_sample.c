/*
 * Fuzz target for the reader of records: the ring between handlers and the collect thread (core/sample/record.h).
 *
 * An input is a list of records: kind and quality, end, flags, number of words, then the words. Flag 1: the header in
 * the ring is overwritten afterwards, as a wild write of the program would. Invariants: the collect thread reads no
 * word outside of the profiler's memory (AddressSanitizer sees its end); it leaves the ring empty, unless a header was
 * overwritten; each record is counted at most once.
 */
#include <stdlib.h>
#include <string.h>

#include "port/sim/sim.h"
#include "tests/unit/core_rooms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

static uint64_t take(struct input *input, size_t bytes)
{
    uint64_t value = 0;
    const size_t n = bytes < input->left ? bytes : input->left;

    memcpy(&value, input->at, n);
    input->at += n;
    input->left -= n;
    return value;
}

/* Returns whether the header is as it was written. */
static bool put(struct ep *ep, struct input *input)
{
    const uint8_t kind = (uint8_t)take(input, 1), end = (uint8_t)take(input, 1), flags = (uint8_t)take(input, 1);
    const unsigned count = (unsigned)take(input, 1) % 200;
    struct ep_record record = {.kind = 2 + kind % 3, .quality = kind >> 4 & 3, .end = end, .count = count};
    bool wake = false;
    int at = ep_ring_reserve(&ep->ring, count, 0, &wake);

    if (at < 0)
        return true;
    for (unsigned i = 0; i < count; i++)
        ep_ring_payload(&ep->ring, at)[i] = (uintptr_t)take(input, flags & 2 ? sizeof(uintptr_t) : 4);
    ep_ring_commit(&ep->ring, at, count, ep_ring_header(&record));
    if (flags & 1)
        ep->ring.words[at - 1] = (uintptr_t)take(input, 8) | 2;
    return !(flags & 1);
}

static void check(bool whole)
{
    if (!whole)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ep_stats stats;
    struct input input = {data, size};
    uint8_t *memory = malloc(EP_MEMORY_DEFAULT);
    const struct ep_config config = {.memory = memory,
                                     .memory_size = EP_MEMORY_DEFAULT,
                                     .service = "fuzz",
                                     .level = EP_LEVEL_HIGH,
                                     .interval_ms = 1000,
                                     .flags = EP_MANUAL | EP_THREAD_LABELS};

    ep_sim_reset();
    check(memory && ep_start(&config) == 0);
    struct ep *ep = ep_running();
    bool intact = true;
    unsigned records = 0;
    for (; records < 20 && input.left; records++)
        intact &= put(ep, &input);
    for (unsigned i = 0; i < 3 && ep_ring_used(&ep->ring); i++)
        check(ep_collect() == 0);
    check(ep_ring_used(&ep->ring) == 0 || !intact);
    check(ep_stats_get(&stats) == 0);
    check(!intact || stats.samples + stats.lost_count[EP_LOSS_DAMAGED] <= records);
    (void)ep_stop(0);
    free(memory);
    return 0;
}
