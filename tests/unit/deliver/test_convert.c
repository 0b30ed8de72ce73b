/*
 * convert.c and mirror.c: whatever the receiver answers, each nanosecond is in exactly one pprof, a family has one
 * pprof an interval, and no two of a family have one time. The receiver here is as strict as servers are.
 */
#include "account.h"
#include "core/profile/naming.h"
#include "core/features/pprof/gzip.h"
#include "core/features/pprof/mirror.h"
#include "gunzip.h"
#include "spool_model.h"
#include "unit.h"

#define PROFILES 4096u
#define FAMILIES 8u

/* What a server has. */
static struct {
    unsigned profiles, empty, twice, refused;
    bool live;         /* there is no spool */
    unsigned most;     /* samples that it takes in a profile; 0: any number */
    unsigned only;     /* profiles that it takes before the link is lost; 0: any number */
    uint64_t dice;     /* answers: 0: takes all; else some are errors */
    const char *hates; /* family that it refuses */
    uint64_t hated_ns;
    uint64_t ns, waits, last_offset;
    struct {
        char family[16];
        uint64_t start, end;
    } profile[PROFILES];
    char root[32];
    char comment[64]; /* of the last profile */
    unsigned named;   /* locations with lines in the last profile, and all of them */
    unsigned locations;
} far;

/* Reads a pprof: samples, sums of the last value, time and length. */
struct read {
    unsigned samples, locations, named;
    uint64_t value, start, length;
};

static void sample_read(struct read *read, struct wire bytes)
{
    struct wire_field f;
    uint64_t value = 0;

    read->samples++;
    while (wire_next(&bytes, &f))
        if (f.tag == 2)
            while (f.bytes.at < f.bytes.end && wire_varint(&f.bytes, &value)) {
            }
    read->value += value;
}

static struct read profile_read(const struct ep_message *message)
{
    static uint8_t text[4 << 20];
    size_t size = gunzip(message->data, message->size, text, sizeof text);
    struct read read = {0};
    struct wire_field f, g;

    assert_true(size != SIZE_MAX);
    struct wire bytes = wire_open(text, size);
    while (wire_next(&bytes, &f)) {
        if (f.tag == 2)
            sample_read(&read, f.bytes);
        if (f.tag == 4) {
            read.locations++;
            for (; wire_next(&f.bytes, &g);)
                read.named += g.tag == 4;
        }
        if (f.tag == 9)
            read.start = f.number;
        if (f.tag == 10)
            read.length = f.number;
    }
    assert_false(bytes.bad);
    wire_pprof_comment(text, size, far.comment, sizeof far.comment);
    return read;
}

static void keep(const struct ep_message *message, const struct read *read)
{
    for (unsigned i = 0; i < far.profiles; i++) {
        bool twice = strcmp(far.profile[i].family, message->family) == 0 && far.profile[i].start == read->start;
        if (twice)
            print_error("%s twice from %llu on\n", message->family, (unsigned long long)read->start);
        far.twice += twice;
    }
    /* Live profiles of a family follow each other, and none ends in the future but for parts without a time. */
    for (unsigned i = far.profiles; far.live && i-- > 0;) {
        if (strcmp(far.profile[i].family, message->family) != 0)
            continue;
        assert_true(far.profile[i].end <= read->start + 1); /* an empty interval counts as 1 ns */
        break;
    }
    assert_true(read->start + read->length <= ep_port_unix_ns() + 200 * MS);
    assert_true(far.profiles < PROFILES);
    (void)snprintf(far.profile[far.profiles].family, 16, "%s", message->family);
    far.profile[far.profiles].start = read->start;
    far.profile[far.profiles++].end = read->start + read->length;
    far.ns += strcmp(message->family, "process_cpu") == 0 ? read->value : 0;
    far.waits += strcmp(message->family, "block") == 0 ? read->value : 0;
    far.named = read->named;
    far.locations = read->locations;
}

