/*
 * control.c: the effects of requests, authorization, and well-formed answers. For ASan each request is in its own
 * block, and each answer in one of EP_CONTROL_ANSWER bytes. Arbitrary bytes are tests/fuzz/fuzz_request.c's.
 */
#include <inttypes.h>
#include <limits.h>

#include "core/features/control/control.h"
#include "unit.h"

#define TOKEN "0123456789abcdef"

static char answer[EP_CONTROL_ANSWER + 1];
static uint8_t memory[EP_MEMORY_DEFAULT];

static void begin(void)
{
    struct ep_config c = {
        .memory = memory, .memory_size = sizeof memory, .budget_ppm = 700, .interval_ms = 1000, .flags = EP_MANUAL};

    ep_sim_reset();
    receiver_reset();
    assert_int_equal(ep_start(&c), 0);
}

static void end(void)
{
    assert_int_equal(ep_stop(0), 0);
}

static unsigned looks_left, patience = UINT_MAX; /* until the list is made; until ask_bytes() returns without */

/* As the port waits. */
static bool wait_for_list(const struct ep_answer *waits)
{
    if (!patience)
        return false;
    looks_left -= looks_left && looks_left != UINT_MAX;
    if (waits->look_ns > ep_sim.uptime_ns)
        ep_sim.uptime_ns = waits->look_ns;
    return true;
}

/* Checks the answer's head and length, and returns its status; 0: it waits for a list. */
static struct ep_answer about;

static int ask_bytes(const char *request, size_t size, const char *token)
{
    char *exact = malloc(size ? size : 1), *out = malloc(EP_CONTROL_ANSWER);
    int status = 0, used = 0;
    unsigned length = 0;

    assert_true(exact && out);
    memcpy(exact, request, size);
    about = (struct ep_answer){0};
    ep_control_answer(exact, size, token, out, &about);
    while (about.list && wait_for_list(&about))
        ep_control_look(out, &about);
    if (about.list) {
        free(exact);
        free(out);
        return 0;
    }
    const size_t got = about.size;
    assert_true(got > 0 && got <= EP_CONTROL_ANSWER);
    memcpy(answer, out, got);
    answer[got] = 0;
    free(exact);
    free(out);
    assert_int_equal(strlen(answer), got);
    char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(sscanf(answer, "HTTP/1.1 %d %n", &status, &used), 1);
    assert_true(used > 0 && status >= 200 && status < 600);
    assert_int_equal(sscanf(strstr(answer, "Content-Length: "), "Content-Length: %u", &length), 1);
    assert_int_equal(strlen(body + 4), length);
    assert_true(body[4] == '{' && answer[got - 2] == '}');
    return status;
}

static int ask(const char *request_line, const char *headers, const char *token)
{
    char request[EP_CONTROL_REQUEST + 64];
    int size = snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n", request_line, headers);

    assert_true(size > 0 && (size_t)size < sizeof request);
    assert_int_equal(ep_request_complete(request, (size_t)size, EP_CONTROL_REQUEST), 1);
    for (size_t i = 0; i < (size_t)size && i < EP_CONTROL_REQUEST; i++)
        assert_int_equal(ep_request_complete(request, i, EP_CONTROL_REQUEST), 0);
    return ask_bytes(request, (size_t)size, token);
}

static int asked(const char *request_line)
{
    return ask(request_line, "", NULL);
}

static char list[9000];
static int asked_for; /* number of the last list */

static int ask_list(void)
{
    return ++asked_for;
}

static int read_list(unsigned *number, size_t from, char *text, size_t room)
{
    size_t size = from < strlen(list) ? strlen(list) - from : 0;

    if ((int)*number != asked_for && from)
        return -ESTALE;
    if (looks_left)
        return -EAGAIN;
    *number = (unsigned)asked_for;
    size = size < room ? size : room;
    memcpy(text, list + from, size);
    return (int)size;
}

