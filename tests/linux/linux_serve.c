/*
 * core/features/endpoint/serve.c on real sockets, with a test service whose bodies are far larger than a socket buffer:
 * slow clients get every byte, clients that do not read are disconnected after their timeout, and others are served
 * meanwhile. Also core/features/pull/start.c: where it listens, and when it requires a token.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <edgeprof/edgeprof.h>
#include "core/features/endpoint/serve.h"
#include "tests/unit/test.h"

#define BODY     (8u << 20)
#define PORTION  10000u
#define LATER_NS 300000000u
#define PATIENCE 20000 /* ms until a test fails */

static atomic_uint begun, done, looks;

/* The expected byte at a position. */
static char byte_at(uint64_t place)
{
    return (char)(place * 2654435761u >> 13);
}

static void answer_(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer)
{
    (void)size;
    (void)token;
    atomic_fetch_add(&begun, 1);
    *answer = (struct ep_answer){.view = 1};
    if (strncmp(request, "LATER", 5) == 0) {
        answer->look_ns = ep_port_uptime_ns() + LATER_NS;
        return;
    }
    answer->size = 4;
    answer->body = BODY;
    memcpy(buffer, "head", 4);
}

static void look_(char *buffer, struct ep_answer *answer)
{
    atomic_fetch_add(&looks, 1);
    answer->size = 4;
    memcpy(buffer, "late", 4);
}

static size_t piece_(char *buffer, const struct ep_answer *answer)
{
    size_t size = answer->body - answer->sent < PORTION ? (size_t)(answer->body - answer->sent) : PORTION;

    for (size_t i = 0; i < size; i++)
        buffer[i] = byte_at(answer->sent + i);
    return size;
}

static void done_(struct ep_answer *answer)
{
    atomic_fetch_add(&done, answer->view);
    answer->view = 0;
}

static void serve(void);
static const struct ep_service service = {
    .role = EP_ROLE_PULL,
    .thread = serve,
    .request_bytes = 100,
    .answer_bytes = PORTION,
    .sending_ns = 2000000000u,
    .answer = answer_,
    .look = look_,
    .piece = piece_,
    .done = done_,
};
static struct ep_client client[3];
static char requests[300], buffer[PORTION];
static struct ep_server server = {
    .service = &service, .client = client, .clients = 3, .requests = requests, .buffer = buffer};
static struct sockaddr_in address;
static struct ep_address listen_at = {.ip = {127, 0, 0, 1}, .ip_size = 4};

static void serve(void)
{
    ep_serve(&server);
}

static uint16_t free_port(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t size = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &size), 0);
    (void)close(fd);
    address = any;
    listen_at.port = ntohs(any.sin_port);
    return ntohs(any.sin_port);
}

static int dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int ask(const char *request)
{
    int fd = dial();

    assert_int_equal(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    return fd;
}

/* Reads `most` bytes of an answer, or to its end, and checks each. Returns their number. */
static uint64_t read_some(int fd, uint64_t from, uint64_t most)
{
    static char bytes[65536];
    uint64_t at = from;

    while (at - from < most) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&polled, 1, PATIENCE), 1);
        ssize_t got = read(fd, bytes, most - (at - from) < sizeof bytes ? (size_t)(most - (at - from)) : sizeof bytes);
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++, at++)
            if (at >= 4 && bytes[i] != byte_at(at - 4))
                fail_msg("byte %llu is wrong", (unsigned long long)at);
    }
    return at - from;
}

static void pause_ms(unsigned ms)
{
    const struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&time, NULL);
}

TEST(test_large_bodies)
{
    (void)free_port();
    assert_int_equal(ep_server_start(&server, &listen_at), 0);
    assert_int_equal(ep_server_start(&server, &listen_at), -EALREADY);
    int slow = ask("A\n\n"), never = ask("B\n\n");
    uint64_t got = 0;
    for (unsigned i = 0; i < 20; i++) { /* slow, but within the limit */
        got += read_some(slow, got, (BODY + 4) / 21);
        pause_ms(20);
    }
    int quick = ask("C\n\n");
    assert_int_equal(read_some(quick, 0, UINT64_MAX), BODY + 4);
    got += read_some(slow, got, UINT64_MAX);
    assert_int_equal(got, BODY + 4);
    pause_ms(3000); /* the third client exceeds its time */
    assert_true(read_some(never, 0, UINT64_MAX) < BODY);
    assert_int_equal(atomic_load(&begun), 3);
    assert_int_equal(atomic_load(&done), 3);
    (void)close(slow);
    (void)close(never);
    (void)close(quick);
    assert_int_equal(ep_server_stop(&server), 0);
}

/* Delayed answers are sent when ready. A client that disconnects before is dropped at once. A stop disconnects
 * everybody. */
TEST(test_delayed_answers)
{
    char late[8] = "";

    atomic_store(&done, 0);
    (void)free_port();
    assert_int_equal(ep_server_start(&server, &listen_at), 0);
    int gone = ask("LATER\n\n"), fd = ask("LATER\n\nand what nobody wants to know");
    pause_ms(20);
    (void)close(gone);
    assert_int_equal(read(fd, late, sizeof late), 4);
    assert_string_equal(late, "late");
    assert_int_equal(read(fd, late, sizeof late), 0);
    (void)close(fd);
    for (unsigned i = 0; i < 200 && atomic_load(&done) < 2; i++)
        pause_ms(10);
    assert_int_equal(atomic_load(&done), 2);
    assert_int_equal(atomic_load(&looks), 1);
    int sending = ask("D\n\n"), waiting = ask("LATER\n\n");
    while (atomic_load(&begun) < 7)
        pause_ms(1);
    assert_int_equal(ep_server_stop(&server), 0);
    assert_int_equal(ep_server_stop(&server), -ESRCH);
    assert_int_equal(atomic_load(&done), 4);
    (void)close(sending);
    (void)close(waiting);
}

