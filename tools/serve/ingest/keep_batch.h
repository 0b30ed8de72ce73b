/* Stores a batch for routes. */
#ifndef ET_KEEP_BATCH_H
#define ET_KEEP_BATCH_H

#include "tools/serve/http/http.h"
#include "tools/serve/ingest/ingest_batch.h"

/* Stores the batch. Returns the HTTP status. Appends the reason of each refused profile to *why. */
unsigned et_server_keep_batch(struct et_server *server, struct et_batch *batch, struct et_buf *why);

#endif
