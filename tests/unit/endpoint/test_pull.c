/*
 * pull.c, views.c and metrics.c: a pulled profile has the samples of its time range, in pieces of any size, whatever
 * happens meanwhile. Pulling does not affect pushed profiles. Arbitrary bytes are tests/fuzz/fuzz_request.c's.
 */

#include "account.h"
#include "core/features/pull/pull.h"
#include "unit.h"
#include "wire.h"

#define MS    1000000ull
#define TOKEN "0123456789abcdef"
#define KINDS (EP_KIND_BIT(EP_KIND_CPU) | EP_KIND_BIT(EP_KIND_EXCEPTION) | EP_KIND_BIT(EP_KIND_ALLOC))

static uint64_t pull_memory[EP_PULL_MEMORY_DEFAULT / 2 / sizeof(uint64_t)];
static struct account given;
static uint64_t exceptions; /* given as well */
static char buffer[EP_PULL_ANSWER + 1];
static uint8_t body[1 << 20];

static void begin(const struct ep_transport *transport, uint32_t kinds)
{
    struct ep_config c = {.memory = account_memory(EP_MEMORY_DEFAULT),
                          .memory_size = EP_MEMORY_DEFAULT,
                          .rate_hz = 100,
                          .interval_ms = 1000,
                          .kinds = kinds,
                          .transport = transport};

    account_afresh();
    given = (struct account){0};
    exceptions = 0;
    assert_int_equal(ep_start(&c), 0);
    assert_int_equal(ep_pull_open(pull_memory, sizeof pull_memory), 0);
}

/* Everything was pushed. */
static void end(void)
{
    ep_pull_close();
    account_end();
    assert_int_equal(account_stats().samples, given.samples);
    assert_int_equal(account_stats().kind_value[EP_KIND_EXCEPTION], exceptions);
    assert_int_equal(receiver.samples, given.samples);
    assert_int_equal(receiver.ns, given.ticks * ep_sim.period_ns);
    assert_int_equal(receiver.kind_value[EP_KIND_EXCEPTION], exceptions);
}

static void tick(unsigned leaf, uint32_t ticks)
{
    const uint16_t stack[] = {(uint16_t)leaf, 2, 3};

    assert_true(ep_sim_tick(1, ticks, stack, 3));
    given.samples++;
    given.ticks += ticks;
}

static void event(enum ep_kind kind, uint32_t count, uint64_t value, unsigned leaf)
{
    const uint16_t stack[] = {(uint16_t)leaf, 4, 5};
    struct ep_hook_event e = {.kind = kind, .count = count, .value = value};

    ep_sim_here(stack, 3);
    assert_int_equal(ep_hook_event(&e), 0);
    exceptions += kind == EP_KIND_EXCEPTION ? count : 0;
}

/* ---- requests ---- */

static int status_of(void)
{
    int status = 0;

    assert_int_equal(sscanf(buffer, "HTTP/1.1 %d ", &status), 1);
    return status;
}

/* Checks the head and length of an answer that is complete. For ASan the request is in its own block. */
static int ask_bytes(const char *request, size_t size, const char *token, struct ep_answer *answer)
{
    char *exact = malloc(size ? size : 1), *out = malloc(EP_PULL_ANSWER);
    unsigned length = 0;

    assert_true(exact && out);
    memcpy(exact, request, size);
    ep_pull_answer(exact, size, token, out, answer);
    assert_true(answer->size <= EP_PULL_ANSWER);
    memcpy(buffer, out, answer->size);
    buffer[answer->size] = 0;
    free(exact);
    free(out);
    if (answer->size == 0)
        return 0;
    const char *end_of_head = strstr(buffer, "\r\n\r\n");
    assert_non_null(end_of_head);
    assert_int_equal(strlen(buffer), answer->size);
    assert_int_equal(sscanf(strstr(buffer, "Content-Length: "), "Content-Length: %u", &length), 1);
    assert_int_equal(length, answer->body ? answer->body : strlen(end_of_head + 4));
    assert_true(status_of() >= 200 && status_of() < 600);
    return status_of();
}

static int ask_with(const char *line, const char *headers, const char *token, struct ep_answer *answer)
{
    char request[EP_PULL_REQUEST];
    int size = snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: 127.0.0.1:80\r\n%s\r\n", line, headers);

    assert_true(size > 0 && (size_t)size < sizeof request);
    return ask_bytes(request, (size_t)size, token, answer);
}

