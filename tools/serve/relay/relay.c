/*
 * See relay.h. The thread of each destination loops over:
 *
 *   collect_batch    make a request of the next profiles, until it is large enough
 *   deliver_batch    send it: done, refused, or later
 *   advance_cursor   move the cursor in the store
 *
 * A request that a server refuses permanently is repeated with one profile each, so that only the rejected profile is
 * lost.
 */
#include "tools/serve/relay/relay.h"
#include "tools/formats/json.h"
#include "tools/serve/relay/relay_backend.h"
#include "tools/serve/relay/relay_http.h"
#include "tools/lib/time_text.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NS_PER_S  1000000000LL
#define POLL_NS   (NS_PER_S / 2)
#define MINUTE_NS (60 * NS_PER_S)

/* Maximum rows per request, too old profiles skipped at a time, accepted Retry-After in seconds, and waiting profiles
 * counted. */
enum { ROWS_MOST = 64, SKIPPED_MOST = 1000, RETRY_AFTER_MOST = 900, WAITING_MOST = 100000 };

/* A request and its profiles. */
struct relay_batch {
    void *request;
    struct et_arrival rows[ROWS_MOST];
    size_t count;               /* rows */
    size_t sendable;            /* number of rows in the request; others have no name at the backend */
    int64_t last;               /* id of the last row covered */
    struct et_relay_mark moved; /* cursor and counts to add when it is done */
    struct et_buf body;
    char type[96];
};

struct relay_destination {
    struct et_relay *relay;
    const struct et_destination_config *config;
    struct et_relay_target target;
    struct et_relay_http *http;
    pthread_t thread;
    bool running;
    struct relay_batch batch;
    int64_t alone; /* rows up to this id are sent one by one */
    unsigned failures;
    int64_t free_ns, told_ns; /* monotonic: earliest next request by rate; last message about a refusal */
    /* Under the relay's lock: */
    int64_t cursor;               /* as in the store */
    struct et_relay_mark pending; /* not written to the store yet */
    bool failing;
    char why[256];
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

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Waits until the monotonic time, or until the relay stops. */
static void wait_until(struct et_relay *relay, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    pthread_mutex_lock(&relay->lock);
    while (!atomic_load(&relay->stop) && monotonic_ns() < until_ns) {
        pthread_cond_timedwait(&relay->stopping, &relay->lock, &until);
    }
    pthread_mutex_unlock(&relay->lock);
}

/* ---- collecting ---- */

/* Reports that the next profile cannot be read. It is retried, because no profile may be skipped. */
static void report_unreadable(struct relay_destination *d, const char *why)
{
    bool begins = !d->failing;
    pthread_mutex_lock(&d->relay->lock);
    d->failing = true;
    snprintf(d->why, sizeof d->why, "database: %s", why);
    pthread_mutex_unlock(&d->relay->lock);
    if (begins) {
        et_error("relay %s: %s", d->config->name, d->why);
    }
}

static int read_next_row(struct relay_destination *d, int64_t after, struct et_arrival *row)
{
    struct et_store *store = et_server_read(d->relay->server);
    int got = et_store_next(store, after, row);
    if (got < 0) {
        report_unreadable(d, et_store_why(store));
    }
    et_server_read_done(d->relay->server, store);
    return got;
}

static void clear_batch(struct relay_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        et_profile_free(batch->rows[i].profile);
    }
    et_buf_free(&batch->body);
    *batch = (struct relay_batch){0};
}

static void add_to_batch(struct relay_destination *d, struct et_arrival *row)
{
    struct relay_batch *batch = &d->batch;
    const struct et_destination_config *config = d->config;
    batch->last = row->id;
    if (config->oldest_ns && row->profile->start_ns < et_now() - config->oldest_ns) {
        batch->moved.lost++;
        et_profile_free(row->profile);
        return;
    }
    if (config->naming == ET_NAMING_FULL) {
        et_symbolize_waiting(et_server_symbols(d->relay->server), row->profile);
    }
    batch->rows[batch->count] = *row;
    size_t pieces = config->backend->add(batch->request, &batch->rows[batch->count++]);
    batch->sendable += pieces > 0;
    batch->moved.sent += pieces > 0;
}

