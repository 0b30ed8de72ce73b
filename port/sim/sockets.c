/*
 * Sockets of the simulated port; see sim.h. A socket's number is its client's. A role that waits for sockets waits for
 * an event, which each action of a client signals.
 */
#include "sim.h"

#include <errno.h>
#include <string.h>

#define CLIENTS 12u
#define ASKED   4096u  /* bytes that a client may send before they are read */
#define ANSWER  65536u /* at least ep_sim.socket_room */

enum state { FREE, QUEUED, ACCEPTED };

static struct {
    enum state state;
    enum ep_role role;
    bool gone;     /* the client has closed its end */
    bool finished; /* the endpoint sends no more */
    size_t asked, answered;
    uint8_t ask[ASKED], answer[ANSWER];
} clients[CLIENTS];

static struct {
    bool open, woken;
    struct ep_event event;
} listeners[EP_ROLES];

void ep_sim_sockets_reset(void)
{
    memset(clients, 0, sizeof clients);
    memset(listeners, 0, sizeof listeners);
}

/* ---- the endpoint's side ---- */

int ep_port_listen(enum ep_role role, const struct ep_address *where, unsigned most)
{
    int error = ep_sim_fails("listen");

    if (error)
        return error;
    ep_sim.listen[role] = *where;
    ep_sim.listen_clients[role] = most;
    listeners[role].open = true;
    listeners[role].woken = false;
    return 0;
}

void ep_port_listen_end(enum ep_role role)
{
    listeners[role].open = false;
    for (unsigned i = 0; i < CLIENTS; i++)
        if (clients[i].state == QUEUED && clients[i].role == role)
            clients[i].state = FREE;
}

static int queued(enum ep_role role)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        if (clients[i].state == QUEUED && clients[i].role == role)
            return (int)i;
    return -EAGAIN;
}

int ep_port_accept(enum ep_role role)
{
    int socket = queued(role), error = ep_sim_fails("accept");

    if (error || socket < 0)
        return error ? error : socket;
    clients[socket].state = ACCEPTED;
    return socket;
}

int64_t ep_port_socket_read(int socket, void *bytes, size_t size)
{
    int error = ep_sim_fails("socket_read");

    if (error)
        return error;
    if (clients[socket].asked == 0)
        return clients[socket].gone ? 0 : -EAGAIN;
    if (size > clients[socket].asked)
        size = clients[socket].asked;
    memcpy(bytes, clients[socket].ask, size);
    clients[socket].asked -= size;
    memmove(clients[socket].ask, clients[socket].ask + size, clients[socket].asked);
    return (int64_t)size;
}

static size_t room(int socket)
{
    const size_t most = ep_sim.socket_room < ANSWER ? ep_sim.socket_room : ANSWER;

    return clients[socket].answered < most ? most - clients[socket].answered : 0;
}

int64_t ep_port_socket_write(int socket, const void *bytes, size_t size)
{
    int error = clients[socket].gone ? -EPIPE : ep_sim_fails("socket_write");

    if (error)
        return error;
    if (size > room(socket))
        size = room(socket);
    memcpy(clients[socket].answer + clients[socket].answered, bytes, size);
    clients[socket].answered += size;
    return size ? (int64_t)size : -EAGAIN;
}

int ep_port_socket_finish(int socket)
{
    int error = ep_sim_fails("socket_finish");

    clients[socket].finished |= !error;
    return error;
}

void ep_port_socket_close(int socket)
{
    clients[socket].state = FREE;
}

static bool has(int socket, enum ep_socket_want want)
{
    if (clients[socket].gone)
        return true;
    return want == EP_SOCKET_BYTES ? clients[socket].asked > 0 : want == EP_SOCKET_ROOM && room(socket) > 0;
}

bool ep_port_sockets_wait(enum ep_role role, struct ep_socket_wait *sockets, unsigned count, bool accept,
                          uint64_t timeout_ns)
{
    const uint64_t until = timeout_ns < UINT64_MAX - ep_sim.uptime_ns ? ep_sim.uptime_ns + timeout_ns : UINT64_MAX;

    for (;;) {
        const unsigned seen = atomic_load(&listeners[role].event.value);
        const bool comes = accept && queued(role) >= 0;
        bool any = comes || listeners[role].woken;
        for (unsigned i = 0; i < count; i++) {
            sockets[i].ready = has(sockets[i].socket, sockets[i].want);
            any |= sockets[i].ready;
        }
        if (any || ep_sim.uptime_ns >= until)
            return comes;
        ep_port_wait(&listeners[role].event, seen, until - ep_sim.uptime_ns);
    }
}

void ep_port_sockets_wake(enum ep_role role)
{
    listeners[role].woken = true;
    ep_port_wake(&listeners[role].event);
}

/* ---- the client's side ---- */

int ep_sim_connect(enum ep_role role)
{
    int socket = 0;

    while (socket < (int)CLIENTS && clients[socket].state != FREE)
        socket++;
    if (!listeners[role].open || socket == (int)CLIENTS)
        return -ECONNREFUSED;
    memset(&clients[socket], 0, sizeof clients[socket]);
    clients[socket].state = QUEUED;
    clients[socket].role = role;
    ep_port_wake(&listeners[role].event);
    return socket;
}

void ep_sim_client_send(int socket, const void *bytes, size_t size)
{
    const size_t free_bytes = ASKED - clients[socket].asked;

    if (size > free_bytes)
        size = free_bytes;
    memcpy(clients[socket].ask + clients[socket].asked, bytes, size);
    clients[socket].asked += size;
    ep_port_wake(&listeners[clients[socket].role].event);
}

size_t ep_sim_client_receive(int socket, void *bytes, size_t size)
{
    if (size > clients[socket].answered)
        size = clients[socket].answered;
    memcpy(bytes, clients[socket].answer, size);
    clients[socket].answered -= size;
    memmove(clients[socket].answer, clients[socket].answer + size, clients[socket].answered);
    ep_port_wake(&listeners[clients[socket].role].event);
    return size;
}

void ep_sim_client_close(int socket)
{
    clients[socket].gone = true;
    if (clients[socket].state == QUEUED)
        clients[socket].state = FREE;
    ep_port_wake(&listeners[clients[socket].role].event);
}

enum ep_sim_socket ep_sim_client_state(int socket)
{
    return clients[socket].state == FREE ? EP_SIM_CLOSED : clients[socket].finished ? EP_SIM_FINISHED : EP_SIM_OPEN;
}
