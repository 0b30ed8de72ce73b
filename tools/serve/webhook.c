/* See webhook.h. */
#include "tools/serve/webhook.h"
#include "tools/formats/incident.h"
#include "tools/lib/hash.h"
#include "tools/lib/json_write.h"
#include "tools/lib/pause.h"
#include "tools/lib/time_text.h"
#include "tools/serve/fair_rate.h"
#include "tools/serve/http/server.h"
#include "tools/serve/query/metrics.h"
#include "tools/serve/relay/relay_http.h"

#include <stdlib.h>
#include <string.h>

enum { PER_HOUR = 20, PER_HOUR_MOST = 3600, TRIES = 3, TIMEOUT_S = 10, RETRY_AFTER_MOST_S = 60 };
static const int64_t SECOND_NS = 1000000000, LOOK_NS = 1000000000;

enum result { SENT, FAILED, SUPPRESSED, SUPPRESSED_DEVICE, RESULTS };
static const char *const result_names[RESULTS] = {"sent", "failed", "suppressed", "suppressed_device"};

struct et_webhook {
    struct et_server *server;
    char *url, *token_file, *ca, *link;
    char *to; /* the URL without path: that may be a secret */
    struct et_fair_rate rate;
    struct et_relay_target target;
    struct et_relay_http *http;
    pthread_t thread;
    struct et_pause pause;
    atomic_bool stop;
    int64_t cursor;  /* id of the last row that was looked at */
    uint64_t unsaid; /* suppressed since the last notification */
    bool failing;    /* and that was said */
    _Atomic uint64_t counts[RESULTS];
};

/* ---- configuration ---- */

bool et_webhook_read(const struct et_config *config, const struct et_section *section, struct et_webhook_config *out)
{
    static const char *const keys[] = {"url", "token-file", "ca", "link", "per-hour", "device-per-hour", NULL};
    *out = (struct et_webhook_config){.per_hour = PER_HOUR};
    if (!section) {
        return true;
    }
    const struct et_setting *url = et_config_setting(section, "url");
    bool ok = et_config_keys(config, section, keys);
    ok = ok && et_config_number(config, section, "per-hour", PER_HOUR_MOST, &out->per_hour);
    ok = ok && et_config_number(config, section, "device-per-hour", PER_HOUR_MOST, &out->device_per_hour);
    if (ok && (!url || (strncmp(url->value, "http://", 7) != 0 && strncmp(url->value, "https://", 8) != 0))) {
        et_config_error(config, url ? url->line : section->line, "url: expected http://HOST:PORT/PATH, or https");
        ok = false;
    }
    out->url = url ? url->value : NULL;
    out->token_file = et_config_value(section, "token-file");
    out->ca = et_config_value(section, "ca");
    out->link = et_config_value(section, "link");
    return ok;
}

/* ---- a notification ---- */

static const char *device_of(const et_message *message)
{
    for (size_t i = 0; i < message->origin->n_tags; i++) {
        if (strcmp(message->origin->tags[i]->key, "device") == 0) {
            return message->origin->tags[i]->value;
        }
    }
    return message->origin->host;
}

/* Appends a name as a span of code, in which Slack, Mattermost, Discord and others look for no mention, link or markup.
 * What Slack would obey all the same, and what could end the span, is replaced by a similar character. */
static void add_name(struct et_buf *text, const char *name)
{
    static const char *const similar[] = {
        ['<'] = "\u2039", ['>'] = "\u203a", ['&'] = "\uff06", ['@'] = "\uff20", ['`'] = "'", ['\\'] = "\uff3c"};
    et_buf_char(text, '`');
    for (const char *at = name; *at; at++) {
        const unsigned char byte = (unsigned char)*at;
        const char *other = byte < sizeof similar / sizeof *similar ? similar[byte] : NULL;
        if (strncmp(at, "://", 3) == 0) {
            other = "\uff1a"; /* some make a link of it everywhere */
        }
        et_buf_add(text, other ? other : at, other ? strlen(other) : 1);
    }
    et_buf_char(text, '`');
}