/* Makes a request of the profiles after the cursor. False: there are none. */
static bool collect_batch(struct relay_destination *d)
{
    struct relay_batch *batch = &d->batch;
    const struct et_relay_backend *backend = d->config->backend;
    struct et_relay_form form = {.bare = d->config->naming == ET_NAMING_NONE,
                                 .family = d->config->family ? d->config->family : "dotnet"};
    struct et_arrival row;
    clear_batch(batch);
    batch->request = backend->begin(&form);
    batch->last = d->cursor + d->pending.cursor;
    int64_t from = batch->last;
    size_t most = batch->last < d->alone ? 1 : d->config->rows;
    while (batch->sendable < most && batch->count < ROWS_MOST && batch->moved.lost < SKIPPED_MOST &&
           backend->size(batch->request) < backend->enough && read_next_row(d, batch->last, &row) == 1) {
        add_to_batch(d, &row);
    }
    backend->finish(batch->request, &batch->body, batch->type);
    return batch->last > from;
}

/* ---- results ---- */

struct cursor_update {
    const char *name;
    const struct et_relay_mark *moved;
};

static enum et_outcome store_cursor(struct et_store *store, void *context, const char **why)
{
    const struct cursor_update *moving = context;
    int err = et_store_begin(store);
    err = err ? err : et_store_relay_add(store, moving->name, moving->moved);
    int ended = et_store_end(store, !err);
    *why = err || ended ? et_store_why(store) : "ok";
    return err || ended ? ET_UNAVAILABLE : ET_REPEATED; /* nothing for a sender: it does not count as accepted */
}

/* Writes the cursor. A failing store does not stop delivery: the update stays pending, and a restart sends again. */
static void advance_cursor(struct relay_destination *d, const struct et_relay_mark *moved)
{
    struct et_buf why = {0};
    struct et_relay_mark all = d->pending;
    all.cursor += moved->cursor;
    all.sent += moved->sent;
    all.refused += moved->refused;
    all.lost += moved->lost;
    struct cursor_update moving = {d->config->name, &all};
    bool kept = et_server_write(d->relay->server, store_cursor, &moving, &why) == ET_REPEATED;
    et_buf_free(&why);
    pthread_mutex_lock(&d->relay->lock);
    if (kept) {
        d->cursor += all.cursor;
        all = (struct et_relay_mark){0};
    }
    d->pending = all;
    pthread_mutex_unlock(&d->relay->lock);
}

static void report_recovery(struct relay_destination *d, bool taken)
{
    bool failed = d->failing;
    d->failures = 0;
    pthread_mutex_lock(&d->relay->lock);
    d->failing = false;
    d->why[0] = '\0';
    d->next_try_ns = 0;
    d->last_sent_ns = taken ? et_now() : d->last_sent_ns;
    pthread_mutex_unlock(&d->relay->lock);
    if (failed) {
        et_error("relay %s: works again", d->config->name);
    }
}

/* A random factor from 0.5 to 1, so that destinations of many servers do not retry at the same time. */
static double jitter(void)
{
    uint16_t random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) {
        random = (uint16_t)monotonic_ns();
    }
    return 0.5 + random / 131072.0;
}

/* The delay before the next attempt: doubles with each failure, at least the server's Retry-After. */
static int64_t next_delay(struct relay_destination *d, int64_t retry_after_s)
{
    const struct et_destination_config *config = d->config;
    int64_t wait = config->retry_ns;
    for (unsigned i = 0; i < d->failures && wait < config->retry_most_ns; i++) {
        wait *= 2;
    }
    wait = (int64_t)((double)(wait < config->retry_most_ns ? wait : config->retry_most_ns) * jitter());
    retry_after_s = retry_after_s < RETRY_AFTER_MOST ? retry_after_s : RETRY_AFTER_MOST;
    return wait > retry_after_s * NS_PER_S ? wait : retry_after_s * NS_PER_S;
}

static void note_failure(struct relay_destination *d, const struct et_relay_reply *reply)
{
    bool begins = !d->failing, denied = reply->status == 401 || reply->status == 403;
    int64_t wait = next_delay(d, reply->retry_after_s);
    d->failures++;
    pthread_mutex_lock(&d->relay->lock);
    d->failing = true;
    d->next_try_ns = et_now() + wait;
    if (reply->status) {
        snprintf(d->why, sizeof d->why, "%ld %s", reply->status, reply->words.data);
    } else {
        snprintf(d->why, sizeof d->why, "%s", reply->words.data);
    }
    pthread_mutex_unlock(&d->relay->lock);
    if (begins && !atomic_load(&d->relay->stop)) {
        et_error("relay %s: %s: %s; profiles stay queued in the database%s", d->config->name, d->config->url, d->why,
                 denied ? "; check its token or password file" : "");
    }
    wait_until(d->relay, monotonic_ns() + wait);
}