/* A list in parts, each in an answer of its own. */
TEST(test_tasks)
{
    static const struct ep_tasks_source source = {ask_list, read_list};
    char request[40] = "POST /tasks", got[sizeof list] = "";
    uint64_t next = 0;

    assert_int_equal(asked("POST /tasks"), 501);
    ep_tasks_attach(&source);
    memset(list, '\n', sizeof list - 1);
    list[0] = '1';
    looks_left = 3;
    do {
        assert_int_equal(asked(request), 200);
        const char *text = strstr(answer, "{\"text\":\""), *end = strstr(answer, "\",\"next\":");
        assert_true(text && end && sscanf(end, "\",\"next\":%" SCNu64, &next) == 1);
        for (text += 9; text < end; text += *text == '\\' ? 2 : 1)
            strcat(got, *text == '\\' ? "\n" : "1");
        snprintf(request, sizeof request, "GET /tasks?%" PRIu64, next);
    } while (next);
    assert_string_equal(got, list);
    assert_int_equal(looks_left, 0);
    assert_int_equal(asked("GET /tasks?999999999999999999999"), 409);
    /* A later list has replaced the one that is being read. */
    snprintf(request, sizeof request, "GET /tasks?%" PRIu64, (uint64_t)asked_for * EP_TASKS_BYTES + 1);
    assert_int_equal(asked(request), 200);
    assert_int_equal(asked("POST /tasks"), 200);
    assert_int_equal(asked(request), 409);
    looks_left = UINT_MAX;
    assert_int_equal(asked("POST /tasks"), 504);
    ep_tasks_attach(NULL);
}

/* Only a part of an endpoint's places is for clients that wait for a list. */
TEST(test_waiting_for_tasks)
{
    static const struct ep_tasks_source source = {ask_list, read_list};
    struct ep_answer first;

    ep_tasks_attach(&source);
    patience = 0;
    looks_left = UINT_MAX;
    assert_int_equal(asked("POST /tasks"), 0);
    first = about;
    assert_int_equal(asked("POST /tasks"), 0);
    assert_int_equal(asked("POST /tasks"), 503);
    assert_non_null(strstr(answer, "busy"));
    ep_control_done(&first);
    ep_control_done(&first);
    assert_int_equal(asked("POST /tasks"), 0);
    assert_int_equal(asked("POST /tasks"), 503);
    ep_sim.uptime_ns += 31000000000u; /* places of clients that have gone without a word */
    assert_int_equal(asked("POST /tasks"), 0);
    ep_control_done(&about);
    patience = UINT_MAX;
    looks_left = 0;
    ep_tasks_attach(NULL);
}

TEST(test_missing_kind)
{
    begin();
    assert_int_equal(asked("GET /status"), 200);
    assert_null(strstr(answer, "unavailable"));
    atomic_store(&ep_kind_missing[EP_KIND_GC], "it has none");
    assert_int_equal(asked("GET /status"), 200);
    assert_non_null(strstr(answer, "\"unit\":\"nanoseconds\",\"unavailable\":\"it has none\"}"));
    for (unsigned kind = 1; kind < EP_KINDS; kind++)
        atomic_store(&ep_kind_missing[kind],
                     "a reason of the length that reasons have, and somewhat longer than that, which fits");
    assert_int_equal(asked("GET /status"), 200);
    for (unsigned kind = 1; kind < EP_KINDS; kind++)
        atomic_store(&ep_kind_missing[kind], NULL);
    end();
}

TEST(test_what_requests_do)
{
    const uint32_t cpu = EP_KIND_BIT(EP_KIND_CPU), lock = EP_KIND_BIT(EP_KIND_LOCK), gc = EP_KIND_BIT(EP_KIND_GC);

    begin();
    assert_int_equal(asked("POST /level?high"), 200);
    assert_int_equal(ep_level_get(), EP_LEVEL_HIGH);
    assert_int_equal(asked("PUT /level?medium"), 200);
    assert_int_equal(ep_level_get(), EP_LEVEL_MEDIUM);
    assert_int_equal(asked("POST /kinds?cpu,gc"), 200);
    assert_int_equal(ep_kinds_get(), cpu | gc);
    assert_int_equal(asked("POST /kinds?on=lock&off=gc"), 200);
    assert_int_equal(ep_kinds_get(), cpu | lock);
    assert_int_equal(asked("POST /kinds?off=lock"), 200);
    assert_int_equal(ep_kinds_get(), cpu);
    assert_int_equal(asked("POST /flush"), 200);
    assert_int_equal(asked("POST /threads"), 200);
    assert_int_equal(asked("GET /status"), 200);
    assert_non_null(strstr(answer, "\"level\":\"medium\""));
    assert_non_null(strstr(answer, "\"cpu\":{\"on\":true,\"period\":"));
    assert_non_null(strstr(answer, "\"lock\":{\"on\":false,"));
    assert_non_null(strstr(answer, "\"budget_ppm\":700,"));
    assert_non_null(strstr(answer, "\"stretch_pct\":100,"));
    end();
}

