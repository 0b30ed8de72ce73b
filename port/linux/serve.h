/*
 * A small HTTP server for the control and the pull endpoint: a listening socket, a few clients at a time, a thread of
 * its own. Private to serve.c, control.c and pull.c of port/linux.
 */
#ifndef EP_LINUX_SERVE_H
#define EP_LINUX_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <edgeprof/port_calls.h>

#define EP_LINUX_TOKEN_MIN 16u

struct ep_linux_client {
    int fd; /* -1: free */
    uint8_t phase;
    uint64_t until_ns; /* deadline; then the client is disconnected */
    size_t fill;       /* bytes of its request read so far */
    struct ep_answer answer;
};

/* The functions of an endpoint; see port.h. */
struct ep_linux_service {
    enum ep_role role;
    void (*thread)(void); /* calls ep_linux_serve() */
    size_t request_bytes, answer_bytes;
    uint64_t sending_ns; /* maximum time to send a body */
    void (*answer)(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer);
    /* NULL if all answers are complete at once. */
    void (*look)(char *buffer, struct ep_answer *answer);
    size_t (*piece)(char *buffer, const struct ep_answer *answer);
    void (*done)(struct ep_answer *answer);
};

struct ep_linux_server {
    const struct ep_linux_service *service;
    struct ep_linux_client *client;
    unsigned clients;
    char *requests; /* service->request_bytes for each client */
    char *buffer;   /* service->answer_bytes, shared by all clients */
    const char *token;
    atomic_bool running;
    int listener, wake;
    struct sockaddr_un path; /* sun_path[0] is 0 if it is not a unix socket */
    uint64_t path_device, path_inode;
};

/* Starts serving at an address; a server is zero before its first start. Returns 0; -EALREADY; else the system's
 * error. Context: init. */
int ep_linux_server_start(struct ep_linux_server *server, const struct sockaddr *address, socklen_t size);
/* 0 or -ESRCH. Context: init. */
int ep_linux_server_stop(struct ep_linux_server *server);

/* The body of the endpoint's thread. */
void ep_linux_serve(struct ep_linux_server *server);

/* Listens at a path (socket_path.c): only this user may connect. Replaces the socket of an ended process. Returns 0;
 * -EADDRINUSE; -EPERM: everybody may rename files of that folder; else the system's error. Context: init. */
int ep_linux_path_listen(struct ep_linux_server *server, const struct sockaddr_un *path);
/* Removes the socket's file if it is still the one that this server made. Context: init. */
void ep_linux_path_forget(struct ep_linux_server *server);

/* Reads a port number; the text must contain only digits. 0: invalid. Context: any thread. */
uint16_t ep_linux_port(const char *digits);

#endif
