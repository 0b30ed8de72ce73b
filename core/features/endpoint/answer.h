/*
 * Requests and answers of the control and the pull endpoint, without sockets. A client sends one HTTP/1.1 request
 * without a body. serve.c calls these functions; control.c, pull.c and request.c implement them.
 */
#ifndef EP_ANSWER_H
#define EP_ANSWER_H

#include <stddef.h>
#include <stdint.h>

/* True if the request's head is complete, or if it has `room` bytes, the most that are accepted.
 * Context: any thread. */
int ep_request_complete(const char *request, size_t size, size_t room);

/* An answer to a client; all zero before the request is answered. */
struct ep_answer {
    size_t size;         /* bytes in the buffer, ready to be sent; 0: no answer yet */
    uint64_t look_ns;    /* ... then call ep_control_look() or ep_pull_look() at this time (uptime) */
    uint64_t body, sent; /* size of the body that follows, from ep_pull_piece(); serve.c counts what it has sent */
    /* private to the endpoints */
    uint64_t give_up_ns, period_ns;
    unsigned route, view, list, place;
};

/* The control endpoint (control.c). One thread serves all its clients. Executes a request and answers it, or begins to:
 * a list of pending work may take long. ep_control_look() and ep_control_done() as for the pull endpoint.
 * Context: endpoint. */
#define EP_CONTROL_REQUEST 1024 /* maximum size of a request */
#define EP_CONTROL_ANSWER  5120 /* size of the buffer for an answer */
void ep_control_answer(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer);
void ep_control_look(char *buffer, struct ep_answer *answer);
void ep_control_done(struct ep_answer *answer);

/* The pull endpoint (pull.c). One thread serves all its clients. token: required of requests; NULL: none. */
#define EP_PULL_REQUEST 2048
#define EP_PULL_ANSWER  16384

/* Uses the memory until ep_pull_close(). Returns 0 or -ENOMEM. Context: init. */
int ep_pull_open(void *memory, size_t size);
void ep_pull_close(void);

/* Answers a request, or begins to. May wait for the collect thread's next round. Context: endpoint. */
void ep_pull_answer(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer);
void ep_pull_look(char *buffer, struct ep_answer *answer);
/* The next bytes of the body, from answer->sent on, at most EP_PULL_ANSWER; 0: no more are available.
 * Context: endpoint. */
size_t ep_pull_piece(char *buffer, const struct ep_answer *answer);
/* The client has disconnected or has everything; may be called for any answer. Context: endpoint. */
void ep_pull_done(struct ep_answer *answer);

#endif
