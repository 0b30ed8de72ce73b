/*
 * memory_blocks.c: the index finds each followed block and no other, whatever their hashes are; what is left over
 * gives way; the filter counts exactly, also with threads.
 */
#include "linux_test.h"

#include "port/linux/memory_blocks.c"

enum { THREADS = 4, STEPS = 200000, EACH = PLACES / THREADS };

static const void *at(uintptr_t number)
{
    return (const void *)(number * 16);
}

static unsigned followed(void)
{
    unsigned entries = 0, seen = 0;

    for (unsigned i = 0; i < BUCKETS * BUCKET; i++)
        entries += index_of[i] != 0;
    for (unsigned i = 0; i < 1u << EP_BLOCKS_HASH_BITS; i++)
        seen += ep_blocks_seen[i];
    assert_int_equal(entries, seen);
    return entries;
}

static void forget_all(const void *const *block, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t token = ep_blocks_remove(block[i]);
        if (token)
            ep_blocks_gone(block[i], token);
    }
    assert_int_equal(followed(), 0);
}

/* Two buckets take what one should; then there is no room, and nothing is left of the attempt. */
TEST(test_one_bucket)
{
    const void *block[SEARCHED + 1];
    unsigned count = 0;

    for (uintptr_t number = 1; count <= SEARCHED; number++)
        if (ep_blocks_hash(at(number)) >> 5 == ep_blocks_hash(at(1)) >> 5)
            block[count++] = at(number);
    for (unsigned i = 0; i < SEARCHED; i++)
        assert_true(ep_blocks_add(block[i], 0, i + 1));
    assert_false(ep_blocks_add(block[SEARCHED], 0, SEARCHED + 1));
    assert_int_equal(held[SEARCHED], 0);
    assert_int_equal(followed(), SEARCHED);
    for (unsigned i = 0; i < SEARCHED; i++) {
        assert_true(ep_blocks_may_have(block[i]));
        assert_int_equal(ep_blocks_remove(block[i]), i + 1);
        assert_int_equal(ep_blocks_remove(block[i]), 0);
        assert_int_not_equal(held[i], 0);
        ep_blocks_gone(block[i], i + 1);
        assert_int_equal(held[i], 0);
    }
    assert_int_equal(followed(), 0);
}

TEST(test_left_over)
{
    const void *block[] = {at(77), at(78)};

    assert_true(ep_blocks_add(block[0], 0, 5)); /* the place is given up by the collect thread, then used again */
    assert_true(ep_blocks_add(block[1], 0, 5));
    assert_int_equal(ep_blocks_remove(block[0]), 0);
    ep_blocks_gone(block[0], 5);
    assert_int_not_equal(held[4], 0);
    assert_true(ep_blocks_add(block[1], 0, 9)); /* freed where nobody saw it, and its address is used again */
    assert_int_equal(held[4], 0);
    assert_int_equal(ep_blocks_remove(block[1]), 9);
    ep_blocks_restore(block[1], 9);
    assert_int_equal(followed(), 1);
    assert_int_equal(ep_blocks_remove(block[1]), 9);
    ep_blocks_gone(block[1], 9);
    assert_int_equal(followed(), 0);
}

/* More than the collect thread lets in; a place that finds no room in the index is lost. */
TEST(test_full)
{
    static const void *block[PLACES];
    unsigned lost = 0;

    for (unsigned i = 0; i < PLACES; i++) {
        block[i] = at(1000 + (uintptr_t)i * 3);
        lost += !ep_blocks_add(block[i], 0, i + 1);
    }
    assert_true(lost < PLACES / 100);
    assert_int_equal(followed(), PLACES - lost);
    for (unsigned i = 0; i < PLACES; i++)
        assert_int_equal(held[i] != 0, ep_blocks_remove(block[i]) == i + 1);
    forget_all(block, PLACES);
}

/* Each thread has its own blocks, whose buckets are the others' too, and its own places. */
static void *work(void *argument)
{
    const uintptr_t first = (uintptr_t)argument * 1000003;
    uint32_t dice = (uint32_t)first + 1;

    for (unsigned i = 0; i < STEPS; i++) {
        dice = dice * 1664525 + 1013904223;
        const void *block = at(first + 1 + (dice >> 20) % 512);
        uint32_t token = ep_blocks_may_have(block) ? ep_blocks_remove(block) : 0;
        if (token)
            ep_blocks_gone(block, token);
        else
            (void)ep_blocks_add(block, 0, (uint32_t)(uintptr_t)argument * EACH + (dice >> 8) % EACH + 1);
    }
    for (unsigned i = 0; i < 512; i++) {
        const void *block = at(first + 1 + i);
        uint32_t token = ep_blocks_remove(block);
        if (token)
            ep_blocks_gone(block, token);
    }
    return NULL;
}

TEST(test_threads)
{
    pthread_t thread[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(followed(), 0);
}

/* Of a followed mapping the part that is still mapped is followed on. */
TEST(test_unmapped)
{
    enum { MAPPED = 8 * PAGE };
    char *start = (char *)at(0) + 16 * PAGE;
    const size_t wide = (size_t)(WIDE + 2) * PAGE;

    assert_true(ep_blocks_add(start, MAPPED, 1));
    assert_true(ep_blocks_add(start + MAPPED, MAPPED, 2));
    ep_blocks_unmapped(start, 3 * PAGE);
    assert_int_equal(ep_blocks_remove(start + 3 * PAGE), 1);
    ep_blocks_restore(start + 3 * PAGE, 1);
    ep_blocks_unmapped(start + 3 * PAGE, MAPPED - 3 * PAGE);
    assert_int_equal(atomic_load(&held[0]), 0);
    assert_int_equal(followed(), 1);
    ep_blocks_unmapped(start + MAPPED + 3 * PAGE, PAGE); /* in the middle, then the end with pages behind it */
    assert_int_equal(atomic_load(&left[1]), EP_LIVE_WHOLE / 8 * 7);
    ep_blocks_unmapped(start + MAPPED + 6 * PAGE, 4 * PAGE);
    assert_int_equal(atomic_load(&left[1]), EP_LIVE_WHOLE / 8 * 5);
    ep_blocks_unmapped(start + MAPPED + 6 * PAGE, 2 * PAGE); /* not the mapping's any more */
    assert_int_equal(atomic_load(&left[1]), EP_LIVE_WHOLE / 8 * 5);
    ep_blocks_unmapped(start + MAPPED, 4 * PAGE);
    assert_int_equal(atomic_load(&left[1]), EP_LIVE_WHOLE / 8);
    assert_int_equal(followed(), 1);
    ep_blocks_unmapped(start + MAPPED, MAPPED);
    assert_int_equal(atomic_load(&held[1]), 0);
    assert_int_equal(followed(), 0);
    assert_true(ep_blocks_add(start, MAPPED, 3));
    assert_true(ep_blocks_add(start + PAGE * 7 + 64, 0, 4));
    ep_blocks_unmapped(start - PAGE, wide); /* by all entries */
    assert_int_equal(followed(), 0);
}

TEST_MAIN
