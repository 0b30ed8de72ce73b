/*
 * Relays received profiles: each `[relay NAME]` section is a destination that receives every profile, in order, at
 * least once. The database is the queue, with a cursor for each destination. The cursor moves in a transaction after
 * the receiver has answered; a crash in between sends the profiles again.
 *
 * Each destination has its own thread, so a slow one delays neither other destinations nor arriving profiles.
 */
#ifndef ET_RELAY_H
#define ET_RELAY_H

#include "tools/lib/config.h"
#include "tools/serve/http/http.h"

struct et_destination_config {
    const struct et_relay_backend *backend;
    char *name, *url;                                                                           /* complete */
    char *token_file, *user, *password_file, *api_key_file, *org_id, *ca, *cert, *key, *family; /* NULL: none */
    char **headers;
    size_t header_count, header_capacity;
    enum et_naming { ET_NAMING_NONE, ET_NAMING_FALLBACK, ET_NAMING_FULL } naming;
    bool backfill; /* start with the stored profiles, not only with new ones */
    uint64_t rows; /* maximum stored profiles per request */
    size_t rate;   /* bytes per second */
    int64_t timeout_ns, oldest_ns, retry_ns, retry_most_ns;
};

struct et_relay_config {
    struct et_destination_config *destinations;
    size_t count, capacity;
};

/* Reads all `[relay NAME]` sections. False: every error was reported, *out is empty. */
bool et_relay_config_read(const struct et_config *config, struct et_relay_config *out);
void et_relay_config_free(struct et_relay_config *config);

struct et_relay;

/* Takes ownership of the config. The server must live longer. NULL: a secret or the database cannot be read, which was
 * reported. */
struct et_relay *et_relay_start(struct et_server *server, struct et_relay_config *config);
/* Cancels requests in progress; the next start sends their profiles again. */
void et_relay_stop(struct et_relay *relay);

/* Status of a destination. Strings are valid during the call. */
struct et_relay_state {
    const char *name, *backend, *url, *why; /* why: last error, or "" */
    bool failing;
    uint64_t sent, refused, lost;      /* profiles in total; lost: too old for the receiver, or deleted */
    uint64_t aside, bytes;             /* since the start: refused by failing alone; bytes of bodies sent */
    int64_t cursor, waiting;           /* waiting: profiles after the cursor, counted up to 100000 */
    int64_t last_sent_ns, next_try_ns; /* Unix time; 0: never, or now */
};
void et_relay_each(struct et_relay *relay, void (*call)(void *context, const struct et_relay_state *state),
                   void *context);

#endif
