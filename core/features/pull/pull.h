/*
 * The pull endpoint's requests and answers, without sockets. pull.c and metrics.c implement them; start.c gives them to
 * the server.
 */
#ifndef EP_PULL_H
#define EP_PULL_H

#include <stddef.h>

#include "core/features/endpoint/request.h"

#define EP_PULL_REQUEST 2048  /* maximum size of a request */
#define EP_PULL_ANSWER  16384 /* size of the buffer for an answer */

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

/* Writes all statistics in Prometheus' text format, version 0.0.4. Returns 0 or -ESRCH. Context: any thread. */
int ep_metrics_put(struct ep_text *out);

#endif
