/*
 * Sockets of the control endpoint: a unix socket and a port, tokens, and clients that send nothing, send too much or
 * never read. No client blocks other clients or the collect thread. A forked child does not serve.
 */
#include "tests/unit/test.h"
#include "tests/program.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <edgeprof/edgeprof.h>
#include <edgeprof/hooks.h>

#define TOKEN    "correct horse battery"
#define PATIENCE 20000 /* ms until a test fails */

static uint8_t memory[EP_MEMORY_DEFAULT];
static char path[96], answer[8192];

static void begin(void)
{
    struct ep_config c = {.memory = memory, .memory_size = sizeof memory, .interval_ms = 100, .endpoint = "null:"};

    (void)snprintf(path, sizeof path, "/tmp/ep-control-%d", (int)getpid());
    assert_int_equal(ep_start(&c), 0);
}

static void end(void)
{
    assert_int_equal(ep_control_stop(), 0);
    assert_int_equal(ep_control_stop(), -ESRCH);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(ep_stop(1000), 0);
}

static int dial_unix(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int dial_port(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Reads to the end and closes. Returns the status; 0: no answer. */
static int read_answer(int fd)
{
    size_t fill = 0;
    int status = 0;

    for (;;) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&polled, 1, PATIENCE), 1);
        ssize_t got = read(fd, answer + fill, sizeof answer - 1 - fill);
        if (got <= 0)
            break;
        fill += (size_t)got;
    }
    answer[fill] = 0;
    (void)close(fd);
    (void)sscanf(answer, "HTTP/1.1 %d ", &status);
    return status;
}

static int ask(int fd, const char *line, const char *headers)
{
    char request[512];
    int size = snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n", line, headers);

    assert_int_equal(write(fd, request, (size_t)size), size);
    return read_answer(fd);
}

static void socket_left(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(stale, (struct sockaddr *)&address, sizeof address), 0);
    (void)close(stale);
}

TEST(test_unix_socket)
{
    struct stat about;

    begin();
    assert_int_equal(ep_control_start(path, NULL), 1);
    assert_int_equal(ep_control_start(path, NULL), -EALREADY);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(ask(dial_unix(), "GET /status", ""), 200);
    assert_non_null(strstr(answer, "\"level\":\"low\""));
    assert_int_equal(ask(dial_unix(), "POST /level?high", ""), 200);
    assert_int_equal(ep_level_get(), EP_LEVEL_HIGH);
    /* An unread request body does not discard the answer. */
    assert_int_equal(ask(dial_unix(), "POST /level?low", "Content-Length: 5\r\n\r\nhello"), 200);
    end();
    /* The token also applies to unix sockets. A socket left by a killed process is replaced. */
    socket_left();
    begin();
    assert_int_equal(ep_control_start(path, TOKEN), 1);
    assert_int_equal(ask(dial_unix(), "GET /status", ""), 401);
    assert_int_equal(ask(dial_unix(), "GET /status", "Authorization: Bearer " TOKEN "\r\n"), 200);
    end();
}

/* What took the socket's place belongs to somebody else. */
TEST(test_path_of_another)
{
    begin();
    assert_int_equal(ep_control_start(path, NULL), 1);
    assert_int_equal(unlink(path), 0);
    socket_left();
    assert_int_equal(ep_control_stop(), 0);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ep_stop(1000), 0);
}

