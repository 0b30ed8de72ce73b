/*
 * The lines that say why profiles do not arrive: one a case, at once where waiting mends nothing, after some tries
 * where it may, and one when they arrive again. No line has a credential, and a program that asks for none gets none.
 */
#include "account.h"
#include "unit.h"

#define MS       1000000ull
#define SECOND   (1000 * MS)
#define INTERVAL 1000u

static struct {
    int error;
    unsigned status;
    const char *why;
    unsigned count; /* lines so far */
    char line[8][512];
} far;

static int far_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    return far.error ? far.error : receiver_transport.send(state, message, deadline, retry_ns);
}

static unsigned far_answer(const void *state, const char **why)
{
    (void)state;
    *why = far.why ? far.why : "";
    return far.status;
}

static const struct ep_transport far_transport = {
    .name = "far", .state_size = 16, .send = far_send, .answer = far_answer};

static void say(const char *line)
{
    if (far.count < 8)
        (void)snprintf(far.line[far.count], sizeof far.line[0], "%s", line);
    far.count++;
    if (getenv("SHOW"))
        print_message("%s\n", line);
}

static void begin(const char *endpoint)
{
    account_afresh();
    memset(&far, 0, sizeof far);
    account_start((struct ep_config){.memory_size = EP_MEMORY_DEFAULT,
                                     .rate_hz = 100,
                                     .interval_ms = INTERVAL,
                                     .endpoint = endpoint,
                                     .transport = &far_transport});
}

static void intervals(unsigned count)
{
    const uint16_t stack[] = {1, 2};

    while (count--) {
        for (unsigned i = 0; i < 5; i++)
            assert_true(ep_sim_tick(1, 1, stack, 2));
        ep_sim_run(INTERVAL * MS);
    }
}

static void answer(int error, unsigned status, const char *why)
{
    far.error = error;
    far.status = status;
    far.why = why;
}

/* ---- cases ---- */

TEST(test_each_case)
{
    static const struct {
        int error;
        unsigned status;
        const char *why, *says;
        bool patient;
    } cases[] = {
        {-EIO, 301, "", "not accepted by http://h:4040: 301, redirected", false},
        {-EIO, 302, "", "not accepted by http://h:4040: 302, redirected", false},
        {-EACCES, 401, "", "not accepted by http://h:4040: 401, the token", false},
        {-EACCES, 403, "", "403, ", false},
        {-EIO, 404, "", "404, the path", false},
        {-EACCES, 407, "", "407, a proxy", false},
        {-EIO, 418, "", "418, ", false},
        {-EAGAIN, 429, "", "429, too many", true},
        {-EIO, 500, "", "500, the server", true},
        {-EIO, 502, "", "502, the server", true},
        {-EPROTO, 200, "", "200, a web page", false},
        {-EIO, 0, "the server's certificate has expired", "do not reach http://h:4040: the server's cert", false},
        {-ECONNREFUSED, 0, "", "do not reach http://h:4040: connection refused; they are kept", true},
        {-EXDEV, 0, "", "do not reach http://h:4040: error 18; they are kept", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ep_notice_to(say);
        begin("http://h:4040");
        intervals(3);
        assert_int_equal(far.count, 0);
        answer(cases[i].error, cases[i].status, cases[i].why);
        intervals(1);
        assert_int_equal(far.count, cases[i].patient ? 0 : 1);
        ep_sim_run(600 * SECOND);
        assert_int_equal(far.count, 1);
        if (!strstr(far.line[0], cases[i].says))
            print_error("%s\n", far.line[0]);
        assert_non_null(strstr(far.line[0], cases[i].says));
        assert_non_null(strstr(far.line[0], "kept and sent again"));
        assert_int_equal(account_stats().last_status, cases[i].status);
        answer(0, 204, "");
        ep_sim_run(100 * SECOND);
        assert_int_equal(far.count, 2);
        assert_string_equal(far.line[1], "profiles are accepted again by http://h:4040");
        assert_int_equal(account_stats().last_status, 204);
        assert_int_equal(ep_stop(1000), 0);
        assert_int_equal(far.count, 2);
    }
    ep_notice_to(NULL);
}

/* A short outage is no case, however often it comes. */
TEST(test_short_outages)
{
    ep_notice_to(say);
    begin("http://h:4040");
    for (unsigned i = 0; i < 20; i++) {
        answer(-ECONNREFUSED, 0, "");
        intervals(2);
        answer(0, 200, "");
        intervals(10);
    }
    assert_int_equal(far.count, 0);
    assert_int_equal(ep_stop(1000), 0);
    ep_notice_to(NULL);
}

/* A second case while the first lasts is said; a case that comes and goes is said once an hour. */
TEST(test_changes)
{
    ep_notice_to(say);
    begin("http://h:4040");
    answer(-EACCES, 401, "");
    intervals(1);
    answer(-EIO, 302, "");
    ep_sim_run(100 * SECOND);
    assert_int_equal(far.count, 2);
    for (unsigned i = 0; i < 20; i++) {
        answer(-EACCES, 401, "");
        intervals(2);
        answer(0, 200, "");
        intervals(70);
    }
    assert_int_equal(far.count, 3); /* and that they arrive again */
    ep_sim_run(3600 * SECOND);
    intervals(1);
    answer(-EACCES, 401, "");
    intervals(2);
    assert_int_equal(far.count, 4);
    (void)ep_stop(0);
    ep_notice_to(NULL);
}

/* A refused profile is dropped, and says so once; a stale segment is no case. */
TEST(test_refused)
{
    ep_notice_to(say);
    begin("http://h:4040");
    answer(-ESTALE, 409, "");
    intervals(3);
    assert_int_equal(far.count, 0);
    answer(-EBADMSG, 400, "");
    intervals(5);
    assert_int_equal(far.count, 1);
    assert_non_null(strstr(far.line[0], "400, the profile is invalid"));
    assert_non_null(strstr(far.line[0], "dropped and counted"));
    answer(0, 200, "");
    intervals(2);
    assert_int_equal(far.count, 1);
    assert_int_equal(ep_stop(1000), 0);
    ep_notice_to(NULL);
}

/* ---- what a line shows ---- */

TEST(test_no_credentials)
{
    static const char *const endpoints[][2] = {
        {"http://user:secret@h:4040/pre", "http://h:4040/pre:"},
        {"http://u:secret@x@h/a@b", "http://h/a@b:"},
        {"https://secret@[::1]:1", "https://[::1]:1:"},
        {"http://h/p?token=secret", "http://h/p:"},
        {NULL, "by far:"},
    };

    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        ep_notice_to(say);
        begin(endpoints[i][0]);
        answer(-EACCES, 401, "");
        intervals(2);
        assert_int_equal(far.count, 1);
        assert_null(strstr(far.line[0], "secret"));
        assert_non_null(strstr(far.line[0], endpoints[i][1]));
        (void)ep_stop(0);
    }
    ep_notice_to(NULL);
}

TEST(test_long_endpoint)
{
    char endpoint[700] = "http://h/";

    memset(endpoint + 9, 'p', sizeof endpoint - 10);
    ep_notice_to(say);
    begin(endpoint);
    answer(-EACCES, 401, "");
    intervals(2);
    assert_int_equal(far.count, 1);
    (void)ep_stop(0);
    ep_notice_to(NULL);
}

TEST(test_silent)
{
    ep_notice_to(say);
    ep_notice_to(NULL);
    begin("http://h:4040");
    answer(-EACCES, 401, "");
    intervals(5);
    assert_int_equal(far.count, 0);
    assert_int_equal(account_stats().last_status, 401);
    (void)ep_stop(0);
}

TEST_MAIN