/* {"id" ... } of the list of incidents, and what a person needs. Chat programs show "text". */
static void write_body(const struct et_webhook *webhook, const et_message *message, int64_t received_ns,
                       struct et_buf *out)
{
    struct et_buf link = {0}, text = {0};
    et_buf_printf(&link, "%s/#view=incidents&range=all&incident=%016llx", webhook->link,
                  (unsigned long long)message->timeline->incident);
    et_buf_printf(&text, "%s", et_incident_cause((int)message->timeline->cause));
    if (message->timeline->name[0]) {
        et_buf_char(&text, ' ');
        add_name(&text, message->timeline->name);
    }
    et_buf_text(&text, " in ");
    add_name(&text, message->origin->service);
    et_buf_text(&text, " on ");
    add_name(&text, device_of(message));
    et_buf_printf(&text, ": %s", link.data);
    if (webhook->unsaid) {
        et_buf_printf(&text, " (%llu before it were too many)", (unsigned long long)webhook->unsaid);
    }
    et_incident_summary(message, received_ns, out);
    out->size--; /* the final brace */
    et_json_clean_field(out, "device", device_of(message));
    et_json_clean_field(out, "link", link.data);
    et_json_clean_field(out, "text", text.data);
    et_buf_printf(out, ",\"not_told\":%llu}\n", (unsigned long long)webhook->unsaid);
    et_buf_free(&link);
    et_buf_free(&text);
}

static bool is_worth_a_retry(long status)
{
    return status == 0 || status == 408 || status == 429 || status >= 500;
}

/* The words of an answer may repeat the URL. */
static void report(struct et_webhook *webhook, const struct et_relay_reply *reply, bool sent)
{
    if (!sent && !webhook->failing && reply->status) {
        et_error("webhook: %s does not receive incidents: status %ld", webhook->to, reply->status);
    } else if (!sent && !webhook->failing) {
        et_error("webhook: %s does not receive incidents: %s", webhook->to, reply->words.data);
    } else if (sent && webhook->failing) {
        et_error("webhook: %s receives incidents again", webhook->to);
    }
    webhook->failing = !sent;
}

/* Returns false when the thread must end. */
static bool post(struct et_webhook *webhook, const struct et_buf *body)
{
    bool going = true, sent = false;
    for (unsigned i = 0; i < TRIES && going && !sent; i++) {
        struct et_relay_reply reply = {0};
        et_relay_http_post(webhook->http, body, "application/json", false, &webhook->stop, &reply);
        sent = reply.status >= 200 && reply.status < 300;
        bool last = sent || i + 1 == TRIES || !is_worth_a_retry(reply.status);
        int64_t after = reply.retry_after_s > RETRY_AFTER_MOST_S ? RETRY_AFTER_MOST_S : reply.retry_after_s;
        if (last && !atomic_load(&webhook->stop)) {
            report(webhook, &reply, sent);
        }
        i = last ? TRIES : i;
        going = et_pause_wait(&webhook->pause, last ? 0 : (after ? after : (int64_t)1 << (2 * i)) * SECOND_NS);
        et_buf_free(&reply.words);
    }
    (void)atomic_fetch_add(&webhook->counts[sent ? SENT : FAILED], 1);
    return going;
}

static bool notify(struct et_webhook *webhook, const struct et_incident_row *row)
{
    const char *why;
    struct et_buf body = {0};
    et_message *message = et_message_decode(row->message, row->size, &why);
    bool going = true;
    enum et_fair fair = ET_FAIR_ALLOWED;
    bool complete = message && message->timeline && message->origin;
    if (complete) {
        const char *device = device_of(message);
        fair = et_fair_take(&webhook->rate, et_hash_bytes(device, strlen(device)), et_monotonic());
    }
    if (complete && fair == ET_FAIR_ALLOWED) {
        write_body(webhook, message, row->received_ns, &body);
        webhook->unsaid = 0;
        going = post(webhook, &body);
    } else if (complete) {
        webhook->unsaid++;
        (void)atomic_fetch_add(&webhook->counts[fair == ET_FAIR_DEVICE ? SUPPRESSED_DEVICE : SUPPRESSED], 1);
    }
    if (message) {
        et_message_free(message);
    }
    et_buf_free(&body);
    return going;
}

/* ---- the thread ---- */

/* A copy of the next incident behind the cursor: the thread returns the handle before it sends the incident. */
struct next {
    struct et_incident_row row;
    void *message;
    int64_t id;
};

