/*
 * The control endpoint's sockets: a unix socket or a port of 127.0.0.1, a few clients at a time, each with a deadline.
 *
 * It has a thread of its own, which sleeps in poll() and exists only in programs that asked for the endpoint. The other
 * two cannot serve it: the collect thread waits on a futex, because handlers wake it by one system call that may not
 * block, and must not wait for anybody's socket; the deliver thread may be in the middle of a send for ten seconds.
 *
 *   ep_control_start -> listen_unix | listen_tcp -> (thread) serve -> accept_one, client_round
 *   client_round     reads until the request is complete, answers at once, then waits for the other side to close:
 *                    closing with unread bytes would take the answer back
 *
 * What a client sends is core/control.c's to judge. A forked child closes what it inherited and serves nobody.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/edgeprof.h"
#include "port/port.h"

#define CLIENTS   4
#define CLIENT_NS 2000000000u /* from accept to the end */
#define TOKEN_MIN 16
#define PORT_MOST 65535u

struct client {
    int fd; /* -1: free */
    bool answered;
    uint64_t until_ns;
    size_t fill;
    char request[EP_CONTROL_REQUEST];
};

static struct {
    atomic_bool running;
    bool fork_hooked;
    int listener, wake;
    const char *token;
    struct sockaddr_un path; /* sun_path[0] is 0: a port */
    struct client client[CLIENTS];
    char answer[EP_CONTROL_ANSWER];
} control;

/* ---- clients ---- */

static void client_close(struct client *client)
{
    (void)close(client->fd);
    client->fd = -1;
}

/* The answer fits into a new socket's buffer; who has made that too small does not get it. */
static void client_answer(struct client *client)
{
    size_t size = ep_control_answer(client->request, client->fill, control.token, control.answer);

    client->answered = true;
    if (send(client->fd, control.answer, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size ||
        shutdown(client->fd, SHUT_WR) != 0)
        client_close(client);
}

static void client_round(struct client *client)
{
    char ignored[256];
    char *to = client->answered ? ignored : client->request + client->fill;
    size_t room = client->answered ? sizeof ignored : sizeof client->request - client->fill;
    ssize_t got = recv(client->fd, to, room, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        client_close(client);
        return;
    }
    if (client->answered)
        return;
    client->fill += (size_t)got;
    if (ep_control_complete(client->request, client->fill))
        client_answer(client);
}

static struct client *client_free(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        if (control.client[i].fd < 0)
            return &control.client[i];
    return NULL;
}

static void accept_one(void)
{
    struct client *client = client_free();
    int fd = client ? accept4(control.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;

    if (fd < 0)
        return;
    client->fd = fd;
    client->answered = false;
    client->fill = 0;
    client->until_ns = ep_port_uptime_ns() + CLIENT_NS;
}

/* Closes who is late. Returns the ms until the next one is, -1: nobody. */
static int patience(void)
{
    uint64_t now = ep_port_uptime_ns(), next = UINT64_MAX;

    for (unsigned i = 0; i < CLIENTS; i++) {
        struct client *client = &control.client[i];
        if (client->fd >= 0 && client->until_ns <= now)
            client_close(client);
        if (client->fd >= 0 && client->until_ns < next)
            next = client->until_ns;
    }
    return next == UINT64_MAX ? -1 : (int)((next - now) / 1000000u) + 1;
}

static void serve(void)
{
    while (atomic_load(&control.running)) {
        int timeout = patience();
        struct pollfd polled[CLIENTS + 2] = {
            [CLIENTS] = {.fd = client_free() ? control.listener : -1, .events = POLLIN},
            [CLIENTS + 1] = {.fd = control.wake, .events = POLLIN},
        };
        for (unsigned i = 0; i < CLIENTS; i++)
            polled[i] = (struct pollfd){.fd = control.client[i].fd, .events = POLLIN};
        if (poll(polled, CLIENTS + 2, timeout) <= 0)
            continue;
        for (unsigned i = 0; i < CLIENTS; i++)
            if (polled[i].revents)
                client_round(&control.client[i]);
        if (polled[CLIENTS].revents)
            accept_one();
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        if (control.client[i].fd >= 0)
            client_close(&control.client[i]);
}

/* ---- listening ---- */

static int bound(int fd, const void *address, socklen_t size)
{
    if (fd < 0)
        return -errno;
    if (bind(fd, address, size) == 0) {
        control.listener = fd;
        return 0;
    }
    int error = -errno;
    (void)close(fd);
    return error;
}

static int listen_tcp(const char *digits)
{
    const int on = 1;
    uint32_t port = 0;

    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || port > PORT_MOST)
            return -EINVAL;
        port = port * 10 + (uint32_t)(*digits - '0');
    }
    if (port == 0 || port > PORT_MOST || !control.token || strlen(control.token) < TOKEN_MIN)
        return -EINVAL;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bound(fd, &address, sizeof address);
}

/* A socket that nobody listens on was left behind by a process that is gone. */
static void remove_stale(void)
{
    struct stat about;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return;
    if (stat(control.path.sun_path, &about) == 0 && S_ISSOCK(about.st_mode) &&
        connect(fd, (const struct sockaddr *)&control.path, sizeof control.path) != 0 && errno == ECONNREFUSED)
        (void)unlink(control.path.sun_path);
    (void)close(fd);
}

/* Nobody can connect before listen(), so nobody sees the socket with the permissions that bind gives it. */
static int listen_unix(const char *path)
{
    size_t size = strlen(path);

    if (size >= sizeof control.path.sun_path)
        return -EINVAL;
    control.path.sun_family = AF_UNIX;
    memcpy(control.path.sun_path, path, size + 1);
    remove_stale();
    int error =
        bound(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), &control.path, sizeof control.path);
    if (error)
        control.path.sun_path[0] = 0;
    else if (chmod(path, S_IRUSR | S_IWUSR) != 0)
        error = -errno;
    return error;
}

