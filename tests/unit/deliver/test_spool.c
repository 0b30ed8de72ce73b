/*
 * spool.c and spool_log.c on the simulated disk: nothing is written while the link is up. Undelivered messages survive
 * restarts and a power cut at any write, and arrive once, in order, within their share of the link. Dropped messages
 * are counted. A failing disk affects only the spool.
 */
#include "spool_model.h"
#include "tests/unit/test.h"

/* ---- with a link ---- */

TEST(test_nothing_is_written_while_the_link_is_up)
{
    begin();
    intervals(100);
    assert_int_equal(ep_stop(5000), 0);
    assert_int_equal(ep_sim_disk.calls, 0);
    assert_int_equal(receiver.spool_told, 0);
    account_check(&given, 1);
    check_all_arrived();
}

TEST(test_short_outages_stay_in_memory)
{
    begin();
    for (unsigned i = 0; i < 20; i++) {
        model.down = true;
        intervals(2);
        model.down = false;
        intervals(4);
    }
    assert_int_equal(ep_sim_disk.calls, 0);
    assert_int_equal(ep_stop(5000), 0);
    account_check(&given, 1);
    check_all_arrived();
}

/* ---- without a link ---- */

TEST(test_outage)
{
    for (unsigned minutes = 2; minutes < 200; minutes += 39) {
        begin();
        intervals(5);
        model.down = true;
        intervals(6 * minutes);
        struct ep_stats s = account_stats();
        assert_int_equal(s.spooled, s.spool_messages);
        assert_true(s.messages - s.delivered - s.spooled <= 7); /* one minute's messages */
        assert_int_equal(s.spool_error, 0);
        assert_int_equal(s.spool_written, ep_sim_disk.written);
        assert_true(ep_sim_disk.written <= (minutes + 1) * 4096 && ep_sim_disk.written >= minutes * 4096 / 2);
        model.down = false;
        intervals(30);
        assert_true(receiver.spool_most <= s.spool_messages + 12 && s.spool_messages <= receiver.spool_most + 12);
        assert_int_equal(receiver.told[11] + receiver.told[12] + receiver.told[13], 0);
        s = account_stats();
        assert_int_equal(s.spool_messages, 0);
        assert_int_equal(s.spool_bytes, 0);
        assert_true(s.replayed >= s.spooled && s.replayed > 6 * (minutes - 1));
        assert_int_equal(ep_stop(5000), 0);
        assert_int_equal(model.stale, 0);
        assert_int_equal(model.repeated, 0);
        account_check(&given, 1);
        check_all_arrived();
    }
}

/* Outages of all lengths, and short connections: everything arrives once. */
TEST(test_unsteady_link)
{
    for (uint64_t seed = 1; seed < 60; seed += unit_part()) {
        uint64_t dice = seed;
        begin();
        for (unsigned i = 0; i < 60; i++) {
            model.down = unit_random(&dice) % 3 != 0;
            model.send_ns = unit_random(&dice) % 4 == 0 ? 50 * MS : 0;
            intervals(1 + unit_random(&dice) % 20);
        }
        model.down = false;
        intervals(120);
        assert_int_equal(account_stats().spool_messages, 0);
        assert_int_equal(ep_stop(5000), 0);
        assert_int_equal(model.stale, 0);
        account_check(&given, 1);
        check_all_arrived();
    }
}

/* Deep stacks of many functions, as they make large messages. */
static void various(uint64_t *dice, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint16_t stack[16];
        for (unsigned n = 0; n < 16; n++)
            stack[n] = (uint16_t)(unit_random(dice) % (n < 12 ? 3000 : 4));
        assert_true(ep_sim_tick(1, 1, stack, 16));
        given.samples++;
        given.ticks++;
        if (i % 20 == 19)
            ep_sim_run(100 * MS);
    }
}

TEST(test_pprof_outage)
{
    afresh();
    struct ep_spool_config spool = spool_config();
    struct ep_config c = config();
    unit_pprof(true);
    start_with(&spool, &c);
    uint64_t from = ep_port_unix_ns();
    model.down = true;
    intervals(60);
    assert_int_equal(ep_stop(1000), 0);
    model.down = false;
    c.service = "other";
    start_with(&spool, &c);
    ep_sim_run(MINUTE);
    assert_string_equal(model.service, "unit{version=1}");
    assert_int_equal(model.end_unix_ns, from + 600 * SECOND);
    assert_int_equal(model.end_unix_ns - model.start_unix_ns, 10 * SECOND);
    assert_int_equal(ep_stop(1000), 0);
    check_all_arrived();
}

