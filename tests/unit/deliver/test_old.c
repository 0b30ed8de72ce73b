/*
 * A second endpoint for old profiles: it gets what the first refuses by its age, and nothing else. While it is down,
 * old profiles wait in the spool, and new ones go their way. It sees no credentials of the first.
 */
#include "spool_model.h"
#include "transport/http.h"
#include "unit.h"

/* The receiver at an endpoint. */
struct server {
    bool down, hangs;
    uint64_t limit_ns; /* age from which it refuses; 0: none */
    uint64_t retry_ns; /* while it is down it asks for a pause; 0: it does not answer */
    unsigned asked, accepted, refused;
    unsigned after; /* accepted since the test set it to 0 */
    uint64_t oldest_ns;
    char headers[64], service[64];
};

static struct {
    struct server server[2];
    const struct ep_target *target; /* NULL: closed */
    unsigned opened, closed;
    uint64_t dirty; /* bytes of the state that were not zero at open */
} far;

static int far_open(void *state, const struct ep_target *target)
{
    assert_null(far.target);
    for (unsigned i = 0; i < 64; i++)
        far.dirty += ((uint8_t *)state)[i] != 0;
    if (strstr(target->endpoint, "bad"))
        return -EINVAL;
    memset(state, 7, 64);
    far.target = target;
    far.opened++;
    return 0;
}

static void far_close(void *state)
{
    (void)state;
    assert_non_null(far.target);
    far.target = NULL;
    far.closed++;
}

static int far_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    struct server *server = &far.server[strcmp(far.target->endpoint, "https://old") == 0];
    uint64_t age = message->start_unix_ns ? ep_port_unix_ns() - message->start_unix_ns : 0;

    (void)state;
    if (ep_sim.uptime_ns > ep_deadline_ns(deadline))
        return -ETIMEDOUT;
    server->asked++;
    if (server->down && server->hangs) {
        ep_sim.uptime_ns = ep_deadline_ns(deadline) + 1;
        return -ETIMEDOUT;
    }
    if (server->down && server->retry_ns) {
        *retry_ns = server->retry_ns;
        return -EAGAIN;
    }
    if (server->down)
        return -ECONNREFUSED;
    if (server->limit_ns && age >= server->limit_ns) {
        server->refused++;
        return -EBADMSG;
    }
    server->accepted++;
    server->after++;
    server->oldest_ns = age > server->oldest_ns ? age : server->oldest_ns;
    (void)snprintf(server->headers, sizeof server->headers, "%s", far.target->headers ? far.target->headers : "");
    (void)snprintf(server->service, sizeof server->service, "%s{%s}", far.target->service, far.target->tags);
    return 0;
}

static unsigned far_answer(const void *state, const char **why)
{
    (void)state;
    *why = "";
    return far.server[0].down ? 0 : 200;
}

static const struct ep_transport far_transport = {
    .name = "https", .state_size = 64, .open = far_open, .send = far_send, .close = far_close, .answer = far_answer};

static struct ep_config old_config(void)
{
    struct ep_config c = config();

    c.transport = NULL;
    c.endpoint = "https://new";
    unit_pprof(true);
    c.push = &ep_push_pyroscope;
    c.headers = "Authorization: Bearer secret";
    return c;
}

static void begin_with(bool spooled, bool old)
{
    const struct ep_spool_config spool = spool_config();

    afresh();
    struct ep_config c = old_config();
    memset(&far, 0, sizeof far);
    assert_int_equal(ep_spool_start(spooled ? &spool : NULL), 0);
    assert_int_equal(ep_endpoint_old(&c, old ? "https://old" : NULL), old);
    assert_int_equal(ep_start(&c), 0);
}

static void down(bool is)
{
    far.server[0].down = far.server[1].down = is;
}

static void end(void)
{
    (void)ep_stop(5000);
    assert_null(far.target);
    assert_int_equal(far.opened, far.closed);
    assert_int_equal(far.dirty, 0);
}