/* ---- start and stop ---- */

static void close_all(void)
{
    if (control.listener >= 0)
        (void)close(control.listener);
    if (control.wake >= 0)
        (void)close(control.wake);
    control.listener = control.wake = -1;
}

static void forget(void)
{
    close_all();
    if (control.path.sun_path[0])
        (void)unlink(control.path.sun_path);
    control.path.sun_path[0] = 0;
    atomic_store(&control.running, false);
}

static void fork_child(void)
{
    if (!atomic_exchange(&control.running, false))
        return;
    close_all();
    control.path.sun_path[0] = 0; /* the parent's */
    for (unsigned i = 0; i < CLIENTS; i++)
        if (control.client[i].fd >= 0)
            client_close(&control.client[i]);
}

static int begin(const char *where)
{
    int error = where[0] == '/' ? listen_unix(where) : listen_tcp(where);

    if (error)
        return error;
    control.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control.wake < 0 || listen(control.listener, CLIENTS) != 0)
        return -errno;
    if (!control.fork_hooked)
        control.fork_hooked = pthread_atfork(NULL, NULL, fork_child) == 0;
    for (unsigned i = 0; i < CLIENTS; i++)
        control.client[i].fd = -1;
    return ep_port_thread_start(EP_ROLE_CONTROL, serve);
}

int ep_control_start(const char *where, const char *token)
{
    if (!where) {
        where = ep_port_env("EDGEPROF_CONTROL");
        token = ep_port_env("EDGEPROF_CONTROL_TOKEN");
    }
    if (!where || !*where)
        return 0;
    if (atomic_exchange(&control.running, true))
        return -EALREADY;
    control.token = token && *token ? token : NULL;
    control.listener = control.wake = -1;
    int error = begin(where);
    if (error)
        forget();
    return error ? error : 1;
}

int ep_control_stop(void)
{
    const uint64_t one = 1;

    if (!atomic_exchange(&control.running, false))
        return -ESRCH;
    (void)!write(control.wake, &one, sizeof one);
    (void)ep_port_thread_join(EP_ROLE_CONTROL);
    forget();
    return 0;
}
