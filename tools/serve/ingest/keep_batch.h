/* Stores a batch for routes. */
#ifndef ET_KEEP_BATCH_H
#define ET_KEEP_BATCH_H

#include "tools/serve/http/http.h"
#include "tools/serve/ingest/ingest_batch.h"

/* Stores the batch. Returns the HTTP status: 403, and nothing is stored, when the request's token may not send all of
 * it. Appends the reason of each refused profile to *why. */
unsigned et_server_keep_batch(struct et_server *server, const struct et_request *request, struct et_batch *batch,
                              struct et_buf *why);

#endif
