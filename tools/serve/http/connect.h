/* Common parts of all unary methods of the Connect protocol: the request's encoding, and errors as JSON. */
#ifndef ET_CONNECT_H
#define ET_CONNECT_H

#include "tools/serve/http/http.h"

/* Whether the request's Content-Type is `type`, ignoring parameters. */
bool et_content_type_is(const struct et_request *request, const char *type);

/* Answers {"code","message"}. status: 400, 404, 413, 429, 500, 501 or 503. message: one line. */
void et_connect_error(struct et_answer *answer, unsigned status, const char *message);

/* Converts a text error in the answer, as left by et_body(), to that form. */
void et_connect_error_again(struct et_answer *answer);

#endif
