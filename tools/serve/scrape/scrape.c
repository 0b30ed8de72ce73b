/*
 * See scrape.h. Each interval, a target's thread calls scrape_round(). For each profile it fetches, inflates and
 * decodes it, adds the wanted kinds to a batch, stores the batch, and notes the result.
 *
 * From totals since the process's start, the previous profile is subtracted. The first profile has no known interval,
 * so it is not stored.
 */
#include "tools/serve/scrape/scrape.h"
#include "tools/profile/delta.h"
#include "tools/lib/http_client.h"
#include "tools/lib/gzip.h"
#include "tools/serve/ingest/ingest_batch.h"
#include "tools/lib/json_write.h"
#include "tools/serve/http/limits.h"
#include "tools/formats/pprof_read.h"
#include "tools/lib/time_text.h"
#include "tools/lib/pause.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES = 1 << 20, WHY = 200 };

static const int64_t SECOND = 1000000000;

/* The path of each profile, and the kind it is stored as. */
static const struct {
    const char *path, *family;
    const char *kind; /* NULL: all kinds in it */
    bool cumulative;
} sorts[ET_SCRAPED_COUNT] = {
    [ET_SCRAPED_ALLOCS] = {"allocs", "memory", "alloc", true},
    [ET_SCRAPED_HEAP] = {"heap", "memory", "live", false},
    [ET_SCRAPED_MUTEX] = {"mutex", "mutex", "lock", true},
    [ET_SCRAPED_BLOCK] = {"block", "block", "wait", true},
    [ET_SCRAPED_GOROUTINE] = {"goroutine", "goroutine", "thread", false},
    [ET_SCRAPED_CPU] = {"profile?seconds=", "process_cpu", NULL, false},
};

enum state { STATE_NEW, STATE_UP, STATE_DOWN };

struct scrape_status {
    enum state state;
    char why[WHY]; /* for STATE_DOWN */
    int64_t last_ns, took_ns;
    uint64_t taken, failed, restarts, bytes;
};

struct scrape_target_state {
    struct et_scraper *scraper;
    struct et_scrape_target config;
    struct scrape_status status[ET_SCRAPED_COUNT]; /* under the scraper's lock */
    struct et_profile *before[ET_SCRAPED_COUNT];
    int64_t before_ns[ET_SCRAPED_COUNT];
    pthread_t thread;
    bool started;
};

struct et_scraper {
    struct et_server *server;
    struct scrape_target_state *targets;
    size_t count;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_bool stopping;
};

/* ---- one profile ---- */

struct scrape_result {
    int64_t start_ns, end_ns; /* of the request */
    size_t bytes;
    bool restarted;
    struct et_buf why; /* "": success */
};

static void fetch_profile(struct scrape_target_state *target, enum et_scraped which, struct et_buf *out,
                          struct scrape_result *scraped)
{
    struct et_buf url = {0}, body = {0}, why = {0};
    const struct et_limits *limits = et_server_limits(target->scraper->server);
    long seconds = (long)(target->config.timeout_ns / SECOND);
    et_buf_printf(&url, "%s/debug/pprof/%s", target->config.url, sorts[which].path);
    if (which == ET_SCRAPED_CPU) {
        et_buf_printf(&url, "%u", target->config.seconds);
        seconds += target->config.seconds;
    }
    scraped->start_ns = et_now();
    long status = et_http_send(&(struct et_http_request){.url = url.data,
                                                         .token = target->config.token,
                                                         .authority = target->config.ca,
                                                         .seconds = seconds ? seconds : 1,
                                                         .limit = limits->body,
                                                         .stop = &target->scraper->stopping,
                                                         .answer = &body},
                               &why);
    scraped->end_ns = et_now();
    scraped->bytes = body.size;
    if (status == 0) {
        et_buf_text(&scraped->why, why.data);
    } else if (status != 200) {
        char *line = et_clean(body.data ? body.data : "", body.data ? strcspn(body.data, "\r\n") : 0);
        et_buf_printf(&scraped->why, "status %ld: %.120s", status, line);
        free(line);
    } else {
        int err = et_gunzip(body.data, body.size, limits->inflated, out);
        et_buf_text(&scraped->why, err == -EFBIG ? "too large when inflated" : err ? "broken gzip or zstd data" : "");
    }
    et_buf_free(&url);
    et_buf_free(&body);
    et_buf_free(&why);
}

/* The difference from the previous profile; NULL: this is the first. Takes ownership of the profile. */
static struct et_profile *since_last(struct scrape_target_state *target, enum et_scraped which, const et_pprof *pprof,
                                     const struct et_pprof_kind *kind, struct et_profile *profile, bool *restarted)
{
    const char *why;
    struct et_profile *before = target->before[which];
    target->before[which] = profile;
    if (!before) {
        return NULL;
    }
    struct et_profile *now =
        et_pprof_profile(pprof, kind, &why); /* a second copy: the first is needed unchanged for the next difference */
    *restarted = now && !et_delta(before, now);
    et_profile_free(before);
    return now;
}

