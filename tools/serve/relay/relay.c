/*
 * See relay.h. The thread of each destination loops over:
 *
 *   et_relay_choose  the next parts of the window (relay_window.h) become a request
 *   deliver          sends it; meanwhile et_relay_fill reads and cuts the profiles behind it
 *   note_answer      tells the window, waits if it has to, and moves the cursor in the database behind finished
 * profiles
 */
#include "tools/serve/relay/relay_fill.h"
#include "tools/formats/json.h"
#include "tools/lib/time_text.h"
#include "tools/lib/pause.h"
#include "tools/store/age.h"

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

/* Maximum of Retry-After in seconds, and of waiting profiles counted. */
enum { RETRY_AFTER_MOST = 900, WAITING_MOST = 100000 };

/* Waits until the monotonic time, or until the relay stops. */
static void wait_until(struct et_relay *relay, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    pthread_mutex_lock(&relay->lock);
    while (!atomic_load(&relay->stop) && et_monotonic() < until_ns) {
        pthread_cond_timedwait(&relay->stopping, &relay->lock, &until);
    }
    pthread_mutex_unlock(&relay->lock);
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

/* Writes the cursor. A failing database does not stop delivery: the update stays pending, and a restart sends again. */
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
        random = (uint16_t)et_monotonic();
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
    if (reply->strange) {
        snprintf(d->why, sizeof d->why, "%ld, but not of a server of profiles: %s", reply->status, reply->words.data);
    } else if (reply->status) {
        snprintf(d->why, sizeof d->why, "%ld %s", reply->status, reply->words.data);
    } else {
        snprintf(d->why, sizeof d->why, "%s", reply->words.data);
    }
    pthread_mutex_unlock(&d->relay->lock);
    if (begins && !atomic_load(&d->relay->stop)) {
        et_error("relay %s: %s: %s; profiles stay queued in the database%s", d->config->name, d->config->url, d->why,
                 denied ? "; check its token or password file" : "");
    }
    wait_until(d->relay, et_monotonic() + wait);
}

static void report_bad(struct relay_destination *d, const struct et_relay_reply *reply, bool aside)
{
    if (aside || !d->told_ns || et_monotonic() - d->told_ns > MINUTE_NS) {
        et_error(aside ? "relay %s: %s fails for one profile, while others pass: %ld %.500s; set aside"
                       : "relay %s: %s refused a profile: %ld %.500s; skipping it",
                 d->config->name, d->config->url, reply->status, reply->words.data);
        d->told_ns = et_monotonic();
    }
}

/* Classifies a reply. Of the 4xx, only those about the content are permanent; those about credentials or the address
 * are retried. */
static enum et_relay_result classify(const struct et_relay_reply *reply)
{
    static const long waits[] = {401, 403, 404, 405, 407, 408, 421, 425};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        if (reply->status == waits[i]) {
            return ET_RESULT_AWAY;
        }
    }
    return reply->strange                                ? ET_RESULT_AWAY
           : reply->status >= 200 && reply->status < 300 ? ET_RESULT_TAKEN
           : reply->status == 413                        ? ET_RESULT_TOO_LARGE
           : reply->status == 429                        ? ET_RESULT_TOO_FAST
           : reply->status >= 400 && reply->status < 500 ? ET_RESULT_REFUSED
           : reply->status >= 500 && reply->status < 600 ? ET_RESULT_BROKEN
                                                         : ET_RESULT_AWAY;
}

/* Keeps the configured rate and the server's by a pause, counted from the start of the request, as servers do. */
static void limit_rate(struct relay_destination *d)
{
    double pace = (double)d->config->backend->pace * d->slower;
    double seconds = (double)d->body.size / (double)d->config->rate;
    double inflated = pace > 0 ? (double)et_window_chosen_bytes(&d->window) / pace : 0;
    int64_t now = et_monotonic();
    d->free_ns = (d->free_ns > now ? d->free_ns : now) + (int64_t)((seconds > inflated ? seconds : inflated) * 1e9);
}

static void save_cursor(struct relay_destination *d)
{
    struct et_relay_mark done = d->done;
    if (done.cursor) {
        d->done = (struct et_relay_mark){0};
        done.cursor -= d->cursor + d->pending.cursor;
        advance_cursor(d, &done);
    }
}

struct transfer {
    struct relay_destination *d;
    struct et_relay_reply reply;
};