static int asked(const char *line)
{
    struct ep_answer answer;
    int status = ask_with(line, "", NULL, &answer);

    ep_pull_done(&answer);
    return status;
}

/* Waits like the port. */
static int looked(struct ep_answer *answer)
{
    while (answer->size == 0) {
        if (answer->look_ns > ep_sim.uptime_ns)
            ep_sim_run(answer->look_ns - ep_sim.uptime_ns);
        ep_pull_look(buffer, answer);
        buffer[answer->size] = 0;
    }
    return status_of();
}

/* ---- contents of a profile ---- */

struct sums {
    uint64_t samples, value[8];
    unsigned types;
};

static struct sums sums_of(const uint8_t *data, size_t size)
{
    struct wire profile = wire_open(data, size);
    struct wire_field field, inner;
    struct sums sums = {0};

    while (wire_next(&profile, &field)) {
        sums.types += field.tag == 1;
        sums.samples += field.tag == 2;
        while (field.tag == 2 && wire_next(&field.bytes, &inner)) {
            uint64_t value;
            for (unsigned i = 0; inner.tag == 2 && i < 8 && wire_varint(&inner.bytes, &value); i++)
                sums.value[i] += value;
        }
    }
    assert_false(profile.bad);
    return sums;
}

/* Calls between() after each piece of the body. */
static struct sums told(struct ep_answer *answer, size_t portion, void (*between)(void))
{
    static char piece[EP_PULL_ANSWER];

    assert_true(answer->body > 0 && answer->body < sizeof body);
    while (answer->sent < answer->body) {
        size_t size = ep_pull_piece(piece, answer), taken = size < portion ? size : portion;
        assert_true(size > 0 && answer->sent + size <= answer->body);
        memcpy(body + (size_t)answer->sent, piece, taken);
        answer->sent += taken;
        if (between)
            between();
    }
    assert_int_equal(ep_pull_piece(piece, answer), 0);
    ep_pull_done(answer);
    return sums_of(body, (size_t)answer->body);
}

static struct sums pulled(const char *line)
{
    struct ep_answer answer;

    (void)ask_with(line, "", NULL, &answer);
    assert_int_equal(looked(&answer), 200);
    return told(&answer, SIZE_MAX, NULL);
}

/* ---- tests ---- */

TEST(test_cpu_of_a_time)
{
    struct ep_answer answer;

    begin(&receiver_transport, KINDS);
    for (unsigned i = 0; i < 10; i++)
        tick(i, 1);
    assert_int_equal(ask_with("GET /debug/pprof/profile?seconds=3", "", NULL, &answer), 0);
    assert_true(answer.look_ns > ep_sim.uptime_ns + 2900 * MS && answer.look_ns <= ep_sim.uptime_ns + 3000 * MS);
    for (unsigned i = 0; i < 25; i++) {
        tick(20 + i % 3, 2);
        ep_sim_run(100 * MS);
    }
    assert_int_equal(looked(&answer), 200);
    tick(1, 1);
    struct sums sums = told(&answer, 100, NULL);
    assert_int_equal(sums.types, 2);
    assert_int_equal(sums.samples, 3);
    assert_int_equal(sums.value[0], 25);
    assert_int_equal(sums.value[1], 50 * ep_sim.period_ns);
    end();
}

static void one_more(void)
{
    static unsigned leaf = 100;

    tick(leaf++, 1);
    event(EP_KIND_EXCEPTION, 1, 1, leaf++);
    assert_int_equal(ep_tag_push("new", leaf % 2 ? "odd" : "even"), 0);
    tick(leaf++, 1);
    ep_tag_pop();
    ep_sim_run(10 * MS);
}

/* Two requests at once, for different ranges. A slow client gets the state at the end of its range, without later tags.
 */
TEST(test_views_overlap)
{
    struct ep_answer first, second;

    begin(&receiver_transport, KINDS);
    assert_int_equal(ep_tag_push("tag", "early"), 0);
    (void)ask_with("GET /debug/pprof/profile?seconds=2", "", NULL, &first);
    tick(1, 1);
    ep_sim_run(500 * MS);
    (void)ask_with("GET /debug/pprof/profile?seconds=3", "", NULL, &second);
    for (unsigned i = 0; i < 10; i++)
        tick(i, 1);
    ep_tag_pop();
    assert_int_equal(looked(&first), 200);
    tick(2, 5);
    struct sums sums = told(&first, 77, one_more);
    assert_int_equal(sums.value[0], 11);
    assert_int_equal(sums.value[1], 11 * ep_sim.period_ns);
    assert_null(memmem(body, (size_t)first.body, "even", 4));
    uint64_t expected = given.samples - 1;
    assert_int_equal(looked(&second), 200);
    sums = told(&second, 1000, NULL);
    assert_true(sums.value[0] <= expected && sums.value[0] >= 11);
    end();
}

