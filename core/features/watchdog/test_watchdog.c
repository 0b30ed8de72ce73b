/*
 * The watchdog (watchdog.c). Properties: one call for each interval that ends. The intervals' sums are the statistics
 * of the run. No call while an interval cannot end. Without a function there is none.
 */
#include "account.h"
#include "unit.h"

#include <edgeprof/watchdog.h>

#define MS 1000000ull

static unsigned calls;
static struct ep_watchdog_interval sum, last;

static void done(const struct ep_watchdog_interval *interval)
{
    calls++;
    last = *interval;
    sum.samples += interval->samples;
    sum.cpu_ns += interval->cpu_ns;
    sum.lost_samples += interval->lost_samples;
    sum.lost_cpu_ns += interval->lost_cpu_ns;
}

static void begin(const struct ep_transport *transport, void (*function)(const struct ep_watchdog_interval *interval))
{
    account_afresh();
    calls = 0;
    memset(&sum, 0, sizeof sum);
    assert_int_equal(ep_watchdog_start(function), 0);
    account_start((struct ep_config){.memory_size = EP_MEMORY_MIN, .rate_hz = 100, .transport = transport});
}

static void second(unsigned ticks, uint16_t functions)
{
    for (unsigned i = 0; i < ticks; i++) {
        const uint16_t stack[] = {(uint16_t)(i % functions), (uint16_t)(i / functions % functions)};
        (void)ep_sim_tick(1, 1, stack, 2);
    }
    ep_sim_run(1000 * MS);
}

static void sums_check(void)
{
    const struct ep_stats stats = account_stats();
    uint64_t lost = 0, lost_ns = 0;

    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        lost += stats.lost_count[i];
        lost_ns += stats.lost_ns[i];
    }
    assert_int_equal(sum.samples, stats.samples);
    assert_int_equal(sum.cpu_ns, stats.weight_ns);
    assert_int_equal(sum.lost_samples, lost);
    assert_int_equal(sum.lost_cpu_ns, lost_ns);
}

TEST(test_a_call_for_each_interval)
{
    const struct ep_transport *const ways[] = {&receiver_transport, NULL};

    for (unsigned way = 0; way < 2; way++) {
        begin(ways[way], done);
        for (unsigned i = 1; i <= 10; i++) {
            second(i, 3);
            assert_int_equal(calls, i);
            assert_int_equal(last.samples, i);
        }
        second(0, 1); /* an idle service is healthy */
        assert_int_equal(calls, 11);
        assert_int_equal(last.samples, 0);
        sums_check();
        account_end();
    }
}

/* Losses of an interval are in it: here, the ring is too small. */
TEST(test_losses_are_told)
{
    begin(&receiver_transport, done);
    second(5000, 3);
    second(1, 1);
    assert_true(sum.lost_samples > 0);
    sums_check();
    account_end();
}

/* Nobody takes the messages: the outbox becomes full, the interval goes on, and the calls end. */
TEST(test_no_call_while_nothing_leaves)
{
    unsigned before;

    begin(&receiver_transport, done);
    receiver.always = -ECONNREFUSED;
    for (unsigned i = 0; i < 400; i++)
        second(40, 30);
    before = calls;
    assert_true(before < 400);
    for (unsigned i = 0; i < 20; i++)
        second(40, 30);
    assert_int_equal(calls, before);
    receiver.always = 0;
    for (unsigned i = 0; i < 120; i++) /* the pause after a failure is a minute at most */
        second(1, 1);
    assert_true(calls > before);
    account_end();
}

TEST(test_none_without_a_function)
{
    begin(&receiver_transport, done);
    assert_int_equal(ep_watchdog_start(NULL), -EALREADY);
    account_end();
    begin(&receiver_transport, NULL);
    second(3, 1);
    account_end();
    assert_int_equal(calls, 0);
}

TEST_MAIN
