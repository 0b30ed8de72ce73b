/*
 * Races between a writer's two loads: ring.c itself, with other writers and the reader running at each load of the
 * tail.
 */
#include "unit.h"

static void others(const void *loaded);

#undef atomic_load_explicit
#define atomic_load_explicit(object, order) (others(object), __atomic_load_n(object, order))
#include "core/sample/ring.c"

#define SIZE 64u

static atomic_uintptr_t words[SIZE];
static struct ep_ring ring;
static unsigned rounds; /* remaining rounds of others */
static bool inside;

static void push_and_pop(unsigned count)
{
    const struct ep_record record = {.kind = EP_RECORD_RESIDUAL, .count = count};
    struct ep_record got;
    bool wake;

    int position = ep_ring_reserve(&ring, count, 0, &wake);
    assert_true(position > 0);
    ep_ring_commit(&ring, position, count, ep_ring_header(&record));
    assert_true(ep_ring_peek(&ring, &got));
    assert_int_equal(got.count, count);
    ep_ring_pop(&ring, &got);
}

static void others(const void *loaded)
{
    if (inside || loaded != (void *)&ring.tail || rounds == 0)
        return;
    inside = true;
    rounds--;
    push_and_pop(7);
    inside = false;
}

/* Others run many times between the loads of head and tail. The ring is empty, so the reservation must succeed. */
TEST(test_overtaken_between_the_loads)
{
    bool wake;

    for (unsigned start = 0; start < SIZE; start++) {
        for (unsigned times = 0; times <= 20; times++) {
            memset((void *)words, 0, sizeof words);
            ep_ring_init(&ring, words, SIZE);
            atomic_store(&ring.head, start * 8);
            atomic_store(&ring.tail, start * 8);
            rounds = times;
            assert_true(ep_ring_reserve(&ring, 10, 0, &wake) > 0);
        }
    }
}

TEST_MAIN
