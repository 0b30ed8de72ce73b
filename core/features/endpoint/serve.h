/*
 * A small HTTP server for the control and the pull endpoint: a few clients at a time, on a thread of its own. The port
 * has the sockets. serve.c and address.c implement it.
 */
#ifndef EP_SERVE_H
#define EP_SERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/features/endpoint/answer.h"
#include <edgeprof/port_calls.h>

/* Minimum length of a token. */
#define EP_TOKEN_MIN 16u

struct ep_client {
    int socket; /* -1: free */
    uint8_t phase;
    uint64_t until_ns; /* deadline; then the client is disconnected */
    size_t fill;       /* bytes of its request read so far */
    struct ep_answer answer;
};

/* An endpoint: what it is, and its functions. They run on the endpoint's own thread, which serves all its clients. */
struct ep_service {
    enum ep_role role;
    void (*thread)(void); /* calls ep_serve() */
    size_t request_bytes, answer_bytes;
    uint64_t sending_ns; /* maximum time to send a body */
    /* Answers a request, or begins to: answer->look_ns says when look() continues. */
    void (*answer)(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer);
    /* NULL if all answers are complete at once. */
    void (*look)(char *buffer, struct ep_answer *answer);
    /* Returns the number of the next bytes of the body, from answer->sent on; 0: no more are available. NULL: the
     * endpoint's answers have no body behind the buffer. */
    size_t (*piece)(char *buffer, const struct ep_answer *answer);
    /* The client has disconnected or has everything; called for any answer. */
    void (*done)(struct ep_answer *answer);
};

struct ep_server {
    const struct ep_service *service;
    struct ep_client *client;
    unsigned clients; /* at most EP_PORT_CLIENTS */
    char *requests;   /* service->request_bytes for each client */
    char *buffer;     /* service->answer_bytes, shared by all clients */
    const char *token;
    atomic_bool running;
};

/* Starts serving at an address; a server is zero before its first start. Returns 0; -EALREADY; else the port's error.
 * Context: init. */
int ep_server_start(struct ep_server *server, const struct ep_address *where);
/* 0, -ESRCH, or -EBUSY: the thread has not ended. Context: init. */
int ep_server_stop(struct ep_server *server);

/* The body of the endpoint's thread. */
void ep_serve(struct ep_server *server);

/* Reads a port number; the text must contain only digits. 0: invalid. Context: any thread. */
uint16_t ep_address_port(const char *digits);
/* Reads "80" (a port of 127.0.0.1), "127.0.0.1:80", "localhost:80" or "[::1]:80". Returns 0 or -EINVAL.
 * Context: any thread. */
int ep_address_read(const char *text, struct ep_address *address);
/* True if only this machine can reach the address. Context: any thread. */
bool ep_address_loopback(const struct ep_address *address);

#endif
