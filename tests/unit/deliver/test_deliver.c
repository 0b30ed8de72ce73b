/*
 * deliver.c with every scripted answer of a transport. A retry sends the same bytes. Pauses grow from a second to a
 * minute with limited jitter; the receiver's Retry-After is the minimum. Refusals are counted and shown. A receiver
 * that lost its state gets a new segment.
 */
#include "account.h"
#include "unit.h"

#define MS       1000000ull
#define INTERVAL 1000u

static struct account given;

static struct ep *begin(uint32_t flags)
{
    struct ep_config c = {.memory = account_memory(EP_MEMORY_DEFAULT),
                          .memory_size = EP_MEMORY_DEFAULT,
                          .rate_hz = 100,
                          .interval_ms = INTERVAL,
                          .transport = &receiver_transport,
                          .flags = flags};

    account_afresh();
    given = (struct account){0};
    assert_int_equal(ep_start(&c), 0);
    return ep_running();
}

static void sample(unsigned variety)
{
    for (unsigned i = 0; i < 20; i++) {
        const uint16_t stack[] = {(uint16_t)(i % variety), (uint16_t)(100 + i % 3), 200};
        assert_true(ep_sim_tick(1, 1, stack, 3));
        given.samples++;
        given.ticks++;
    }
}

static void interval(void)
{
    sample(7);
    ep_sim_run(INTERVAL * MS);
}

static void end(int exact)
{
    (void)ep_stop(5000);
    account_memory_gone();
    account_check(&given, exact);
}

/* ---- retries ---- */

static uint8_t first_bytes[4096];
static size_t first_size;
static unsigned different;

static void same_bytes(const struct ep_message *message, const struct ep_deadline *deadline)
{
    uint64_t left = ep_deadline_ns(deadline) - ep_sim.uptime_ns;

    assert_true(left > 0 && left <= 10000 * MS);
    if (receiver.sends == 1) {
        first_size = message->size;
        memcpy(first_bytes, message->data, message->size);
        return;
    }
    different += message->size != first_size || memcmp(first_bytes, message->data, first_size) != 0;
}

/* Each temporary error: the same message is sent until it is accepted. */
static void test_retried_errors(void **state)
{
    static const int errors[] = {-EAGAIN, -ECONNREFUSED, -ETIMEDOUT, -EIO, -EPIPE, -ENOSPC, -EINVAL, -ENOMEM, -1, 1};

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const int answers[] = {errors[i], errors[i], errors[i], errors[i], 0};
        (void)begin(0);
        receiver.answers = answers;
        receiver.answer_count = 5;
        receiver.on_send = same_bytes;
        different = 0;
        interval();
        assert_int_equal(receiver.sends, 1);
        ep_sim_run(60000 * MS);
        assert_int_equal(receiver.sends, 5);
        assert_int_equal(different, 0);
        assert_int_equal(receiver.accepted, 1);
        assert_int_equal(account_stats().delivery_failures, 4);
        assert_int_equal(account_stats().last_error, errors[i]);
        receiver.on_send = NULL;
        end(1);
    }
}

static void test_back_off_grows(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte += 51) {
        uint64_t expected = 1000 * MS;
        (void)begin(0);
        receiver.always = -ECONNREFUSED;
        ep_sim.random_byte = byte;
        interval();
        ep_sim_run(900000 * MS);
        assert_true(receiver.sends > 15 && receiver.sends < 40);
        for (unsigned i = 1; i < receiver.sends; i++) {
            uint64_t pause = receiver.send_at_ns[i] - receiver.send_at_ns[i - 1];
            if (pause < expected || pause > expected + expected / 4)
                print_error("byte %d, send %u: %llu ns\n", byte, i, (unsigned long long)pause);
            assert_true(pause >= expected && pause <= expected + expected / 4);
            expected = expected * 2 < 60000 * MS ? expected * 2 : 60000 * MS;
        }
        assert_true(ep_stop(0) == -ETIMEDOUT);
    }
}

/* Two devices with different random numbers do not retry at the same times. */
static void test_jitter_differs(void **state)
{
    uint64_t pause[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        (void)begin(0);
        receiver.always = -ECONNREFUSED;
        ep_sim.random_byte = i ? 255 : 0;
        interval();
        ep_sim_run(10000 * MS);
        pause[i] = receiver.send_at_ns[2] - receiver.send_at_ns[1];
        (void)ep_stop(0);
    }
    assert_true(pause[1] > pause[0] + pause[0] / 8);
}