static void another_clock(void)
{
    ep_sim.clock_error = ep_sim.clock_error == EMFILE ? 0 : EMFILE;
    ep_sim_run(60000 * MS); /* longer than scans are apart */
}

/* A clock other than the one asked for is told in the profile, as it was at the end of its range. */
TEST(test_clock_error)
{
    struct ep_answer answer;
    char comment[64];

    begin(&receiver_transport, KINDS);
    for (unsigned error = 0; error <= EACCES; error += EACCES) {
        ep_sim.clock_error = error;
        ep_sim_run(60000 * MS);
        (void)ask_with("GET /debug/pprof/profile?seconds=1", "", NULL, &answer);
        tick(1, 1);
        assert_int_equal(looked(&answer), 200);
        struct sums sums = told(&answer, 200, another_clock);
        assert_int_equal(sums.value[0], 1);
        wire_pprof_comment(body, (size_t)answer.body, comment, sizeof comment);
        assert_string_equal(comment, error ? "edgeprof clock: not perf in every thread, errno 13" : "");
    }
    end();
}

/* Totals since the start, and of ranges; the ranges add up to the total. */
TEST(test_sums)
{
    uint64_t in_times = 0, dice = 3;

    begin(&receiver_transport, KINDS);
    for (unsigned round = 0; round < 6; round++) {
        struct ep_answer answer;
        (void)ask_with("GET /debug/pprof/exception?seconds=1", "", NULL, &answer);
        for (unsigned i = unit_random(&dice) % 9; i; i--)
            event(EP_KIND_EXCEPTION, 1, 1, unit_random(&dice) % 40);
        assert_int_equal(looked(&answer), 200);
        in_times += told(&answer, 500, NULL).value[0];
    }
    assert_true(in_times > 5);
    assert_int_equal(pulled("GET /debug/pprof/exception").value[0], in_times);
    assert_int_equal(pulled("GET /debug/pprof/exception").value[0], in_times);
    end();
}

/* Counts of months. */
TEST(test_large_counts)
{
    const uint32_t count = 4000000000u;

    begin(NULL, KINDS);
    for (unsigned i = 0; i < 5; i++) {
        event(EP_KIND_ALLOC, count, 100ull * count, 7);
        ep_sim_run(1100 * MS);
    }
    struct sums sums = pulled("GET /debug/pprof/allocs");
    assert_int_equal(sums.types, 4);
    assert_int_equal(sums.samples, 1);
    assert_int_equal(sums.value[0], 5ull * count);
    assert_int_equal(sums.value[1], 500ull * count);
    struct ep_answer answer;
    (void)ask_with("GET /debug/pprof/allocs?seconds=1", "", NULL, &answer);
    event(EP_KIND_ALLOC, count, 100ull * count, 7);
    event(EP_KIND_ALLOC, count, 100ull * count, 7);
    assert_int_equal(looked(&answer), 200);
    assert_int_equal(told(&answer, SIZE_MAX, NULL).value[0], 2ull * count);
    assert_int_equal(ep_stop(0), 0);
    ep_pull_close();
}

static uint64_t truncated(void)
{
    static const char name[] = "\nedgeprof_pull_truncated_total ";

    assert_int_equal(asked("GET /metrics"), 200);
    assert_non_null(strstr(buffer, name));
    return strtoull(strstr(buffer, name) + sizeof name - 1, NULL, 10);
}

/* Without a receiver its tree is emptied as well, so that pulled profiles have room. */
TEST(test_pull_alone)
{
    begin(NULL, KINDS);
    const uint64_t before = truncated();
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < 100; i++)
            tick(round * 100 + i, 1);
        event(EP_KIND_EXCEPTION, 1, 1, 9);
        ep_sim_run(1100 * MS);
        assert_true(ep_running()->collect->tree.entries < 20);
    }
    struct sums sums = pulled("GET /debug/pprof/exception");
    assert_int_equal(sums.value[0], exceptions);
    assert_int_equal(sums.samples, 1);
    assert_int_equal(account_stats().lost_count[EP_LOSS_ENTRIES_FULL], 0);
    assert_int_equal(truncated(), before); /* CPU samples without a reader are not kept */
    assert_int_equal(ep_stop(0), 0);
    ep_pull_close();
}