/* A buffer of 8 KiB and an outbox of 24: every message fits the spool's buffer, however much an interval holds. */
TEST(test_small_buffer)
{
    for (int pprof = 0; pprof < 2; pprof++) {
        uint64_t dice = 7;
        afresh();
        struct ep_spool_config spool = spool_config();
        struct ep_config c = config();
        spool.memory_size = EP_SPOOL_MEMORY_MIN;
        unit_pprof(pprof);
        start_with(&spool, &c);
        model.down = true;
        for (unsigned i = 0; i < 20; i++) {
            various(&dice, 300);
            ep_sim_run(10 * SECOND);
        }
        ep_sim_run(2 * MINUTE);
        struct ep_stats s = account_stats();
        assert_int_equal(s.spool_error, 0);
        assert_true(pprof ? s.spooled > 10 : s.spooled == s.messages); /* a converter joins what an interval has */
        assert_true(s.message_bytes > 20u * EP_SPOOL_MEMORY_MIN);
        model.down = false;
        ep_sim_run(30 * MINUTE);
        assert_int_equal(account_stats().spool_messages, 0);
        assert_int_equal(ep_stop(1000), 0);
        check_all_arrived();
    }
}

/* ---- the end of a process ---- */

TEST(test_stop_spools)
{
    for (unsigned before = 0; before < 12; before++) {
        begin();
        intervals(2);
        model.down = true;
        intervals(before);
        sample(5, 20);
        assert_int_equal(ep_stop(1000), 0);
        struct ep_stats s = account_stats();
        assert_int_equal(s.lost_count[EP_LOSS_STOPPED], 0);
        assert_int_equal(s.spool_messages, s.spooled);
        model.down = false;
        start();
        ep_sim_run(MINUTE);
        assert_int_equal(ep_stop(1000), 0);
        assert_int_equal(model.stale, 0);
        assert_int_equal(model.repeated, 0);
        check_all_arrived();
    }
}

/* A receiver that does not answer takes all the time except what the disk needs. */
TEST(test_stop_leaves_time_for_the_disk)
{
    for (unsigned ms = 100; ms <= 10000; ms *= 10) {
        begin();
        model.send_ns = ms > 1000 ? SECOND : ms * MS / 2;
        model.down = true;
        intervals(3);
        uint64_t since = ep_sim.uptime_ns;
        assert_int_equal(ep_stop(ms), 0);
        assert_true(ep_sim.uptime_ns - since <= ms * MS);
        assert_int_equal(account_stats().spool_messages, account_stats().messages);
    }
}

/* Another run, with a link: in the end the spool is empty. */
static void run_until_empty(void)
{
    start();
    ep_sim_run(10 * MINUTE);
    assert_int_equal(account_stats().spool_messages, 0);
    assert_int_equal(ep_stop(1000), 0);
}

TEST(test_many_runs)
{
    afresh();
    model.down = true;
    for (unsigned run = 0; run < 25; run++) {
        start();
        intervals(run);
        assert_int_equal(ep_stop(100), 0);
    }
    model.down = false;
    run_until_empty();
    assert_int_equal(model.stale, 0);
    check_all_arrived();
}

/* The next run does not send delivered messages again. */
TEST(test_next_run_continues)
{
    begin();
    model.down = true;
    intervals(100);
    model.down = false;
    model.send_ns = SECOND;
    intervals(6);
    uint64_t left = account_stats().spool_messages;
    assert_true(left > 10 && left < 90);
    model.down = true;
    assert_int_equal(ep_stop(4000), 0);
    model.down = false;
    model.send_ns = 0;
    run_until_empty();
    assert_int_equal(model.repeated, 0);
    check_all_arrived();
}

/* ---- answers ---- */

