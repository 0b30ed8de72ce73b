/*
 * A small HTTP server on a thread of its own, which sleeps in ep_port_sockets_wait(); see serve.h. edgeprof's other
 * threads cannot serve: the collect thread waits for an event and must not wait for sockets, and the deliver thread may
 * be in a send for 10 s.
 *
 *   ep_server_start -> ep_port_listen -> (thread) ep_serve -> client_accept, client_step
 *
 * A client passes these phases:
 *   READING   until the request is complete
 *   WAITING   until there is an answer
 *   SENDING   the body, in pieces
 *   LEAVING   until the client closes: closing with unread bytes would discard the answer
 *
 * Slow clients are disconnected. The service judges requests. A forked child closes what it inherited and serves
 * nobody.
 */
#include <errno.h>
#include <string.h>

#include "core/features/endpoint/serve.h"

#define ASKING_NS  2000000000u /* maximum time from accept to the end of the request */
#define LEAVING_NS 2000000000u
#define ENDS_NS    10000000000u /* until a thread that does not end is given up */
#define SERVERS    2u

enum phase { READING, WAITING, SENDING, LEAVING };

/* All servers ever started, for forked children. */
static struct ep_server *servers[SERVERS];

/* ---- clients ---- */

static void client_close(struct ep_server *server, struct ep_client *client)
{
    if (server->service->done)
        server->service->done(&client->answer);
    ep_port_socket_close(client->socket);
    client->socket = -1;
}

static void phase_enter(struct ep_client *client, enum phase phase, uint64_t patience_ns)
{
    client->phase = (uint8_t)phase;
    client->until_ns = ep_port_uptime_ns() + patience_ns;
}

/* Called when everything was sent: waits for the client to close. */
static void client_leave(struct ep_server *server, struct ep_client *client)
{
    if (server->service->done)
        server->service->done(&client->answer);
    if (ep_port_socket_finish(client->socket) != 0)
        client_close(server, client);
    else
        phase_enter(client, LEAVING, LEAVING_NS);
}

/* Sends as much of the body as the socket accepts now. */
static void send_body(struct ep_server *server, struct ep_client *client)
{
    struct ep_answer *answer = &client->answer;

    while (answer->sent < answer->body) {
        size_t size = server->service->piece(server->buffer, answer);
        int64_t sent = size ? ep_port_socket_write(client->socket, server->buffer, size) : -EIO;
        if (sent == -EAGAIN)
            return;
        if (sent < 0) {
            client_close(server, client);
            return;
        }
        answer->sent += (uint64_t)sent;
        if ((uint64_t)sent < size)
            return;
    }
    client_leave(server, client);
}

