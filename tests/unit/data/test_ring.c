/*
 * ring.c compared with a model: random sequences of reserve, commit (in any order) and pop, from every position and
 * over the wrap of its counters. Also with four writers and a reader in threads: no record is torn, out of its writer's
 * order, or lost without being counted.
 */
#include <pthread.h>
#include <sched.h>

#include "unit.h"

#define WORDS_MOST 1024u
#define SLOTS_MOST 1024u

static atomic_uintptr_t words[WORDS_MOST];
static struct ep_ring ring;

static void ring_at(unsigned size, unsigned start)
{
    memset((void *)words, 0, sizeof words);
    ep_ring_init(&ring, words, size);
    atomic_store(&ring.head, start);
    atomic_store(&ring.tail, start);
}

/* ---- the model: slots in ring order ---- */

enum state { WRITING, DONE, PAD };

struct slot {
    enum state state;
    unsigned words, most, count, quality, end;
    int position;
    uintptr_t first; /* payload is first, first + 1 ... */
};

static struct slot slots[SLOTS_MOST];
static unsigned slot_count;
static unsigned head, tail; /* like the ring's */
static uintptr_t stamp;

static void slot_insert(unsigned at, struct slot slot)
{
    assert_true(slot_count < SLOTS_MOST);
    memmove(&slots[at + 1], &slots[at], (slot_count - at) * sizeof slots[0]);
    slots[at] = slot;
    slot_count++;
}

static bool woken; /* since the reader began to read */

static void model_at(unsigned size, unsigned start)
{
    ring_at(size, start);
    head = tail = start;
    woken = false;
    slot_count = 0;
}

static void reserve(unsigned most)
{
    unsigned size = ring.mask + 1, at = head & ring.mask, used = head - tail;
    unsigned pad = at + most + 1 > size ? size - at : 0;
    bool wake = false;
    int position = ep_ring_reserve(&ring, most, 0, &wake);

    if (size - used < pad + most + 1) {
        assert_int_equal(position, -ENOSPC);
        assert_false(wake);
        return;
    }
    assert_true(position > 0);
    assert_int_equal(position, (int)(pad ? 0 : at) + 1);
    head += pad + most + 1;
    assert_int_equal(wake, !woken && head - tail >= size / 4);
    woken |= wake;
    if (pad)
        slot_insert(slot_count, (struct slot){.state = PAD, .words = pad});
    slot_insert(slot_count, (struct slot){.state = WRITING, .words = most + 1, .most = most, .position = position});
}

static void commit(unsigned at, uint64_t *dice)
{
    struct slot *s = &slots[at];
    unsigned spare;

    s->count = unit_random(dice) % (s->most + 1);
    s->quality = unit_random(dice) % 3;
    s->end = unit_random(dice) % 256;
    s->first = stamp = stamp + 1000;
    atomic_uintptr_t *payload = ep_ring_payload(&ring, s->position);
    for (unsigned i = 0; i < s->count; i++)
        atomic_store(&payload[i], s->first + i);
    struct ep_record record = {.kind = EP_RECORD_SAMPLE, .quality = s->quality, .end = s->end, .count = s->count};
    ep_ring_commit(&ring, s->position, s->most, ep_ring_header(&record));
    s->state = DONE;
    spare = s->most - s->count;
    s->words -= spare;
    if (at + 1 == slot_count)
        head -= spare;
    else if (spare)
        slot_insert(at + 1, (struct slot){.state = PAD, .words = spare});
}

static void slot_remove_first(void)
{
    tail += slots[0].words;
    memmove(&slots[0], &slots[1], --slot_count * sizeof slots[0]);
}

static bool pop(void)
{
    struct ep_record record;

    while (slot_count && slots[0].state == PAD)
        slot_remove_first();
    bool expected = slot_count && slots[0].state == DONE;
    ep_ring_begin(&ring);
    woken = false;
    assert_int_equal(ep_ring_peek(&ring, &record), expected);
    if (!expected)
        return false;
    assert_int_equal(record.kind, EP_RECORD_SAMPLE);
    assert_int_equal(record.quality, slots[0].quality);
    assert_int_equal(record.end, slots[0].end);
    assert_int_equal(record.count, slots[0].count);
    for (unsigned i = 0; i < record.count; i++)
        assert_int_equal(record.words[i], slots[0].first + i);
    ep_ring_pop(&ring, &record);
    slot_remove_first();
    return true;
}

/* A random slot that is being written; slot_count: none. */
static unsigned any_writing(uint64_t *dice)
{
    unsigned start = slot_count ? unit_random(dice) % slot_count : 0;

    for (unsigned i = 0; i < slot_count; i++)
        if (slots[(start + i) % slot_count].state == WRITING)
            return (start + i) % slot_count;
    return slot_count;
}

