/* stats.c: each counter has its own place, each number has a name, and no count is lost between threads. */
#include <pthread.h>

#include "unit.h"

static struct ep_collect collect;
static struct ep_deliver deliver;
static struct ep ep;

static void ep_clear(void)
{
    memset(&collect, 0, sizeof collect);
    memset(&deliver, 0, sizeof deliver);
    memset(&ep, 0, sizeof ep);
    ep.collect = &collect;
    ep.deliver = &deliver;
}

TEST(test_each_counter)
{
    struct ep_stats before, after;

    for (unsigned counter = 0; counter < EP_COUNTERS; counter++) {
        ep_clear();
        ep_stats_fill(&ep, &before);
        ep_count(&ep, (enum ep_counter)counter, 1000 + counter);
        ep_stats_fill(&ep, &after);
        unsigned different = 0;
        for (size_t i = 0; i < sizeof after / sizeof(uint32_t); i++)
            different += memcmp((uint32_t *)&before + i, (uint32_t *)&after + i, sizeof(uint32_t)) != 0;
        assert_int_equal(different, 1);
    }
    ep_clear();
    ep_count(&ep, EP_COUNT_SAMPLES, 1ull << 40);
    ep_count(&ep, EP_COUNT_GAP, 7);
    ep_count(&ep, EP_COUNT_THREADS, 3);
    ep_stats_fill(&ep, &after);
    assert_true(after.samples == 1ull << 40 && after.gap == 7 && after.threads == 3);
}

TEST(test_losses)
{
    struct ep_stats s;

    ep_clear();
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++)
        ep_lose(&ep, (enum ep_loss)reason, reason + 1, 1000 * reason);
    ep_stats_fill(&ep, &s);
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++) {
        assert_int_equal(s.lost_count[reason], reason + 1);
        assert_int_equal(s.lost_ns[reason], 1000 * reason);
    }
}

TEST(test_names)
{
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        assert_true(strlen(ep_loss_name(i)) > 3);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(ep_loss_name(i), ep_loss_name(j));
    }
    assert_null(ep_loss_name(EP_LOSS_REASONS));
    assert_null(ep_loss_name(UINT32_MAX));
    for (unsigned i = 0; i < EP_FRAME_SPECIALS; i++) {
        const char *name = ep_special_name(i);
        assert_true(name[0] == '[' && name[strlen(name) - 1] == ']');
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(name, ep_special_name(j));
    }
    assert_string_equal(ep_special_name(EP_FRAME_SPECIALS), "[unknown]");
    assert_string_equal(ep_special_name(UINT32_MAX), "[unknown]");
}

static void *counter_main(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < 50000; i++) {
        ep_count(&ep, EP_COUNT_SAMPLES, 1);
        ep_lose(&ep, EP_LOSS_RING_FULL, 1, 3);
    }
    return NULL;
}

TEST(test_threads)
{
    pthread_t threads[4];
    struct ep_stats s;

    ep_clear();
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, counter_main, NULL), 0);
    for (unsigned i = 0; i < 100; i++)
        ep_stats_fill(&ep, &s);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    ep_stats_fill(&ep, &s);
    assert_int_equal(s.samples, 200000);
    assert_int_equal(s.lost_count[EP_LOSS_RING_FULL], 200000);
    assert_int_equal(s.lost_ns[EP_LOSS_RING_FULL], 600000);
}

TEST_MAIN