/* After a success the pauses start small again. */
static void test_back_off_is_forgotten(void **state)
{
    static const int answers[] = {-EIO, -EIO, -EIO, -EIO, 0, -EIO, 0};

    (void)state;
    (void)begin(0);
    receiver.answers = answers;
    receiver.answer_count = 7;
    interval();
    ep_sim_run(30000 * MS);
    assert_int_equal(receiver.accepted, 1);
    interval();
    ep_sim_run(5000 * MS);
    assert_int_equal(receiver.accepted, 2);
    assert_true(receiver.send_at_ns[6] - receiver.send_at_ns[5] < 1200 * MS);
    end(1);
}

static void test_receivers_wish(void **state)
{
    static const uint64_t wishes[] = {1, 500 * MS, 30000 * MS, 3600000 * MS, UINT64_MAX / 2, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        uint64_t least = wishes[i] < 86400000 * MS ? wishes[i] : 86400000 * MS;
        (void)begin(EP_MANUAL);
        receiver.retry_ns = wishes[i];
        receiver.always = -EAGAIN;
        sample(3);
        ep_sim.uptime_ns += INTERVAL * MS;
        assert_int_equal(ep_collect(), 0);
        assert_int_equal(ep_deliver(1000), -EAGAIN);
        assert_int_equal(receiver.sends, 1);
        ep_sim.uptime_ns += least - 1;
        assert_int_equal(ep_deliver(1000), -EAGAIN);
        assert_int_equal(receiver.sends, 1);
        receiver.always = 0;
        ep_sim.uptime_ns += 1 + least / 4;
        assert_int_equal(ep_deliver(1000), 0);
        assert_int_equal(receiver.accepted, 1);
        end(1);
    }
}

/* ---- refused ---- */

static void test_refused(void **state)
{
    static const int answers[2][3] = {{0, -EBADMSG, 0}, {0, -EMSGSIZE, 0}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        (void)begin(0);
        receiver.answers = answers[i];
        receiver.answer_count = 3;
        interval();
        interval();
        assert_int_equal(receiver.refusals, 1);
        assert_int_equal(account_stats().lost_ns[EP_LOSS_REFUSED], receiver.refused_ns);
        assert_int_equal(account_stats().lost_count[EP_LOSS_REFUSED], 20);
        for (int n = 0; n < 5; n++)
            interval();
        struct ep_stats s = account_stats();
        /* The receiver does not know the refused message's contents: a new segment starts, and nothing else is lost. */
        assert_int_equal(receiver.segments, 2);
        assert_int_equal(receiver.special_ns[EP_FRAME_LOST_REFUSED], s.lost_ns[EP_LOSS_REFUSED]);
        assert_int_equal(s.lost_ns[EP_LOSS_SEGMENT], 0);
        end(1);
    }
}

/* The refused weight is pending as a special frame when the link fails, in a message or before. */
static void test_refused_and_then_stopped(void **state)
{
    static const int answers[] = {0, -EBADMSG, -EBADMSG};

    (void)state;
    for (unsigned after = 0; after < 3; after++) {
        (void)begin(0);
        receiver.answers = answers;
        receiver.answer_count = 3;
        receiver.always = -EIO;
        for (unsigned i = 0; i < 3 + after; i++)
            interval();
        sample(7);
        end(0);
        struct ep_stats s = account_stats();
        assert_int_equal(s.lost_ns[EP_LOSS_REFUSED] + s.lost_ns[EP_LOSS_STOPPED] + receiver.ns, s.weight_ns);
    }
}

/* What a stop cannot deliver is counted in samples of every kind, in messages and before. */
static void test_stop_counts_every_kind(void **state)
{
    const struct ep_hook_event event = {.kind = EP_KIND_EXCEPTION, .count = 1, .value = 1};
    const uint16_t stack[] = {1, 2};

    (void)state;
    (void)begin(0);
    assert_int_equal(ep_kinds_set(EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_EXCEPTION)), 0);
    ep_sim_run(100 * MS);
    receiver.always = -EIO;
    ep_sim_here(stack, 2);
    for (unsigned i = 0; i < 2000 && !account_stats().intervals_merged; i++) {
        sample(20);
        for (unsigned n = 0; n < 5; n++)
            assert_int_equal(ep_hook_event(&event), 0);
        ep_sim_run(INTERVAL * MS);
    }
    assert_true(account_stats().intervals_merged > 0);
    assert_int_equal(ep_stop(0), -ETIMEDOUT);
    struct ep_stats s = account_stats();
    assert_int_equal(s.kind_count[EP_KIND_EXCEPTION] * 4, s.samples);
    assert_int_equal(s.lost_count[EP_LOSS_STOPPED], s.samples + s.kind_count[EP_KIND_EXCEPTION]);
}

/* ---- stale ---- */