static int far_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    static const int errors[] = {-ECONNREFUSED, -ETIMEDOUT, -EAGAIN, -EIO};
    const struct read read = profile_read(message);

    (void)state;
    (void)deadline;
    (void)retry_ns;
    assert_int_equal(message->format, EP_FORMAT_PPROF);
    far.empty += read.samples == 0;
    if (far.dice && unit_random(&far.dice) % 3)
        return errors[unit_random(&far.dice) % 4];
    if (far.only && far.profiles >= far.only)
        return -ECONNREFUSED;
    if (far.hates && strcmp(far.hates, message->family) == 0) {
        far.hated_ns += read.value;
        far.refused++;
        return -EBADMSG;
    }
    if (far.most && read.samples > far.most)
        return -EMSGSIZE;
    keep(message, &read);
    return 0;
}

static const struct ep_transport far_transport = {.name = "far", .send = far_send};

static void begin_with(size_t size)
{
    account_afresh();
    unit_pprof(true);
    memset(&far, 0, sizeof far);
    far.live = true;
    account_start((struct ep_config){.memory_size = size,
                                     .rate_hz = 100,
                                     .interval_ms = 10000,
                                     .kinds = EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_WAIT),
                                     .transport = &far_transport});
}

static void tick_some(uint64_t *dice, unsigned count, unsigned variety, unsigned deepest)
{
    uint16_t stack[100];

    for (unsigned i = 0; i < count; i++) {
        unsigned depth = 1 + unit_random(dice) % deepest;
        for (unsigned f = 0; f < depth; f++)
            stack[f] = (uint16_t)(unit_random(dice) % variety);
        assert_true(ep_sim_tick(1 + unit_random(dice) % 5, 1 + unit_random(dice) % 3, stack, depth));
        if (i % 16 == 15)
            ep_sim_run(MS);
    }
}

static unsigned kept_of(const char *family)
{
    unsigned count = 0;

    for (unsigned i = 0; i < far.profiles; i++)
        count += strcmp(far.profile[i].family, family) == 0;
    return count;
}

/* All CPU time; a profile has that of samples without room in the ring, too. */
static uint64_t measured(const struct ep_stats *s)
{
    return s->weight_ns + s->thread_exit_ns + s->lost_ns[EP_LOSS_RING_FULL];
}

static void end_all(void)
{
    (void)ep_stop(60000);
    struct ep_stats s = account_stats();

    assert_int_equal(far.empty, 0);
    assert_int_equal(far.twice, 0);
    assert_int_equal(measured(&s), far.ns + s.lost_ns[EP_LOSS_REFUSED] + s.lost_ns[EP_LOSS_STOPPED] +
                                       s.lost_ns[EP_LOSS_TOO_LARGE] + s.lost_ns[EP_LOSS_SEGMENT]);
    account_memory_gone();
}

/* One profile an interval, however often the memory ends it early, from its beginning to its end. */
TEST(test_one_an_interval)
{
    uint64_t dice = 3;

    begin_with(EP_MEMORY_MIN);
    ep_sim_run(1); /* the first interval begins */
    for (unsigned i = 1; i <= 20; i++) {
        for (unsigned part = 0; part < 10; part++) {
            tick_some(&dice, 40, 60, 12);
            ep_sim_run(900 * MS);
        }
        while (kept_of("process_cpu") < i)
            ep_sim_run(100 * MS);
        assert_int_equal(kept_of("process_cpu"), i);
        assert_in_range(far.profile[far.profiles - 1].end - far.profile[far.profiles - 1].start, 8 * SECOND,
                        12 * SECOND);
    }
    assert_true(account_stats().intervals_early > 20);
    end_all();
}

static void interval_told(uint64_t *dice, const char *comment)
{
    far.profiles = 0;
    tick_some(dice, 40, 60, 12);
    ep_sim_run(10 * SECOND);
    assert_true(far.profiles > 0);
    assert_string_equal(far.comment, comment);
}