/* ---- the pull endpoint itself ---- */

static uint8_t memory[EP_MEMORY_DEFAULT], pull_memory[EP_PULL_MEMORY_DEFAULT];

static int start(const char *where, const char *token, size_t size)
{
    const struct ep_pull_config config = {
        .memory = pull_memory + 3, .memory_size = size, .where = where, .token = token};
    int result = ep_pull_start(&config);

    if (result == 1)
        assert_int_equal(ep_pull_stop(), 0);
    return result;
}

TEST(test_listen_addresses)
{
    static const char token[] = "0123456789abcdef";
    const size_t size = sizeof pull_memory - 3;
    char port[8], where[40];

    (void)snprintf(port, sizeof port, "%u", free_port());
    assert_int_equal(start(port, NULL, size), 1);
    assert_int_equal(start(port, NULL, EP_PULL_MEMORY_MIN), 1);
    assert_int_equal(start(port, NULL, EP_PULL_MEMORY_MIN - 1), -ENOMEM);
    static const char *const loopback[] = {"127.0.0.1:%s", "127.1.2.3:%s", "localhost:%s"};
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(where, sizeof where, loopback[i], port);
        assert_int_equal(start(where, NULL, size), 1);
        assert_int_equal(start(where, "short", size), -EINVAL);
        assert_int_equal(start(where, token, size), 1);
    }
    static const char *const others[] = {"192.0.2.1:%s", "[2001:db8::1]:%s"}; /* not local: bind fails */
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(where, sizeof where, others[i], port);
        assert_int_equal(start(where, NULL, size), -EINVAL);
        assert_int_equal(start(where, "short", size), -EINVAL);
        assert_int_equal(start(where, token, size), -EACCES);
        assert_int_equal(setenv("EDGEPROF_PULL_INSECURE", "1", 1), 0);
        const int consented = start(where, token, size);
        assert_true(consented < 0 && consented != -EINVAL && consented != -EACCES);
        assert_int_equal(start(where, NULL, size), -EINVAL);
        assert_int_equal(unsetenv("EDGEPROF_PULL_INSECURE"), 0);
    }
    static const char *const bad[] = {"0",
                                      "65536",
                                      "-1",
                                      "x",
                                      "a:80",
                                      "1.2.3:80",
                                      "127.0.0.1:",
                                      ":80",
                                      "[::1]80",
                                      "[::1]:",
                                      "::1:80",
                                      "[]:80",
                                      "[::1",
                                      "1 2",
                                      "/run/app.sock",
                                      "[:::::::::::::::::::::::::::::::::::::::::::::::::::::::::::::]:80"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(start(bad[i], token, size), -EINVAL);
    const struct ep_pull_config none = {.memory = pull_memory, .memory_size = sizeof pull_memory};
    (void)unsetenv("EDGEPROF_PULL");
    assert_int_equal(ep_pull_start(&none), 0);
    assert_int_equal(ep_pull_stop(), -ESRCH);
}

static int status_of(const char *line)
{
    char request[200], reply[8192] = "";
    int fd, status = 0;
    ssize_t got;
    size_t fill = 0;

    (void)snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", line);
    fd = ask(request);
    while ((got = read(fd, reply + fill, sizeof reply - 1 - fill)) > 0)
        fill += (size_t)got;
    (void)close(fd);
    (void)sscanf(reply, "HTTP/1.1 %d ", &status);
    return status;
}

/* Starts before and stops after the profiler, and the other way round. A forked child does not serve. */
TEST(test_start_stop_order)
{
    struct ep_config c = {.memory = memory, .memory_size = sizeof memory, .interval_ms = 100, .endpoint = "null:"};
    char port[8];
    int status = 0;

    (void)snprintf(port, sizeof port, "%u", free_port());
    const struct ep_pull_config config = {.memory = pull_memory, .memory_size = sizeof pull_memory, .where = port};
    assert_int_equal(ep_pull_start(&config), 1);
    assert_int_equal(ep_pull_start(&config), -EALREADY);
    assert_int_equal(status_of("GET /debug/pprof/profile?seconds=1"), 503);
    assert_int_equal(ep_start(&c), 0);
    assert_int_equal(status_of("GET /debug/pprof/profile?seconds=1"), 200);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(ep_pull_stop() == -ESRCH ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    int waiting = ask("GET /debug/pprof/profile?seconds=600 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_int_equal(status_of("GET /metrics"), 200);
    assert_int_equal(ep_stop(1000), 0);
    assert_int_equal(status_of("GET /debug/pprof/goroutine"), 503);
    assert_int_equal(ep_start(&c), 0);
    assert_int_equal(status_of("GET /debug/pprof/goroutine"), 200);
    assert_int_equal(ep_pull_stop(), 0);
    assert_int_equal(ep_pull_start(&config), 1);
    assert_int_equal(status_of("GET /debug/pprof/goroutine"), 200);
    assert_int_equal(ep_pull_stop(), 0);
    (void)close(waiting);
    memset(pull_memory, 0xff, sizeof pull_memory); /* after the stop the memory belongs to the test */
    pause_ms(300);
    assert_int_equal(ep_stop(1000), 0);
}

TEST_MAIN