/* A refused request changes nothing. */
TEST(test_refusals)
{
    static const struct {
        const char *line;
        int status;
    } cases[] = {{"POST /level?loud", 400},
                 {"POST /level", 400},
                 {"POST /level?", 400},
                 {"POST /kinds?cpu,nothing", 400},
                 {"POST /kinds", 400},
                 {"POST /kinds?on=", 400},
                 {"POST /kinds?up=cpu", 400},
                 {"POST /kinds?on=gc&", 200},
                 {"POST /kinds?,", 400},
                 {"GET /level?high", 405},
                 {"DELETE /level?high", 405},
                 {"GET /flush", 405},
                 {"POST /status", 405},
                 {"HEAD /status", 405},
                 {"GET /", 404},
                 {"GET /statuses", 404},
                 {"get /status", 405},
                 {"GET", 400},
                 {"GET ", 400},
                 {"", 400},
                 {" /status", 400}};

    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ep_level_set(EP_LEVEL_LOW), 0);
        assert_int_equal(asked(cases[i].line), cases[i].status);
        assert_int_equal(ep_level_get(), EP_LEVEL_LOW);
        if (cases[i].status != 200)
            assert_int_equal(ep_kinds_get(), EP_KIND_BIT(EP_KIND_CPU));
    }
    end();
    assert_int_equal(asked("POST /level?high"), 503);
    assert_int_equal(asked("GET /status"), 200); /* of the ended run */
    assert_non_null(strstr(answer, "\"running\":false"));
}

TEST(test_tokens)
{
    static const char *const bad[] = {"",
                                      "Authorization: Bearer \r\n",
                                      "Authorization: Bearer 0123456789abcde\r\n",
                                      "Authorization: Bearer 0123456789abcdef0\r\n",
                                      "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n",
                                      "Authorization: Bearer 0123456789abcdeF\r\n",
                                      "Authorization: Bearer X123456789abcdef\r\n",
                                      "Authorization: Basic 0123456789abcdef\r\n",
                                      "Authorization: 0123456789abcdef\r\n",
                                      "Authorisation: Bearer 0123456789abcdef\r\n",
                                      "X: Authorization: Bearer 0123456789abcdef\r\n",
                                      "Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer 1\r\n"};

    begin();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(ask("POST /level?high", bad[i], TOKEN), 401);
        assert_int_equal(ask("GET /status", bad[i], TOKEN), 401);
        assert_null(strstr(answer, "samples"));
        assert_int_equal(ask("GET /nothing", bad[i], TOKEN), 401); /* hides which paths exist */
        assert_int_equal(ep_level_get(), EP_LEVEL_LOW);
    }
    assert_int_equal(ask("POST /level?high", "authorization:   Bearer " TOKEN "\r\n", TOKEN), 200);
    assert_int_equal(ep_level_get(), EP_LEVEL_HIGH);
    end();
}

/* The answer has room for the largest values. */
TEST(test_largest_answer)
{
    begin();
    struct ep *ep = ep_running();
    for (unsigned i = 0; i < EP_COUNTERS; i++)
        atomic_store(&ep->counter[i], UINT64_MAX);
    for (unsigned i = 0; i < EP_KINDS; i++) {
        atomic_store(&ep->kind_count[i], UINT64_MAX);
        atomic_store(&ep->kind_value[i], UINT64_MAX);
        atomic_store(&ep_hook_periods[i], UINT32_MAX);
    }
    for (unsigned i = 0; i < EP_LOSS_REASONS; i++) {
        atomic_store(&ep->lost_count[i], UINT64_MAX);
        atomic_store(&ep->lost_ns[i], UINT64_MAX);
    }
    for (unsigned i = 0; i < EP_UNSAMPLED; i++) {
        atomic_store(&ep->unsampled[i].limit, UINT64_MAX);
        atomic_store(&ep->unsampled[i].error, -4095);
        for (unsigned k = 0; k < 6; k++)
            atomic_store(&ep->unsampled[i].thread[k / 2].name[k % 2], UINT64_MAX);
    }
    assert_int_equal(asked("GET /status"), 200);
    assert_non_null(strstr(answer, ep_loss_name(EP_LOSS_REASONS - 1)));
    end();
}

TEST_MAIN
