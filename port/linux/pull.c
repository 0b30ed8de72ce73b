/*
 * The pull endpoint's address, and the division of its memory: clients, requests, the buffer for answers, and the rest
 * for profiles. core/features/endpoint/pull.c has the requests, serve.c the sockets.
 *
 *   ep_pull_start -> address_read -> memory_divide -> ep_pull_open -> ep_linux_server_start
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include <edgeprof/edgeprof.h>
#include "serve.h"

#define CLIENTS 8u

static void pull_thread(void);

static const struct ep_linux_service service = {
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
static struct ep_linux_server server;

static void pull_thread(void)
{
    ep_linux_serve(&server);
}

struct where {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address;
    socklen_t size;
    bool loopback;
};

/* Reads the host of "[::1]:80", without the brackets. */
static int six_read(const char *host, uint16_t port, struct where *to)
{
    to->address.six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    to->size = sizeof to->address.six;
    if (inet_pton(AF_INET6, host, &to->address.six.sin6_addr) != 1)
        return -EINVAL;
    to->loopback = IN6_IS_ADDR_LOOPBACK(&to->address.six.sin6_addr) != 0;
    return 0;
}

static int four_read(const char *host, uint16_t port, struct where *to)
{
    to->address.four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    to->size = sizeof to->address.four;
    if (inet_pton(AF_INET, host, &to->address.four.sin_addr) != 1)
        return -EINVAL;
    to->loopback = ntohl(to->address.four.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return 0;
}

static int address_read(const char *text, struct where *to)
{
    const char *colon = strrchr(text, ':');
    const uint16_t port = ep_linux_port(colon ? colon + 1 : text);
    char host[INET6_ADDRSTRLEN + 2] = "127.0.0.1";
    size_t size = colon ? (size_t)(colon - text) : 0;

    if (!port || size >= sizeof host)
        return -EINVAL;
    if (colon) {
        memcpy(host, text, size);
        host[size] = 0;
    }
    if (host[0] != '[')
        return four_read(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, to);
    if (size < 3 || host[size - 1] != ']')
        return -EINVAL;
    host[size - 1] = 0;
    return six_read(host + 1, port, to);
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
    server.client = (struct ep_linux_client *)(void *)at;
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
    struct where to = {0};

    if (!where || !*where)
        return 0;
    if (atomic_load(&server.running))
        return -EALREADY;
    server.token = token && *token ? token : NULL;
    int error = address_read(where, &to);
    if (error || (server.token ? strlen(server.token) < EP_LINUX_TOKEN_MIN : !to.loopback))
        return -EINVAL;
    if (!to.loopback && !config->insecure && !consent())
        return -EACCES;
    error = memory_divide(config);
    if (error)
        return error;
    error = ep_linux_server_start(&server, &to.address.any, to.size);
    if (error)
        ep_pull_close();
    return error ? error : 1;
}

int ep_pull_stop(void)
{
    int error = ep_linux_server_stop(&server);

    if (!error)
        ep_pull_close();
    return error;
}