static void test_stale_starts_a_segment(void **state)
{
    (void)state;
    for (unsigned after = 1; after < 6; after++) {
        (void)begin(0);
        for (unsigned i = 0; i < after; i++)
            interval();
        assert_int_equal(receiver.segments, 1);
        receiver_forget();
        for (unsigned i = 0; i < 4; i++)
            interval();
        assert_int_equal(receiver.segments, 2);
        struct ep_stats s = account_stats();
        assert_int_equal(s.lost_count[EP_LOSS_SEGMENT], 20);
        assert_int_equal(receiver.special_ns[EP_FRAME_LOST_SEGMENT], s.lost_ns[EP_LOSS_SEGMENT]);
        end(1);
    }
}

/* Queued messages of a stale segment are dropped with it, and counted. */
static void test_stale_with_a_queue(void **state)
{
    static const int answers[] = {0, -EIO, -ESTALE};

    (void)state;
    (void)begin(0);
    interval();
    receiver.answers = answers;
    receiver.answer_count = 3;
    for (unsigned i = 0; i < 8; i++) {
        sample(5);
        (void)ep_flush();
        ep_sim_run(10 * MS);
    }
    for (unsigned i = 0; i < 5; i++)
        interval();
    struct ep_stats s = account_stats();
    assert_true(s.lost_count[EP_LOSS_SEGMENT] >= 8 * 20);
    assert_int_equal(receiver.segments, 2);
    assert_int_equal(receiver.special_ns[EP_FRAME_LOST_SEGMENT], s.lost_ns[EP_LOSS_SEGMENT]);
    end(1);
}

/* A receiver that never knows a segment: losses are counted, nothing accumulates, and stop returns. */
static void test_always_stale(void **state)
{
    (void)state;
    (void)begin(0);
    receiver.always = -ESTALE;
    for (unsigned i = 0; i < 10; i++)
        interval();
    assert_true(receiver.sends >= 10 && receiver.sends <= 12);
    struct ep_stats s = account_stats();
    assert_int_equal(s.lost_count[EP_LOSS_SEGMENT], 200);
    end(0);
}

/* Leftovers of a refused segment that fail when the next segment has begun do not restart that one. */
static void test_stale_leftovers(void **state)
{
    static const int answers[] = {0, -EIO, -EBADMSG, -EIO, -EBADMSG, -ESTALE, 0};

    (void)state;
    (void)begin(0);
    interval();
    receiver.answers = answers;
    receiver.answer_count = 7;
    for (unsigned i = 0; i < 3; i++) {
        sample(5);
        (void)ep_flush();
        ep_sim_run(10 * MS);
    }
    for (unsigned i = 0; i < 10; i++)
        interval();
    assert_int_equal(receiver.sends - receiver.accepted, 5);
    assert_int_equal(account_stats().lost_count[EP_LOSS_REFUSED], 2 * 20);
    assert_int_equal(receiver.segments, 2);
    end(1);
}

/* ---- order and mixture ---- */

/* Random answers of all kinds: in the end the samples balance. */
static void test_random_answers(void **state)
{
    static const int kinds[] = {0, 0, 0, -EAGAIN, -EIO, -EBADMSG, -EMSGSIZE, -ESTALE, -ECONNREFUSED};
    static int answers[64];

    (void)state;
    for (uint64_t seed = 1; seed < 200; seed++) {
        uint64_t dice = seed;
        (void)begin(seed % 2 ? 0 : EP_MANUAL);
        for (unsigned i = 0; i < 64; i++)
            answers[i] = kinds[unit_random(&dice) % 9];
        receiver.answers = answers;
        receiver.answer_count = 64;
        for (unsigned i = 0; i < 30; i++) {
            interval();
            if (seed % 2 == 0) {
                assert_int_equal(ep_collect(), 0);
                (void)ep_deliver(100);
            }
            if (unit_random(&dice) % 8 == 0)
                receiver_forget(), receiver.refusals += 1;
        }
        receiver.answer_count = 0;
        for (unsigned i = 0; i < 200 && seed % 2; i++)
            interval();
        end(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retried_errors),           cmocka_unit_test(test_back_off_grows),
        cmocka_unit_test(test_jitter_differs),           cmocka_unit_test(test_back_off_is_forgotten),
        cmocka_unit_test(test_receivers_wish),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_and_then_stopped), cmocka_unit_test(test_stale_starts_a_segment),
        cmocka_unit_test(test_stale_with_a_queue),       cmocka_unit_test(test_always_stale),
        cmocka_unit_test(test_stale_leftovers),          cmocka_unit_test(test_stop_counts_every_kind),
        cmocka_unit_test(test_random_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
