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
    account_afresh();
    given = (struct account){0};
    account_start(
        (struct ep_config){.memory_size = EP_MEMORY_DEFAULT, .rate_hz = 100, .interval_ms = INTERVAL, .flags = flags});
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

/* Three messages that wait behind one another. */
static void queue_three(void)
{
    for (unsigned i = 0; i < 3; i++) {
        sample(5);
        (void)ep_flush();
        ep_sim_run(10 * MS);
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

/* Each temporary error: the same message is sent until it is accepted. The receiver may have had it if its answer was
 * lost, and only then. */
TEST(test_retried_errors)
{
    static const int errors[] = {-EAGAIN, -ECONNREFUSED, -ETIMEDOUT, -EIO, -EPIPE,     -ENOSPC,
                                 -EINVAL, -ENOMEM,       -1,         1,    -ECONNRESET};

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
        assert_int_equal(account_stats().unanswered, errors[i] == -ECONNRESET ? 4 : 0);
        receiver.on_send = NULL;
        end(1);
    }
}

static uint64_t given_ns[16];

static void note_time(const struct ep_message *message, const struct ep_deadline *deadline)
{
    (void)message;
    given_ns[(receiver.sends - 1) % 16] = ep_deadline_ns(deadline) - ep_sim.uptime_ns;
}

/* A receiver that answers after ten seconds gets more time for each send, up to a minute, and keeps it while its
 * answers come late. Only a late answer counts: a connection that fails gets no more. */
TEST(test_late_answers_get_more_time)
{
    static const int answers[] = {-ETIME, -ETIME, -ETIMEDOUT, -ETIME, -ETIME, -ECONNREFUSED, 0, 0};
    static const uint64_t seconds[] = {10, 20, 40, 40, 60, 60, 60, 10};

    (void)begin(0);
    receiver.answers = answers;
    receiver.answer_count = 8;
    receiver.on_send = note_time;
    interval();
    ep_sim_run(600000 * MS);
    interval();
    ep_sim_run(1000 * MS);
    assert_int_equal(receiver.sends, 8);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(given_ns[i] / (1000 * MS), seconds[i]);
    assert_int_equal(account_stats().last_error, -ECONNREFUSED);
    assert_int_equal(account_stats().unanswered, 4);
    receiver.on_send = NULL;
    end(2);
}

TEST(test_back_off_grows)
{
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
TEST(test_jitter_differs)
{
    uint64_t pause[2];

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
TEST(test_back_off_is_forgotten)
{
    static const int answers[] = {-EIO, -EIO, -EIO, -EIO, 0, -EIO, 0};

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

TEST(test_receivers_wish)
{
    static const uint64_t wishes[] = {1, 500 * MS, 30000 * MS, 3600000 * MS, UINT64_MAX / 2, UINT64_MAX};

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

TEST(test_refused)
{
    static const int answers[2][3] = {{0, -EBADMSG, 0}, {0, -EMSGSIZE, 0}};

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
TEST(test_refused_and_then_stopped)
{
    static const int answers[] = {0, -EBADMSG, -EBADMSG};

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

/* What a stop cannot deliver is counted in samples of every kind, in messages and before: not in the events that these
 * stand for. */
TEST(test_stop_counts_every_kind)
{
    const struct ep_hook_event event = {.kind = EP_KIND_EXCEPTION, .count = 100, .value = 100};
    const uint16_t stack[] = {1, 2};

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
    assert_int_equal(s.kind_count[EP_KIND_EXCEPTION], s.samples / 4 * 100);
    assert_int_equal(s.lost_count[EP_LOSS_STOPPED], s.samples + s.samples / 4);
}

/* ---- stale ---- */

TEST(test_stale_starts_a_segment)
{
    for (unsigned after = 1; after < 6; after++) {
        (void)begin(0);
        for (unsigned i = 0; i < after; i++)
            interval();
        assert_int_equal(receiver.segments, 1);
        receiver_forget();
        for (unsigned i = 0; i < 4; i++)
            interval();
        assert_int_equal(receiver.segments, 2);
        assert_int_equal(account_stats().lost_count[EP_LOSS_SEGMENT], 0);
        assert_int_equal(receiver.special_ns[EP_FRAME_LOST_SEGMENT], 0);
        end(1);
    }
}

static uint64_t tagged_ns, times[64];
static unsigned time_count;

/* Each interval has a tag of its own. */
static void note_entry(const struct receiver_stack *stack)
{
    tagged_ns += stack->kind == EP_KIND_CPU && strncmp(stack->with.tags, "step=", 5) == 0 ? stack->value : 0;
}

static void note_interval(const struct ep_message *message, const struct ep_deadline *deadline)
{
    (void)deadline;
    if (receiver.answer_count && receiver.sends <= receiver.answer_count)
        return;
    for (unsigned i = 0; i < time_count; i++)
        if (times[i] == message->start_unix_ns)
            return;
    if (message->start_unix_ns && time_count < 64)
        times[time_count++] = message->start_unix_ns;
}

/* Queued messages of a stale segment continue in a new one, each with its stacks, tags and time, although their
 * modules, nodes and tag sets are spread over what the receiver has and has forgotten. */
TEST(test_stale_with_a_queue)
{
    static const int answers[] = {0, -EIO, -ESTALE};

    for (unsigned queue = 1; queue < 9; queue++) {
        (void)begin(0);
        receiver.on_entry = note_entry;
        receiver.on_send = note_interval;
        tagged_ns = time_count = 0;
        receiver.answers = answers;
        receiver.answer_count = 3;
        for (unsigned i = 0; i < 1 + queue; i++) {
            char value[] = {(char)('a' + i), 0};
            int tag = ep_tag_push("step", value);
            assert_int_equal(tag, 0);
            sample(5 + i);
            ep_tag_pop();
            (void)ep_flush();
            ep_sim_run(10 * MS);
            if (i == 0)
                receiver_forget();
        }
        for (unsigned i = 0; i < 5; i++)
            interval();
        struct ep_stats s = account_stats();
        assert_int_equal(s.lost_count[EP_LOSS_SEGMENT], 0);
        assert_int_equal(receiver.segments, 2);
        assert_int_equal(tagged_ns, (1 + queue) * 20 * ep_sim.period_ns);
        assert_true(time_count >= queue);
        end(1);
    }
}

/* The outbox is full: the dictionary leaves in parts, through what is left. */
TEST(test_stale_with_a_full_outbox)
{
    (void)begin(0);
    for (unsigned i = 0; i < 3; i++) {
        sample(200);
        interval();
    }
    receiver.always = -EIO;
    for (unsigned i = 0; i < 2000 && !account_stats().intervals_merged; i++) {
        sample(20);
        (void)ep_flush();
        ep_sim_run(10 * MS);
    }
    assert_true(account_stats().intervals_merged > 0);
    assert_true(receiver.accepted > 2);
    receiver_forget();
    receiver.always = 0;
    uint64_t before = receiver.accepted;
    for (unsigned i = 0; i < 200; i++)
        interval();
    assert_int_equal(account_stats().lost_count[EP_LOSS_SEGMENT], 0);
    assert_int_equal(receiver.segments, 2);
    assert_true(receiver.accepted - before > 20);
    end(1);
}

/* The receiver forgets again and again, also between parts. */
TEST(test_stale_again)
{
    for (unsigned every = 1; every < 4; every++) {
        (void)begin(0);
        for (unsigned i = 0; i < 30; i++) {
            interval();
            if (i % every == 0)
                receiver_forget();
        }
        assert_int_equal(account_stats().lost_count[EP_LOSS_SEGMENT], 0);
        end(1);
    }
}

/* A stop in front of a receiver that has forgotten everything. */
TEST(test_stale_at_stop)
{
    for (unsigned manual = 0; manual < 2; manual++) {
        (void)begin(manual ? EP_MANUAL : 0);
        for (unsigned i = 0; i < 3; i++) {
            interval();
            if (manual) {
                assert_int_equal(ep_collect(), 0);
                assert_int_equal(ep_deliver(1000), 0);
            }
        }
        receiver_forget();
        sample(9);
        end(1);
        assert_int_equal(account_stats().lost_count[EP_LOSS_SEGMENT], 0);
        assert_int_equal(receiver.segments, 2);
    }
}

/* A receiver that never knows a segment: losses are counted, nothing accumulates, and stop returns. */
TEST(test_always_stale)
{
    (void)begin(0);
    receiver.always = -ESTALE;
    for (unsigned i = 0; i < 10; i++)
        interval();
    assert_true(receiver.sends >= 10 && receiver.sends <= 12);
    struct ep_stats s = account_stats();
    assert_int_equal(s.lost_count[EP_LOSS_SEGMENT], 200);
    end(0);
}

/* What is queued behind a refused message continues in a new segment; a link that fails meanwhile changes nothing. */
TEST(test_stale_leftovers)
{
    static const int answers[] = {0, -EIO, -EBADMSG, -EIO, -EIO, 0, -EIO, 0};

    (void)begin(0);
    interval();
    receiver.answers = answers;
    receiver.answer_count = 8;
    queue_three();
    for (unsigned i = 0; i < 30; i++)
        interval();
    assert_int_equal(receiver.sends - receiver.accepted, 5);
    assert_int_equal(account_stats().lost_count[EP_LOSS_REFUSED], 20);
    assert_int_equal(account_stats().lost_count[EP_LOSS_SEGMENT], 0);
    assert_int_equal(receiver.segments, 2);
    end(1);
}

/* A receiver that refuses the dictionary: the queue is counted, and the next segment is complete. */
TEST(test_stale_part_refused)
{
    static const int answers[] = {0, -EIO, -ESTALE, -EBADMSG};

    (void)begin(0);
    interval();
    receiver.answers = answers;
    receiver.answer_count = 4;
    queue_three();
    for (unsigned i = 0; i < 30; i++)
        interval();
    struct ep_stats s = account_stats();
    assert_true(s.lost_count[EP_LOSS_SEGMENT] >= 60);
    assert_int_equal(receiver.special_ns[EP_FRAME_LOST_SEGMENT], s.lost_ns[EP_LOSS_SEGMENT]);
    assert_int_equal(receiver.segments, 2);
    end(1);
}

/* ---- order and mixture ---- */

/* Random answers of all kinds: in the end the samples balance. */
TEST(test_random_answers)
{
    static const int kinds[] = {0, 0, 0, -EAGAIN, -EIO, -EBADMSG, -EMSGSIZE, -ESTALE, -ECONNREFUSED};
    static int answers[64];

    for (uint64_t seed = 1; seed < 200 / unit_part(); seed++) {
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

TEST_MAIN