static void finish(uint64_t *dice)
{
    for (unsigned at; (at = any_writing(dice)) < slot_count;)
        commit(at, dice);
    while (pop()) {
    }
    assert_int_equal(atomic_load(&ring.head), head);
    assert_int_equal(atomic_load(&ring.tail), head);
    for (unsigned i = 0; i < WORDS_MOST; i++)
        assert_int_equal(atomic_load(&words[i]), 0);
}

static void sequence(uint64_t seed, unsigned steps, unsigned largest)
{
    uint64_t dice = seed;
    unsigned writers = 1 + unit_random(&dice) % 8, writing = 0, pops = 1 + unit_random(&dice) % 4;

    for (unsigned i = 0; i < steps; i++) {
        unsigned choice = unit_random(&dice) % (2 + pops), at = any_writing(&dice);
        if (choice == 0 && writing < writers) {
            unsigned before = slot_count;
            reserve(unit_random(&dice) % largest);
            writing += slot_count > before;
        } else if (choice == 1 && at < slot_count) {
            commit(at, &dice);
            writing--;
        } else {
            (void)pop();
        }
    }
    finish(&dice);
}

TEST(test_every_position)
{
    for (unsigned size = 16; size <= 64; size *= 2) {
        for (unsigned start = 0; start < size; start++) {
            model_at(size, start);
            sequence(start * 77 + size, 200, size / 2);
            model_at(size, 0u - start);
            sequence(start * 99 + size, 200, size - 1);
        }
    }
}

TEST(test_long_sequences)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        model_at(WORDS_MOST, seed * 0x12345671u);
        sequence(seed, 20000, 132);
    }
}

/* Filled to the last word and emptied again, at each position. */
TEST(test_full)
{
    uint64_t dice = 1;

    for (unsigned start = 0; start < 64; start++) {
        model_at(64, start);
        for (unsigned i = 0; i < 64; i++)
            reserve(0);
        assert_int_equal(slot_count, 64);
        reserve(0);
        assert_int_equal(slot_count, 64);
        finish(&dice);
        reserve(63);
        assert_int_equal(slot_count, start ? 0 : 1); /* contiguous: only from the start of the ring */
        finish(&dice);
    }
}

/* Crossing half of the ring wakes the reader once, if ticks cross it. */
TEST(test_wake_once)
{
    for (unsigned round = 0; round < 5; round++) {
        unsigned wakes = 0;
        model_at(256, round * 61);
        for (int i = 0; i < 60; i++) {
            bool wake = false;
            int position = ep_ring_reserve(&ring, 3, ep_ring_kept(&ring), &wake);
            struct ep_record record = {.kind = EP_RECORD_RESIDUAL, .count = 3};
            if (position > 0)
                ep_ring_commit(&ring, position, 3, ep_ring_header(&record));
            wakes += wake;
        }
        assert_int_equal(wakes, 1);
    }
}

/* A large ring wakes its reader early, and an empty one starts again at its first word: only a burst touches more. */
TEST(test_large_ring)
{
    struct ep_record record;

    for (unsigned start = 0; start < 64; start++) {
        model_at(64, start);
        reserve(3);
        ep_ring_restart(&ring); /* a record is being written */
        assert_int_equal(atomic_load(&ring.head), head);
        const struct ep_record done = {.kind = EP_RECORD_SAMPLE, .count = 3};
        ep_ring_commit(&ring, slots[slot_count - 1].position, 3, ep_ring_header(&done));
        ep_ring_restart(&ring); /* it is not read yet */
        assert_true(ep_ring_peek(&ring, &record));
        ep_ring_pop(&ring, &record);
        ep_ring_restart(&ring);
        assert_int_equal(ep_ring_used(&ring), 0);
        bool wake = false;
        assert_int_equal(ep_ring_reserve(&ring, 63, 0, &wake), 1);
    }
    ep_ring_init(&ring, words, 1u << 20);
    assert_int_equal(ring.wake_at, EP_RING_WAKE);
}

/* A reservation of `most` words, of which 3 are used. */
static bool wakes(unsigned most, unsigned spare)
{
    const struct ep_record record = {.kind = 2, .count = 3};
    bool wake = false;
    int at = ep_ring_reserve(&ring, most, spare, &wake);

    assert_true(at > 0);
    ep_ring_commit(&ring, at, most, ep_ring_header(&record));
    return wake;
}

/* An event wakes the reader at half of the words at which a tick does, and each only once until the reader begins to
 * read, however many words a record reserves and returns. */
