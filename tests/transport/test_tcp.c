/*
 * The TCP stream and the HTTP client on it, against a small server on loopback, in real time. No test depends on how
 * long something takes, except that what has a deadline must end at all and not before it.
 */

#include "tests/unit/test.h"
#include "tests/program.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <edgeprof/port.h>
#include <edgeprof/transport.h>

#define MS        UINT64_C(1000000)
#define LONG_TIME (60000 * MS)

uint64_t ep_port_uptime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A deadline so far from now; 0: it has always passed. */
static const struct ep_deadline *in(uint64_t ns)
{
    static struct ep_deadline deadline;

    atomic_store(&deadline.at_ns, ns ? ep_port_uptime_ns() + ns : 0);
    return &deadline;
}

/* Allocations of this process, where no sanitizer has its own malloc. */
static atomic_uint allocations;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0
#else
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t size);
void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}
#endif

/* ---- a server ---- */

struct server {
    int fd;
    char port[8];
    pthread_t thread;
    int answers_per_connection; /* then it closes */
    atomic_uint connections, requests;
    size_t bytes;
};

static int listen_on(const char *address, int family, char port[8])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a;
    socklen_t size = family == AF_INET ? sizeof a.v4 : sizeof a.v6;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memset(&a, 0, sizeof a);
    a.any.sa_family = (sa_family_t)family;
    inet_pton(family, address, family == AF_INET ? (void *)&a.v4.sin_addr : (void *)&a.v6.sin6_addr);
    if (fd < 0 || bind(fd, &a.any, size) != 0 || listen(fd, 8) != 0 || getsockname(fd, &a.any, &size) != 0)
        return -1;
    snprintf(port, 8, "%u", ntohs(family == AF_INET ? a.v4.sin_port : a.v6.sin6_port));
    return fd;
}

/* Reads one request. False: the client has closed. */
static bool read_request(int fd, size_t *bytes)
{
    static char buffer[1 << 20];
    size_t size = 0, end = 0, length = 0;

    while (end == 0 || size < end + length) {
        ssize_t n = recv(fd, buffer + size, sizeof buffer - 1 - size, 0);
        if (n <= 0)
            return false;
        size += (size_t)n;
        buffer[size] = '\0';
        char *blank = strstr(buffer, "\r\n\r\n");
        if (end == 0 && blank) {
            end = (size_t)(blank - buffer) + 4;
            length = strtoul(strstr(buffer, "Content-Length: ") + 16, NULL, 10);
        }
    }
    *bytes += length;
    return true;
}

static void *serve(void *arg)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    struct server *s = arg;

    for (;;) {
        int fd = accept(s->fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        s->connections++;
        for (int i = 0; i < s->answers_per_connection && read_request(fd, &s->bytes); i++) {
            s->requests++;
            send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
        }
        close(fd);
    }
}

static void server_start(struct server *s, int answers_per_connection)
{
    memset(s, 0, sizeof *s);
    s->answers_per_connection = answers_per_connection;
    s->fd = listen_on("127.0.0.1", AF_INET, s->port);
    assert_true(s->fd >= 0);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
}

/* ---- through HTTP ---- */

static _Alignas(16) unsigned char state[EP_TRANSPORT_BYTES];
static char endpoint[64];
static struct ep_target target = {.endpoint = endpoint, .service = "s", .tags = ""};

static void open_http(const char *host, const char *port)
{
    memset(state, 0, sizeof state);
    snprintf(endpoint, sizeof endpoint, "http://%s:%s", host, port);
    assert_int_equal(ep_transport_http.open(state, &target), 0);
}

static int send_size(size_t size, uint64_t timeout_ns)
{
    static uint8_t data[400000];
    struct ep_message message = {.data = data, .size = size};
    struct ep_deadline deadline = {.at_ns = ep_port_uptime_ns() + timeout_ns};
    uint64_t retry_ns = 0;
    return ep_transport_http.send(state, &message, &deadline, &retry_ns);
}

TEST(test_many_messages)
{
    struct server s;

    server_start(&s, 7);
    open_http("127.0.0.1", s.port);
    unsigned before = allocations;
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(send_size(i * 8000, LONG_TIME), 0);
    assert_int_equal(allocations, before);
    ep_transport_http.close(state);
    server_stop(&s);
    assert_int_equal(s.requests, 50);
    assert_int_equal(s.connections, 8);
    assert_int_equal(s.bytes, 8000 * 49 * 50 / 2);
}