/* An outage of hours: the last hour goes to the first, what is older to the second, without a try at the first. */
TEST(test_by_age)
{
    for (unsigned old = 0; old < 2; old++) {
        begin_with(true, old);
        far.server[0].limit_ns = HOUR;
        down(true);
        intervals(3 * 360);
        down(false);
        intervals(30);
        struct ep_stats s = account_stats();
        assert_int_equal(s.spool_messages, 0);
        assert_true(far.server[0].accepted > 300 && far.server[0].oldest_ns < HOUR);
        assert_true(old ? far.server[1].accepted > 700 : far.server[1].accepted == 0);
        assert_true(old ? far.server[0].refused == 0 : far.server[0].refused > 700);
        assert_true((s.lost_count[EP_LOSS_TOO_OLD] == 0) == (old == 1));
        assert_int_equal(s.lost_count[EP_LOSS_REFUSED], 0);
        assert_true(!old || (s.samples == given.samples && far.server[1].oldest_ns > 2 * HOUR));
        assert_string_equal(far.server[0].service, "unit{version=1}");
        assert_string_equal(far.server[old].service, "unit{version=1}");
        assert_null(strstr(far.server[1].headers, "secret"));
        assert_non_null(strstr(far.server[0].headers, "secret"));
        end();
    }
}

/* A lower limit, or another clock: what the first refuses goes to the second, unless it is nearly new. */
TEST(test_by_refusal)
{
    static const uint64_t limits[] = {59 * MINUTE, 30 * MINUTE, 11 * MINUTE};

    for (unsigned i = 0; i < 3; i++) {
        begin_with(true, true);
        far.server[0].limit_ns = limits[i];
        down(true);
        intervals(6 * 90);
        down(false);
        intervals(30);
        struct ep_stats s = account_stats();
        assert_true(far.server[0].refused > 0 && far.server[0].oldest_ns < limits[i]);
        assert_true(far.server[1].oldest_ns > 80 * MINUTE);
        assert_int_equal(s.lost_count[EP_LOSS_TOO_OLD] + s.lost_count[EP_LOSS_REFUSED], 0);
        end();
    }
    begin_with(true, true);
    far.server[0].limit_ns = 1; /* nothing is new enough: not a question of age */
    intervals(30);
    assert_int_equal(far.server[1].accepted, 0);
    assert_true(account_stats().lost_count[EP_LOSS_REFUSED] > 0);
    end();
}

/* The second is down for a day: old profiles stay in the spool, new ones arrive. Then it gets all of them. */
TEST(test_second_is_down)
{
    begin_with(true, true);
    down(true);
    intervals(6 * 120);
    far.server[0].down = false;
    uint64_t failures = account_stats().delivery_failures;
    intervals(6 * 60);
    struct ep_stats s = account_stats();
    assert_true(far.server[0].accepted >= 6 * 59);
    assert_true(s.spool_messages > 300 && s.lost_count[EP_LOSS_TOO_OLD] == 0);
    assert_true(s.delivery_failures - failures < 6 * 60 * 8); /* tries take turns with new profiles */
    far.server[1].down = false;
    intervals(60);
    s = account_stats();
    assert_int_equal(s.spool_messages, 0);
    assert_true(far.server[1].accepted > 300);
    assert_int_equal(s.lost_count[EP_LOSS_TOO_OLD] + s.lost_count[EP_LOSS_REFUSED], 0);
    end();
}

/* Intervals whose messages are larger than a quarter of the outbox. */
static void large_intervals(unsigned count)
{
    uint64_t dice = 1 + ep_sim.uptime_ns;

    for (unsigned i = 0; i < count * 100; i++) {
        for (unsigned n = 0; n < 20; n++) {
            uint16_t stack[12];
            for (unsigned frame = 0; frame < 12; frame++)
                stack[frame] = (uint16_t)(unit_random(&dice) % 200);
            assert_true(ep_sim_tick(1, 1, stack, 12));
        }
        ep_sim_run(100 * MS);
    }
}

/* The second asks for a pause of an hour: it gets it, and new profiles, however large, neither wait nor go to disk. */
TEST(test_second_asks_for_a_pause)
{
    begin_with(true, true);
    down(true);
    intervals(6 * 120);
    far.server[0].down = false;
    far.server[1].retry_ns = HOUR;
    large_intervals(12); /* the outage's last pause ends */
    uint64_t spooled = account_stats().spooled;
    far.server[0].after = far.server[1].asked = 0;
    large_intervals(30);
    assert_int_equal(account_stats().spooled, spooled);
    assert_true(far.server[0].after >= 29);
    assert_int_equal(far.server[1].asked, 0);
    intervals(6 * 120);
    assert_in_range(far.server[1].asked, 1, 2);
    far.server[1].down = false;
    intervals(6 * 90);
    assert_int_equal(account_stats().spool_messages, 0);
    end();
}

/* Without a spool new profiles wait for the oldest in memory. So what the first has refused is lost while the second is
 * down, even if that one uses up the time of a send. */
