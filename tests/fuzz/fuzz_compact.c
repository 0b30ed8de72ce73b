/*
 * Any bytes as compact messages, one after the other, into a receiver: tools/formats/compact.c and
 * tools/serve/ingest/ingest_compact.c as `edgeprof serve` has them, over a store in memory. "EPMS" in the input stands
 * between messages.
 *
 * Checked: nothing outside the message is read (the sanitizers), each message is answered by one of the documented
 * verdicts, with a reason unless it was accepted; what is refused leaves nothing behind, neither profiles nor
 * dictionary; of what is accepted each profile has the sums that the message has, read by a decoder that checks
 * nothing, and refers to nothing that does not exist (fake_store.c); sequences only go on; memory is bounded by the
 * message's size and that of its segment, and all of it is given back.
 */
#include <stdint.h>
#include <string.h>

#include "fake_store.h"
#include "tools/serve/ingest/ingest.h"
#include "tools/lib/kinds.h"
#include "memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW INT64_C(1795000000000000000)

/* An empty submessage of two bytes is a structure of two hundred; every node is kept three times. */
#define MEMORY_FIXED    16384u
#define MEMORY_PER_BYTE 512u

static struct et_store store;

/* Sums of a profile as it stands on the wire. */
static void same_sums(const Edgeprof__V1__Profile *profile, const struct fake_profile *stored)
{
    uint64_t value = 0, count = 0;

    for (size_t i = 0; i < profile->n_value; i++)
        REQUIRE(!__builtin_add_overflow(value, profile->value[i] * profile->quantum, &value));
    for (size_t i = 0; i < profile->n_count; i++)
        count += profile->count[i];
    REQUIRE(value == stored->value && count == stored->count && profile->n_node == stored->stacks);
    REQUIRE(stored->at_root == 0);
}

static void accepted(const uint8_t *data, size_t size)
{
    Edgeprof__V1__Message *message = edgeprof__v1__message__unpack(NULL, size, data);
    size_t at = 0;

    REQUIRE(message && store.committed && message->segment != 0);
    for (size_t i = 0; i < message->n_profiles; i++)
        if (et_kind_numbered((uint32_t)message->profiles[i]->kind))
            same_sums(message->profiles[i], &store.profiles[at++]);
    REQUIRE(at == store.profile_count);
    edgeprof__v1__message__free_unpacked(message, NULL);
}

static size_t dictionary(void)
{
    size_t sum = 0;
    for (size_t i = 0; i < store.segment_count; i++)
        sum += store.segments[i].dictionary.node_count + store.segments[i].dictionary.span_count +
               store.segments[i].dictionary.label_count + store.segments[i].row.next_sequence;
    return sum;
}

static void push(const uint8_t *data, size_t size, bool undated)
{
    const char *why = NULL;
    size_t before = dictionary();
    const struct et_compact_source source = {.now_ns = NOW, .undated = undated};
    enum et_outcome outcome = et_ingest_compact_from(&store, data, size, &source, &why);

    REQUIRE(!store.open && outcome != ET_UNAVAILABLE);
    REQUIRE(outcome == ET_ACCEPTED || (why && why[0] && !store.committed));
    if (outcome == ET_ACCEPTED)
        accepted(data, size);
    else
        REQUIRE(dictionary() == before);
    store.committed = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *end = data + size;

    fuzz_memory_begin();
    for (unsigned messages = 0; at && messages < FAKE_SEGMENTS; messages++) {
        const uint8_t *next = at < end ? memmem(at, (size_t)(end - at), "EPMS", 4) : NULL;
        push(at, (size_t)((next ? next : end) - at), messages % 2);
        at = next ? next + 4 : NULL;
    }
    fake_store_reset(&store);
    REQUIRE(fuzz_memory_asked() <= MEMORY_FIXED * FAKE_SEGMENTS + MEMORY_PER_BYTE * size * FAKE_SEGMENTS);
    REQUIRE(fuzz_memory_held() == 0);
    return 0;
}