/* localhost may be ::1 first, where nobody listens. */
TEST(test_name)
{
    struct server s;

    server_start(&s, 1);
    open_http("localhost", s.port);
    unsigned before = allocations;
    assert_int_equal(send_size(10, LONG_TIME), 0);
    assert_true(allocations > before || !COUNTS_ALLOCATIONS);
    before = allocations;
    assert_int_equal(send_size(10, LONG_TIME), 0); /* a new connection to the address that worked */
    assert_int_equal(allocations, before);
    ep_transport_http.close(state);
    server_stop(&s);
    assert_int_equal(s.connections, 2);
}

TEST(test_unknown_name)
{
    open_http("no-such-host.invalid", "80");
    assert_true(send_size(10, 1000 * MS) < 0);
    ep_transport_http.close(state);
}

TEST(test_ipv6)
{
    struct server s;

    memset(&s, 0, sizeof s);
    s.answers_per_connection = 1;
    s.fd = listen_on("::1", AF_INET6, s.port);
    if (s.fd < 0)
        skip(); /* a machine without IPv6 */
    assert_int_equal(pthread_create(&s.thread, NULL, serve, &s), 0);
    open_http("[::1]", s.port);
    assert_int_equal(send_size(10, LONG_TIME), 0);
    ep_transport_http.close(state);
    server_stop(&s);
}

TEST(test_refused_and_back)
{
    struct server s;

    server_start(&s, 1);
    open_http("127.0.0.1", s.port);
    assert_int_equal(send_size(10, LONG_TIME), 0);
    server_stop(&s);
    assert_int_equal(send_size(10, LONG_TIME), -ECONNREFUSED);
    assert_int_equal(send_size(10, LONG_TIME), -ECONNREFUSED);
    ep_transport_http.close(state);
}

/* ---- a far end that does nothing ---- */

static int silent_fd;

static void open_silent(void)
{
    char port[8];
    silent_fd = listen_on("127.0.0.1", AF_INET, port);
    assert_true(silent_fd >= 0);
    open_http("127.0.0.1", port);
}

/* Neither before its deadline nor never; and a signal in the middle does not shorten it. */
TEST(test_silence_ends_at_the_deadline)
{
    static const size_t sizes[] = {10, 400000};

    for (size_t i = 0; i < 2; i++) {
        open_silent();
        uint64_t start = ep_port_uptime_ns();
        int error = send_size(sizes[i], 50 * MS);
        assert_true(error == -ETIME ||
                    (error == -ETIMEDOUT && i > 0)); /* the system may not take the larger one whole */
        assert_true(ep_port_uptime_ns() - start >= 50 * MS);
        ep_transport_http.close(state);
        close(silent_fd);
    }
}

static void on_alarm(int number)
{
    (void)number;
}

TEST(test_signals_do_not_disturb)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec often = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000};

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &often, NULL), 0);
    open_silent();
    uint64_t start = ep_port_uptime_ns();
    assert_int_equal(send_size(10, 50 * MS), -ETIME);
    assert_true(ep_port_uptime_ns() - start >= 50 * MS);
    ep_transport_http.close(state);
    close(silent_fd);
    timer_delete(timer);
}

/* ---- the stream itself ---- */

static _Alignas(16) unsigned char tcp[256];

static void connect_tcp(int *far)
{
    char port[8];
    int listening = listen_on("127.0.0.1", AF_INET, port);

    memset(tcp, 0, sizeof tcp);
    assert_true(ep_stream_tcp.state_size <= sizeof tcp);
    assert_int_equal(ep_stream_tcp.connect(tcp, "127.0.0.1", port, in(LONG_TIME)), 0);
    *far = accept(listening, NULL, NULL);
    assert_true(*far >= 0);
    close(listening);
}

TEST(test_past_deadline_still_takes_what_is_there)
{
    char bytes[8];
    int far;

    connect_tcp(&far);
    assert_int_equal(ep_stream_tcp.read(tcp, bytes, sizeof bytes, in(0)), -ETIMEDOUT);
    assert_int_equal(send(far, "abc", 3, 0), 3);
    struct pollfd wait = {.fd = *(int *)(void *)tcp - 1, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 60000), 1);
    assert_int_equal(ep_stream_tcp.read(tcp, bytes, sizeof bytes, in(0)), 3);
    close(far);
    assert_int_equal(ep_stream_tcp.read(tcp, bytes, sizeof bytes, in(LONG_TIME)), 0);
    ep_stream_tcp.close(tcp);
    ep_stream_tcp.close(tcp);
    assert_int_equal(ep_stream_tcp.read(tcp, bytes, sizeof bytes, in(0)), -EBADF);
}

