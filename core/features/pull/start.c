/*
 * Where the pull endpoint listens, and the division of its memory: clients, requests, the buffer for answers, and the
 * rest for profiles. pull.c has the requests, serve.c the clients.
 *
 *   ep_pull_start -> ep_address_read -> memory_divide -> ep_pull_open -> ep_server_start
 */
#include <errno.h>
#include <string.h>

#include "core/features/endpoint/serve.h"
#include "core/features/pull/pull.h"
#include <edgeprof/edgeprof.h>

#define CLIENTS EP_PORT_CLIENTS

static void pull_thread(void);

static const struct ep_service service = {
    .role = EP_ROLE_PULL,
    .thread = pull_thread,
    .request_bytes = EP_PULL_REQUEST,
    .answer_bytes = EP_PULL_ANSWER,
    .sending_ns = 20000000000u,
    .answer = ep_pull_answer,
    .look = ep_pull_look,
    .piece = ep_pull_piece,
    .done = ep_pull_done,
};
static struct ep_server server;

static void pull_thread(void)
{
    ep_serve(&server);
}

/* Divides the memory; the rest goes to the profiles. */
static int memory_divide(const struct ep_pull_config *config)
{
    const size_t clients = CLIENTS * sizeof server.client[0], requests = CLIENTS * EP_PULL_REQUEST;
    const size_t lost = -(uintptr_t)config->memory & 15, ours = lost + clients + requests + EP_PULL_ANSWER;
    uint8_t *at = (uint8_t *)config->memory + lost;

    if (!config->memory)
        return -EINVAL;
    if (config->memory_size < EP_PULL_MEMORY_MIN)
        return -ENOMEM;
    server.service = &service;
    server.clients = CLIENTS;
    server.client = (struct ep_client *)(void *)at;
    server.requests = (char *)at + clients;
    server.buffer = server.requests + requests;
    return ep_pull_open((uint8_t *)config->memory + ours, config->memory_size - ours);
}

static bool consent(void)
{
    const char *text = ep_port_env("EDGEPROF_PULL_INSECURE");

    return text && strcmp(text, "1") == 0;
}

int ep_pull_start(const struct ep_pull_config *config)
{
    const char *where = config->where ? config->where : ep_port_env("EDGEPROF_PULL");
    const char *token = config->where ? config->token : ep_port_env("EDGEPROF_PULL_TOKEN");
    struct ep_address address;

    if (!where || !*where)
        return 0;
    if (atomic_load(&server.running))
        return -EALREADY;
    server.token = token && *token ? token : NULL;
    int error = ep_address_read(where, &address);
    if (error || (server.token ? strlen(server.token) < EP_TOKEN_MIN : !ep_address_loopback(&address)))
        return -EINVAL;
    if (!ep_address_loopback(&address) && !config->insecure && !consent())
        return -EACCES;
    error = memory_divide(config);
    if (error)
        return error;
    error = ep_server_start(&server, &address);
    if (error)
        ep_pull_close();
    return error ? error : 1;
}

int ep_pull_stop(void)
{
    int error = ep_server_stop(&server);

    if (!error)
        ep_pull_close();
    return error;
}