/* A clock other than the one asked for is told in each profile, from the message on that has it in its statistics. */
TEST(test_clock_error)
{
    uint64_t dice = 5;

    begin_with(EP_MEMORY_DEFAULT);
    ep_sim.clock_error = EACCES;
    for (unsigned i = 0; i < 8; i++)
        interval_told(&dice, "edgeprof clock: not perf in every thread, errno 13");
    (void)ep_stop(60000);
    account_memory_gone();

    begin_with(EP_MEMORY_DEFAULT);
    interval_told(&dice, "");
    ep_sim.clock_error = 133;
    for (unsigned i = 0; i < 8; i++) {
        tick_some(&dice, 40, 60, 12);
        ep_sim_run(10 * SECOND);
    }
    interval_told(&dice, "edgeprof clock: not perf in every thread, errno 133");
    (void)ep_stop(60000);
    account_memory_gone();
}

/* A receiver with a limit gets parts, each with a time of its own. */
TEST(test_too_large_is_divided)
{
    static const unsigned most[] = {1, 7, 100};
    uint64_t dice = 5;

    for (unsigned i = 0; i < 3; i++) {
        begin_with(EP_MEMORY_DEFAULT);
        far.most = most[i];
        tick_some(&dice, 300, 50, 6);
        ep_sim_run(11 * SECOND);
        assert_true(kept_of("process_cpu") >= 200 / most[i]);
        assert_int_equal(account_stats().lost_count[EP_LOSS_TOO_LARGE], 0);
        end_all();
    }
}

/* The profiler stops when a part of a family has left: the rest is lost, and only that. */
TEST(test_stopped_between_parts)
{
    uint64_t dice = 9;

    for (unsigned only = 1; only <= 4; only++) {
        begin_with(EP_MEMORY_DEFAULT);
        far.most = 20;
        far.only = only;
        tick_some(&dice, 300, 50, 6);
        ep_sim_run(11 * SECOND);
        assert_int_equal(kept_of("process_cpu"), only);
        end_all();
        assert_true(account_stats().lost_ns[EP_LOSS_STOPPED] > 0);
    }
}

/* A refused family is lost, and counted; the others are not. */
TEST(test_refused_family)
{
    uint64_t dice = 7;

    begin_with(EP_MEMORY_DEFAULT);
    far.hates = "process_cpu";
    for (unsigned i = 0; i < 5; i++) {
        tick_some(&dice, 30, 50, 6);
        ep_sim_run(10 * SECOND);
    }
    assert_int_equal(kept_of("process_cpu"), 0);
    assert_true(far.refused >= 5);
    far.hates = NULL;
    ep_sim_run(20 * SECOND);
    (void)ep_stop(60000);
    struct ep_stats s = account_stats();
    /* What was lost comes again as [lost: refused], and is counted once. */
    assert_int_equal(measured(&s), s.lost_ns[EP_LOSS_REFUSED]);
    assert_int_equal(far.empty, 0);
    account_memory_gone();
}

/* Two of three sends fail: nothing is lost, nothing is sent twice. */
TEST(test_bad_link)
{
    for (uint64_t seed = 1; seed <= 1 + 30 / unit_part(); seed++) {
        uint64_t dice = seed;
        begin_with(seed % 2 ? EP_MEMORY_MIN : EP_MEMORY_DEFAULT);
        far.dice = seed;
        far.most = seed % 3 ? 0 : 20;
        for (unsigned i = 0; i < 30; i++) {
            tick_some(&dice, unit_random(&dice) % 120, 60, 10);
            ep_sim_run(unit_random(&dice) % 20000 * MS);
        }
        far.dice = 0;
        ep_sim_run(300 * SECOND);
        assert_int_equal(account_stats().lost_ns[EP_LOSS_STOPPED], 0);
        end_all();
    }
}