/* The buffer fits into a new socket's send buffer. A client that has made that smaller is disconnected. */
static void send_head(struct ep_server *server, struct ep_client *client)
{
    const size_t size = client->answer.size;

    if (ep_port_socket_write(client->socket, server->buffer, size) != (int64_t)size) {
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

static char *request_of(const struct ep_server *server, const struct ep_client *client)
{
    return server->requests + (size_t)(client - server->client) * server->service->request_bytes;
}

static void answer_to(struct ep_server *server, struct ep_client *client)
{
    server->service->answer(request_of(server, client), client->fill, server->token, server->buffer, &client->answer);
    if (client->answer.size)
        send_head(server, client);
    else
        phase_enter(client, WAITING, UINT64_MAX / 2);
}

static void read_more(struct ep_server *server, struct ep_client *client)
{
    const size_t room = server->service->request_bytes;
    char *request = request_of(server, client);
    const bool reading = client->phase == READING;
    int64_t got = ep_port_socket_read(client->socket, reading ? request + client->fill : server->buffer,
                                      reading ? room - client->fill : server->service->answer_bytes);

    if (got == -EAGAIN)
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

static void client_step(struct ep_server *server, struct ep_client *client)
{
    if (client->phase == WAITING)
        client_close(server, client); /* the client has hung up */
    else if (client->phase == SENDING)
        send_body(server, client);
    else
        read_more(server, client);
}

/* A WAITING client may send more, which nobody reads, so only its end is of interest. */
static enum ep_socket_want want_of(const struct ep_client *client)
{
    return client->phase == WAITING ? EP_SOCKET_END : client->phase == SENDING ? EP_SOCKET_ROOM : EP_SOCKET_BYTES;
}

static struct ep_client *client_free(const struct ep_server *server)
{
    for (unsigned i = 0; i < server->clients; i++)
        if (server->client[i].socket < 0)
            return &server->client[i];
    return NULL;
}

static void client_accept(struct ep_server *server)
{
    struct ep_client *client = client_free(server);
    int socket = client ? ep_port_accept(server->service->role) : -1;

    if (socket < 0)
        return;
    *client = (struct ep_client){.socket = socket};
    phase_enter(client, READING, ASKING_NS);
}

/* ---- serving ---- */

/* Answers the waiting clients that are due. */
static void answer_waiting(struct ep_server *server)
{
    for (unsigned i = 0; i < server->clients; i++) {
        struct ep_client *client = &server->client[i];
        if (client->socket < 0 || client->phase != WAITING || client->answer.look_ns > ep_port_uptime_ns())
            continue;
        server->service->look(server->buffer, &client->answer);
        if (client->answer.size)
            send_head(server, client);
    }
}

/* Disconnects clients that are late. Returns the time until the next deadline, UINT64_MAX: none. */
static uint64_t close_late(struct ep_server *server)
{
    uint64_t now = ep_port_uptime_ns(), next = UINT64_MAX;

    for (unsigned i = 0; i < server->clients; i++) {
        struct ep_client *client = &server->client[i];
        if (client->socket >= 0 && client->until_ns <= now)
            client_close(server, client);
        if (client->socket < 0)
            continue;
        uint64_t due = client->phase == WAITING ? client->answer.look_ns : client->until_ns;
        next = due < next ? due : next;
    }
    return next == UINT64_MAX ? next : next <= now ? 0 : next - now;
}

/* Waits until there is something to do, and serves the clients that have something to read or to be sent. */
static void serve_round(struct ep_server *server, uint64_t timeout_ns)
{
    struct ep_socket_wait waits[EP_PORT_CLIENTS];
    struct ep_client *of[EP_PORT_CLIENTS];
    unsigned count = 0;

    for (unsigned i = 0; i < server->clients; i++) {
        struct ep_client *client = &server->client[i];
        if (client->socket < 0)
            continue;
        waits[count] = (struct ep_socket_wait){.socket = client->socket, .want = want_of(client)};
        of[count++] = client;
    }
    bool comes = ep_port_sockets_wait(server->service->role, waits, count, client_free(server) != NULL, timeout_ns);
    for (unsigned i = 0; i < count; i++)
        if (waits[i].ready)
            client_step(server, of[i]);
    if (comes)
        client_accept(server);
}

void ep_serve(struct ep_server *server)
{
    while (atomic_load(&server->running)) {
        answer_waiting(server);
        serve_round(server, close_late(server));
    }
    for (unsigned i = 0; i < server->clients; i++)
        if (server->client[i].socket >= 0)
            client_close(server, &server->client[i]);
}

/* ---- start and stop ---- */

static void servers_forked(void)
{
    for (unsigned i = 0; i < SERVERS && servers[i]; i++) {
        struct ep_server *server = servers[i];
        if (!atomic_exchange(&server->running, false))
            continue;
        ep_port_listen_end(server->service->role);
        for (unsigned k = 0; k < server->clients; k++)
            if (server->client[k].socket >= 0)
                ep_port_socket_close(server->client[k].socket);
    }
}

/* Makes forked children close the server's sockets. */
static int server_register(struct ep_server *server)
{
    unsigned i = 0;
    int error = servers[0] ? 0 : ep_port_forks(servers_forked);

    while (!error && i < SERVERS && servers[i] && servers[i] != server)
        i++;
    if (!error && i < SERVERS)
        servers[i] = server;
    return error;
}

int ep_server_start(struct ep_server *server, const struct ep_address *where)
{
    const struct ep_service *service = server->service;

    if (atomic_exchange(&server->running, true))
        return -EALREADY;
    for (unsigned i = 0; i < server->clients; i++)
        server->client[i].socket = -1;
    int error = server_register(server);
    if (!error)
        error = ep_port_listen(service->role, where, server->clients);
    if (!error) {
        ep_threads_needed();
        error = ep_port_thread_start(service->role, service->thread);
        if (error)
            ep_port_listen_end(service->role);
    }
    if (error)
        atomic_store(&server->running, false);
    return error;
}

int ep_server_stop(struct ep_server *server)
{
    if (!atomic_exchange(&server->running, false))
        return -ESRCH;
    ep_port_sockets_wake(server->service->role);
    /* A thread that does not end keeps its sockets and its memory. */
    if (ep_port_thread_join(server->service->role, ep_port_uptime_ns() + ENDS_NS) == -ETIMEDOUT) {
        atomic_store(&server->running, true);
        return -EBUSY;
    }
    ep_port_listen_end(server->service->role);
    return 0;
}
