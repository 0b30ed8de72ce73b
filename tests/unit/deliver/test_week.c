/*
 * A week without a link, then a receiver with Pyroscope's limit of an hour, one without a limit, or one of each. To the
 * nanosecond: measured = delivered + refused as too old + dropped by the spool's size. Over intervals, sizes of the
 * spool, restarts, and an unsteady link afterwards.
 */
#include "account.h"
#include "core/profile/naming.h"
#include "gunzip.h"
#include "spool_model.h"
#include "transport/http.h"
#include "unit.h"

#define DAY   (24 * HOUR)
#define TEXTS 1024u
#define SEEN  (1u << 18)

enum answer { NO_LIMIT, LIMIT, LIMIT_AND_OLD, ANSWERS };

/* A receiver of pprof: what it has, without what is reported as lost, and that. */
struct server {
    uint64_t limit_ns; /* age from which it refuses; 0: none */
    uint64_t ns, lost_ns;
    unsigned profiles, refused;
};

static struct {
    bool down, boots;
    uint64_t dice; /* not 0: one of four sends fails */
    struct server server[2];
    unsigned twice;
    uint64_t seen[SEEN];
    const struct ep_target *target;
} far;

/* What a case has of all runs. */
static struct {
    uint64_t measured, lost[EP_LOSS_REASONS];
} sum;

/* ---- reading a pprof ---- */

static struct {
    struct wire text[TEXTS];
    unsigned texts;
    uint64_t name_of[EP_FRAME_SPECIALS];        /* of the functions with the numbers of special frames */
    uint64_t function_of[EP_SIM_FUNCTIONS * 2]; /* of locations */
} pprof;

static uint64_t field_of(struct wire bytes, unsigned tag)
{
    struct wire_field f;
    uint64_t value = 0;

    while (wire_next(&bytes, &f))
        value = f.tag == tag ? f.number : value;
    return value;
}

static void location_read(struct wire bytes)
{
    struct wire_field f;
    uint64_t id = field_of(bytes, 1);

    assert_true(id < sizeof pprof.function_of / sizeof *pprof.function_of);
    pprof.function_of[id] = 0;
    while (wire_next(&bytes, &f))
        if (f.tag == 4)
            pprof.function_of[id] = field_of(f.bytes, 1);
}

static void function_read(struct wire bytes)
{
    uint64_t id = field_of(bytes, 1);

    if (id < EP_FRAME_SPECIALS)
        pprof.name_of[id] = field_of(bytes, 2);
}

static bool is_lost_location(uint64_t id)
{
    static const char prefix[] = "[lost: ";
    uint64_t function = pprof.function_of[id], name = function < EP_FRAME_SPECIALS ? pprof.name_of[function] : 0;
    struct wire text = pprof.text[name];

    return (size_t)(text.end - text.at) > sizeof prefix && memcmp(text.at, prefix, sizeof prefix - 1) == 0;
}

static void sample_read(struct server *server, struct wire bytes)
{
    struct wire_field f;
    uint64_t value = 0, location;
    bool lost = false;

    while (wire_next(&bytes, &f))
        while ((f.tag == 1 || f.tag == 2) && f.bytes.at < f.bytes.end &&
               wire_varint(&f.bytes, f.tag == 1 ? &location : &value))
            lost |= f.tag == 1 && is_lost_location(location);
    *(lost ? &server->lost_ns : &server->ns) += value;
}

static void profile_read(struct server *server, const struct ep_message *message)
{
    static uint8_t text[4 << 20];
    size_t size = gunzip(message->data, message->size, text, sizeof text);
    struct wire_field f;

    assert_true(size != SIZE_MAX);
    pprof.texts = 0;
    memset(pprof.name_of, 0, sizeof pprof.name_of);
    for (struct wire bytes = wire_open(text, size); wire_next(&bytes, &f);) {
        if (f.tag == 4)
            location_read(f.bytes);
        if (f.tag == 5)
            function_read(f.bytes);
        if (f.tag == 6 && pprof.texts < TEXTS)
            pprof.text[pprof.texts++] = f.bytes;
    }
    for (struct wire bytes = wire_open(text, size); wire_next(&bytes, &f);)
        if (f.tag == 2)
            sample_read(server, f.bytes);
}

/* ---- the receivers ---- */

/* No two profiles begin at one time. */
static void seen_note(uint64_t start)
{
    uint64_t at = start / MS * 0x9e3779b97f4a7c15u >> 46;

    for (; far.seen[at % SEEN]; at++)
        far.twice += far.seen[at % SEEN] == start;
    far.seen[at % SEEN] = start;
}

