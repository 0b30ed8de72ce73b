/*
 * outbox.c compared with a queue: messages of random sizes from every offset of the ring arrive complete and in order.
 * The size that room() returns can be pushed, and nothing outside it is written. An empty outbox has its whole size
 * in one piece. Also with producer and consumer in two threads.
 */
#include <pthread.h>
#include <sched.h>

#include "unit.h"

#define BOX_MOST 65536u
#define QUEUE    4096u
#define GUARD    0xee

static _Alignas(16) uint8_t memory[BOX_MOST + 16];
static struct ep_outbox box;

struct sent {
    uint32_t size, sequence;
};

static struct sent queue[QUEUE];
static unsigned first, last;
static uint32_t sequence;

static void box_at(uint32_t size, uint32_t offset)
{
    memset(memory, GUARD, sizeof memory);
    ep_outbox_init(&box, memory, size);
    atomic_store(&box.ends, (uint64_t)offset << 32 | offset);
    first = last = 0;
}

static uint8_t byte_of(uint32_t number, uint32_t i)
{
    return (uint8_t)(number * 31 + i * 7);
}

static bool push(uint32_t size)
{
    uint8_t *data;
    uint32_t room = ep_outbox_room(&box, &data);

    if (room < size || last - first == QUEUE)
        return false;
    assert_true(data >= memory && data + room <= memory + box.size);
    for (uint32_t i = 0; i < size; i++)
        data[i] = byte_of(sequence, i);
    struct ep_box_header header = {.size = size,
                                   .sequence = sequence,
                                   .segment = sequence * 3u,
                                   .samples = sequence * 5u,
                                   .cpu_ns = size,
                                   .end_ns = 9};
    (void)ep_outbox_put(&box, &header, false);
    queue[last++ % QUEUE] = (struct sent){size, sequence++};
    return true;
}

static void check(const struct ep_box_header *header, struct sent expected)
{
    const uint8_t *data = (const uint8_t *)(header + 1);

    assert_int_equal(header->size, expected.size);
    assert_int_equal(header->sequence, expected.sequence);
    assert_int_equal(header->segment, expected.sequence * 3u);
    assert_int_equal(header->samples, expected.sequence * 5u);
    assert_int_equal(header->cpu_ns, expected.size);
    assert_int_equal(header->end_ns, 9);
    for (uint32_t i = 0; i < expected.size; i++)
        if (data[i] != byte_of(expected.sequence, i))
            fail_msg("message %u, byte %u of %u", expected.sequence, i, expected.size);
}

static bool pop(void)
{
    assert_int_equal(ep_outbox_empty(&box), first == last);
    const struct ep_box_header *header = ep_outbox_peek(&box);
    assert_int_equal(header == NULL, first == last);
    if (!header)
        return false;
    assert_ptr_equal(header, ep_outbox_peek(&box));
    check(header, queue[first % QUEUE]);
    ep_outbox_pop(&box);
    first++;
    return true;
}

static void check_empty(void)
{
    uint8_t *data;

    assert_null(ep_outbox_peek(&box));
    assert_true(ep_outbox_empty(&box));
    assert_int_equal(ep_outbox_room(&box, &data) + sizeof(struct ep_box_header) + 8, box.size);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(memory[box.size + i], GUARD);
}

static void sequence_of(uint64_t seed, unsigned steps, uint32_t largest)
{
    uint64_t dice = seed;

    for (unsigned i = 0; i < steps; i++) {
        if (unit_random(&dice) % 3)
            (void)push(1 + unit_random(&dice) % largest);
        else
            (void)pop();
    }
    while (pop()) {
    }
    check_empty();
}

TEST(test_every_offset)
{
    for (uint32_t size = 256; size <= 1024; size *= 2) {
        for (uint32_t offset = 0; offset < size; offset += 8) {
            box_at(size, offset);
            sequence_of(offset + size, 300, size / 3);
            box_at(size, offset);
            sequence_of(offset + size, 300, 9);
        }
    }
}

TEST(test_large)
{
    for (uint32_t seed = 1; seed <= 10; seed++) {
        box_at(BOX_MOST, seed * 4096);
        sequence_of(seed, 5000, 3000);
    }
}

/* A message of exactly the free size, at each offset, with or without an earlier one at the tail. */
TEST(test_exact_fit)
{
    uint8_t *data;

    for (uint32_t offset = 0; offset < 512; offset += 8) {
        for (unsigned before = 0; before < 2; before++) {
            box_at(512, offset);
            if (before)
                assert_true(push(40));
            uint32_t room = ep_outbox_room(&box, &data);
            for (uint32_t less = 0; less < 9 && less < room; less++) {
                while (pop()) {
                }
                box_at(512, offset);
                if (before)
                    assert_true(push(40));
                assert_true(push(room - less));
                while (pop()) {
                }
                check_empty();
            }
        }
    }
}

/* ---- two threads ---- */

#define MESSAGES 40000u

static void *consumer_main(void *argument)
{
    const struct ep_box_header *header;
    unsigned *bad = argument;

    for (uint32_t expected = 0; expected < MESSAGES; expected++) {
        while ((header = ep_outbox_peek(&box)) == NULL)
            sched_yield();
        const uint8_t *data = (const uint8_t *)(header + 1);
        *bad += header->sequence != expected;
        for (uint32_t i = 0; i < header->size; i++)
            *bad += data[i] != byte_of(expected, i);
        ep_outbox_pop(&box);
    }
    return NULL;
}

TEST(test_threads)
{
    pthread_t thread;
    unsigned bad = 0;
    uint64_t dice = 1;

    box_at(1024, 512);
    sequence = 0;
    assert_int_equal(pthread_create(&thread, NULL, consumer_main, &bad), 0);
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint32_t size = 1 + unit_random(&dice) % (i % 16 ? 300 : 1008 - (uint32_t)sizeof(struct ep_box_header));
        first = last = 0;
        while (!push(size))
            sched_yield();
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(bad, 0);
    assert_true(ep_outbox_empty(&box));
}

TEST_MAIN