/* The same with a spool, and with processes that end in between. */
TEST(test_bad_link_with_a_spool)
{
    static uint64_t spool_bytes[EP_SPOOL_MEMORY / 8];

    for (uint64_t seed = 1; seed <= 1 + 20 / unit_part(); seed++) {
        uint64_t dice = seed, in = 0, lost = 0;
        account_afresh();
        unit_pprof(true);
        memset(&far, 0, sizeof far);
        for (unsigned life = 0; life < 4; life++) {
            struct ep_spool_config spool = {.dir = "/spool", .memory = spool_bytes, .memory_size = sizeof spool_bytes};
            size_t size = seed % 2 ? EP_MEMORY_MIN : EP_MEMORY_DEFAULT;
            assert_int_equal(ep_spool_start(&spool), 0);
            account_start((struct ep_config){
                .memory_size = size, .rate_hz = 100, .interval_ms = 10000, .transport = &far_transport});
            for (unsigned i = 0; i < 12; i++) {
                far.dice = unit_random(&dice) % 2 ? dice | 1 : 0;
                tick_some(&dice, unit_random(&dice) % 80, 60, 10);
                ep_sim_run(unit_random(&dice) % 40000 * MS);
            }
            far.dice = life == 3 ? 0 : far.dice;
            ep_sim_run(life == 3 ? 3000 * SECOND : 1);
            (void)ep_stop(5000);
            struct ep_stats s = account_stats();
            in += measured(&s);
            lost += s.lost_ns[EP_LOSS_STOPPED];
            assert_int_equal(s.lost_ns[EP_LOSS_SEGMENT] + s.lost_ns[EP_LOSS_REFUSED] + s.lost_ns[EP_LOSS_TOO_LARGE], 0);
            account_memory_gone();
        }
        assert_int_equal(far.empty, 0);
        assert_int_equal(far.twice, 0);
        assert_int_equal(in, far.ns + lost);
        assert_int_equal(lost, 0);
    }
}

/* ---- names ---- */

static struct ep_named named;
static unsigned begun;

static struct ep_named *names_memory(void)
{
    return &named;
}

static void names_begin(const struct ep_deadline *deadline)
{
    assert_true(ep_deadline_ns(deadline) > ep_port_uptime_ns());
    begun++;
}

static unsigned names_find(struct ep_place *place)
{
    return place->address % 3 ? 1 + (unsigned)(place->address % 5) : 0;
}

static const char *names_text(unsigned name)
{
    static const char *const texts[] = {"one", "two", "three", "four", "five"};
    return texts[name - 1];
}

/* Every location has a name, and each message has time for finding them. With names off there is a named root. */
TEST(test_names)
{
    static const struct ep_names names = {
        .begin = names_begin, .find = names_find, .text = names_text, .memory = names_memory};
    uint64_t dice = 19;

    for (int with = 0; with < 2; with++) {
        account_afresh();
        unit_pprof(true);
        memset(&far, 0, sizeof far);
        begun = 0;
        account_start((struct ep_config){.memory_size = EP_MEMORY_DEFAULT,
                                         .service = "unit",
                                         .rate_hz = 100,
                                         .interval_ms = 60000,
                                         .transport = &far_transport,
                                         .push = &ep_push_pyroscope,
                                         .names = with ? &names : NULL});
        for (unsigned i = 0; i < 5; i++) {
            tick_some(&dice, 30, 50, 6);
            ep_sim_run(60 * SECOND);
        }
        assert_int_equal(kept_of("process_cpu"), 5);
        assert_true(far.locations > 20 && (with ? far.named == far.locations : far.named >= 1));
        assert_int_equal(begun, with ? far.profiles : 0);
        end_all();
    }
}

/* ---- the mirror ---- */

static struct {
    uint8_t bytes[64][24 << 10];
    size_t size[64];
    unsigned count;
} recorded;

static int record_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                       uint64_t *retry_ns)
{
    (void)state;
    (void)deadline;
    (void)retry_ns;
    if (recorded.count < 64 && message->size <= sizeof recorded.bytes[0]) {
        memcpy(recorded.bytes[recorded.count], message->data, message->size);
        recorded.size[recorded.count++] = message->size;
    }
    return 0;
}