static int far_open(void *state, const struct ep_target *target)
{
    (void)state;
    far.target = target;
    return 0;
}

static int far_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    struct server *server = &far.server[strcmp(far.target->endpoint, "https://old") == 0];

    (void)state;
    (void)deadline;
    (void)retry_ns;
    assert_string_equal(message->family, "process_cpu");
    assert_string_equal(far.target->service, "unit");
    if (far.down || (far.dice && unit_random(&far.dice) % 4 == 0))
        return -ECONNREFUSED;
    /* by the right clock, not of another year; of an earlier boot by its own */
    assert_true(far.boots || ep_port_unix_ns() - message->start_unix_ns < 21 * DAY);
    if (server->limit_ns && ep_port_unix_ns() - message->start_unix_ns > server->limit_ns) {
        server->refused++;
        return -EBADMSG;
    }
    seen_note(message->start_unix_ns);
    profile_read(server, message);
    server->profiles++;
    return 0;
}

static const struct ep_transport far_transport = {
    .name = "https", .state_size = 16, .open = far_open, .send = far_send};

/* ---- a case ---- */

struct week {
    enum answer answer;
    uint32_t interval_ms;
    uint64_t cap_bytes;
    unsigned runs; /* of the profiler */
    bool unsteady; /* the link, when it is back */
    bool wrong;    /* the clock, differently in each run until the link is back */
    bool boots;    /* each run is a boot: the uptime begins again, and nobody knows the age of what is on the disk */
};

static void week_start(const struct week *week)
{
    struct ep_spool_config spool = spool_config();
    struct ep_config c = config();

    spool.cap_bytes = week->cap_bytes;
    c.transport = NULL;
    c.endpoint = "https://new";
    unit_pprof(true);
    c.push = &ep_push_pyroscope;
    c.interval_ms = week->interval_ms;
    assert_int_equal(ep_endpoint_old(&c, week->answer == LIMIT_AND_OLD ? "https://old" : NULL),
                     week->answer == LIMIT_AND_OLD);
    start_with(&spool, &c);
}

static void week_stop(void)
{
    (void)ep_stop(5000);
    struct ep_stats s = account_stats();

    sum.measured += s.weight_ns + s.thread_exit_ns + s.lost_ns[EP_LOSS_RING_FULL];
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        sum.lost[i] += s.lost_ns[i];
}

static void days(const struct week *week, uint64_t ns, uint64_t *dice)
{
    for (uint64_t end = ep_sim.uptime_ns + ns; ep_sim.uptime_ns < end;) {
        sample(1 + unit_random(dice) % 9, 1 + unit_random(dice) % 20);
        ep_sim_run(week->interval_ms * MS);
    }
}

static void week_check(const struct week *week)
{
    uint64_t refused = sum.lost[EP_LOSS_TOO_OLD], dropped = sum.lost[EP_LOSS_SPOOL_FULL];
    uint64_t new = far.server[0].ns, old = far.server[1].ns, other = 0;

    for (unsigned i = 0; i < EP_LOSS_REASONS; i++)
        other += i == EP_LOSS_TOO_OLD || i == EP_LOSS_SPOOL_FULL ? 0 : sum.lost[i];
    if (sum.measured != new + old + refused + dropped)
        print_error("answer %d, interval %u: measured %llu, new %llu, old %llu, refused %llu, dropped %llu\n",
                    (int)week->answer, week->interval_ms, (unsigned long long)sum.measured, (unsigned long long)new,
                    (unsigned long long)old, (unsigned long long)refused, (unsigned long long)dropped);
    assert_int_equal(sum.measured, new + old + refused + dropped);
    assert_int_equal(sum.measured, given.ticks * ep_sim.period_ns);
    assert_int_equal(other, 0);
    assert_int_equal(far.twice, 0);
    assert_true(new > 0);
    assert_true((old > 0) == (week->answer == LIMIT_AND_OLD));
    if (week->boots) /* of another boot and of a later year: the first endpoint judges it */
        return;
    assert_true((refused > 0) == (week->answer == LIMIT));
    assert_true((far.server[0].refused > 0) == (week->answer == LIMIT));
}

/* The machine starts again, a minute ago. right: what the right clock is ahead of the uptime. */
static void boot(unsigned number, uint64_t *right)
{
    uint64_t passed = ep_sim.uptime_ns - MINUTE;

    (void)snprintf(ep_sim.identity.boot_id, sizeof ep_sim.identity.boot_id, "boot %u", number);
    ep_sim.uptime_ns = MINUTE;
    *right += passed;
    ep_sim.unix_minus_uptime_ns += passed;
}

