/* The server's database: one handle writes and some read, so that a device's push never waits for somebody's flame
 * graph, nor one flame graph for another. */
#ifndef ET_DATABASE_H
#define ET_DATABASE_H

#include "tools/serve/http/evict.h"
#include "tools/serve/http/memory_budget.h"
#include "tools/serve/http/server.h"
#include "tools/store/age.h"
#include "tools/store/group_commit.h"

#include <microhttpd.h>
#include <pthread.h>

enum { ET_READERS = 4 };

struct et_server {
    struct MHD_Daemon *daemon;
    struct et_store *writer;
    struct et_group_commit *commit;       /* has the writer */
    struct et_store *readers[ET_READERS]; /* free ones; NULL: in use, or not yet opened */
    unsigned reading;
    struct et_residents *residents; /* of the readers */
    struct et_symbols *symbols;
    struct et_list sources; /* owns its strings */
    struct et_relay *relay;
    pthread_mutex_t write_lock, read_lock;
    struct et_waiter *newest, *oldest; /* requests that wait for a reader */
    unsigned picks;                    /* of waiters so far */
    struct et_limits limits;
    struct et_bounds *bounds;
    struct et_age age;
    struct et_evictor *evictor;
    struct et_memory_budget receiving, working, files;
    unsigned long accepted;
    bool refusing; /* the database failed last time */
    struct et_access *access;
    struct et_scraper *scraper;
    struct et_webhook *webhook;
    struct et_judge *judge;
    int listener;
    char url[160];
    char prefix[128]; /* of paths that a proxy passes on; may be empty */
    char *db;
};

/* False: failed; one line is on stderr. */
bool et_server_open_database(struct et_server *server);
void et_server_close_database(struct et_server *server);

#endif
