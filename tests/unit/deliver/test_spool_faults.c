/*
 * The spool while the system refuses calls: every call of the port fails with every likely error, once, a few times or
 * for the rest of a run, also after a power cut. Only delivered messages are deleted. When the faults end, everything
 * that was stored arrives.
 */
#include "spool_model.h"
#include "tests/unit/test.h"

static const int faults[] = {-EIO, -EMFILE, -ENOSPC, -EACCES};
static const unsigned lengths[] = {1, 3, 1000000};
#define FAULTS  (sizeof faults / sizeof *faults)
#define LENGTHS (sizeof lengths / sizeof *lengths)
#define STEP(l) ((l) == 0 ? 1u : 7u) /* single faults hit every call */

static uint64_t stopped, lost; /* samples that all runs counted as lost: at ep_stop(), and for any other reason */

static void run_start(uint32_t format)
{
    struct ep_spool_config spool = spool_config();
    struct ep_config c = config();

    unit_pprof(format == EP_FORMAT_PPROF);
    c.memory_size = EP_MEMORY_MIN + 16384;
    spool.memory_size = EP_SPOOL_MEMORY_MIN;
    spool.cap_bytes = 64 * EP_SPOOL_MEMORY_MIN;
    start_with(&spool, &c);
}

static void run_stop(void)
{
    (void)ep_stop(100);
    struct ep_stats s = account_stats();
    for (unsigned reason = 0; reason < EP_LOSS_REASONS; reason++)
        *(reason == EP_LOSS_STOPPED ? &stopped : &lost) += s.lost_count[reason];
}

static void fault_window(int error, unsigned at, unsigned length)
{
    ep_sim_disk.all_calls = 0;
    ep_sim_disk.fault = error;
    ep_sim_disk.fault_at = at;
    ep_sim_disk.fault_end = at + length;
}

static void recover(uint32_t format)
{
    ep_sim_disk.fault = 0;
    model.down = false;
    model.send_ns = 0;
    run_start(format);
    ep_sim_run(10 * MINUTE);
    assert_int_equal(account_stats().spool_messages, 0);
    assert_int_equal(account_stats().spool_error, 0);
    run_stop();
}

static void check(const char *what, uint32_t format, int error, unsigned at, uint64_t expected)
{
    bool counted = lost <= given.samples - expected; /* of a batch that was being written when the power failed */
    if (receiver.broken || !counted || receiver.samples + stopped < expected)
        print_error("%s, format %u, error %d at call %u: %llu arrived, %llu stopped, %llu lost, %llu expected; %s\n",
                    what, format, error, at, (unsigned long long)receiver.samples, (unsigned long long)stopped,
                    (unsigned long long)lost, (unsigned long long)expected, receiver.broken ? receiver.broken : "");
    assert_null(receiver.broken);
    assert_false(ep_sim_disk.misused);
    assert_true(counted);
    assert_true(receiver.samples + stopped >= expected);
    if (format == EP_FORMAT_COMPACT)
        assert_true(receiver.samples <= given.samples);
}

/* An outage, a restart, and the replay. Returns false if the fault was not reached. */
static bool outage_with_fault(uint32_t format, int error, unsigned at, unsigned length)
{
    afresh();
    stopped = lost = 0;
    fault_window(error, at, length);
    run_start(format);
    model.down = true;
    intervals(40);
    run_stop();
    run_start(format);
    intervals(8);
    model.down = false;
    intervals(20);
    run_stop();
    bool reached = ep_sim_disk.all_calls >= at;
    recover(format);
    check("outage", format, error, at, given.samples);
    return reached;
}

TEST(test_every_call_fails)
{
    for (uint32_t format = 0; format < 2; format++)
        for (unsigned e = 0; e < FAULTS; e++)
            for (unsigned l = 0; l < LENGTHS; l++) {
                unsigned at = 1;
                while (outage_with_fault(format, faults[e], at, lengths[l]))
                    at += STEP(l) * unit_step();
                assert_true(at > 50 || l == 2);
            }
}

/* Power fails in the cut-th write. The next run's calls fail from the at-th on. */
static bool fault_after_cut(uint32_t format, unsigned cut, int error, unsigned at, unsigned length)
{
    afresh();
    stopped = lost = 0;
    ep_sim_disk.cut_at = cut;
    ep_sim_disk.dice = cut * 7919 + at;
    run_start(format);
    for (unsigned i = 0; i < 200 && !ep_sim_disk.off; i++) {
        model.down = i % 50 < 45;
        intervals(1);
    }
    assert_true(ep_sim_disk.off);
    struct ep_stats died = account_stats();
    ep_sim_fork(); /* it runs no more */
    ep_sim.identity.pid--;
    ep_sim_disk_restart();
    model.down = false;
    fault_window(error, at, length);
    run_start(format);
    ep_sim_run(2 * MINUTE);
    run_stop();
    bool reached = ep_sim_disk.all_calls >= at;
    recover(format);
    check("power cut", format, error, at, 20 * (died.delivered - died.replayed + died.spooled - receiver.dictionaries));
    return reached;
}

TEST(test_calls_fail_after_a_power_cut)
{
    for (uint32_t format = 0; format < 2; format++)
        for (unsigned cut = 5; cut < 60; cut += 18)
            for (unsigned e = 0; e < 2; e++)
                for (unsigned l = 0; l < LENGTHS; l++)
                    for (unsigned at = 1; fault_after_cut(format, cut, faults[e], at, lengths[l]);)
                        at += STEP(l) * unit_step();
}

/* The error is told: a read that fails is retried, at longer and longer distances, and the spool stays as it is. */
TEST(test_failed_reads_are_told_and_retried)
{
    begin();
    model.down = true;
    intervals(60);
    assert_true(account_stats().spool_messages > 40);
    fault_window(-EIO, 1, 1000000);
    model.down = false;
    ep_sim_run(SECOND);
    uint64_t kept = account_stats().spool_messages;
    ep_sim_run(HOUR);
    struct ep_stats s = account_stats();
    assert_int_equal(s.spool_messages, kept);
    assert_int_equal(s.lost_count[EP_LOSS_SPOOL_DAMAGED], 0);
    assert_int_equal(s.spool_error, EIO);
    assert_int_equal(s.last_error, -EIO);
    assert_true(ep_sim_disk.all_calls >= 10 && ep_sim_disk.all_calls <= 200);
    ep_sim_disk.fault = 0;
    ep_sim_run(10 * MINUTE);
    s = account_stats();
    assert_int_equal(s.spool_messages, 0);
    assert_int_equal(s.spool_error, 0);
    assert_int_equal(ep_stop(1000), 0);
    account_check(&given, 1);
    check_all_arrived();
}

TEST_MAIN
