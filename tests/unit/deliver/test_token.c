/*
 * A token from a file: every request has the file's content, and a new one after 401 or 403. Without a readable file
 * the profiler runs, says so once, and reads again. Warnings about a token that goes unencrypted.
 */
#include "account.h"
#include "unit.h"

#define MS       1000000ull
#define SECOND   (1000 * MS)
#define INTERVAL 1000u

static struct {
    const struct ep_target *target;
    const char *wants; /* the Authorization line; NULL: any */
    unsigned status, refused, lines;
    char line[512], headers[512];
} far;

static int far_open(void *state, const struct ep_target *target)
{
    (void)state;
    far.target = target;
    return 0;
}

static int far_send(void *state, const struct ep_message *message, const struct ep_deadline *deadline,
                    uint64_t *retry_ns)
{
    const char *headers = far.target->headers ? far.target->headers : "";

    (void)snprintf(far.headers, sizeof far.headers, "%s", headers);
    far.status = far.wants && !strstr(headers, far.wants) ? 401 : 200;
    far.refused += far.status == 401;
    return far.status == 401 ? -EACCES : receiver_transport.send(state, message, deadline, retry_ns);
}

static unsigned far_answer(const void *state, const char **why)
{
    (void)state;
    *why = "";
    return far.status;
}

static const struct ep_transport far_transport = {
    .name = "far", .state_size = 16, .open = far_open, .send = far_send, .answer = far_answer};

static void say(const char *line)
{
    (void)snprintf(far.line, sizeof far.line, "%s", line);
    far.lines++;
}

static void begin(const char *content, const char *headers)
{
    account_afresh();
    memset(&far, 0, sizeof far);
    ep_sim.file = content;
    ep_notice_to(say);
    assert_int_equal(ep_token_file("/etc/token"), 0);
    account_start((struct ep_config){.memory_size = EP_MEMORY_DEFAULT,
                                     .rate_hz = 100,
                                     .interval_ms = INTERVAL,
                                     .endpoint = "http://h",
                                     .headers = headers,
                                     .transport = &far_transport});
}

static void end(void)
{
    assert_int_equal(ep_stop(1000), 0);
    assert_int_equal(ep_token_file(NULL), 0);
    ep_notice_to(NULL);
}

static void intervals(unsigned count)
{
    const uint16_t stack[] = {1, 2};

    while (count--) {
        assert_true(ep_sim_tick(1, 1, stack, 2));
        ep_sim_run(INTERVAL * MS);
    }
}