/* Times are from the server's clock, because the target's may be wrong. */
static void add_to_batch(struct scrape_target_state *target, enum et_scraped which, const et_pprof *pprof,
                         struct et_profile *profile, const struct scrape_result *scraped, struct et_batch *batch)
{
    int64_t from = scraped->end_ns - target->config.interval_ns;
    if (which == ET_SCRAPED_CPU) {
        bool known = pprof->duration_nanos > 0 && pprof->duration_nanos < scraped->end_ns - scraped->start_ns;
        from = known ? scraped->end_ns - pprof->duration_nanos : scraped->start_ns;
    } else if (sorts[which].cumulative) {
        from = target->before_ns[which];
    }
    if (profile->entry_count) {
        et_batch_add(batch, target->config.service, target->config.tags, profile, from, scraped->end_ns);
    } else {
        et_profile_free(profile);
    }
}

/* Adds the wanted kinds of a pprof. Returns NULL or an error. */
static const char *add_kinds(struct scrape_target_state *target, enum et_scraped which, const et_pprof *pprof,
                             struct scrape_result *scraped, struct et_batch *batch)
{
    struct et_pprof_kind kinds[ET_PPROF_KINDS];
    const char *why = NULL;
    size_t count = et_pprof_kinds(pprof, sorts[which].family, kinds), found = 0;
    for (size_t i = 0; i < count; i++) {
        if (sorts[which].kind && strcmp(kinds[i].name, sorts[which].kind) != 0) {
            continue;
        }
        struct et_profile *profile = et_pprof_profile(pprof, &kinds[i], &why);
        found++;
        if (profile && sorts[which].cumulative) {
            profile = since_last(target, which, pprof, &kinds[i], profile, &scraped->restarted);
        }
        if (profile) {
            add_to_batch(target, which, pprof, profile, scraped, batch);
        }
    }
    return why ? why : found ? NULL : "no sample type for this profile";
}

static enum et_outcome store_batch(struct et_store *store, void *context, const char **why)
{
    return et_batch_store(store, context, why);
}

static void scrape_profile(struct scrape_target_state *target, enum et_scraped which, struct scrape_result *scraped)
{
    struct et_buf bytes = {0}, why = {0};
    struct et_batch batch = {0};
    const char *wrong = NULL;
    fetch_profile(target, which, &bytes, scraped);
    et_pprof *pprof = scraped->why.size ? NULL : et_pprof_decode(bytes.data, bytes.size, &wrong);
    if (pprof) {
        wrong = add_kinds(target, which, pprof, scraped, &batch);
        target->before_ns[which] = scraped->end_ns;
        et_pprof_free(pprof);
    }
    if (batch.count) {
        enum et_outcome outcome = et_server_write(target->scraper->server, store_batch, &batch, &why);
        et_buf_text(&scraped->why, outcome == ET_ACCEPTED && !batch.items[0].refused ? "" : why.data);
    }
    et_buf_text(&scraped->why, wrong ? wrong : "");
    et_batch_free(&batch);
    et_buf_free(&bytes);
    et_buf_free(&why);
}

/* ---- status ---- */

/* Reports changes of the state. */
static void note_result(struct scrape_target_state *target, enum et_scraped which, const struct scrape_result *scraped)
{
    struct scrape_status *status = &target->status[which];
    bool up = scraped->why.size == 0;
    pthread_mutex_lock(&target->scraper->lock);
    enum state before = status->state;
    status->state = up ? STATE_UP : STATE_DOWN;
    snprintf(status->why, sizeof status->why, "%s", up ? "" : scraped->why.data);
    status->last_ns = scraped->end_ns;
    status->took_ns = scraped->end_ns - scraped->start_ns;
    status->bytes = scraped->bytes;
    status->taken += up;
    status->failed += !up;
    status->restarts += scraped->restarted;
    pthread_mutex_unlock(&target->scraper->lock);
    if (!up && before != STATE_DOWN) {
        et_error("scrape %s: %s: %.200s; retrying every %lld s", target->config.url, et_scraped_names[which],
                 scraped->why.data, (long long)(target->config.interval_ns / SECOND));
    } else if (up && before == STATE_DOWN) {
        et_error("scrape %s: %s: works again", target->config.url, et_scraped_names[which]);
    }
}

static void status_json(const struct scrape_target_state *target, enum et_scraped which, struct et_buf *out)
{
    static const char *const states[] = {"new", "up", "down"};
    const struct scrape_status *status = &target->status[which];
    et_buf_printf(out, "{\"name\":\"%s\",\"state\":\"%s\",\"error\":", et_scraped_names[which], states[status->state]);
    et_json_string(out, status->why);
    et_buf_text(out, ",\"last\":");
    et_json_seconds(out, status->last_ns);
    et_buf_printf(out, ",\"took_ms\":%lld,\"bytes\":%llu,\"taken\":%llu,\"failed\":%llu,\"restarts\":%llu}",
                  (long long)(status->took_ns / 1000000), (unsigned long long)status->bytes,
                  (unsigned long long)status->taken, (unsigned long long)status->failed,
                  (unsigned long long)status->restarts);
}