TEST(test_without_a_spool)
{
    enum { UP, DOWN, HANGS, WAYS };

    for (unsigned way = 0; way < WAYS; way++) {
        begin_with(false, true);
        far.server[0].limit_ns = HOUR;
        down(true);
        intervals(6 * 180);
        far.server[0].down = false;
        far.server[1].down = way != UP;
        far.server[1].hangs = way == HANGS;
        intervals(24);
        struct ep_stats s = account_stats();
        assert_true(far.server[0].accepted >= 6);
        assert_true((far.server[1].accepted > 0) == (way == UP));
        assert_true((s.lost_count[EP_LOSS_REFUSED] > 0) == (way != UP));
        end();
    }
}

/* Without a clock no age is known, so no profile is old. */
TEST(test_without_a_clock)
{
    begin_with(true, true);
    ep_sim.unix_minus_uptime_ns = 0;
    down(true);
    intervals(6 * 180);
    down(false);
    intervals(60);
    assert_int_equal(account_stats().spool_messages, 0);
    assert_int_equal(far.server[1].accepted, 0);
    end();
}

static char line[512];
static unsigned again;

static void line_keep(const char *text)
{
    (void)snprintf(line, sizeof line, "%s", text);
    again += strstr(text, "accepted again") != NULL;
}

/* A failure of the second is not one of the first: the line names the right one, and nothing arrives "again". */
TEST(test_notice)
{
    line[0] = 0;
    again = 0;
    ep_notice_to(line_keep);
    begin_with(true, true);
    down(true);
    intervals(6 * 120);
    far.server[0].down = false;
    intervals(1);
    for (unsigned i = 0; i < 400 && !strstr(line, "the endpoint for old profiles"); i++)
        intervals(1);
    assert_string_equal(line, "old profiles do not reach the endpoint for old profiles; they are kept and sent again");
    intervals(30); /* the first was down, too, so it accepts again, once */
    assert_int_equal(again, 1);
    again = 0;
    intervals(30);
    assert_int_equal(again, 0);
    far.server[1].down = false;
    intervals(6 * 90);
    assert_int_equal(again, 0);
    end();
    ep_notice_to(NULL);
}

TEST(test_settings)
{
    static const char *const named[] = {"EDGEPROF_ENDPOINT_OLD=https://old", NULL};
    static const char *const empty[] = {"EDGEPROF_ENDPOINT_OLD=", NULL};
    char endless[600];

    afresh();
    struct ep_config c = old_config();
    memset(&far, 0, sizeof far);
    assert_int_equal(ep_spool_start(NULL), 0);
    assert_int_equal(ep_endpoint_old(&c, NULL), 0);
    ep_sim.environment = empty;
    assert_int_equal(ep_endpoint_old(&c, NULL), 0);
    assert_null(c.transport);
    ep_sim.environment = named;
    assert_int_equal(ep_endpoint_old(&c, NULL), 1);
    assert_int_equal(ep_start(&c), 0);
    assert_int_equal(ep_endpoint_old(&c, NULL), -EALREADY);
    end();
    assert_int_equal(ep_endpoint_old(&c, NULL), -EINVAL); /* it has a transport already */
    memset(endless, 'x', sizeof endless);
    memcpy(endless, "https://", 8);
    endless[sizeof endless - 1] = 0;
    static const char *const bad[] = {"gopher://old", "old"};
    for (unsigned i = 0; i < 3; i++) {
        c = old_config();
        assert_int_equal(ep_endpoint_old(&c, i < 2 ? bad[i] : endless), -EINVAL);
        assert_non_null(strstr(ep_start_error(), "EDGEPROF_ENDPOINT_OLD"));
        assert_null(c.transport);
    }
    c = old_config();
    unit_pprof(false);
    assert_int_equal(ep_endpoint_old(&c, "https://old"), -EINVAL);
    assert_non_null(strstr(ep_start_error(), "pprof"));
    c = old_config();
    c.endpoint = NULL;
    assert_int_equal(ep_endpoint_old(&c, "https://old"), -EINVAL);
    c = old_config();
    c.endpoint = "nonsense"; /* ep_start() has the line about it */
    assert_int_equal(ep_endpoint_old(&c, "https://old"), 0);
    c = old_config();
    assert_int_equal(ep_endpoint_old(&c, "https://bad"), -EINVAL);
    assert_non_null(strstr(ep_start_error(), "EDGEPROF_ENDPOINT_OLD"));
    assert_null(c.transport);
    assert_null(far.target);
    assert_int_equal(far.dirty, 0);
}

int main(void)
{
    ep_transport_https = &far_transport;
    return test_run();
}