/* More stacks than fit: detail is lost, totals are correct. */
TEST(test_full_tree)
{
    begin(&receiver_transport, KINDS);
    const uint64_t before = truncated();
    for (unsigned i = 0; i < 3000; i++) {
        event(EP_KIND_EXCEPTION, 1, 1, i);
        if (i % 20 == 0)
            ep_sim_run(100 * MS);
    }
    ep_sim_run(1100 * MS);
    struct sums sums = pulled("GET /debug/pprof/exception");
    assert_int_equal(sums.value[0], exceptions);
    assert_true(sums.samples < exceptions && sums.samples > 100);
    assert_true(truncated() > before);
    assert_non_null(strstr(buffer, "\nedgeprof_pull_unlabelled_total 0\n"));
    end();
}

/* There are three places; further requests wait for a while. */
TEST(test_all_places_used)
{
    struct ep_answer answer[4];

    begin(&receiver_transport, KINDS);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ask_with("GET /debug/pprof/profile?seconds=30", "", NULL, &answer[i]), 0);
    uint64_t before = ep_sim.uptime_ns;
    assert_int_equal(looked(&answer[3]), 503);
    assert_non_null(strstr(buffer, "Retry-After: "));
    assert_true(ep_sim.uptime_ns - before < 10000 * MS);
    assert_int_equal(ask_with("GET /debug/pprof/exception", "", NULL, &answer[3]), 0);
    ep_pull_done(&answer[1]); /* the client has disconnected */
    assert_int_equal(looked(&answer[3]), 200);
    ep_pull_done(&answer[3]);
    ep_pull_done(&answer[0]);
    ep_pull_done(&answer[2]);
    for (unsigned i = 0; i < 20; i++)
        (void)pulled("GET /debug/pprof/exception");
    end();
}

/* The next run reports nothing of the last one, especially not with its own addresses. */
TEST(test_next_run_has_own_data)
{
    struct ep_answer counting, standing;

    begin(&receiver_transport, KINDS);
    event(EP_KIND_EXCEPTION, 1, 1, 3);
    (void)ask_with("GET /debug/pprof/exception?seconds=5", "", NULL, &counting);
    (void)ask_with("GET /debug/pprof/exception", "", NULL, &standing);
    assert_int_equal(looked(&standing), 200);
    assert_int_equal(ep_stop(20000), 0);
    assert_int_equal(asked("GET /debug/pprof/exception"), 503);
    assert_int_equal(asked("GET /metrics"), 200);
    assert_int_equal(ep_pull_piece(buffer, &standing), 0);
    struct ep_config c = {.memory = account_memory(EP_MEMORY_DEFAULT),
                          .memory_size = EP_MEMORY_DEFAULT,
                          .rate_hz = 100,
                          .interval_ms = 1000,
                          .kinds = KINDS,
                          .transport = &receiver_transport};
    assert_int_equal(ep_start(&c), 0);
    assert_int_equal(ep_pull_piece(buffer, &standing), 0);
    assert_int_equal(looked(&counting), 503);
    ep_pull_done(&standing);
    assert_int_equal(pulled("GET /debug/pprof/exception").value[0], 0);
    ep_pull_close();
    assert_int_equal(ep_stop(20000), 0);
}

/* A thread dump for pull is in no message; a dump for both is in both. */
TEST(test_threads)
{
    struct ep_sim_thread threads[3] = {
        {.tid = 5, .error = -EAGAIN}, {.tid = 6, .error = -EAGAIN}, {.tid = 7, .error = -EAGAIN}};

    begin(&receiver_transport, KINDS);
    ep_sim.thread = threads;
    ep_sim.thread_count = 3;
    struct sums sums = pulled("GET /debug/pprof/goroutine");
    assert_int_equal(sums.value[0], 3);
    assert_int_equal(sums.types, 1);
    assert_non_null(memmem(body, sizeof body, "thread-5", 8));
    ep_sim_run(3000 * MS);
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 0);
    assert_int_equal(ep_threads_dump(), 0);
    assert_int_equal(pulled("GET /debug/pprof/goroutine").value[0], 3);
    ep_sim_run(3000 * MS);
    assert_int_equal(receiver.kind_value[EP_KIND_THREAD], 3);
    /* A name that was truncated within a character. */
    ep_sim.thread_name = "\xc3\xa9\xc3\xa9 worker \xc3";
    tick(1, 1);
    ep_sim_run(1100 * MS); /* names are looked up once per interval */
    (void)pulled("GET /debug/pprof/goroutine");
    assert_non_null(memmem(body, sizeof body, "\xc3\xa9\xc3\xa9 worker ?", 13));
    /* A cancelled dump is not mixed with the next. */
    struct ep_answer gone;
    (void)ask_with("GET /debug/pprof/goroutine", "", NULL, &gone);
    ep_pull_done(&gone);
    assert_int_equal(pulled("GET /debug/pprof/goroutine").value[0], 3);
    end();
}

