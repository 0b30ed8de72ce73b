/* Answers on a connection. */
#ifndef ET_REQUESTS_H
#define ET_REQUESTS_H

#include "tools/serve/http/http.h"

#include <microhttpd.h>

/* Sends the answer and frees what it has. */
enum MHD_Result et_reply(struct MHD_Connection *connection, struct et_answer *answer);
enum MHD_Result et_reply_text(struct MHD_Connection *connection, unsigned status, const char *text);

#endif
