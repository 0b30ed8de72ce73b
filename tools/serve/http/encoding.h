/*
 * The form in which an answer is sent: gzip where the client takes it, ETag for what may be asked for again, 304 where
 * the client has it already. An ETag is a hash of the answer before gzip, so it is right whatever changed: profiles
 * that came late, symbols, the tool itself. A 304 saves the bytes, not the work of the query.
 */
#ifndef ET_ENCODING_H
#define ET_ENCODING_H

#include "tools/serve/http/http.h"

struct et_encoding_request {
    const char *accept;     /* Accept-Encoding; NULL: absent */
    const char *none_match; /* If-None-Match; NULL: absent */
    bool get;               /* GET or HEAD: the answer may have an ETag */
};

/* Changes the answer, unless it is an error or very large. What is compressed already is not compressed again. Context:
 * any thread. */
void et_answer_encode(struct et_answer *answer, const struct et_encoding_request *request);

#endif