TEST(test_open_folder)
{
    char folder[64];

    begin();
    (void)snprintf(folder, sizeof folder, "/tmp/ep-folder-%d", (int)getpid());
    (void)snprintf(path, sizeof path, "%s/socket", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(ep_control_start(path, NULL), -EPERM);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(ep_control_start(path, NULL), 1);
    end();
    if (geteuid() == 0 && chmod(folder, 0755) == 0 && chown(folder, 65534, 65534) == 0) { /* another user's */
        begin();
        (void)snprintf(path, sizeof path, "%s/socket", folder);
        assert_int_equal(ep_control_start(path, NULL), -EPERM);
        assert_int_equal(ep_stop(1000), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* Processes that start at once where an ended one left its socket: exactly one listens, and it can be reached. */
static int race(int go, int out)
{
    char byte;
    int error;

    if (read(go, &byte, 1) != 0)
        return 1;
    error = ep_start(&(struct ep_config){.memory = memory, .memory_size = sizeof memory, .endpoint = "null:"});
    error = error ? error : ep_control_start(path, NULL);
    byte = error == 1 ? 'y' : error == -EADDRINUSE ? 'n' : '?';
    if (write(out, &byte, 1) != 1)
        return 1;
    return pause() == 0;
}

#define RACERS 4

static void race_once(void)
{
    int go[2], out[2];
    pid_t child[RACERS];
    unsigned won = 0, lost = 0;

    socket_left();
    assert_int_equal(pipe(go) | pipe(out), 0);
    for (unsigned i = 0; i < RACERS; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            (void)close(go[1]);
            _exit(race(go[0], out[1]));
        }
    }
    (void)close(go[0]);
    (void)close(go[1]);
    for (unsigned i = 0; i < RACERS; i++) {
        char byte = 0;
        assert_int_equal(read(out[0], &byte, 1), 1);
        won += byte == 'y';
        lost += byte == 'n';
    }
    (void)close(out[0]);
    (void)close(out[1]);
    assert_int_equal(won, 1);
    assert_int_equal(lost, RACERS - 1);
    assert_int_equal(ask(dial_unix(), "GET /status", ""), 200);
    for (unsigned i = 0; i < RACERS; i++) {
        assert_int_equal(kill(child[i], SIGKILL), 0);
        assert_int_equal(waitpid(child[i], NULL, 0), child[i]);
    }
    assert_int_equal(unlink(path), 0);
}

TEST(test_race)
{
    (void)snprintf(path, sizeof path, "/tmp/ep-race-%d", (int)getpid());
    for (unsigned i = 0; i < 15; i++)
        race_once();
}

TEST(test_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    char where[8];
    int probe = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(probe, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(probe, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(where, sizeof where, "%u", ntohs(address.sin_port));
    begin();
    assert_int_equal(ep_control_start(where, NULL), -EINVAL);
    assert_int_equal(ep_control_start(where, "short"), -EINVAL);
    assert_int_equal(ep_control_start("0", TOKEN), -EINVAL);
    assert_int_equal(ep_control_start("65536", TOKEN), -EINVAL);
    assert_int_equal(ep_control_start("host:80", TOKEN), -EINVAL);
    assert_int_equal(listen(probe, 1), 0);
    assert_int_equal(ep_control_start(where, TOKEN), -EADDRINUSE);
    (void)close(probe);
    assert_int_equal(ep_control_start(where, TOKEN), 1);
    uint16_t port = ntohs(address.sin_port);
    assert_int_equal(ask(dial_port(port), "POST /level?high", ""), 401);
    assert_int_equal(ask(dial_port(port), "POST /level?high", "Authorization: Bearer wrong horse battery!\r\n"), 401);
    assert_int_equal(ep_level_get(), EP_LEVEL_LOW);
    assert_int_equal(ask(dial_port(port), "POST /level?high", "Authorization: Bearer " TOKEN "\r\n"), 200);
    assert_int_equal(ep_level_get(), EP_LEVEL_HIGH);
    end();
}

TEST(test_environment)
{
    (void)unsetenv("EDGEPROF_CONTROL");
    assert_int_equal(ep_control_start(NULL, NULL), 0);
    begin();
    (void)setenv("EDGEPROF_CONTROL", path, 1);
    (void)setenv("EDGEPROF_CONTROL_TOKEN", TOKEN, 1);
    assert_int_equal(ep_control_start(NULL, NULL), 1);
    assert_int_equal(ask(dial_unix(), "GET /status", ""), 401);
    end();
    (void)unsetenv("EDGEPROF_CONTROL");
    (void)unsetenv("EDGEPROF_CONTROL_TOKEN");
}

/* More clients than places; each sends only a part of a request. */
TEST(test_slow_clients)
{
    struct ep_stats before, after;
    int slow[12];

    begin();
    assert_int_equal(ep_control_start(path, NULL), 1);
    assert_int_equal(ep_stats_get(&before), 0);
    for (unsigned i = 0; i < 3; i++) {
        slow[i] = dial_unix();
        assert_int_equal(write(slow[i], "GET /sta", i * 4), (ssize_t)(i * 4));
    }
    assert_int_equal(ask(dial_unix(), "GET /status", ""), 200); /* one place is left */
    for (unsigned i = 3; i < 8; i++)
        slow[i] = dial_unix();
    assert_int_equal(ask(dial_unix(), "GET /status", ""), 200); /* after their timeout */
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(read_answer(slow[i]), 0);
    assert_int_equal(ep_stats_get(&after), 0);
    assert_true(after.wakeups - before.wakeups >= 10); /* intervals of 100 ms continued */
    /* A request that is too long is refused; its remainder is read and ignored. */
    char much[3000];
    memset(much, 'x', sizeof much);
    int fd = dial_unix();
    assert_int_equal(write(fd, much, sizeof much), sizeof much);
    assert_int_equal(read_answer(fd), 431);
    /* A request that arrives byte by byte is accepted. */
    fd = dial_unix();
    for (const char *at = "PUT /level?medium HTTP/1.1\r\n\r\n"; *at; at++)
        assert_int_equal(write(fd, at, 1), 1);
    assert_int_equal(read_answer(fd), 200);
    assert_int_equal(ep_level_get(), EP_LEVEL_MEDIUM);
    /* Clients that disconnect at once, one after another. */
    for (unsigned i = 0; i < 100; i++)
        (void)close(dial_unix());
    assert_int_equal(ask(dial_unix(), "GET /status", ""), 200);
    end();
}

/* ---- a list of pending work, which takes its time ---- */

static atomic_bool list_done;

static int list_ask(void)
{
    return 1;
}

static int list_read(unsigned *list, size_t from, char *text, size_t room)
{
    (void)room;
    if (*list != 1 || !atomic_load(&list_done))
        return -EAGAIN;
    if (from)
        return 0;
    memcpy(text, "one\n", 4);
    return 4;
}

/* While a client waits for a list, the others are served. */
TEST(test_slow_list)
{
    static const struct ep_tasks_source source = {list_ask, list_read};

    begin();
    ep_tasks_attach(&source);
    assert_int_equal(ep_control_start(path, NULL), 1);
    static const char request[] = "POST /tasks HTTP/1.1\r\nHost: x\r\n\r\n";
    int waits = dial_unix(), gone = dial_unix();
    assert_int_equal(write(waits, request, sizeof request - 1), sizeof request - 1);
    assert_int_equal(write(gone, request, sizeof request - 1), sizeof request - 1);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(ask(dial_unix(), "GET /status", ""), 200);
    assert_int_equal(ask(dial_unix(), "POST /tasks", ""), 503);
    (void)close(gone);
    struct pollfd polled = {.fd = waits, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 0), 0); /* it waits still */
    atomic_store(&list_done, true);
    assert_int_equal(read_answer(waits), 200);
    assert_non_null(strstr(answer, "{\"text\":\"one\\n\""));
    ep_tasks_attach(NULL);
    end();
}

TEST(test_fork)
{
    int status = 0;

    begin();
    assert_int_equal(ep_control_start(path, NULL), 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(ep_control_stop() == -ESRCH && access(path, F_OK) == 0 ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ask(dial_unix(), "GET /status", ""), 200);
    end();
}

TEST_MAIN