/* A server that loses its disk within a segment receives it again from the start. */
TEST(test_forgetful_receiver)
{
    begin();
    model.down = true;
    intervals(100);
    model.down = false;
    model.send_ns = SECOND;
    intervals(3);
    unsigned segments = model.segments;
    uint64_t had = receiver.ns;
    assert_true(segments > 0);
    model.segments = 0;
    receiver_forget();
    model.send_ns = 0;
    intervals(30);
    struct ep_stats s = account_stats();
    assert_int_equal(s.spool_messages, 0);
    assert_int_equal(ep_stop(1000), 0);
    assert_null(receiver.broken);
    /* The spool is read again from the segment's start; a live segment is lost as usual. */
    assert_true(receiver.ns + s.lost_ns[EP_LOSS_SEGMENT] > given.ticks * ep_sim.period_ns);
    assert_true(receiver.ns <= given.ticks * ep_sim.period_ns + had);
}

/* A server that loses its disk while the link is down: what was stored meanwhile does not need what it had. A message
 * whose answer may have been lost is the exception: it must not move to a new segment, or it could count twice. */
TEST(test_forgetful_meanwhile)
{
    for (unsigned live = 1; live < 12; live += 5)
        for (int late = 0; late < 2; late++) {
            begin();
            intervals(live);
            uint64_t had = receiver.ns;
            assert_true(had > 0);
            model.down = !late;
            model.late = late;
            intervals(40);
            model.segments = 0;
            receiver_forget();
            model.down = false;
            model.late = 0;
            intervals(30);
            struct ep_stats s = account_stats();
            assert_int_equal(s.spool_messages, 0);
            assert_in_range(s.lost_count[EP_LOSS_SEGMENT], late ? 1 : 0, late ? 20 : 0);
            assert_int_equal(ep_stop(1000), 0);
            assert_null(receiver.broken);
            account_check(&given, !late);
        }
}

TEST(test_always_stale)
{
    begin();
    model.down = true;
    intervals(100);
    model.down = false;
    model.answer = -ESTALE;
    intervals(30);
    struct ep_stats s = account_stats();
    assert_int_equal(s.spool_messages, 0);
    assert_int_equal(s.samples, s.lost_count[EP_LOSS_SEGMENT]);
    (void)ep_stop(1000);
}

TEST(test_refused_is_counted_by_age)
{
    for (int old = 0; old < 2; old++) {
        afresh();
        struct ep_spool_config spool = spool_config();
        struct ep_config c = config();
        unit_pprof(true);
        start_with(&spool, &c);
        model.down = true;
        intervals(30);
        uint64_t spooled = account_stats().spooled;
        if (old)
            ep_sim_run(HOUR);
        model.down = false;
        model.answer = -EBADMSG;
        ep_sim_run(MINUTE + MINUTE / 2);
        struct ep_stats s = account_stats();
        assert_int_equal(s.spool_messages, 0);
        assert_true(s.lost_count[old ? EP_LOSS_TOO_OLD : EP_LOSS_REFUSED] >= 20 * spooled);
        assert_true(s.lost_count[old ? EP_LOSS_REFUSED : EP_LOSS_TOO_OLD] == 0 ||
                    s.lost_count[EP_LOSS_REFUSED] < 20 * 10);
        assert_int_equal(s.samples, s.lost_count[EP_LOSS_TOO_OLD] + s.lost_count[EP_LOSS_REFUSED]);
        (void)ep_stop(1000);
    }
}

/* ---- dates ---- */

TEST(test_devices_without_a_clock)
{
    for (int boot = 0; boot < 2; boot++) {
        afresh();
        ep_sim.unix_minus_uptime_ns = 0;
        struct ep_spool_config spool = spool_config();
        struct ep_config c = config();
        c.headers = "A: b";
        start_with(&spool, &c);
        model.down = true;
        intervals(12);
        assert_int_equal(ep_stop(100), 0);
        ep_sim_run(100 * SECOND);
        if (boot)
            (void)snprintf(ep_sim.identity.boot_id, sizeof ep_sim.identity.boot_id, "another");
        model.down = false;
        start_with(&spool, &c);
        ep_sim_run(SECOND);
        assert_string_equal(model.headers, "A: b");
        assert_true(boot ? model.age_ns == UINT64_MAX : model.age_ns / SECOND == 100);
        assert_int_equal(ep_stop(100), 0);
    }
}

