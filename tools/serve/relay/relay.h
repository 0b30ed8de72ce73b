/*
 * Passing on what arrives: each destination of a config file's `[relay NAME]` sections gets every profile, in the order
 * in which it came, at least once. The queue is the store itself with a cursor for each destination, which moves in a
 * transaction after the receiver has answered: what is killed between the two sends once more.
 *
 * A destination has a thread of its own, so that one that is slow holds up neither the others nor what arrives.
 */
#ifndef ET_RELAY_H
#define ET_RELAY_H

#include "tools/lib/config.h"
#include "tools/serve/http/http.h"

struct et_destination_config {
    const struct et_relay_backend *backend;
    char *name, *url;                                                                           /* the URL is whole */
    char *token_file, *user, *password_file, *api_key_file, *org_id, *ca, *cert, *key, *family; /* NULL: none */
    char **headers;
    size_t header_count, header_capacity;
    enum et_naming { ET_NAMING_NONE, ET_NAMING_FALLBACK, ET_NAMING_FULL } naming;
    bool backfill; /* begins with what is in the store, not with what comes */
    uint64_t rows; /* most stored profiles in a request */
    size_t rate;   /* bytes a second */
    int64_t timeout_ns, oldest_ns, retry_ns, retry_most_ns;
};

struct et_relay_config {
    struct et_destination_config *destinations;
    size_t count, capacity;
};

/* All `[relay NAME]` sections. false: all that is wrong is said, *out is empty. */
bool et_relay_config_read(const struct et_config *config, struct et_relay_config *out);
void et_relay_config_free(struct et_relay_config *config);

struct et_relay;

/* The config becomes the relay's. The server lives longer. NULL: a secret or the store cannot be read, which is said.
 */
struct et_relay *et_relay_start(struct et_server *server, struct et_relay_config *config);
/* Ends requests that are under way; what they carried is sent again after the next start. */
void et_relay_stop(struct et_relay *relay);

/* How a destination is doing. Strings are valid during the call. */
struct et_relay_state {
    const char *name, *backend, *url, *why; /* why: what it last failed of, "" */
    bool failing;
    uint64_t sent, refused, lost;      /* profiles, ever; lost: too old for the receiver or gone from the store */
    int64_t cursor, waiting;           /* waiting: profiles behind the cursor, counted up to 100000 */
    int64_t last_sent_ns, next_try_ns; /* unix time, 0: never, now */
};
void et_relay_each(struct et_relay *relay, void (*call)(void *context, const struct et_relay_state *state),
                   void *context);

#endif
