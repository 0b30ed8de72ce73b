/*
 * The thread of `serve` that sends new incidents to the URL of the section [webhook]: a POST with a small JSON body for
 * each. It reads the database, so no sender of profiles waits for it. Rates limit the requests of each device and of
 * all (fair_rate.h). Incidents that it has not sent when the server ends are not sent later.
 */
#ifndef ET_WEBHOOK_H
#define ET_WEBHOOK_H

#include "tools/lib/config.h"
#include "tools/serve/http/http.h"

/* Strings belong to the config. */
struct et_webhook_config {
    const char *url; /* NULL: there is no webhook */
    const char *token_file, *ca, *link;
    uint64_t per_hour, device_per_hour; /* the latter 0: a quarter */
};

/* Reads the section; section may be NULL. False: invalid, which was reported. */
bool et_webhook_read(const struct et_config *config, const struct et_section *section, struct et_webhook_config *out);

struct et_webhook;

/* Copies the config, which may be NULL. Incidents that are in the database already are not told. NULL: there is no
 * webhook, or it cannot be started, which was reported and *failed is true. */
struct et_webhook *et_webhook_start(struct et_server *server, const struct et_webhook_config *config, bool *failed);
/* Cancels the request in progress. webhook may be NULL. */
void et_webhook_stop(struct et_webhook *webhook);

/* Writes its metrics. webhook may be NULL. Context: any thread. */
void et_webhook_metrics(struct et_webhook *webhook, struct et_buf *out);

#endif