/* The clock is in another year, and is set while messages wait on the disk. They are dated by the clock as it is now.
 */
TEST(test_clock_that_is_set_later)
{
    static const int64_t years[] = {-20, 10};

    for (unsigned i = 0; i < 2; i++)
        for (int pprof = 0; pprof < 2; pprof++) {
            afresh();
            uint64_t right = ep_sim.unix_minus_uptime_ns;
            struct ep_spool_config spool = spool_config();
            struct ep_config c = config();
            unit_pprof(pprof);
            ep_sim.unix_minus_uptime_ns = right + (uint64_t)(years[i] * 365 * 24 * 3600 * (int64_t)SECOND);
            start_with(&spool, &c);
            model.down = true;
            intervals(12);
            assert_int_equal(ep_stop(100), 0);
            ep_sim_run(100 * SECOND);
            uint64_t ended = ep_port_uptime_ns() - 100 * SECOND + right;
            ep_sim.unix_minus_uptime_ns = right;
            model.down = false;
            start_with(&spool, &c);
            ep_sim_run(MINUTE);
            assert_int_equal(model.age_ns / SECOND, 100);
            assert_int_equal(model.end_unix_ns, ended);
            assert_int_equal(model.end_unix_ns - model.start_unix_ns, 10 * SECOND);
            assert_int_equal(ep_stop(1000), 0);
            unit_pprof(false);
            check_all_arrived();
        }
}

/* ---- the disk fails ---- */

TEST(test_disks_that_fail)
{
    static const int errors[] = {-ENOSPC, -EIO, -EROFS};

    for (unsigned i = 0; i < 6; i++) {
        begin();
        ep_sim_disk.error = i < 3 ? errors[i] : 0;
        ep_sim_disk.open_error = i < 3 ? 0 : errors[i - 3];
        model.down = true;
        intervals(20);
        struct ep_stats s = account_stats();
        assert_int_equal(s.spooled, 0);
        assert_int_equal(s.spool_error, -errors[i % 3]);
        ep_sim_disk.error = ep_sim_disk.open_error = 0;
        intervals(20);
        s = account_stats();
        assert_int_equal(s.spool_error, 0);
        assert_true(s.spooled > 0);
        model.down = false;
        intervals(20);
        assert_int_equal(ep_stop(1000), 0);
        account_check(&given, 1);
        check_all_arrived();
    }
}

TEST(test_disk_fails_for_ever)
{
    begin();
    ep_sim_disk.error = -EIO;
    model.down = true;
    intervals(200);
    struct ep_stats s = account_stats();
    assert_true(s.intervals_merged > 0);
    model.down = false;
    intervals(20);
    assert_int_equal(ep_stop(1000), 0);
    assert_int_equal(receiver.told[13], EIO);
    account_check(&given, 1);
    check_all_arrived();
}

/* Each call fails once: the spool continues, nothing is lost or duplicated. */
TEST(test_each_disk_call_fails)
{
    for (unsigned n = 1;; n++) {
        begin();
        model.down = true;
        unsigned i = 0;
        for (; i < 60; i++) {
            intervals(1);
            ep_sim_disk.error = ep_sim_disk.calls >= n && ep_sim_disk.calls < n + 2 ? -EIO : 0;
        }
        bool reached = ep_sim_disk.calls >= n;
        ep_sim_disk.error = 0;
        model.down = false;
        intervals(30);
        assert_int_equal(ep_stop(1000), 0);
        account_check(&given, 1);
        check_all_arrived();
        if (!reached)
            return;
    }
}

/* Another process uses the directory. */
TEST(test_directory_has_one_user)
{
    begin();
    ep_sim_disk.open = true;
    model.down = true;
    intervals(20);
    assert_int_equal(account_stats().spool_error, EBUSY);
    model.down = false;
    intervals(20);
    assert_int_equal(ep_stop(1000), 0);
    account_check(&given, 1);
}

/* ---- size limit ---- */

