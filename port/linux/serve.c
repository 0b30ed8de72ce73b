/*
 * A small HTTP server on a thread of its own, which sleeps in poll(); see serve.h. edgeprof's other threads cannot
 * serve: the collect thread waits on a futex and must not wait for sockets, and the deliver thread may be in a send for
 * 10 s.
 *
 *   ep_linux_server_start -> listen_at -> (thread) ep_linux_serve -> accept_one, client_step
 *   client_step   READING until the request is complete -> WAITING until there is an answer -> SENDING the body in
 * pieces
 *                 -> LEAVING until the client closes: closing with unread bytes would discard the answer
 *
 * Slow clients are disconnected. The service judges requests. A forked child closes what it inherited and serves
 * nobody.
 */
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define ASKING_NS  2000000000u /* maximum time from accept to the end of the request */
#define LEAVING_NS 2000000000u
#define REFUSED_NS 100000000u
#define CLIENTS    8u /* maximum number of clients of a server */
#define SERVERS    2u

enum phase { READING, WAITING, SENDING, LEAVING };

/* All servers ever started, for forked children. */
static struct ep_linux_server *servers[SERVERS];

/* ---- clients ---- */

static void client_close(struct ep_linux_server *server, struct ep_linux_client *client)
{
    if (server->service->done)
        server->service->done(&client->answer);
    (void)close(client->fd);
    client->fd = -1;
}

static void phase_enter(struct ep_linux_client *client, enum phase phase, uint64_t patience_ns)
{
    client->phase = (uint8_t)phase;
    client->until_ns = ep_port_uptime_ns() + patience_ns;
}

/* Called when everything was sent: waits for the client to close. */
static void client_leave(struct ep_linux_server *server, struct ep_linux_client *client)
{
    if (server->service->done)
        server->service->done(&client->answer);
    if (shutdown(client->fd, SHUT_WR) != 0)
        client_close(server, client);
    else
        phase_enter(client, LEAVING, LEAVING_NS);
}