static void *transfer_thread(void *context)
{
    struct transfer *transfer = context;
    struct relay_destination *d = transfer->d;
    et_relay_http_post(d->http, &d->body, d->type, d->config->backend->gzip, &d->relay->stop, &transfer->reply);
    return NULL;
}

/* Sends the request, and fills the window meanwhile: some servers answer after their flush. */
static void deliver(struct relay_destination *d, struct et_relay_reply *reply)
{
    struct transfer transfer = {.d = d};
    pthread_t thread;
    if (d->free_ns > et_monotonic()) {
        save_cursor(d);
        wait_until(d->relay, d->free_ns);
    }
    limit_rate(d);
    if (!atomic_load(&d->relay->stop)) {
        bool own = pthread_create(&thread, NULL, transfer_thread, &transfer) == 0;
        if (own) {
            save_cursor(d);
            et_relay_fill(d);
            pthread_join(thread, NULL);
        } else {
            save_cursor(d);
            transfer_thread(&transfer);
        }
    }
    *reply = transfer.reply;
}

static void learn_pace(struct relay_destination *d, enum et_relay_result result)
{
    double slower = result == ET_RESULT_TOO_FAST ? d->slower / 2
                    : result == ET_RESULT_TAKEN  ? d->slower + 0.05
                                                 : d->slower;
    d->slower = slower > 1 ? 1 : slower < 0.05 ? 0.05 : slower;
}

static void note_answer(struct relay_destination *d, const struct et_relay_reply *reply)
{
    enum et_relay_result result = classify(reply);
    const struct et_window_part *bad;
    size_t size = d->body.size;
    bool wait = et_window_answer(&d->window, result, reply->cut ? "" : reply->words.data, &bad);
    learn_pace(d, result);
    if (bad) {
        report_bad(d, reply, bad->fate == ET_PART_ASIDE);
    }
    if (wait) {
        note_failure(d, reply);
    } else {
        report_recovery(d, result == ET_RESULT_TAKEN);
    }
    pthread_mutex_lock(&d->relay->lock);
    d->bytes += size;
    pthread_mutex_unlock(&d->relay->lock);
}

/* Removes what is finished from the window. save_cursor() writes it down, best while a request is under way. */
static void finish_rows(struct relay_destination *d)
{
    size_t aside = et_window_finish(&d->window, &d->done);
    pthread_mutex_lock(&d->relay->lock);
    d->aside += aside;
    pthread_mutex_unlock(&d->relay->lock);
}

static void *relay_thread(void *context)
{
    struct relay_destination *d = context;
    et_window_open(&d->window, d->config->backend);
    d->read = d->cursor;
    d->slower = 1;
    while (!atomic_load(&d->relay->stop)) {
        et_relay_recut(d);
        et_relay_drop_late(d);
        if (!et_window_same(&d->window)) {
            et_relay_fill(d);
        }
        if (et_relay_choose(d)) {
            struct et_relay_reply reply = {0};
            deliver(d, &reply);
            if (!atomic_load(&d->relay->stop) || reply.status) {
                note_answer(d, &reply);
            }
            et_buf_free(&reply.words);
            finish_rows(d);
        } else {
            finish_rows(d);
            save_cursor(d);
            wait_until(d->relay, et_monotonic() + (d->window.row_count ? 0 : POLL_NS));
        }
    }
    save_cursor(d);
    et_window_close(&d->window);
    et_buf_free(&d->body);
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
    d->form = (struct et_relay_form){.bare = config->naming == ET_NAMING_NONE,
                                     .family = config->family ? config->family : "dotnet"};
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
                                         .grpc = config->backend->grpc,
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
    bool ok = true;
    relay->server = server;
    relay->config = *config;
    *config = (struct et_relay_config){0};
    relay->destinations = et_alloc(relay->config.count, sizeof *relay->destinations);
    pthread_mutex_init(&relay->lock, NULL);
    et_cond_init(&relay->stopping);
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
    if (et_server_symbols(relay->server)) { /* what waits for names sends nothing any more */
        et_symbols_stop(et_server_symbols(relay->server));
    }
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

/* Adds the counts of the database. */
static void add_stored_counts(struct et_relay *relay, struct et_relay_state *state)
{
    struct et_store *store = et_server_read(relay->server, NULL);
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
            .aside = d->aside,
            .bytes = d->bytes,
            .cursor = d->cursor + d->pending.cursor,
            .last_sent_ns = d->last_sent_ns,
            .next_try_ns = d->next_try_ns,
        };
        pthread_mutex_unlock(&relay->lock);
        add_stored_counts(relay, &state);
        call(context, &state);
    }
}