TEST(test_oldest_goes_first)
{
    afresh();
    struct ep_spool_config spool = spool_config();
    struct ep_config c = config();
    spool.memory_size = EP_SPOOL_MEMORY_MIN;
    spool.cap_bytes = 16 * EP_SPOOL_MEMORY_MIN;
    start_with(&spool, &c);
    model.down = true;
    intervals(3000);
    struct ep_stats s = account_stats();
    assert_true(s.spool_bytes <= spool.cap_bytes && s.spool_bytes > spool.cap_bytes * 7 / 8);
    assert_true(s.lost_count[EP_LOSS_SPOOL_FULL] > 0);
    assert_true(s.lost_ns[EP_LOSS_SPOOL_FULL] > 0);
    model.down = false;
    intervals(300);
    s = account_stats();
    assert_int_equal(s.spool_messages, 0);
    assert_int_equal(s.lost_count[EP_LOSS_SEGMENT], 0);
    assert_int_equal(ep_stop(1000), 0);
    assert_int_equal(model.stale, 0);
    assert_null(receiver.broken);
    assert_int_equal(given.samples, receiver.samples + s.lost_count[EP_LOSS_SPOOL_FULL]);
    /* The loss is in the profile. */
    assert_true(receiver.special_ns[EP_FRAME_LOST_SPOOL] > 0);
    assert_int_equal(receiver.ns, given.ticks * ep_sim.period_ns);
}

/* A week without a link, with default settings: kept and dropped messages are counted; then it catches up. */
TEST(test_week_offline)
{
    begin();
    model.down = true;
    intervals(7 * 24 * 360);
    struct ep_stats week = account_stats();
    assert_true(week.spool_bytes <= 16u << 20);
    uint64_t kept = week.spool_messages, dropped = week.lost_count[EP_LOSS_SPOOL_FULL];
    assert_true(dropped > 0 && kept > 20000);
    assert_true(week.spooled * 20 == kept * 20 + dropped);
    print_message("a week offline: %llu messages kept, %llu dropped, %llu bytes of flash written\n",
                  (unsigned long long)kept, (unsigned long long)(week.spooled - kept),
                  (unsigned long long)week.spool_written);
    printf("figure spool_week_kept_messages %llu count\n", (unsigned long long)kept);
    printf("figure spool_flash_bytes_per_hour %llu bytes\n", (unsigned long long)(week.spool_written / (7 * 24)));
    model.down = false;
    model.send_ns = 40 * MS;
    uint64_t since = ep_sim.uptime_ns, live = account_stats().messages;
    model.busy_ns = model.replay_busy_ns = 0;
    model.old_ns = MINUTE;
    while (account_stats().spool_messages > 0)
        intervals(1);
    uint64_t took = ep_sim.uptime_ns - since;
    assert_true(model.replay_busy_ns <= took * 26 / 100);
    assert_true(model.replay_busy_ns >= took * 20 / 100);
    /* Live messages were not delayed: each interval's is present. */
    struct ep_stats s = account_stats();
    assert_true(s.messages - live >= took / (10 * SECOND) - 1);
    assert_int_equal(s.delivered - s.replayed + 2 >= s.messages - s.spooled, 1);
    model.send_ns = 0;
    intervals(2);
    assert_int_equal(ep_stop(1000), 0);
    s = account_stats();
    assert_null(receiver.broken);
    int64_t uncounted = (int64_t)(given.samples - receiver.samples - s.lost_count[EP_LOSS_SPOOL_FULL]);
    printf("figure lost_uncounted %lld samples\n", (long long)uncounted);
    assert_int_equal(uncounted, 0);
    assert_int_equal(receiver.ns, given.ticks * ep_sim.period_ns);
}

/* ---- damage between two runs ---- */

/* Stores 20 messages of 20 samples in one file, and flips a byte of it. Returns false if there is no such byte. */
static bool damaged_file(const struct ep_config *c, bool pprof, uint64_t at, uint8_t flip)
{
    const struct ep_spool_config spool = spool_config();
    uint64_t size;

    afresh();
    unit_pprof(pprof);
    start_with(&spool, c);
    model.down = true;
    intervals(20);
    assert_int_equal(ep_stop(100), 0);
    assert_in_range(account_stats().spool_messages, 20, 21); /* compact: another one ends the segment */
    model.down = false;
    uint8_t *bytes = ep_sim_disk_bytes(1, &size);
    bytes[at] ^= flip;
    return at < size;
}

