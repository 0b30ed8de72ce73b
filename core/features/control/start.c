/*
 * Where the control endpoint listens (a Unix socket, or a port of 127.0.0.1), and its memory. control.c has the
 * requests, serve.c the clients.
 */
#include <errno.h>
#include <string.h>

#include "core/features/control/control.h"
#include "core/features/endpoint/serve.h"
#include <edgeprof/edgeprof.h>

#define CLIENTS 4u

static void control_thread(void);

static const struct ep_service service = {
    .role = EP_ROLE_CONTROL,
    .thread = control_thread,
    .request_bytes = EP_CONTROL_REQUEST,
    .answer_bytes = EP_CONTROL_ANSWER,
    .answer = ep_control_answer,
    .look = ep_control_look,
    .done = ep_control_done,
};
static struct ep_client client[CLIENTS];
/* From the first start on. */
static struct {
    char requests[CLIENTS * EP_CONTROL_REQUEST], buffer[EP_CONTROL_ANSWER];
} * memory;
static struct ep_server server;

static void control_thread(void)
{
    ep_serve(&server);
}

int ep_control_start(const char *where, const char *token)
{
    struct ep_address address = {.ip = {127, 0, 0, 1}, .ip_size = 4};

    if (!where) {
        where = ep_port_env("EDGEPROF_CONTROL");
        token = ep_port_env("EDGEPROF_CONTROL_TOKEN");
    }
    if (!where || !*where)
        return 0;
    if (atomic_load(&server.running))
        return -EALREADY;
    if (!memory && !(memory = ep_port_memory(sizeof *memory)))
        return -ENOMEM;
    server.service = &service;
    server.client = client;
    server.clients = CLIENTS;
    server.requests = memory->requests;
    server.buffer = memory->buffer;
    server.token = token && *token ? token : NULL;
    if (where[0] == '/') {
        address.path = where;
    } else {
        address.port = ep_address_port(where);
        if (!address.port || !server.token || strlen(server.token) < EP_TOKEN_MIN)
            return -EINVAL;
    }
    int error = ep_server_start(&server, &address);
    return error ? error : 1;
}

int ep_control_stop(void)
{
    return ep_server_stop(&server);
}