TEST(test_content)
{
    static const struct {
        const char *content, *headers, *sent;
    } cases[] = {
        {"abc", NULL, "Authorization: Bearer abc"},
        {" \r\n\tabc.d-e_f=\r\n\n", "A: b\nC: d", "Authorization: Bearer abc.d-e_f=\nA: b\nC: d"},
        {NULL, "A: b", "A: b"},
        {"", NULL, ""},
        {" \n", "A: b", "A: b"},
        {"two words", NULL, ""},
        {"a\nX: injected", NULL, ""},
        {"\xc3\xa4", NULL, ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(cases[i].content, cases[i].headers);
        intervals(3);
        assert_string_equal(far.headers, cases[i].sent);
        assert_int_equal(far.lines, strstr(cases[i].sent, "Bearer") ? 0 : 1);
        assert_true(far.lines == 0 || strstr(far.line, "cannot be read from /etc/token: "));
        assert_null(strstr(far.line, "injected"));
        end();
    }
}

/* The receiver wants another token: the file's new content arrives there, and nothing is lost. */
TEST(test_rotation)
{
    begin("first\n", "A: b");
    far.wants = "Bearer first";
    intervals(3);
    assert_int_equal(far.refused, 0);
    far.wants = "Bearer second";
    intervals(1);
    ep_sim_run(300 * SECOND);
    assert_true(far.refused > 3);
    ep_sim.file = "second\n";
    ep_sim_run(120 * SECOND);
    assert_string_equal(far.headers, "Authorization: Bearer second\nA: b");
    unsigned refused = far.refused;
    intervals(5);
    assert_int_equal(far.refused, refused);
    assert_int_equal(far.lines, 2); /* 401, and that they arrive again */
    end();
    struct ep_stats s = account_stats();
    assert_int_equal(receiver.ns, s.weight_ns);
    assert_int_equal(receiver.samples, s.samples);
}

/* The new token is tried within seconds of being read, whatever the pause has become. */
TEST(test_new_token_is_tried_soon)
{
    begin("first", NULL);
    far.wants = "Bearer second";
    intervals(1);
    ep_sim_run(600 * SECOND);
    unsigned refused = far.refused;
    ep_sim.file = "second";
    while (far.refused == refused)
        ep_sim_run(100 * MS);
    ep_sim_run(2 * SECOND);
    assert_int_equal(far.status, 200);
    end();
}

/* The file is gone for a while: the old token stays. */
TEST(test_file_comes_late_and_goes)
{
    begin(NULL, NULL);
    far.wants = "Bearer t";
    intervals(5);
    assert_int_equal(far.status, 401);
    ep_sim.file = "t";
    ep_sim_run(60 * SECOND);
    assert_int_equal(far.status, 200);
    ep_sim.file = NULL;
    far.wants = "Bearer u";
    intervals(5);
    assert_non_null(strstr(far.line, "there is no such file"));
    far.wants = "Bearer t";
    ep_sim_run(60 * SECOND);
    assert_int_equal(far.status, 200);
    end();
}

TEST(test_too_long)
{
    static char token[3000], headers[EP_HEADERS_BYTES + 10];

    memset(token, 't', sizeof token - 1);
    begin(token, NULL);
    intervals(2);
    assert_string_equal(far.headers, "");
    assert_non_null(strstr(far.line, "too long"));
    end();
    memset(headers, 'h', sizeof headers - 1);
    memcpy(headers, "A: ", 3);
    begin("t", headers);
    intervals(2);
    assert_memory_equal(far.headers, headers, 500);
    end();
}

TEST(test_settings)
{
    char path[300];

    memset(path, 'p', sizeof path);
    path[256] = 0;
    assert_int_equal(ep_token_file(path), -EINVAL);
    assert_int_equal(ep_token_file(""), -EINVAL);
    begin("t", NULL);
    assert_int_equal(ep_token_file("/x"), -EALREADY);
    end();
}

/* ---- unencrypted ---- */

TEST(test_unencrypted)
{
    static const struct {
        const char *endpoint, *headers, *file;
        bool warns;
    } cases[] = {
        {"http://192.0.2.1:4040", "Authorization: Bearer secret", NULL, true},
        {"http://gateway", "A: b\naUTHORIZATION:secret", NULL, true},
        {"http://user:secret@gateway/p", NULL, NULL, true},
        {"http://gateway", NULL, "/etc/token", true},
        {"http://localhost.example", NULL, "/etc/token", true},
        {"http://127.example.org", NULL, "/etc/token", true},
        {"http://gateway", "A: b", NULL, false},
        {"http://127.0.0.1:4040/x", NULL, "/etc/token", false},
        {"http://user:secret@127.1.2.3", NULL, NULL, false},
        {"http://localhost:4040", "Authorization: x", NULL, false},
        {"http://[::1]:4040", "Authorization: x", NULL, false},
        {"file:///tmp/x", "Authorization: x", NULL, false},
    };

    for (size_t n = 0; n < 2 * sizeof cases / sizeof cases[0]; n++) {
        size_t i = n / 2;
        struct ep_config c = {.memory = account_memory(EP_MEMORY_DEFAULT),
                              .memory_size = EP_MEMORY_DEFAULT,
                              .endpoint = cases[i].endpoint,
                              .headers = cases[i].headers,
                              .push = &ep_push_pyroscope};
        account_afresh();
        unit_pprof(true);
        assert_int_equal(ep_endpoint_old(&c, n % 2 ? "null:" : NULL), n % 2);
        memset(&far, 0, sizeof far);
        ep_sim.file = "t";
        ep_notice_to(say);
        assert_int_equal(ep_token_file(cases[i].file), 0);
        assert_int_equal(ep_start(&c), 0);
        assert_int_equal(far.lines, cases[i].warns);
        assert_true(!far.lines || strstr(far.line, "the token goes unencrypted to http://"));
        assert_null(strstr(far.line, "secret"));
        (void)ep_stop(0);
    }
    assert_int_equal(ep_token_file(NULL), 0);
    ep_notice_to(NULL);
}

TEST_MAIN
