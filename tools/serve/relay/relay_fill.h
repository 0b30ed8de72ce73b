/* A destination, and how its window is filled: what its thread does between two requests. */
#ifndef ET_RELAY_FILL_H
#define ET_RELAY_FILL_H

#include "tools/serve/relay/relay.h"
#include "tools/serve/relay/relay_backend.h"
#include "tools/serve/relay/relay_http.h"
#include "tools/serve/relay/relay_window.h"

#include <pthread.h>

struct relay_destination {
    struct et_relay *relay;
    const struct et_destination_config *config;
    struct et_relay_target target;
    struct et_relay_form form;
    struct et_relay_http *http;
    pthread_t thread;
    bool running;
    struct et_window window;
    int64_t read; /* id of the last row in the window */
    struct et_buf body;
    char type[96];
    unsigned failures;
    struct et_relay_mark done; /* finished, but not in the cursor yet */
    double slower;             /* factor of the backend's pace, learned from 429 */
    int64_t free_ns, told_ns;  /* monotonic: earliest next request by rate; last message about a refusal */
    /* Under the relay's lock: */
    int64_t cursor;               /* as in the database */
    struct et_relay_mark pending; /* not written to the database yet */
    bool failing;
    char why[256];
    uint64_t aside, bytes; /* set aside; sent, as HTTP bodies before compression of the transfer */
    int64_t last_sent_ns, next_try_ns;
};

struct et_relay {
    struct et_server *server;
    struct et_relay_config config;
    struct relay_destination *destinations;
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    atomic_bool stop;
};

/* Cuts a row again whose part was too large for the server. */
void et_relay_recut(struct relay_destination *d);
/* Reads profiles after the last one, until the window has enough for two requests. */
void et_relay_fill(struct relay_destination *d);
/* Profiles become too old while they wait. */
void et_relay_drop_late(struct relay_destination *d);
/* Makes the body of the next request. False: there is nothing to be sent. */
bool et_relay_choose(struct relay_destination *d);

#endif
