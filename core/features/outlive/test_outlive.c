/*
 * Memory that outlives the process (outlive.c, adopt.c). Properties: whenever the process ends, what it had measured
 * and not sent is sent by the reader, once, and messages that may have arrived count once. A record that was being
 * written is dropped, and those behind it are not. A tree that was being changed is dropped, and the ring is not.
 */
#include "account.h"
#include "unit.h"

#include "core/features/outlive/outlive.h"

#include <stdlib.h>

#define SIZE   ((size_t)EP_MEMORY_DEFAULT)
#define SECOND 1000000000ull
#define PERIOD 10000000ull

static _Alignas(64) uint8_t memory[SIZE];
static union {
    struct ep_outlive_head head;
    uint8_t bytes[EP_OUTLIVE_HEAD];
} head, left_head;
static uint8_t *left;
static struct account given;

static void config_fill(struct ep_config *config, void *at)
{
    *config = (struct ep_config){.memory = at,
                                 .memory_size = SIZE,
                                 .service = "outlives",
                                 .tags = "a=b",
                                 .rate_hz = 100,
                                 .interval_ms = 1000,
                                 .flags = EP_MANUAL,
                                 .transport = &receiver_transport};
}

static void begin(void)
{
    const struct ep_own_text own_text = {0};
    struct ep_config config;

    account_afresh();
    memset(&head, 0, sizeof head);
    memset(&given, 0, sizeof given);
    config_fill(&config, memory);
    assert_int_equal(ep_outlive_begin(&own_text, &head), 0);
    assert_int_equal(ep_start(&config), 0);
}

static void tick(unsigned i)
{
    const uint16_t stack[] = {(uint16_t)(i % 7), (uint16_t)(i / 7 % 5)};

    assert_true(ep_sim_tick(1, 1, stack, 2));
    given.ticks++;
    given.samples++;
}

/* Samples, rounds, ends of intervals and deliveries, in an order without a pattern. */
static void live(unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        tick(i);
        if (i % 3 == 1)
            assert_int_equal(ep_collect(), 0);
        if (i % 11 == 5)
            ep_sim.uptime_ns += SECOND;
        if (i % 17 == 3)
            (void)ep_deliver(100);
    }
}

/* The process is gone, without any further instruction; only what a file would have is left. */
static void die(void)
{
    left = malloc(SIZE - ep_outlive_private(SIZE));
    assert_non_null(left);
    memcpy(left, memory + ep_outlive_private(SIZE), SIZE - ep_outlive_private(SIZE));
    memcpy(&left_head, &head, sizeof head);
    ep_forked();
    memset(memory, 0xa5, sizeof memory);
}

static void read_rest(void)
{
    struct ep_outlived outlived;
    struct ep_config config;

    assert_int_equal(ep_outlive_check(&left_head, &outlived), 0);
    assert_string_equal(outlived.service, "outlives");
    assert_string_equal(outlived.tags, "a=b");
    assert_int_equal(outlived.memory_size, SIZE);
    config_fill(&config, account_memory(SIZE));
    config.kinds = EP_KIND_BIT(EP_KIND_THREAD);
    assert_int_equal(ep_start(&config), 0);
    assert_int_equal(ep_outlive_adopt(&left_head, left), 0);
}

static void all_arrived(void)
{
    assert_null(receiver.broken);
    assert_int_equal(receiver.samples, given.samples);
    assert_int_equal(receiver.ns, given.ticks * PERIOD);
}

static void end(void)
{
    account_end();
    free(left);
}

TEST(test_any_end)
{
    for (unsigned steps = 0; steps < 120; steps++) {
        begin();
        live(steps);
        die();
        read_rest();
        end();
        all_arrived();
    }
}

static void reserve(unsigned most)
{
    bool wake;

    assert_true(ep_ring_reserve(&ep_running()->ring, most, 0, &wake) > 0);
}

TEST(test_a_record_that_was_being_written)
{
    static const unsigned sizes[] = {EP_SAMPLE_WORDS + EP_MAX_DEPTH, EP_EVENT_WORDS + EP_SPAN_WORDS + EP_MAX_DEPTH,
                                     EP_REST_WORDS};

    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        begin();
        live(8);
        reserve(sizes[i]);
        tick(1);
        reserve(sizes[i]); /* and the last one */
        die();
        read_rest();
        assert_int_equal(account_stats().lost_count[EP_LOSS_DAMAGED], 1);
        end();
        all_arrived();
    }
}

TEST(test_a_tree_that_was_being_changed)
{
    begin();
    tick(1);
    assert_int_equal(ep_collect(), 0);
    tick(2);
    tick(3);
    atomic_store(&ep_running()->collect->unsettled, 1);
    die();
    read_rest();
    ep_sim.uptime_ns += SECOND;
    end();
    assert_int_equal(receiver.ns, 2 * PERIOD);
}

TEST(test_nothing_to_read)
{
    struct ep_outlived outlived;

    begin();
    live(5);
    assert_int_equal(ep_stop(1000), 0);
    ep_outlive_end();
    assert_int_equal(ep_outlive_check(&head, &outlived), -ESRCH);
    begin();
    head.head.layout ^= 1;
    assert_int_equal(ep_outlive_check(&head, &outlived), -EBADMSG);
    account_end();
}

TEST_MAIN