static void target_json(const struct scrape_target_state *target, struct et_buf *out)
{
    const char *comma = "";
    et_buf_text(out, "{\"url\":");
    et_json_string(out, target->config.url);
    et_buf_text(out, ",\"service\":");
    et_json_string(out, target->config.service);
    et_buf_text(out, ",\"tags\":");
    et_json_string(out, target->config.tags);
    et_buf_printf(out, ",\"interval\":%lld,\"profiles\":[", (long long)(target->config.interval_ns / SECOND));
    for (size_t i = 0; i < ET_SCRAPED_COUNT; i++) {
        if (target->config.wanted[i]) {
            et_buf_text(out, comma);
            status_json(target, (enum et_scraped)i, out);
            comma = ",";
        }
    }
    et_buf_text(out, "]}");
}

void et_scraper_json(struct et_scraper *scraper, struct et_buf *out)
{
    et_buf_text(out, "{\"targets\":[");
    if (scraper) {
        pthread_mutex_lock(&scraper->lock);
        for (size_t i = 0; i < scraper->count; i++) {
            et_buf_text(out, i ? "," : "");
            target_json(&scraper->targets[i], out);
        }
        pthread_mutex_unlock(&scraper->lock);
    }
    et_buf_text(out, "]}");
}

/* ---- threads ---- */

static void scrape_round(struct scrape_target_state *target)
{
    for (size_t i = 0; i < ET_SCRAPED_COUNT && !atomic_load(&target->scraper->stopping); i++) {
        if (target->config.wanted[i]) {
            struct scrape_result scraped = {0};
            scrape_profile(target, (enum et_scraped)i, &scraped);
            if (!atomic_load(&target->scraper->stopping)) {
                note_result(target, (enum et_scraped)i, &scraped);
            }
            et_buf_free(&scraped.why);
        }
    }
}

/* Waits until the time or until the scraper stops. Returns false when it stops. */
static bool wait_until(struct et_scraper *scraper, int64_t then_ns)
{
    struct timespec then = {.tv_sec = (time_t)(then_ns / SECOND), .tv_nsec = (long)(then_ns % SECOND)};
    pthread_mutex_lock(&scraper->lock);
    while (!atomic_load(&scraper->stopping) && pthread_cond_timedwait(&scraper->wake, &scraper->lock, &then) == 0) {
    }
    pthread_mutex_unlock(&scraper->lock);
    return !atomic_load(&scraper->stopping);
}

/* Rounds start one interval apart. A longer round is followed by the next at once; missed rounds are not repeated. */
static void *target_thread(void *context)
{
    struct scrape_target_state *target = context;
    int64_t next = et_monotonic();
    do {
        scrape_round(target);
        next += target->config.interval_ns;
        next = next < et_monotonic() ? et_monotonic() : next;
    } while (wait_until(target->scraper, next));
    return NULL;
}

static void start_target(struct scrape_target_state *target)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    target->started = pthread_create(&target->thread, &attributes, target_thread, target) == 0;
    pthread_attr_destroy(&attributes);
    if (!target->started) {
        et_error("scrape %s: cannot start a thread; target disabled", target->config.url);
    }
}

struct et_scraper *et_scraper_start(struct et_server *server, struct et_scrape_config *config)
{
    struct et_scraper *scraper = et_alloc(1, sizeof *scraper);
    scraper->server = server;
    scraper->count = config->count;
    scraper->targets = et_alloc(config->count, sizeof *scraper->targets);
    pthread_mutex_init(&scraper->lock, NULL);
    et_cond_init(&scraper->wake);
    for (size_t i = 0; i < scraper->count; i++) {
        scraper->targets[i].scraper = scraper;
        scraper->targets[i].config = config->targets[i];
        start_target(&scraper->targets[i]);
    }
    free(config->targets);
    *config = (struct et_scrape_config){0};
    return scraper;
}

void et_scraper_stop(struct et_scraper *scraper)
{
    if (!scraper) {
        return;
    }
    pthread_mutex_lock(&scraper->lock);
    atomic_store(&scraper->stopping, true);
    pthread_cond_broadcast(&scraper->wake);
    pthread_mutex_unlock(&scraper->lock);
    struct et_scrape_config config = {.targets = et_alloc(scraper->count, sizeof *config.targets),
                                      .count = scraper->count};
    for (size_t i = 0; i < scraper->count; i++) {
        struct scrape_target_state *target = &scraper->targets[i];
        if (target->started) {
            pthread_join(target->thread, NULL);
        }
        for (size_t k = 0; k < ET_SCRAPED_COUNT; k++) {
            et_profile_free(target->before[k]);
        }
        config.targets[i] = target->config;
    }
    et_scrape_config_free(&config);
    pthread_mutex_destroy(&scraper->lock);
    pthread_cond_destroy(&scraper->wake);
    free(scraper->targets);
    free(scraper);
}