/* One changed byte costs one message, or those of its batch; all of them if it is in the file's origin. Each is
 * counted; what follows in the file arrives. */
TEST(test_damage_is_counted)
{
    const struct ep_spool_config spool = spool_config();
    unsigned most = 0, harmless = 0;

    for (int pprof = 0; pprof < 2; pprof++)
        for (uint64_t at = 0;; at += 61 * unit_step()) {
            struct ep_config c = config();
            if (!damaged_file(&c, pprof, at, 0x11))
                break;
            start_with(&spool, &c);
            ep_sim_run(10 * MINUTE);
            struct ep_stats s = account_stats();
            assert_int_equal(s.spool_messages, 0);
            assert_int_equal(ep_stop(1000), 0);
            assert_null(receiver.broken);
            uint64_t counted = 20 * s.spool_damaged + s.lost_count[EP_LOSS_SEGMENT];
            bool all = receiver.samples + counted >= given.samples && receiver.samples + counted <= given.samples + 20;
            if (!all && !s.spool_damaged_bytes)
                print_error("byte %u: %u of %u samples arrived, %u counted\n", (unsigned)at, (unsigned)receiver.samples,
                            (unsigned)given.samples, (unsigned)counted);
            assert_true(all || s.spool_damaged_bytes > 0);
            unsigned missing = (unsigned)(given.samples - receiver.samples) / 20;
            if (pprof && at > 200)
                most = missing > most ? missing : most;
            harmless += missing == 0;
        }
    assert_in_range(most, 1, 6);
    assert_true(harmless > 0);
}

/* ---- power cuts ---- */

/* Data that the dying process reported as safe is kept. */
static struct cut {
    uint64_t acknowledged, delivered;
} at_cut;

static void live_until_the_cut(uint32_t format, unsigned cut_at, uint64_t dice)
{
    struct ep_spool_config spool = spool_config();
    struct ep_config c = config();
    uint64_t life = dice;

    unit_pprof(format == EP_FORMAT_PPROF);
    c.flags = 0;
    spool.memory_size = EP_SPOOL_MEMORY_MIN;
    spool.cap_bytes = 16 * EP_SPOOL_MEMORY_MIN;
    c.memory_size = EP_MEMORY_MIN + 16384;
    ep_sim_disk.cut_at = cut_at;
    ep_sim_disk.dice = dice;
    start_with(&spool, &c);
    for (unsigned i = 0; i < 300 && !ep_sim_disk.off; i++) {
        at_cut.acknowledged = account_stats().spooled;
        model.down = unit_random(&life) % 8 != 0;
        sample(1 + unit_random(&life) % 50, 20);
        ep_sim_run(10 * SECOND);
    }
}

/* Runs until the power fails in the n-th call, then runs again. Everything acknowledged exists once. */
static bool cut_once(uint32_t format, unsigned n, uint64_t dice)
{
    afresh();
    live_until_the_cut(format, n, dice);
    if (!ep_sim_disk.off) {
        (void)ep_stop(100);
        return false;
    }
    struct ep_stats died = account_stats();
    uint64_t measured = given.samples;
    ep_sim_fork(); /* it runs no more */
    ep_sim.identity.pid--;
    ep_sim_disk_restart();
    model.down = false;
    start();
    ep_sim_run(20 * MINUTE);
    struct ep_stats s = account_stats();
    assert_int_equal(s.spool_messages, 0);
    assert_null(receiver.broken);
    assert_int_equal(ep_stop(1000), 0);
    /* 20 samples per message: delivered or acknowledged ones have arrived, once; others may have. */
    uint64_t arrived = receiver.samples;
    uint64_t safe = 20 * (died.delivered - died.replayed + died.spooled - receiver.dictionaries);
    uint64_t counted = died.lost_count[EP_LOSS_SPOOL_FULL] + s.lost_count[EP_LOSS_SPOOL_FULL];
    uint64_t twice = format == EP_FORMAT_PPROF ? 20 : 0; /* sent, but the mark was not written */
    if (arrived + counted < safe || arrived > measured + twice)
        print_error("cut %u: %llu arrived, %llu counted, %llu safe, %llu measured\n", n, (unsigned long long)arrived,
                    (unsigned long long)counted, (unsigned long long)safe, (unsigned long long)measured);
    assert_true(arrived + counted >= safe);
    assert_true(arrived <= measured + twice);
    assert_int_equal(s.lost_count[EP_LOSS_SPOOL_DAMAGED], 0);
    assert_true(s.lost_count[EP_LOSS_SEGMENT] <= measured - safe); /* of the batch that was being written */
    assert_false(ep_sim_disk.misused);
    return true;
}