static void report_refused(struct relay_destination *d, const struct et_relay_reply *reply)
{
    if (!d->told_ns || monotonic_ns() - d->told_ns > MINUTE_NS) {
        et_error("relay %s: %s refused a profile: %ld %s; skipping it", d->config->name, d->config->url, reply->status,
                 reply->words.data);
        d->told_ns = monotonic_ns();
    }
    struct et_relay_mark *moved = &d->batch.moved;
    moved->refused += moved->sent;
    moved->sent = 0;
}

/* Classifies a status. Of the 4xx, only those about the content are permanent; those about credentials or the address
 * are retried. */
enum outcome { DONE, LATER, NEVER };

static enum outcome classify_status(long status)
{
    static const long waits[] = {401, 403, 404, 405, 407, 408, 421, 425, 429};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        if (status == waits[i]) {
            return LATER;
        }
    }
    return status >= 200 && status < 300 ? DONE : status >= 400 && status < 500 ? NEVER : LATER;
}

/* Keeps the configured rate by a pause after each request. */
static void limit_rate(struct relay_destination *d, size_t bytes)
{
    int64_t now = monotonic_ns();
    d->free_ns = (d->free_ns > now ? d->free_ns : now) + (int64_t)((double)bytes / (double)d->config->rate * 1e9);
}

/* True: the batch is done. */
static bool deliver_batch(struct relay_destination *d)
{
    struct relay_batch *batch = &d->batch;
    struct et_relay_reply reply = {0};
    if (!batch->sendable) {
        return true;
    }
    wait_until(d->relay, d->free_ns);
    if (!atomic_load(&d->relay->stop)) {
        et_relay_http_post(d->http, &batch->body, batch->type, d->config->backend->gzip, &d->relay->stop, &reply);
    }
    enum outcome outcome = classify_status(reply.status);
    limit_rate(d, batch->body.size);
    if (outcome == LATER) {
        note_failure(d, &reply);
    } else {
        report_recovery(d, outcome == DONE);
    }
    bool one = batch->sendable == 1;
    if (outcome == NEVER && one) {
        report_refused(d, &reply);
    } else if (outcome == NEVER) {
        d->alone = batch->last; /* collect it again, one by one */
    }
    et_buf_free(&reply.words);
    return outcome == DONE || (outcome == NEVER && one);
}

static void *relay_thread(void *context)
{
    struct relay_destination *d = context;
    while (!atomic_load(&d->relay->stop)) {
        if (!collect_batch(d)) {
            wait_until(d->relay, monotonic_ns() + POLL_NS);
            continue;
        }
        bool done = false;
        int64_t alone = d->alone;
        while (!atomic_load(&d->relay->stop) && !(done = deliver_batch(d)) && d->alone == alone) {
        }
        if (done) {
            d->batch.moved.cursor = d->batch.last - d->cursor - d->pending.cursor;
            advance_cursor(d, &d->batch.moved);
        }
    }
    clear_batch(&d->batch);
    return NULL;
}

/* ---- starting ---- */

/* Loads the destination's cursor, or creates it. */
static enum et_outcome load_cursor(struct et_store *store, void *context, const char **why)
{
    struct relay_destination *d = context;
    struct et_relay_mark mark;
    int got = et_store_relay_get(store, d->config->name, &mark);
    if (got == 0) {
        int64_t last = d->config->backfill ? 0 : et_store_last(store);
        struct cursor_update moving = {d->config->name, &(struct et_relay_mark){.cursor = last}};
        d->cursor = last;
        return last < 0 ? ET_UNAVAILABLE : store_cursor(store, &moving, why);
    }
    if (got < 0) {
        *why = et_store_why(store);
        return ET_UNAVAILABLE;
    }
    d->cursor = mark.cursor;
    return store_cursor(store, &(struct cursor_update){d->config->name, &(struct et_relay_mark){0}},
                        why); /* marks it as configured */
}

