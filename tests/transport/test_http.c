/*
 * The HTTP client over a scripted stream: what it says, how it takes every kind of answer in every portioning, and what
 * it does when the n-th call of the stream fails, for every n.
 */

#include "transport/http.h"
#include "script.h"
#include "tests/unit/test.h"

#define DEADLINE UINT64_C(1234567890)

static const char OK[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/* http.c's own stream; no test here opens it. */
const struct ep_stream ep_stream_tcp;

/* The client under test: one at a time. */
static struct {
    void *state;
    struct ep_target target;
    uint64_t retry_ns;
} client;

static void open_at(const char *endpoint)
{
    client.state = calloc(1, ep_transport_http.state_size);
    client.target = (struct ep_target){
        .endpoint = endpoint, .service = "gate way", .tags = "v=1.0,path=/a&b", .push = &ep_push_pyroscope};
    client.retry_ns = 0;
    assert_non_null(client.state);
    assert_int_equal(ep_http_open_over(client.state, &client.target, &script_stream), 0);
}

/* The far end says this, and no more. */
static void open_says(const char *endpoint, const char *says)
{
    script_reset();
    script_say(says);
    open_at(endpoint);
}

static void done(void)
{
    ep_transport_http.close(client.state);
    assert_int_equal(script.open, 0);
    assert_int_equal(script.opened, script.closed);
    free(client.state);
}

static uint64_t age_ns; /* of the messages */

static int send_bytes(enum ep_format format, const void *data, size_t size)
{
    struct ep_message message = {
        .data = data,
        .size = size,
        .format = format,
        .family = format == EP_FORMAT_PPROF ? "memory" : NULL,
        .start_unix_ns = UINT64_C(1700000000999999999),
        .end_unix_ns = UINT64_C(1700000010000000001),
        .age_ns = age_ns,
    };
    struct ep_deadline deadline = {.at_ns = DEADLINE};
    return ep_transport_http.send(client.state, &message, &deadline, &client.retry_ns);
}

static int send_text(const char *text)
{
    return send_bytes(EP_FORMAT_COMPACT, text, strlen(text));
}

static void heard(unsigned connection, const char *text)
{
    struct script_connection *c = &script.connections[connection];
    c->heard[c->heard_size] = '\0';
    assert_string_equal(c->heard, text);
}

/* ---- requests ---- */

#define COMPACT_REQUEST(prefix, host, auth, length, body)                                                              \
    "POST " prefix "/edgeprof/v1/push HTTP/1.1\r\nHost: " host "\r\nUser-Agent: edgeprof/" EP_VERSION                  \
    "\r\nContent-Type: application/x-edgeprof\r\nContent-Length: " length auth "\r\n\r\n" body

TEST(test_compact_request)
{
    open_says("http://192.0.2.10:4040/base/path//", OK);
    assert_int_equal(send_text("hello"), 0);
    heard(0, COMPACT_REQUEST("/base/path", "192.0.2.10:4040", "", "5", "hello"));
    assert_string_equal(script.host, "192.0.2.10");
    assert_string_equal(script.port, "4040");
    assert_int_equal(script.deadline_ns, DEADLINE);
    done();
}

TEST(test_userinfo_and_ipv6)
{
    open_says("http://Aladdin:open%20sesame@[fe80::1]:8080", OK);
    assert_int_equal(send_text(""), 0);
    heard(0, COMPACT_REQUEST("", "[fe80::1]:8080", "\r\nAuthorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "0", ""));
    assert_string_equal(script.host, "fe80::1");
    done();
}

TEST(test_age)
{
    static const struct {
        uint64_t age_ns;
        const char *line;
    } cases[] = {{1, "\r\nX-Edgeprof-Age: 0"},
                 {100999999, "\r\nX-Edgeprof-Age: 100"},
                 {UINT64_MAX, "\r\nX-Edgeprof-Age: unknown"}};

    for (unsigned i = 0; i < 3; i++) {
        char request[512];
        (void)snprintf(request, sizeof request, COMPACT_REQUEST("", "h", "%s", "1", "x"), cases[i].line);
        age_ns = cases[i].age_ns;
        open_says("http://h", OK);
        assert_int_equal(send_text("x"), 0);
        heard(0, request);
        done();
    }
    age_ns = 0;
}

/* Lines of one's own, in both kinds of request. */
TEST(test_headers)
{
    open_says("http://h", OK);
    client.target.headers = "Authorization: Bearer t.o-k=\nX-Scope-OrgID:7\n";
    assert_int_equal(send_text("x"), 0);
    heard(0, COMPACT_REQUEST("", "h", "\r\nAuthorization: Bearer t.o-k=\r\nX-Scope-OrgID:7", "1", "x"));
    done();
    open_says("http://h", OK);
    client.target.headers = "A: b";
    assert_int_equal(send_bytes(EP_FORMAT_PPROF, "abc", 3), 0);
    assert_non_null(strstr(script.connections[0].heard, "\r\nA: b\r\n\r\n\n"));
    done();
}

static void pushed(const char *prefix, const char *length, const char *body, size_t size)
{
    struct script_connection *c = &script.connections[0];
    char head[512];
    size_t head_size =
        (size_t)snprintf(head, sizeof head,
                         "POST %s/push.v1.PusherService/Push HTTP/1.1\r\nHost: h\r\nUser-Agent: edgeprof/" EP_VERSION
                         "\r\nContent-Type: application/proto\r\nContent-Length: %s\r\n\r\n",
                         prefix, length);

    assert_int_equal(c->heard_size, head_size + size);
    assert_memory_equal(c->heard, head, head_size);
    assert_memory_equal(c->heard + head_size, body, size);
}

#define LABEL(size, name_size, name, value_size, value) "\n" size "\n" name_size name "\x12" value_size value
#define LABELS(service)                                                                                                \
    LABEL("\x12", "\x08", "__name__", "\x06", "memory")                                                                \
    LABEL("\x12", "\x09", "__delta__", "\x05", "false") service LABEL("\x14", "\x08", "spy_name", "\x08", "edgeprof")

TEST(test_push_request)
{
    static const char body[] = "\nw" LABELS(LABEL("\x18", "\x0c", "service_name", "\x08", "gate way"))
        LABEL("\x08", "\x01", "v", "\x03", "1.0") LABEL("\x0c", "\x04", "path", "\x04", "/a&b") "\x12\x05\n\x03"
                                                                                                "abc";
    for (size_t p = 0; p < 3; p++) {
        script_reset();
        script.write_at_most = p;
        script_say(OK);
        open_at("http://h/x");
        assert_int_equal(send_bytes(EP_FORMAT_PPROF, "abc", 3), 0);
        pushed("/x", "121", body, sizeof body - 1);
        assert_string_equal(script.port, "80");
        done();
    }
}

/* A series that has a label twice is refused by servers. */
TEST(test_push_labels_once)
{
    static const char body[] = "\nf" LABELS(LABEL("\x11", "\x0c", "service_name", "\x01", "s"))
        LABEL("\x06", "\x01", "a", "\x01", "1") LABEL("\x06", "\x01", "b", "\x01", "3") "\x12\x03\n\x01x";
    open_says("http://h", OK);
    client.target.service = "s";
    client.target.tags = "a=1,service_name=x,spy_name=y,__name__=z,a=2,b=3,a=4,b=5,__x=1";
    assert_int_equal(send_bytes(EP_FORMAT_PPROF, "x", 1), 0);
    pushed("", "104", body, sizeof body - 1);
    done();
}

TEST(test_push_labels_bounded)
{
    char tags[512];
    size_t at = 0, labels = 0;

    for (unsigned i = 0; i < 40; i++)
        at += (size_t)snprintf(tags + at, sizeof tags - at, "%sk%u=v", i ? "," : "", i);
    open_says("http://h", OK);
    client.target.tags = tags;
    assert_int_equal(send_bytes(EP_FORMAT_PPROF, "x", 1), 0);
    for (size_t i = 0; i < script.connections[0].heard_size; i++)
        labels += memcmp(script.connections[0].heard + i, "\x12\x01v", 3) == 0;
    assert_int_equal(labels, 20);
    done();
}

/* A head and a body that are both larger than the client's buffer, and lengths of several bytes. */
TEST(test_large_request)
{
    static char headers[1500], service[700], body[5000];
    memset(service, 's', sizeof service - 1);
    memset(headers, 'v', sizeof headers - 1);
    memcpy(headers, "A: ", 3);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)('a' + i % 26);
    open_says("http://h", OK);
    client.target.service = service;
    client.target.tags = "";
    client.target.headers = headers;
    assert_int_equal(send_bytes(EP_FORMAT_PPROF, body, sizeof body), 0);
    struct script_connection *c = &script.connections[0];
    assert_memory_equal(c->heard + c->heard_size - sizeof body, body, sizeof body);
    const char *start = strstr(c->heard, "\r\n\r\n"), *length = strstr(c->heard, "Content-Length: ");
    assert_non_null(start);
    assert_int_equal(strtoul(length + 16, NULL, 10), c->heard + c->heard_size - (start + 4));
    done();
}

/* Over a stream of the user's own, which may be a secure one; over plain TCP it is refused. */
TEST(test_https)
{
    char state[EP_TRANSPORT_BYTES] = {0};
    struct ep_target target = {.endpoint = "https://h", .service = "", .tags = ""};
    open_says("https://h/x", OK);
    assert_int_equal(send_text(""), 0);
    heard(0, COMPACT_REQUEST("/x", "h", "", "0", ""));
    assert_string_equal(script.port, "443");
    done();
    assert_int_equal(ep_transport_http.open(state, &target), -EINVAL);
}

TEST(test_bad_endpoints)
{
    static const char *const bad[] = {
        "http://",
        "http:///x",
        "https://",
        "https:/h",
        "httpss://h",
        "http://:80",
        "http://h:",
        "http://h:0",
        "http://h:65536",
        "http://h:8x",
        "http://[::1",
        "http://[::1]x",
        "http://h/a b",
        "http://h/a\r\nb:c",
        "http://h?x=1",
        "http://h/#f",
        "http://u:p@",
        "http://h\x7f",
        "http://h\xc3\xa4",
        "http://a:1:2",
        "http://[]:80",
        "http://h:123456",
        "http://ex ample/x",
        "http://a<b",
        "http://[::1]:",
        "",
        "h",
        "http://a/b\"c",
        "http://a\\b",
        "http://u@v@w:x/",
    };
    char state[EP_TRANSPORT_BYTES];
    char long_host[7 + 300 + 1];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ep_target target = {.endpoint = bad[i], .service = "", .tags = ""};
        memset(state, 0, sizeof state);
        if (ep_http_open_over(state, &target, &script_stream) != -EINVAL)
            fail_msg("accepted: %s", bad[i]);
    }
    memset(long_host, 'h', sizeof long_host);
    memcpy(long_host, "http://", 7);
    long_host[sizeof long_host - 1] = '\0';
    struct ep_target target = {.endpoint = long_host, .service = "", .tags = ""};
    assert_int_equal(ep_http_open_over(state, &target, &script_stream), -EINVAL);
    target.endpoint = NULL;
    assert_int_equal(ep_http_open_over(state, &target, &script_stream), -EINVAL);
}

/* ---- answers ---- */

static const struct answer {
    const char *text;
    int result; /* for a compact message */
    unsigned retry_s;
    int keeps; /* the connection is used again */
} answers[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 204 No Content\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 200 OK\ncontent-LENGTH:   5  \n\nhello", 0, 0, 1},
    {"HTTP/1.1 202 A\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n", 0, 0,
     1},
    {"HTTP/1.1 200 A\r\nTransfer-Encoding: chunked\r\n\r\n00000\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
     "0\r\n\r\n",
     0, 0, 1},
    {"HTTP/1.1 200 OK\r\n\r\nuntil close", 0, 0, 0},
    {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nConnection: x , Close\r\nContent-Length: 0\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n123456789\r\nx", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\nx", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\nx\r\n0\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", 0, 0, 0},
    {"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n", -ESTALE, 0, 1},
    {"HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n", -EMSGSIZE, 0, 1},
    {"HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nbad", -EBADMSG, 0, 1},
    {"HTTP/1.1 422 What\r\nContent-Length: 0\r\n\r\n", -EBADMSG, 0, 1},
    {"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", -EACCES, 0, 1},
    {"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", -EACCES, 0, 1},
    {"HTTP/1.1 404 Where\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 405 Not so\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 407 Proxy\r\nContent-Length: 0\r\n\r\n", -EACCES, 0, 1},
    {"HTTP/1.1 411 Length\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 431 Head\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 511 Sign in\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 415 What\r\nContent-Length: 0\r\n\r\n", -EBADMSG, 0, 1},
    {"HTTP/1.1 499 Canceled\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 501 Unimplemented\r\nContent-Length: 0\r\n\r\n", -EBADMSG, 0, 1},
    {"HTTP/1.1 504 Late\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 301 Moved\r\nLocation: http://e/\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 302 Away\r\nLocation: http://e/\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 304 Same\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nlogin", -EPROTO, 0, 1},
    {"HTTP/1.1 202 OK\r\ncontent-type:TEXT/html ; charset=utf-8\r\nContent-Length: 5\r\n\r\nlogin", -EPROTO, 0, 1},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\nlogin", -EPROTO, 0, 0},
    {"HTTP/1.1 103 Hints\r\nContent-Type: text/html\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n", 0, 0, 1},
    {"HTTP/1.1 200 OK\r\nContent-Type: text/htmlx\r\nContent-Length: 0\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}", 0, 0, 1},
    {"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 0\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 200 OK\r\nContent-Type: application/grpc-web+proto\r\nContent-Length: 0\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 204 No Content\r\nContent-Type: text/html\r\n\r\n", 0, 0, 1},
    {"HTTP/1.1 400 Bad\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n", -EBADMSG, 0, 1},
    {"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n", -ETIMEDOUT, 0, 1},
    {"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", -EAGAIN, 7, 1},
    {"HTTP/1.1 503 Busy\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n\r\n", -EAGAIN, EP_HTTP_RETRY_MAX, 1},
    {"HTTP/1.1 503 Busy\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n", -EAGAIN, 0, 1},
    {"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", -EAGAIN, 0, 1},
    {"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n", -EIO, 0, 1},
    {"HTTP/1.1 600 What\r\nContent-Length: 0\r\n\r\n", -EPROTO, 0, 1},
    {"HTTP/1.1 101 Switching\r\n\r\n", -EPROTO, 0, 0},
    {"HTTP/1.1 099 x\r\n\r\n", -EPROTO, 0, 0},
    {"HTTP/1.1 2x0 x\r\n\r\n", -EPROTO, 0, 0},
    {"HTTP/2.0 200 OK\r\n\r\n", -EPROTO, 0, 0},
    {"SSH-2.0-OpenSSH_9.2\r\n", -EPROTO, 0, 0},
    {"\r\n", -EPROTO, 0, 0},
    {"\x15\x03\x01\x01\x02\x02\n", -EPROTO, 0, 0},
    {"HTTP/1.1 200 OK\r\nContent-Le", -ECONNRESET, 0, 0},
    {"HTTP/1.1 100 Continue\r\n\r\n", -ECONNRESET, 0, 0},
    {"", -ECONNRESET, 0, 0},
};

static const size_t portions[] = {0, 1, 2, 7, 100};

/* The answer twice on one connection: the second message shows whether the connection was kept. */
static void one_answer(const struct answer *a, size_t read_at_most, size_t write_at_most)
{
    size_t size = strlen(a->text);
    char *twice = malloc(2 * size + 1);
    memcpy(twice, a->text, size);
    memcpy(twice + size, a->text, size + 1);
    script_reset();
    script.read_at_most = read_at_most;
    script.write_at_most = write_at_most;
    script_say_bytes(twice, a->keeps ? 2 * size : size);
    script.connections[0].pause = a->keeps ? size : 0;
    script_say(OK);
    open_at("http://h");
    int result = send_text("body");
    int keeps = script.open;
    int second = send_text("next");
    int expected_second = a->keeps ? a->result : 0;
    if (result != a->result || keeps != a->keeps || second != expected_second ||
        client.retry_ns / 1000000000 != a->retry_s)
        fail_msg("read %zu write %zu: %d (second %d, keeps %d) for:\n%s", read_at_most, write_at_most, result, second,
                 keeps, a->text);
    done();
    free(twice);
}

TEST(test_answers)
{
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        for (size_t r = 0; r < sizeof portions / sizeof portions[0]; r++)
            for (size_t w = 0; w < sizeof portions / sizeof portions[0]; w++)
                one_answer(&answers[i], portions[r], portions[w]);
}

/* Only five statuses judge a message, of either format. No other drops it. */
TEST(test_every_status)
{
    for (unsigned status = 200; status < 1000; status++)
        for (int format = EP_FORMAT_COMPACT; format <= EP_FORMAT_PPROF; format++) {
            char text[64];
            bool judges = status == 400 || status == 413 || status == 415 || status == 422 || status == 501;
            (void)snprintf(text, sizeof text, "HTTP/1.1 %u X\r\nContent-Length: 0\r\n\r\n", status);
            open_says("http://h", text);
            int result = send_bytes((enum ep_format)format, "x", 1);
            assert_int_equal(result == -EBADMSG || result == -EMSGSIZE, judges);
            assert_int_equal(result == 0, status < 300);
            assert_int_equal(result == -ESTALE, status == 409 && format == EP_FORMAT_COMPACT);
            done();
        }
}

TEST(test_pprof_conflict_is_retried)
{
    open_says("http://h", "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(send_bytes(EP_FORMAT_PPROF, "x", 1), -EIO);
    done();
}

/* Heads and bodies beyond every bound end, without the whole being read. */
static void endless(const char *head, const char *unit, int expected)
{
    size_t unit_size = strlen(unit), size = strlen(head);
    char *says = malloc(size + 4 * EP_HTTP_RESPONSE_MAX + unit_size);
    memcpy(says, head, size);
    while (size < 4 * EP_HTTP_RESPONSE_MAX)
        memcpy(says + size, unit, unit_size), size += unit_size;
    script_reset();
    script_say_bytes(says, size);
    open_at("http://h");
    assert_int_equal(send_text("x"), expected);
    assert_int_equal(script.open, 0);
    assert_true(script.connections[0].said <= EP_HTTP_RESPONSE_MAX + 2048);
    done();
    free(says);
}

TEST(test_endless_answers)
{
    endless("HTTP/1.1 200 OK\r\n", "X-Header: value\r\n", -EPROTO);
    endless("HTTP/1.1 200 OK\r\nX-Long: ", "aaaaaaaaaaaaaaaaaaaaaaaa", -EPROTO);
    endless("", "HTTP/1.1 100 Continue\r\n\r\n", -EPROTO);
    endless("HTTP/1.1 2", "0", -EPROTO);
    endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n", 0);
    endless("HTTP/1.1 429 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "T: x\r\n", -EAGAIN);
    endless("HTTP/1.1 400 OK\r\nContent-Length: 99999999\r\n\r\n", "x", -EBADMSG);
}

/* Many short header lines are no error as long as the total is bounded. */
TEST(test_many_headers)
{
    static char says[40000];
    strcpy(says, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 3000; i++)
        strcat(says + 10 * i, "X-Y: 1234\r\n");
    strcat(says, "Content-Length: 0\r\n\r\n");
    open_says("http://h", says);
    assert_int_equal(send_text("x"), 0);
    assert_int_equal(script.open, 1);
    done();
}

/* ---- a connection that is used again ---- */

TEST(test_idle_close_is_repaired)
{
    script_reset();
    script_say(OK);
    script_say(OK);
    open_at("http://h");
    assert_int_equal(send_text("one"), 0);
    assert_int_equal(send_text("two"), 0); /* the far end has closed */
    assert_int_equal(script.opened, 2);
    heard(1, COMPACT_REQUEST("", "h", "", "3", "two"));
    done();
}

/* It closes only when the request is on its way. */
TEST(test_late_close_is_repaired)
{
    script_reset();
    script_say(OK);
    script.connections[0].pause = sizeof OK - 1;
    script_say(OK);
    open_at("http://h");
    assert_int_equal(send_text("one"), 0);
    assert_int_equal(send_text("two"), 0);
    assert_int_equal(script.opened, 2);
    heard(1, COMPACT_REQUEST("", "h", "", "3", "two"));
    done();
}

TEST(test_only_one_repair)
{
    script_reset();
    script_say(OK);
    script.connections[0].pause = sizeof OK - 1;
    script_say("");
    script_say(OK);
    open_at("http://h");
    assert_int_equal(send_text("one"), 0);
    assert_int_equal(send_text("two"), -ECONNRESET);
    assert_int_equal(script.opened, 2);
    assert_int_equal(send_text("two"), 0);
    done();
}

/* An answer that nobody waits for any more must not be taken for the next one's. */
static void unasked_answer(size_t read_at_most, int seen_at_once)
{
    script_reset();
    script.read_at_most = read_at_most;
    script_say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 408 idle\r\nContent-Length: 0\r\n\r\n");
    script_say(OK);
    open_at("http://h");
    assert_int_equal(send_text("one"), 0);
    assert_int_equal(script.open, !seen_at_once);
    assert_int_equal(send_text("two"), 0);
    assert_int_equal(script.opened, 2);
    done();
}

TEST(test_unasked_answer_is_not_believed)
{
    unasked_answer(sizeof OK - 1, 0);
    unasked_answer(0, 1);
}

/* ---- the n-th call fails ---- */

static const long failures[] = {-EIO, -ETIMEDOUT, -ECONNRESET, -EPIPE, -EHOSTUNREACH, 0};

static int believable(int result, int expected, long with)
{
    if (result == expected)
        return 1;
    /* an answer that does not come, after all was sent */
    if (with == -ETIMEDOUT && result == -ETIME)
        return 1;
    return with ? result == with : result == -ECONNRESET || result == -EPIPE || result == -ECONNREFUSED;
}

/* One message is through, the n-th call of the second fails, the third must arrive whatever happened.
 * Returns whether the failure came about at all. */
static int fail_nth(const struct answer *a, unsigned n, long with, size_t portion)
{
    char first[4096];
    snprintf(first, sizeof first, "%s%s", OK, a->text);
    script_reset();
    script.read_at_most = portion;
    script.write_at_most = portion * 20;
    script_say(first);
    script.connections[0].pause = sizeof OK - 1;
    open_at("http://h");
    assert_int_equal(send_text("one"), 0);
    script_say(OK); /* for the repair */
    script_fail(n, with);
    int result = send_text("two");
    int failed = script.failed;
    int repaired = script.opened == 2 && result == 0;
    if (!believable(result, a->result, with) && !repaired)
        fail_msg("call %u failing with %ld: %d for:\n%s", n, with, result, a->text);
    script.fail_at = 0;
    script_say(OK);
    if (script.open)
        script.connections[script.opened - 1].size = script.connections[script.opened - 1].said; /* it closes */
    int third = send_text("three");
    if (third != 0)
        fail_msg("call %u failing with %ld: %d for the message after:\n%s", n, with, third, a->text);
    assert_true(script.open);
    assert_non_null(strstr(script.connections[script.opened - 1].heard, "\r\n\r\nthree"));
    done();
    return failed;
}

TEST(test_nth_call_fails)
{
    unsigned runs = 0;

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        for (size_t e = 0; e < sizeof failures / sizeof failures[0]; e++)
            for (size_t p = 0; p < 3; p++)
                for (unsigned n = 1; fail_nth(&answers[i], n, failures[e], portions[p]); n++)
                    runs++;
    print_message("%u injected failures\n", runs);
    assert_true(runs > 1000);
}

/* A stream that breaks its own contract must not make the client read or write astray, or hang. */
static long liar_value;

static int liar_connect(void *state, const char *host, const char *port, const struct ep_deadline *deadline)
{
    (void)state, (void)host, (void)port, (void)deadline;
    return 0;
}

static long liar_io(void *state, void *bytes, size_t size, const struct ep_deadline *deadline)
{
    (void)state, (void)bytes, (void)size, (void)deadline;
    return liar_value;
}

static long liar_write(void *state, const void *bytes, size_t size, const struct ep_deadline *deadline)
{
    (void)bytes;
    return liar_value == 0 ? 0 : liar_value == 1 ? (long)size : liar_io(state, NULL, size, deadline);
}

static void liar_close(void *state)
{
    (void)state;
}

TEST(test_lying_stream)
{
    static const long values[] = {0, 1, 100000, -EAGAIN};
    static const struct ep_stream liar = {8, liar_connect, liar_io, liar_write, liar_close};
    static const struct ep_stream huge = {100000, liar_connect, liar_io, liar_write, liar_close};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct ep_target target = {.endpoint = "http://h", .service = "", .tags = ""};
        struct ep_message message = {.data = (const uint8_t *)"x", .size = 1};
        struct ep_deadline deadline = {.at_ns = DEADLINE};
        uint64_t retry_ns = 0;
        void *state = calloc(1, ep_transport_http.state_size);
        liar_value = values[i];
        assert_int_equal(ep_http_open_over(state, &target, &liar), 0);
        assert_true(ep_transport_http.send(state, &message, &deadline, &retry_ns) < 0);
        ep_transport_http.close(state);
        memset(state, 0, ep_transport_http.state_size);
        assert_int_equal(ep_http_open_over(state, &target, &huge), -EINVAL);
        free(state);
    }
}

TEST_MAIN