TEST(test_requests)
{
    static const struct {
        const char *line;
        int status;
    } cases[] = {{"GET /debug/pprof/", 200},
                 {"GET /debug/pprof", 200},
                 {"GET /metrics", 200},
                 {"POST /debug/pprof/symbol", 200},
                 {"GET /", 404},
                 {"GET /debug/pprof/nothing", 404},
                 {"GET /debug/pprof/profiles", 404},
                 {"GET /debug/pprofx", 404},
                 {"GET /metricsx", 404},
                 {"POST /debug/pprof/profile", 405},
                 {"HEAD /debug/pprof/heap", 405},
                 {"DELETE /metrics", 405},
                 {"GET /debug/pprof/profile?seconds=0", 400},
                 {"GET /debug/pprof/profile?seconds=601", 400},
                 {"GET /debug/pprof/profile?seconds=99999999999999999999", 400},
                 {"GET /debug/pprof/profile?seconds=-1", 400},
                 {"GET /debug/pprof/profile?seconds=1.5", 400},
                 {"GET /debug/pprof/profile?seconds", 400},
                 {"GET /debug/pprof/allocs?seconds=", 400},
                 {"GET /debug/pprof/allocs?debug=1", 400},
                 {"GET /debug/pprof/goroutine?seconds=1", 400},
                 {"GET /debug/pprof/heap", 409},
                 {"GET /debug/pprof/mutex?seconds=5", 409},
                 {"GET /control/status", 403},
                 {"POST /control/level?high", 403},
                 {"GET", 400},
                 {"", 400}};

    begin(&receiver_transport, KINDS);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(asked(cases[i].line), cases[i].status);
    assert_int_equal(ep_level_get(), EP_LEVEL_LOW);
    assert_int_equal(asked("GET /debug/pprof/heap"), 409); /* one line says how to enable it */
    const char *line = strstr(buffer, "\r\n\r\n") + 4;
    assert_non_null(strstr(line, "medium"));
    assert_non_null(strstr(line, "kinds?on=live"));
    assert_int_equal(strchr(line, '\n') - line, strlen(line) - 1);
    assert_int_equal(pulled("GET /debug/pprof/allocs?gc=1&debug=0&x").types, 4);
    end();
    assert_int_equal(asked("GET /debug/pprof/profile"), 503);
    assert_int_equal(asked("GET /debug/pprof/"), 200);
}

/* "user:TOKEN" and others in base64. */
TEST(test_tokens)
{
    static const struct {
        const char *headers;
        int status;
    } cases[] = {{"", 401},
                 {"Authorization: Bearer 0123456789abcdef\r\n", 200},
                 {"Authorization: Bearer 0123456789abcdeX\r\n", 401},
                 {"Authorization: Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVm\r\n", 200},
                 {"authorization: Basic OjAxMjM0NTY3ODlhYmNkZWY=\r\n", 200},                             /* no user */
                 {"Authorization: Basic dXNlcjowMTIzNDU2Nzg5YWJjZGU=\r\n", 401},                         /* shorter */
                 {"Authorization: Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVmMA==\r\n", 401},                     /* longer */
                 {"Authorization: Basic dXNlcjowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==\r\n", 401}, /* twice */
                 {"Authorization: Basic dXNlcjo=\r\n", 401},
                 {"Authorization: Basic dXNlcg==\r\n", 401},
                 {"Authorization: Basic MDEyMzQ1Njc4OWFiY2RlZg==\r\n", 401}, /* the token as user name */
                 {"Authorization: Basic !!!!\r\n", 401},
                 {"Authorization: Basic \r\n", 401},
                 {"Authorization: Bearer 0123456789abcdef\r\nAuthorization: Basic x\r\n", 401}};
    struct ep_answer answer;

    begin(&receiver_transport, KINDS);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ask_with("GET /control/status", cases[i].headers, TOKEN, &answer), cases[i].status);
        assert_int_equal(ask_with("GET /metrics", cases[i].headers, TOKEN, &answer), cases[i].status);
        assert_true((strstr(buffer, "edgeprof_samples_total") != NULL) == (cases[i].status == 200));
    }
    assert_int_equal(ask_with("POST /control/level?high", cases[1].headers, TOKEN, &answer), 200);
    assert_int_equal(ep_level_get(), EP_LEVEL_HIGH);
    assert_int_equal(ask_with("POST /control/level?loud", cases[1].headers, TOKEN, &answer), 400);
    end();
}

