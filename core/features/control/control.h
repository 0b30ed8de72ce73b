/*
 * The control endpoint's requests and answers, without sockets. control.c and tasks.c implement them; start.c gives
 * them to the server, and the pull endpoint serves the same requests below /control.
 */
#ifndef EP_CONTROL_H
#define EP_CONTROL_H

#include <stddef.h>

#include "core/features/endpoint/request.h"

#define EP_CONTROL_REQUEST 1024 /* maximum size of a request */
#define EP_CONTROL_ANSWER  5120 /* size of the buffer for an answer */

/* Executes a request and answers it, or begins to: a list of pending work may take long. ep_control_look() continues,
 * and ep_control_done() ends; see struct ep_service. Context: endpoint. */
void ep_control_answer(const char *request, size_t size, const char *token, char *buffer, struct ep_answer *answer);
void ep_control_look(char *buffer, struct ep_answer *answer);
void ep_control_done(struct ep_answer *answer);

/* Serves a request of the control endpoint; path: "/status" and the like. Adds the answer's body to *out, or sets
 * answer->list: then ep_tasks_look() has it later. Returns 0 or an error that ep_request_verdict() knows. */
int ep_control_act(struct ep_text *out, const struct ep_request *request, struct ep_answer *answer);
/* Where that has failed, the body is the reason; without a body, that it is done. A body that does not fit has failed,
 * too. head: bytes before the body. Returns the error to answer with; 0: none. */
int ep_control_settle(struct ep_text *body, size_t head, int error);

/* Adds the part of a list of pending work that begins at `next`, from the answer before. Returns 0; -ENOSYS: this
 * program has none; or an error of the runtime's. */
int ep_tasks_put(struct ep_text *out, struct ep_part next);

/* Asks for a list. Returns 0, and sets answer->list and ->look_ns; -EUSERS: enough clients wait; -ENOSYS.
 * ep_tasks_look() adds its first part as soon as it is made. It returns -EAGAIN and sets answer->look_ns while it is
 * not; 0 or an error ends the wait. ep_tasks_done() is for a client that waits no more, and does nothing else to an
 * answer. */
int ep_tasks_ask(struct ep_answer *answer);
int ep_tasks_look(struct ep_text *out, struct ep_answer *answer);
void ep_tasks_done(struct ep_answer *answer);

#endif
