/*
 * What every unary method of the Connect protocol has in common: the request's encoding, and errors as JSON.
 */
#ifndef ET_CONNECT_H
#define ET_CONNECT_H

#include "tools/serve/http/http.h"

/* Whether the request's Content-Type is that, whatever its parameters. */
bool et_content_type_is(const struct et_request *request, const char *type);

/* {"code","message"}. status: 400, 404, 413, 429, 500, 501 or 503. message: a line. */
void et_connect_error(struct et_answer *answer, unsigned status, const char *message);

/* The same of an answer that is an error as text, as et_body() leaves it. */
void et_connect_error_again(struct et_answer *answer);

#endif