/* SIGPIPE has its default action here: it would end the test. */
TEST(test_no_sigpipe)
{
    static char bytes[100000];
    long n = 0;
    int far;

    connect_tcp(&far);
    close(far);
    for (int i = 0; i < 1000 && n >= 0; i++)
        n = ep_stream_tcp.write(tcp, bytes, sizeof bytes, in(LONG_TIME));
    assert_true(n == -EPIPE || n == -ECONNRESET);
    ep_stream_tcp.close(tcp);
}

TEST(test_full_pipe_times_out)
{
    static char bytes[100000];
    long n = 1;
    int far;

    connect_tcp(&far);
    while (n > 0)
        n = ep_stream_tcp.write(tcp, bytes, sizeof bytes, in(0));
    assert_int_equal(n, -ETIMEDOUT);
    ep_stream_tcp.close(tcp);
    close(far);
}

TEST(test_descriptor_flags)
{
    int far;

    connect_tcp(&far);
    int fd = *(int *)(void *)tcp - 1;
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    ep_stream_tcp.close(tcp);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    close(far);
}

/* A listener whose queue is full does not answer any more. */
static unsigned char crowd[64][256];

static int listen_full(char port[8])
{
    int listening = listen_on("127.0.0.1", AF_INET, port), err = 0;

    memset(crowd, 0, sizeof crowd);
    assert_int_equal(listen(listening, 0), 0);
    for (size_t n = 0; n < sizeof crowd / sizeof crowd[0] && err == 0; n++)
        err = ep_stream_tcp.connect(crowd[n], "127.0.0.1", port, in(50 * MS));
    assert_int_equal(err, -ETIMEDOUT);
    return listening;
}

static void leave_full(int listening)
{
    for (size_t n = 0; n < sizeof crowd / sizeof crowd[0]; n++)
        ep_stream_tcp.close(crowd[n]);
    close(listening);
}

TEST(test_connect_times_out)
{
    char port[8];
    leave_full(listen_full(port));
}

/* ---- a deadline that comes nearer ---- */

static struct ep_deadline moving;

static void *bring_nearer(void *unused)
{
    struct timespec pause = {.tv_nsec = 20000000};

    nanosleep(&pause, NULL);
    atomic_store(&moving.at_ns, ep_port_uptime_ns());
    return unused;
}

enum call { CONNECT, READ, WRITE };

/* From a minute to nothing while the call waits: it must end long before the minute. */
static void ends_early(enum call call, const char *port)
{
    static char bytes[100000];
    pthread_t thread;
    long result = 1;

    atomic_store(&moving.at_ns, ep_port_uptime_ns() + LONG_TIME);
    uint64_t start = ep_port_uptime_ns();
    assert_int_equal(pthread_create(&thread, NULL, bring_nearer, NULL), 0);
    if (call == CONNECT)
        result = ep_stream_tcp.connect(tcp, "127.0.0.1", port, &moving);
    else if (call == READ)
        result = ep_stream_tcp.read(tcp, bytes, sizeof bytes, &moving);
    else
        while (result > 0)
            result = ep_stream_tcp.write(tcp, bytes, sizeof bytes, &moving);
    assert_int_equal(result, -ETIMEDOUT);
    assert_true(ep_port_uptime_ns() - start < LONG_TIME / 4);
    pthread_join(thread, NULL);
    ep_stream_tcp.close(tcp);
}

TEST(test_deadline_comes_nearer)
{
    char port[8];
    int far;

    connect_tcp(&far);
    ends_early(READ, NULL);
    close(far);
    connect_tcp(&far);
    ends_early(WRITE, NULL);
    close(far);
    int listening = listen_full(port);
    memset(tcp, 0, sizeof tcp);
    ends_early(CONNECT, port);
    leave_full(listening);
}

/* Allocating is how it would be seen. */
TEST(test_no_lookup_after_the_deadline)
{
    memset(tcp, 0, sizeof tcp);
    unsigned before = allocations;
    assert_int_equal(ep_stream_tcp.connect(tcp, "localhost", "1", in(0)), -ETIMEDOUT);
    assert_int_equal(allocations, before);
}

TEST_MAIN