TEST(test_power_cut_at_every_write)
{
    for (uint32_t format = 0; format < 2; format++)
        for (uint64_t dice = 1; dice <= 4; dice++) {
            unsigned n = 1;
            while (cut_once(format, n, dice * 1000003 + n))
                n += unit_step();
            assert_true(n > 20);
        }
}

/* A child does not write to its parent's files. */
TEST(test_fork)
{
    const struct ep_config c = config();

    begin();
    model.down = true;
    intervals(30);
    unsigned calls = ep_sim_disk.calls;
    assert_true(calls > 0);
    ep_sim_fork();
    assert_int_equal(ep_start(&c), 0);
    intervals(30);
    assert_int_equal(ep_sim_disk.calls, calls);
    (void)ep_stop(10);
}

/* ---- configuration ---- */

TEST(test_settings)
{
    struct ep_spool_config spool = spool_config();
    const struct ep_config c = config();

    afresh();
    spool.dir = NULL;
    assert_int_equal(ep_spool_start(&spool), -EINVAL);
    assert_non_null(strstr(ep_start_error(), "dir"));
    char dir[300];
    memset(dir, 'd', sizeof dir);
    dir[256] = 0;
    spool.dir = dir;
    assert_int_equal(ep_spool_start(&spool), -EINVAL);
    spool = spool_config();
    spool.memory_size = EP_SPOOL_MEMORY_MIN - 1;
    assert_int_equal(ep_spool_start(&spool), -EINVAL);
    spool = spool_config();
    spool.cap_bytes = 16 * sizeof spool_memory - 1;
    assert_int_equal(ep_spool_start(&spool), -EINVAL);
    spool.cap_bytes = 1u << 31;
    assert_int_equal(ep_spool_start(&spool), -EINVAL);
    spool = spool_config();
    spool.link_share_pct = 101;
    assert_int_equal(ep_spool_start(&spool), -EINVAL);
    spool = spool_config();
    start_with(&spool, &c);
    assert_int_equal(ep_spool_start(NULL), -EALREADY);
    assert_int_equal(ep_stop(10), 0);
    assert_int_equal(ep_spool_start(NULL), 0);
    assert_int_equal(ep_start(&c), 0);
    model.down = true;
    intervals(100);
    assert_int_equal(ep_sim_disk.calls, 0);
    (void)ep_stop(10);
}

TEST(test_environment)
{
    static const char *const good[] = {"EDGEPROF_SPOOL=/var/spool/x", "EDGEPROF_SPOOL_BYTES=33554432", NULL};
    static const char *const bad[] = {"EDGEPROF_SPOOL=/var/spool/x", "EDGEPROF_SPOOL_BYTES=32M", NULL};
    static const char *const none[] = {NULL};
    struct ep_spool_config spool = {0};

    afresh();
    ep_sim.environment = none;
    assert_int_equal(ep_spool_from_env(&spool), 0);
    ep_sim.environment = bad;
    assert_int_equal(ep_spool_from_env(&spool), -EINVAL);
    assert_non_null(strstr(ep_start_error(), "EDGEPROF_SPOOL_BYTES"));
    ep_sim.environment = good;
    spool = (struct ep_spool_config){0};
    assert_int_equal(ep_spool_from_env(&spool), 1);
    assert_string_equal(spool.dir, "/var/spool/x");
    assert_int_equal(spool.cap_bytes, 33554432);
    spool = (struct ep_spool_config){.dir = "/mine", .cap_bytes = 7};
    assert_int_equal(ep_spool_from_env(&spool), 1);
    assert_string_equal(spool.dir, "/mine");
    assert_int_equal(spool.cap_bytes, 7);
}

TEST_MAIN