static void record(void)
{
    static const struct ep_transport transport = {.name = "record", .send = record_send};
    uint64_t dice = 11;

    account_afresh();
    memset(&recorded, 0, sizeof recorded);
    account_start((struct ep_config){
        .memory_size = EP_MEMORY_MIN, .rate_hz = 100, .flags = EP_THREAD_LABELS, .transport = &transport});
    for (unsigned i = 0; i < 40; i++) {
        (void)ep_tag_push("route", i % 2 ? "a" : "b");
        ep_span_set(i, 1, i);
        tick_some(&dice, 20, 60, 9);
        ep_tag_pop();
        ep_sim_run(1000 * MS);
    }
    (void)ep_stop(1000);
    account_memory_gone();
}

static struct ep_mirror mirror;

/* Messages in order are read; one that is missing is noticed; a changed one does no harm. */
TEST(test_mirror)
{
    uint64_t dice = 13;
    unsigned good = 0, bad = 0;

    record();
    assert_true(recorded.count > 30);
    ep_mirror_clear(&mirror);
    for (unsigned i = 0; i < recorded.count; i++) {
        assert_int_equal(ep_mirror_read(&mirror, recorded.bytes[i], recorded.size[i], true), 0);
        assert_true(mirror.values || i + 1 == recorded.count);
        ep_mirror_next(&mirror);
    }
    ep_mirror_clear(&mirror);
    assert_int_equal(ep_mirror_read(&mirror, recorded.bytes[1], recorded.size[1], true), -ESTALE);
    for (unsigned turn = 0; turn < 4000; turn++) {
        unsigned i = turn % recorded.count;
        size_t at = unit_random(&dice) % recorded.size[i];
        uint8_t was = recorded.bytes[i][at];
        recorded.bytes[i][at] ^= (uint8_t)(1u << unit_random(&dice) % 8);
        size_t size = turn % 5 ? recorded.size[i] : unit_random(&dice) % recorded.size[i];
        int error = ep_mirror_read(&mirror, recorded.bytes[i], size, true);
        assert_true(error == 0 || error == -ESTALE || error == -EBADMSG || error == -ENOSPC);
        good += error == 0;
        bad += error == -EBADMSG;
        recorded.bytes[i][at] = was;
        if (error == -ENOSPC || turn % 3 == 0)
            ep_mirror_next(&mirror);
        if (error)
            ep_mirror_clear(&mirror);
    }
    assert_true(good > 100 && bad > 100);
}

/* ---- gzip ---- */

/* Any bytes in pieces of any size come back, and what does not fit is told. */
TEST(test_gzip)
{
    static struct ep_gzip gzip;
    static uint8_t in[200000], out[300000], back[sizeof in];
    uint64_t dice = 17;

    for (unsigned turn = 0; turn < 40; turn++) {
        size_t size = turn ? unit_random(&dice) % sizeof in : 0, room = sizeof out;
        for (size_t i = 0; i < size; i++)
            in[i] = turn % 4 == 0   ? (uint8_t)unit_random(&dice)
                    : turn % 4 == 1 ? 7
                    : i > 90        ? in[i - 1 - unit_random(&dice) % 3 * 30]
                                    : (uint8_t)i;
        for (int fits = 1; fits >= 0; fits--) {
            ep_gzip_begin(&gzip, out, fits ? sizeof out : room - 1);
            for (size_t at = 0, part; at < size; at += part) {
                part = 1 + unit_random(&dice) % 5000;
                part = part < size - at ? part : size - at;
                (void)ep_gzip_write(&gzip, in + at, part);
            }
            size_t packed = ep_gzip_end(&gzip);
            assert_true(fits ? packed > 0 : packed == 0);
            room = fits ? packed : room;
            if (!fits)
                continue;
            assert_int_equal(gunzip(out, packed, back, sizeof back), size);
            assert_memory_equal(in, back, size);
            assert_true(turn % 4 != 1 || packed < size / 50 + 40);
        }
    }
}

TEST_MAIN