static bool start_one(struct et_relay *relay, struct relay_destination *d, const struct et_destination_config *config)
{
    struct et_buf why = {0};
    d->relay = relay;
    d->config = config;
    d->target = (struct et_relay_target){.url = config->url,
                                         .token_file = config->token_file,
                                         .user = config->user,
                                         .password_file = config->password_file,
                                         .api_key_file = config->api_key_file,
                                         .org_id = config->org_id,
                                         .ca = config->ca,
                                         .cert = config->cert,
                                         .key = config->key,
                                         .headers = config->headers,
                                         .header_count = config->header_count,
                                         .timeout_s = (unsigned)((config->timeout_ns + NS_PER_S - 1) / NS_PER_S)};
    d->http = et_relay_http_new(&d->target, &why);
    if (d->http && et_server_write(relay->server, load_cursor, d, &why) == ET_REPEATED) {
        d->running = pthread_create(&d->thread, NULL, relay_thread, d) == 0;
        et_buf_text(&why, d->running ? "" : "no thread");
    }
    if (!d->running) {
        et_error("relay %s: %s", config->name, why.data);
    }
    et_buf_free(&why);
    return d->running;
}

struct et_relay *et_relay_start(struct et_server *server, struct et_relay_config *config)
{
    struct et_relay *relay = et_alloc(1, sizeof *relay);
    pthread_condattr_t monotonic_clock;
    bool ok = true;
    relay->server = server;
    relay->config = *config;
    *config = (struct et_relay_config){0};
    relay->destinations = et_alloc(relay->config.count, sizeof *relay->destinations);
    pthread_mutex_init(&relay->lock, NULL);
    pthread_condattr_init(&monotonic_clock);
    pthread_condattr_setclock(&monotonic_clock, CLOCK_MONOTONIC);
    pthread_cond_init(&relay->stopping, &monotonic_clock);
    pthread_condattr_destroy(&monotonic_clock);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    for (size_t i = 0; i < relay->config.count && ok; i++) {
        ok = start_one(relay, &relay->destinations[i], &relay->config.destinations[i]);
    }
    if (!ok) {
        et_relay_stop(relay);
        return NULL;
    }
    return relay;
}

void et_relay_stop(struct et_relay *relay)
{
    if (!relay) {
        return;
    }
    pthread_mutex_lock(&relay->lock);
    atomic_store(&relay->stop, true);
    pthread_cond_broadcast(&relay->stopping);
    pthread_mutex_unlock(&relay->lock);
    for (size_t i = 0; i < relay->config.count; i++) {
        struct relay_destination *d = &relay->destinations[i];
        if (d->running) {
            pthread_join(d->thread, NULL);
        }
        et_relay_http_free(d->http);
    }
    pthread_mutex_destroy(&relay->lock);
    pthread_cond_destroy(&relay->stopping);
    free(relay->destinations);
    et_relay_config_free(&relay->config);
    free(relay);
}

/* ---- status ---- */

/* Adds the counts of the store. */
static void add_stored_counts(struct et_relay *relay, struct et_relay_state *state)
{
    struct et_store *store = et_server_read(relay->server);
    struct et_relay_mark mark = {0};
    int64_t waiting = et_store_behind(store, state->cursor, WAITING_MOST);
    if (et_store_relay_get(store, state->name, &mark) == 1) {
        state->sent += mark.sent;
        state->refused += mark.refused;
        state->lost += mark.lost;
    }
    et_server_read_done(relay->server, store);
    state->waiting = waiting < 0 ? 0 : waiting;
}

void et_relay_each(struct et_relay *relay, void (*call)(void *context, const struct et_relay_state *state),
                   void *context)
{
    for (size_t i = 0; relay && i < relay->config.count; i++) {
        struct relay_destination *d = &relay->destinations[i];
        char why[sizeof d->why];
        pthread_mutex_lock(&relay->lock);
        snprintf(why, sizeof why, "%s", d->why);
        struct et_relay_state state = {
            .name = d->config->name,
            .backend = d->config->backend->name,
            .url = d->config->url,
            .why = why,
            .failing = d->failing,
            .sent = d->pending.sent,
            .refused = d->pending.refused,
            .lost = d->pending.lost,
            .cursor = d->cursor + d->pending.cursor,
            .last_sent_ns = d->last_sent_ns,
            .next_try_ns = d->next_try_ns,
        };
        pthread_mutex_unlock(&relay->lock);
        add_stored_counts(relay, &state);
        call(context, &state);
    }
}