/* Sends as much of the body as the socket accepts now. */
static void send_body(struct ep_linux_server *server, struct ep_linux_client *client)
{
    struct ep_answer *answer = &client->answer;

    while (answer->sent < answer->body) {
        size_t size = server->service->piece(server->buffer, answer);
        ssize_t sent = size ? send(client->fd, server->buffer, size, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
        if (sent < 0 && size && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0) {
            client_close(server, client);
            return;
        }
        answer->sent += (uint64_t)sent;
        if ((size_t)sent < size)
            return;
    }
    client_leave(server, client);
}

/* The buffer fits into a new socket's send buffer. A client that has made that smaller is disconnected. */
static void send_head(struct ep_linux_server *server, struct ep_linux_client *client)
{
    const size_t size = client->answer.size;

    if (send(client->fd, server->buffer, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size) {
        client_close(server, client);
        return;
    }
    if (client->answer.body == 0) {
        client_leave(server, client);
        return;
    }
    phase_enter(client, SENDING, server->service->sending_ns);
    send_body(server, client);
}

static char *request_of(const struct ep_linux_server *server, const struct ep_linux_client *client)
{
    return server->requests + (size_t)(client - server->client) * server->service->request_bytes;
}

static void answer_to(struct ep_linux_server *server, struct ep_linux_client *client)
{
    server->service->answer(request_of(server, client), client->fill, server->token, server->buffer, &client->answer);
    if (client->answer.size)
        send_head(server, client);
    else
        phase_enter(client, WAITING, UINT64_MAX / 2);
}

static void read_more(struct ep_linux_server *server, struct ep_linux_client *client)
{
    const size_t room = server->service->request_bytes;
    char *request = request_of(server, client);
    const bool reading = client->phase == READING;
    ssize_t got = recv(client->fd, reading ? request + client->fill : server->buffer,
                       reading ? room - client->fill : server->service->answer_bytes, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        client_close(server, client);
        return;
    }
    if (!reading)
        return;
    client->fill += (size_t)got;
    if (ep_request_complete(request, client->fill, room))
        answer_to(server, client);
}

static void client_step(struct ep_linux_server *server, struct ep_linux_client *client)
{
    if (client->phase == WAITING)
        client_close(server, client); /* the client has hung up */
    else if (client->phase == SENDING)
        send_body(server, client);
    else
        read_more(server, client);
}

/* For a WAITING client POLLIN would fire all the time, so only its end is of interest. */
static short events_of(const struct ep_linux_client *client)
{
    return client->phase == WAITING ? POLLRDHUP : client->phase == SENDING ? POLLOUT : POLLIN;
}

static struct ep_linux_client *client_free(const struct ep_linux_server *server)
{
    for (unsigned i = 0; i < server->clients; i++)
        if (server->client[i].fd < 0)
            return &server->client[i];
    return NULL;
}

static void accept_one(struct ep_linux_server *server)
{
    struct ep_linux_client *client = client_free(server);
    int fd = client ? accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;

    if (fd < 0)
        return;
    *client = (struct ep_linux_client){.fd = fd};
    phase_enter(client, READING, ASKING_NS);
}

/* ---- serving ---- */

/* Answers the waiting clients that are due. */
static void answer_waiting(struct ep_linux_server *server)
{
    for (unsigned i = 0; i < server->clients; i++) {
        struct ep_linux_client *client = &server->client[i];
        if (client->fd < 0 || client->phase != WAITING || client->answer.look_ns > ep_port_uptime_ns())
            continue;
        server->service->look(server->buffer, &client->answer);
        if (client->answer.size)
            send_head(server, client);
    }
}

/* Disconnects clients that are late. Returns the ms until the next deadline, -1: none. */
static int close_late(struct ep_linux_server *server)
{
    uint64_t now = ep_port_uptime_ns(), next = UINT64_MAX;

    for (unsigned i = 0; i < server->clients; i++) {
        struct ep_linux_client *client = &server->client[i];
        if (client->fd >= 0 && client->until_ns <= now)
            client_close(server, client);
        if (client->fd < 0)
            continue;
        uint64_t due = client->phase == WAITING ? client->answer.look_ns : client->until_ns;
        next = due < next ? due : next;
    }
    return next == UINT64_MAX ? -1 : next <= now ? 0 : (int)((next - now) / 1000000u) + 1;
}

/* Where a filter of system calls refuses poll(), clients are not served, and this must not become a busy loop. */
static void wait_refused(void)
{
    const struct timespec pause = {.tv_nsec = REFUSED_NS};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

void ep_linux_serve(struct ep_linux_server *server)
{
    const unsigned clients = server->clients;
    struct pollfd polled[CLIENTS + 2];

    while (atomic_load(&server->running)) {
        answer_waiting(server);
        int timeout = close_late(server);
        for (unsigned i = 0; i < clients; i++)
            polled[i] = (struct pollfd){.fd = server->client[i].fd, .events = events_of(&server->client[i])};
        polled[clients] = (struct pollfd){.fd = client_free(server) ? server->listener : -1, .events = POLLIN};
        polled[clients + 1] = (struct pollfd){.fd = server->wake, .events = POLLIN};
        int ready = poll(polled, clients + 2, timeout);
        if (ready < 0 && errno != EINTR)
            wait_refused();
        if (ready <= 0)
            continue;
        for (unsigned i = 0; i < clients; i++)
            if (polled[i].revents && server->client[i].fd >= 0)
                client_step(server, &server->client[i]);
        if (polled[clients].revents)
            accept_one(server);
    }
    for (unsigned i = 0; i < clients; i++)
        if (server->client[i].fd >= 0)
            client_close(server, &server->client[i]);
}

/* ---- listening ---- */

static int listen_at(struct ep_linux_server *server, const struct sockaddr *address, socklen_t size)
{
    const int on = 1;

    server->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listener < 0)
        return -errno;
    if (address->sa_family == AF_UNIX)
        return ep_linux_path_listen(server, (const struct sockaddr_un *)(const void *)address);
    (void)setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(server->listener, address, size) != 0)
        return -errno;
    return listen(server->listener, (int)server->clients) == 0 ? 0 : -errno;
}

uint16_t ep_linux_port(const char *digits)
{
    uint32_t port = 0;

    for (; *digits; digits++) {
        if (*digits < '0' || *digits > '9' || port > UINT16_MAX)
            return 0;
        port = port * 10 + (uint32_t)(*digits - '0');
    }
    return port > UINT16_MAX ? 0 : (uint16_t)port;
}

/* ---- start and stop ---- */

static void close_all(struct ep_linux_server *server)
{
    if (server->listener >= 0)
        (void)close(server->listener);
    if (server->wake >= 0)
        (void)close(server->wake);
    server->listener = server->wake = -1;
}

static void server_forget(struct ep_linux_server *server)
{
    close_all(server);
    ep_linux_path_forget(server);
    atomic_store(&server->running, false);
}

static void servers_forked(void)
{
    for (unsigned i = 0; i < SERVERS && servers[i]; i++) {
        if (!atomic_exchange(&servers[i]->running, false))
            continue;
        close_all(servers[i]);
        servers[i]->path.sun_path[0] = 0; /* belongs to the parent */
        for (unsigned k = 0; k < servers[i]->clients; k++)
            if (servers[i]->client[k].fd >= 0)
                (void)close(servers[i]->client[k].fd);
    }
}

static void server_register(struct ep_linux_server *server)
{
    unsigned i = 0;

    if (!servers[0] && pthread_atfork(NULL, NULL, servers_forked) != 0)
        return;
    while (i < SERVERS && servers[i] && servers[i] != server)
        i++;
    if (i < SERVERS)
        servers[i] = server;
}

int ep_linux_server_start(struct ep_linux_server *server, const struct sockaddr *address, socklen_t size)
{
    if (atomic_exchange(&server->running, true))
        return -EALREADY;
    server->wake = -1;
    for (unsigned i = 0; i < server->clients; i++)
        server->client[i].fd = -1;
    int error = listen_at(server, address, size);
    if (!error) {
        server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        error = server->wake < 0 ? -errno : 0;
    }
    if (!error) {
        server_register(server);
        ep_threads_needed();
        error = ep_port_thread_start(server->service->role, server->service->thread);
    }
    if (error)
        server_forget(server);
    return error;
}

int ep_linux_server_stop(struct ep_linux_server *server)
{
    const uint64_t one = 1;

    if (!atomic_exchange(&server->running, false))
        return -ESRCH;
    (void)!write(server->wake, &one, sizeof one);
    (void)ep_port_thread_join(server->service->role);
    server_forget(server);
    return 0;
}
