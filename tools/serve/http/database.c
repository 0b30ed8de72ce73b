/* See database.h and http.h. */
#include "tools/serve/http/database.h"
#include "tools/lib/time_text.h"

#include <errno.h>

enum { GROUP_MS = 100, OLDEST_OF = 4 };

/* ---- writing ---- */

/* Says once that the database fails, and once that it works again. */
static void watch_database(struct et_server *server, enum et_outcome outcome, const char *why)
{
    bool refusing = outcome == ET_UNAVAILABLE;
    if (refusing && !server->refusing) {
        et_error("database %s: %s; refusing profiles with 503, senders retry", server->db, why);
    } else if (outcome == ET_ACCEPTED && server->refusing) {
        et_error("database %s: works again", server->db);
    }
    if (refusing || outcome == ET_ACCEPTED) {
        server->refusing = refusing;
    }
    server->accepted += outcome == ET_ACCEPTED;
}

struct written {
    et_write *call;
    void *context;
    enum et_outcome outcome;
    struct et_buf *why;
};

static void write_one(struct et_store *store, void *context)
{
    struct written *written = context;
    const char *text = "ok";
    written->outcome = written->call(store, written->context, &text);
    et_buf_text(written->why, text); /* the database's words are soon about something else */
}

enum et_outcome et_server_write(struct et_server *server, et_write *call, void *context, struct et_buf *why)
{
    struct written written = {.call = call, .context = context, .why = why};
    struct et_group_commit_result result = et_group_commit_run(server->commit, write_one, &written);
    if (result.err) {
        written.outcome = ET_UNAVAILABLE;
        why->size = 0;
        et_buf_text(why, result.why);
    }
    pthread_mutex_lock(&server->write_lock);
    watch_database(server, written.outcome, why->data);
    pthread_mutex_unlock(&server->write_lock);
    return written.outcome;
}

/* ---- reading ---- */

static struct et_store *open_reader(struct et_server *server, const char **why)
{
    struct et_store *store = et_store_open(server->db, false, why);
    if (store) {
        et_store_set_residents(store, server->residents);
    }
    return store;
}

/* A free one, or NULL. */
static struct et_store *take_reader(struct et_server *server)
{
    const char *why;
    for (size_t i = 0; i < ET_READERS; i++) {
        if (server->readers[i]) {
            struct et_store *store = server->readers[i];
            server->readers[i] = NULL;
            return store;
        }
    }
    return server->reading < ET_READERS ? open_reader(server, &why) : NULL;
}

unsigned et_read_status(const struct et_store *store)
{
    const struct et_budget *budget = et_store_budget(store);
    return budget && budget->failed == -ENOMEM ? 413 : 503;
}

/* A request that waits for a reader. */
struct et_waiter {
    struct et_waiter *older, *newer;
    struct et_store *store; /* handed over by the request before */
    pthread_cond_t turn;
};

static struct et_store *wait_for_reader(struct et_server *server)
{
    struct et_waiter self = {.older = server->newest, .turn = PTHREAD_COND_INITIALIZER};
    *(server->newest ? &server->newest->newer : &server->oldest) = &self;
    server->newest = &self;
    while (!self.store) {
        pthread_cond_wait(&self.turn, &server->read_lock);
    }
    pthread_cond_destroy(&self.turn);
    return self.store;
}

/* The newest waiter, so a flood of requests delays itself and not those who come later; in between the oldest one, so
 * nobody waits for ever. NULL: nobody waits. */
static struct et_waiter *pick_waiter(struct et_server *server)
{
    bool old = ++server->picks % OLDEST_OF == 0;
    struct et_waiter *waiter = old ? server->oldest : server->newest;
    if (waiter) {
        *(waiter->newer ? &waiter->newer->older : &server->newest) = waiter->older;
        *(waiter->older ? &waiter->older->newer : &server->oldest) = waiter->newer;
    }
    return waiter;
}

struct et_store *et_server_read(struct et_server *server, const struct et_request *request)
{
    pthread_mutex_lock(&server->read_lock);
    struct et_store *store = take_reader(server);
    server->reading += store != NULL;
    store = store ? store : wait_for_reader(server);
    pthread_mutex_unlock(&server->read_lock);
    et_store_set_budget(store, request ? request->budget : NULL);
    return store;
}

static void put_back(struct et_server *server, struct et_store *store)
{
    for (size_t i = 0; i < ET_READERS && store; i++) {
        if (!server->readers[i]) {
            server->readers[i] = store;
            store = NULL;
        }
    }
    server->reading--;
}

void et_server_read_done(struct et_server *server, struct et_store *store)
{
    et_store_set_budget(store, NULL);
    pthread_mutex_lock(&server->read_lock);
    struct et_waiter *next = pick_waiter(server);
    if (next) {
        next->store = store;
        pthread_cond_signal(&next->turn);
    } else {
        put_back(server, store);
    }
    pthread_mutex_unlock(&server->read_lock);
}

/* ---- opening ---- */

bool et_server_open_database(struct et_server *server)
{
    const char *why = "";
    server->writer = et_store_open(server->db, true, &why);
    server->residents = et_residents_new();
    server->readers[0] = server->writer ? open_reader(server, &why) : NULL;
    if (!server->readers[0]) {
        et_error("database %s: %s", server->db, why);
        return false;
    }
    et_store_set_bounds(server->writer, server->bounds);
    et_bounds_set_age(server->bounds, &server->age);
    et_store_set_age(server->writer, &server->age);
    if (et_bounds_load(server->bounds, server->writer) != 0 ||
        et_age_begin(&server->age, server->writer, et_now(), et_since_boot()) != 0) {
        et_error("database %s: %s", server->db, et_store_why(server->writer));
        return false;
    }
    server->commit = et_group_commit_start(server->writer, GROUP_MS);
    if (!server->commit) {
        et_error("cannot start the database thread");
    }
    return server->commit != NULL;
}

void et_server_close_database(struct et_server *server)
{
    if (server->commit) {
        et_group_commit_stop(server->commit);
    }
    for (size_t i = 0; i < ET_READERS; i++) {
        et_store_close(server->readers[i]);
    }
    et_residents_free(server->residents);
    et_store_close(server->writer);
}