TEST(test_events_wake_earlier)
{
    for (unsigned most = 3; most <= 48; most += 45) {
        for (unsigned tick = 0; tick <= 1; tick++) {
            unsigned limit = tick ? 128 : 64, times = 0;
            ring_at(256, 0);
            while (ep_ring_used(&ring) < 128) {
                bool wake = wakes(most, tick ? ep_ring_kept(&ring) : 0);
                assert_true(!wake || ep_ring_used(&ring) + most - 3 >= limit);
                times += wake;
            }
            assert_int_equal(times, 1);
            ep_ring_begin(&ring);
            assert_true(wakes(most, tick ? ep_ring_kept(&ring) : 0));
            assert_false(wakes(3, 0));
        }
    }
}

/* What can come later leaves room for what cannot. */
TEST(test_spare_words)
{
    bool wake;

    for (unsigned start = 0; start < 256; start += 4) {
        ring_at(256, start);
        while (ep_ring_reserve(&ring, 3, ep_ring_kept(&ring), &wake) > 0) {
        }
        assert_int_equal(ep_ring_used(&ring), 256 - 64);
        unsigned more = 0;
        while (ep_ring_reserve(&ring, 3, 0, &wake) > 0)
            more++;
        assert_int_equal(more, 64 / 4);
    }
}

/* ---- threads ---- */

#define WRITERS 4
#define PER     30000u
#define MOST    20u

static atomic_uint consumed[WRITERS]; /* sequence numbers consumed */
static unsigned lost[WRITERS];
static atomic_uint running;
static bool within_bounds; /* writers wait so that the ring is never full */

static void write_one(unsigned writer, unsigned number, uint64_t *dice)
{
    unsigned count = 3 + unit_random(dice) % (MOST - 3);
    bool wake = false;
    int position = ep_ring_reserve(&ring, MOST, 0, &wake);

    if (position < 0) {
        assert_false(within_bounds);
        lost[writer]++;
        return;
    }
    atomic_uintptr_t *payload = ep_ring_payload(&ring, position);
    if (unit_random(dice) % 64 == 0)
        sched_yield();
    for (unsigned i = 2; i < count; i++)
        atomic_store_explicit(&payload[i], (uintptr_t)number * 7 + i, memory_order_relaxed);
    atomic_store_explicit(&payload[0], writer, memory_order_relaxed);
    atomic_store_explicit(&payload[1], number, memory_order_relaxed);
    struct ep_record record = {.kind = EP_RECORD_SAMPLE, .quality = writer % 3, .end = count, .count = count};
    ep_ring_commit(&ring, position, MOST, ep_ring_header(&record));
}

static void *writer_main(void *argument)
{
    unsigned writer = (unsigned)(uintptr_t)argument;
    uint64_t dice = writer + 1;

    for (unsigned number = 1; number <= PER; number++) {
        while (within_bounds && number - atomic_load(&consumed[writer]) > 4)
            sched_yield();
        write_one(writer, number, &dice);
    }
    (void)atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Reads all records. A missing sequence number must be counted as lost. */
static void read_all(unsigned *gaps)
{
    struct ep_record record;
    bool more = true;

    while (more) {
        more = atomic_load(&running) > 0;
        while (ep_ring_peek(&ring, &record)) {
            unsigned writer = (unsigned)record.words[0], number = (unsigned)record.words[1];
            assert_true(record.kind == EP_RECORD_SAMPLE && writer < WRITERS && record.end == record.count);
            assert_int_equal(record.quality, writer % 3);
            assert_true(number > atomic_load(&consumed[writer]));
            for (unsigned i = 2; i < record.count; i++)
                assert_int_equal(record.words[i], (uintptr_t)number * 7 + i);
            gaps[writer] += number - atomic_load(&consumed[writer]) - 1;
            atomic_store(&consumed[writer], number);
            ep_ring_pop(&ring, &record);
            more = true;
        }
        if (!within_bounds) /* while it moves on, writers see the skipped words as used */
            ep_ring_restart(&ring);
        sched_yield();
    }
}

static void run_threads(unsigned size, bool bounded)
{
    pthread_t threads[WRITERS];
    unsigned gaps[WRITERS] = {0};

    ring_at(size, 0u - 5000);
    within_bounds = bounded;
    atomic_store(&running, WRITERS);
    for (unsigned i = 0; i < WRITERS; i++) {
        lost[i] = 0;
        atomic_store(&consumed[i], 0);
        assert_int_equal(pthread_create(&threads[i], NULL, writer_main, (void *)(uintptr_t)i), 0);
    }
    read_all(gaps);
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(gaps[i] + (PER - atomic_load(&consumed[i])), lost[i]);
    }
    for (unsigned i = 0; i < size; i++)
        assert_int_equal(atomic_load(&words[i]), 0);
}

TEST(test_threads_small_ring)
{
    run_threads(64, false);
}

TEST(test_threads_large_ring)
{
    run_threads(1024, false);
}

/* At most 5 x 4 records of 21 words, some doubled as padding: no reservation may fail. */
TEST(test_threads_no_false_loss)
{
    run_threads(1024, true);
}

TEST_MAIN
