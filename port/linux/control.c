/*
 * The control endpoint's address (a unix socket, or a port of 127.0.0.1) and memory. core/features/endpoint/control.c
 * has the requests, serve.c the sockets.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <edgeprof/edgeprof.h>
#include "serve.h"

#define CLIENTS 4u

static void control_thread(void);

static const struct ep_linux_service service = {
    .role = EP_ROLE_CONTROL,
    .thread = control_thread,
    .request_bytes = EP_CONTROL_REQUEST,
    .answer_bytes = EP_CONTROL_ANSWER,
    .answer = ep_control_answer,
    .look = ep_control_look,
    .done = ep_control_done,
};
static struct ep_linux_client client[CLIENTS];
static char requests[CLIENTS * EP_CONTROL_REQUEST], buffer[EP_CONTROL_ANSWER];
static struct ep_linux_server server;

static void control_thread(void)
{
    ep_linux_serve(&server);
}

static int start_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);

    if (size >= sizeof address.sun_path)
        return -EINVAL;
    memcpy(address.sun_path, path, size + 1);
    return ep_linux_server_start(&server, (const struct sockaddr *)&address, sizeof address);
}

static int start_port(const char *digits, const char *token)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(ep_linux_port(digits))};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (address.sin_port == 0 || !token || strlen(token) < EP_LINUX_TOKEN_MIN)
        return -EINVAL;
    return ep_linux_server_start(&server, (const struct sockaddr *)&address, sizeof address);
}

int ep_control_start(const char *where, const char *token)
{
    if (!where) {
        where = ep_port_env("EDGEPROF_CONTROL");
        token = ep_port_env("EDGEPROF_CONTROL_TOKEN");
    }
    if (!where || !*where)
        return 0;
    if (atomic_load(&server.running))
        return -EALREADY;
    server.service = &service;
    server.client = client;
    server.clients = CLIENTS;
    server.requests = requests;
    server.buffer = buffer;
    server.token = token && *token ? token : NULL;
    int error = where[0] == '/' ? start_unix(where) : start_port(where, server.token);
    return error ? error : 1;
}

int ep_control_stop(void)
{
    return ep_linux_server_stop(&server);
}