/* A page of another site in the user's browser, with the token that the browser keeps or without. */
TEST(test_pages_of_other_sites)
{
    static const struct {
        const char *header;
        int status;
    } cases[] = {
        {"Sec-Fetch-Site: cross-site", 403}, {"sec-fetch-site:same-site", 403},    {"Origin: null", 403},
        {"Origin: http://127.0.0.1", 403},   {"Sec-Fetch-Site: same-origin", 200}, {"Sec-Fetch-Site: none", 200}};
    static const char *const lines[] = {"GET /metrics", "GET /debug/pprof/", "GET /debug/pprof/symbol",
                                        "GET /control/status"};

    begin(&receiver_transport, KINDS);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
            char request[300];
            struct ep_answer answer;
            int size = snprintf(request, sizeof request,
                                "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " TOKEN "\r\n%s\r\n\r\n",
                                lines[k], cases[i].header);
            assert_int_equal(ask_bytes(request, (size_t)size, TOKEN, &answer), cases[i].status);
            if (k < 3)
                assert_int_equal(ask_bytes(request, (size_t)size, NULL, &answer), cases[i].status);
        }
    end();
}

/* Without a token, requests with a foreign Host are refused. */
TEST(test_hosts)
{
    static const struct {
        const char *host;
        int status;
    } cases[] = {{"127.0.0.1", 200},     {"127.0.0.1:4041", 200}, {"localhost:1", 200},    {"[::1]:80", 200},
                 {"192.0.2.1", 200},     {"evil.example", 403},   {"localhost.evil", 403}, {"x", 403},
                 {"127.0.0.1.evil", 403}};

    begin(&receiver_transport, KINDS);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char request[200];
        struct ep_answer answer;
        int size =
            snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\nA: b\r\nhost: %s\r\n\r\n", cases[i].host);
        assert_int_equal(ask_bytes(request, (size_t)size, NULL, &answer), cases[i].status);
    }
    end();
}

/* The largest values fit. */
TEST(test_largest_metrics)
{
    begin(&receiver_transport, KINDS);
    struct ep *ep = ep_running();
    for (unsigned i = 0; i < EP_COUNTERS; i++)
        atomic_store(&ep->counter[i], UINT64_MAX);
    for (unsigned i = 0; i < EP_KINDS; i++) {
        atomic_store(&ep->kind_count[i], UINT64_MAX);
        atomic_store(&ep->kind_value[i], UINT64_MAX);
    }
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        atomic_store(&ep->lost_count[i], UINT64_MAX);
        atomic_store(&ep->lost_ns[i], UINT64_MAX);
    }
    assert_int_equal(asked("GET /metrics"), 200);
    assert_non_null(strstr(buffer, "reason=\"no stack\"} 18446744073.709551615\n"));
    ep_pull_close();
    (void)ep_stop(20000);
}

/* The order of headers does not matter. */
TEST(test_header_order)
{
    static const char *const headers[] = {"Host: 127.0.0.1\r\n", "Authorization: Bearer " TOKEN "\r\n",
                                          "Accept: */*\r\n", "User-Agent: Go-http-client/1.1\r\n",
                                          "X: Authorization\r\n"};

    begin(&receiver_transport, KINDS);
    for (unsigned order = 0; order < 120; order++) {
        unsigned left = 5, place[5] = {0, 1, 2, 3, 4}, code = order;
        char all[300] = "";
        struct ep_answer answer;
        for (; left; code /= left--) {
            unsigned pick = code % left;
            strcat(all, headers[place[pick]]);
            place[pick] = place[left - 1];
        }
        assert_int_equal(ask_with("GET /control/status", all, TOKEN, &answer), 200);
    }
    end();
}

TEST_MAIN