static bool keep_row(void *context, const struct et_incident_row *row)
{
    struct next *next = context;
    next->row = *row;
    next->row.message = next->message = et_alloc(row->size + 1, 1);
    memcpy(next->message, row->message, row->size);
    next->id = row->id;
    return true;
}

static void *webhook_thread(void *context)
{
    struct et_webhook *webhook = context;
    bool going = true;
    while (going) {
        struct next next = {0};
        struct et_store *store = et_server_read(webhook->server, NULL);
        (void)et_store_incident_after(store, webhook->cursor, keep_row, &next);
        et_server_read_done(webhook->server, store);
        if (next.message) {
            webhook->cursor = next.id;
            going = notify(webhook, &next.row);
        } else {
            going = et_pause_wait(&webhook->pause, LOOK_NS);
        }
        free(next.message);
    }
    return NULL;
}

/* ---- for others ---- */

static char *copy(const char *text)
{
    return text ? et_strdup(text) : NULL;
}

static char *without_path(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t size = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', size);
    struct et_buf out = {0};
    if (at) { /* a password, which may have one, too */
        size -= (size_t)(at + 1 - host);
        host = at + 1;
    }
    et_buf_printf(&out, "%.*s", (int)size, host);
    return out.data;
}

static bool webhook_open(struct et_webhook *webhook, struct et_buf *why)
{
    struct et_store *store = et_server_read(webhook->server, NULL);
    webhook->cursor = et_store_incident_last(store);
    et_server_read_done(webhook->server, store);
    webhook->target = (struct et_relay_target){
        .url = webhook->url, .token_file = webhook->token_file, .ca = webhook->ca, .timeout_s = TIMEOUT_S};
    webhook->http = et_relay_http_new(&webhook->target, why);
    bool started = webhook->http && pthread_create(&webhook->thread, NULL, webhook_thread, webhook) == 0;
    et_buf_text(why, started || why->size ? "" : "no thread");
    return started;
}

static void webhook_free(struct et_webhook *webhook)
{
    et_relay_http_free(webhook->http);
    et_pause_destroy(&webhook->pause);
    free(webhook->url);
    free(webhook->token_file);
    free(webhook->ca);
    free(webhook->link);
    free(webhook->to);
    free(webhook);
}

struct et_webhook *et_webhook_start(struct et_server *server, const struct et_webhook_config *config, bool *failed)
{
    struct et_buf why = {0};
    *failed = false;
    if (!config || !config->url) {
        return NULL;
    }
    struct et_webhook *webhook = et_alloc(1, sizeof *webhook);
    uint64_t per_hour = config->per_hour ? config->per_hour : 1, quarter = (per_hour + 3) / 4;
    *webhook = (struct et_webhook){
        .server = server,
        .url = et_strdup(config->url),
        .token_file = copy(config->token_file),
        .ca = copy(config->ca),
        .link = et_strdup(config->link ? config->link : et_server_url(server)),
        .to = without_path(config->url),
        .rate = {.per_hour = per_hour, .device_per_hour = config->device_per_hour ? config->device_per_hour : quarter}};
    et_pause_init(&webhook->pause);
    *failed = !webhook_open(webhook, &why);
    if (*failed) {
        et_error("webhook: %s", why.data);
        webhook_free(webhook);
    }
    et_buf_free(&why);
    return *failed ? NULL : webhook;
}

void et_webhook_stop(struct et_webhook *webhook)
{
    if (webhook) {
        atomic_store(&webhook->stop, true);
        et_pause_stop(&webhook->pause);
        pthread_join(webhook->thread, NULL);
        webhook_free(webhook);
    }
}

void et_webhook_metrics(struct et_webhook *webhook, struct et_buf *out)
{
    if (!webhook) {
        return;
    }
    et_metrics_family(
        out, "edgeprof_webhook_total", "counter",
        "Incidents of which the webhook was told, was not told after some tries, or above its rate or its device's.");
    for (enum result result = 0; result < RESULTS; result++) {
        et_metrics_sample(out, "edgeprof_webhook_total", "result", result_names[result], NULL);
        et_metrics_number(out, atomic_load(&webhook->counts[result]));
    }
}