/* In 2036, in 1996 and right; it is set in the middle of a run. */
static void clock_set(const struct week *week, uint64_t right, unsigned turn)
{
    static const int years[] = {10, -30, 0};

    if (week->wrong)
        ep_sim.unix_minus_uptime_ns = right + (uint64_t)((int64_t)years[turn % 3] * 365 * (int64_t)DAY);
}

static void week_try(const struct week *week, uint64_t seed)
{
    uint64_t dice = seed, right;

    afresh();
    memset(&far, 0, sizeof far);
    memset(&sum, 0, sizeof sum);
    far.server[0].limit_ns = week->answer == NO_LIMIT ? 0 : HOUR;
    far.down = true;
    far.boots = week->boots;
    right = ep_sim.unix_minus_uptime_ns;
    for (unsigned i = 0; i < week->runs; i++) {
        clock_set(week, right, i);
        week_start(week);
        days(week, 7 * DAY / week->runs / 2, &dice);
        clock_set(week, right, i + 1);
        days(week, 7 * DAY / week->runs / 2, &dice);
        if (i + 1 < week->runs) {
            week_stop();
            if (week->boots)
                boot(i + 1, &right);
        }
    }
    assert_int_equal(far.server[0].profiles, 0);
    clock_set(week, right, 2);
    far.down = false;
    far.dice = week->unsteady ? seed : 0;
    days(week, 6 * HOUR, &dice);
    far.dice = 0;
    do {
        days(week, HOUR, &dice);
    } while (account_stats().spool_messages > 0);
    week_stop();
    assert_int_equal(account_stats().spool_messages, 0);
    week_check(week);
    if (getenv("SHOW"))
        print_message("answer %d, interval %u, runs %u: fine\n", (int)week->answer, week->interval_ms, week->runs);
}

/* Every pair of values occurs. The spool holds all, or about a day. */
TEST(test_week)
{
    static const uint32_t interval_ms[] = {600000, 60000, 1800000};
    static const uint64_t cap_bytes[] = {16u << 20, 1u << 20};
    bool dropped = false;

    for (unsigned i = 0; i < 3 * 12; i += unit_step()) {
        struct week week = {.answer = i % ANSWERS,
                            .interval_ms = interval_ms[i / 3 % 3],
                            .cap_bytes = cap_bytes[i / 9 % 2],
                            .runs = 1 + 3 * (i / 18 % 2),
                            .unsteady = (i + i / 3 + i / 9) % 2};
        week_try(&week, i + 1);
        dropped |= sum.lost[EP_LOSS_SPOOL_FULL] > 0;
    }
    assert_true(dropped);
}

/* With clocks that are wrong in every way until the link is back: no profile is lost by its date. */
TEST(test_week_of_wrong_clocks)
{
    for (unsigned i = 0; i < ANSWERS * 2; i++) {
        struct week week = {.answer = i % ANSWERS,
                            .interval_ms = 600000,
                            .cap_bytes = 16u << 20,
                            .runs = 1 + 4 * (i / ANSWERS),
                            .unsteady = i % 2,
                            .wrong = true};
        week_try(&week, i + 1);
        assert_int_equal(sum.lost[EP_LOSS_SPOOL_FULL], 0);
    }
}

/* Boots with clocks that are wrong in every way, while the spool stays: measured = delivered + counted. */
TEST(test_week_of_boots)
{
    for (unsigned answer = 0; answer < ANSWERS; answer++) {
        struct week week = {.answer = answer,
                            .interval_ms = 600000,
                            .cap_bytes = 16u << 20,
                            .runs = 7,
                            .unsteady = true,
                            .wrong = true,
                            .boots = true};
        week_try(&week, 1000 + answer);
        assert_int_equal(sum.lost[EP_LOSS_SPOOL_FULL], 0);
    }
}

/* At the default interval. */
TEST(test_default_interval)
{
    for (unsigned answer = 0; answer < ANSWERS; answer += unit_step()) {
        struct week week = {.answer = answer, .interval_ms = 10000, .cap_bytes = 4u << 20, .runs = 2};
        week_try(&week, answer + 1);
        assert_true(sum.lost[EP_LOSS_SPOOL_FULL] > 0);
    }
}

int main(void)
{
    ep_transport_https = &far_transport;
    return test_run();
}
