/* See judge.h. */
#include "tools/serve/judge.h"
#include "tools/serve/query/metrics_verdict.h"
#include "tools/serve/http/limits.h"
#include "tools/lib/budget.h"
#include "tools/lib/kinds.h"
#include "tools/lib/pause.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t FIRST_NS = 60000000000, LONGEST_NS = 20000000000;

/* What is compared: the last seven days. */
static const int64_t RANGE_NS = INT64_C(7) * 86400 * 1000000000;

struct et_judge {
    struct et_server *server;
    int64_t every_ns;
    pthread_t thread;
    struct et_pause pause;
    bool said;                         /* a failure was reported */
    struct et_verdict_metrics metrics; /* under pause.lock */
};

/* ---- a round ---- */

struct services {
    struct service {
        char *name;
        bool live; /* its live heap, or else its CPU time */
    } * rows;
    size_t count, capacity;
};

static void add_service(void *context, const struct et_service_row *row)
{
    struct services *all = context;
    bool live = strcmp(row->kind, ET_LEAK_KIND) == 0;
    if (live || strcmp(row->kind, ET_CPU) == 0) {
        all->rows = et_reserve(all->rows, &all->capacity, all->count + 1, sizeof *all->rows);
        all->rows[all->count++] = (struct service){.name = et_strdup(row->service), .live = live};
    }
}

static int compare_versions(struct et_judge *judge, struct et_store *store, const struct et_query *query,
                            struct et_verdict_metrics *metrics)
{
    static const struct et_versions_request request;
    struct et_versions versions;
    int err = et_versions_compare(store, et_server_symbols(judge->server), query, &request, &versions);
    if (!err) {
        et_verdict_metrics_add(metrics, &versions);
    }
    et_versions_free(&versions);
    return err;
}

static int find_leaks(struct et_judge *judge, struct et_store *store, const struct et_query *query,
                      struct et_verdict_metrics *metrics)
{
    struct et_leaks leaks;
    int err = et_leaks_find(store, et_server_symbols(judge->server), query, &leaks);
    if (!err) {
        et_verdict_metrics_add_leaks(metrics, &leaks);
    }
    et_leaks_free(&leaks);
    return err;
}

static void judge_service(struct et_judge *judge, const struct service *service, struct et_verdict_metrics *metrics)
{
    const struct et_limits *limits = et_server_limits(judge->server);
    const struct et_query query = {.service = service->name,
                                   .kind = service->live ? ET_LEAK_KIND : ET_CPU,
                                   .from_ns = et_now() - RANGE_NS,
                                   .to_ns = INT64_MAX};
    struct et_budget budget;
    struct et_store *store = et_server_read(judge->server, NULL);
    et_budget_begin(&budget, LONGEST_NS, limits->query_memory);
    et_store_set_budget(store, &budget);
    int err =
        service->live ? find_leaks(judge, store, &query, metrics) : compare_versions(judge, store, &query, metrics);
    if (err && !judge->said) {
        et_error("verdict-every: cannot judge %s: %s", service->name, et_store_why(store));
    }
    judge->said |= err != 0;
    et_server_read_done(judge->server, store);
}

static void judge_all(struct et_judge *judge)
{
    struct services all = {0};
    struct et_verdict_metrics metrics = {0};
    struct et_store *store = et_server_read(judge->server, NULL);
    (void)et_store_services(store, add_service, &all);
    et_server_read_done(judge->server, store);
    bool going = true;
    for (size_t i = 0; i < all.count; i++) {
        going = going && et_pause_wait(&judge->pause, 0);
        if (going) {
            judge_service(judge, &all.rows[i], &metrics);
        }
        free(all.rows[i].name);
    }
    free(all.rows);
    pthread_mutex_lock(&judge->pause.lock);
    struct et_verdict_metrics before = judge->metrics;
    judge->metrics = metrics;
    pthread_mutex_unlock(&judge->pause.lock);
    et_verdict_metrics_free(&before);
}

/* Comparing takes at most a tenth of the time. */
static void *judge_thread(void *context)
{
    struct et_judge *judge = context;
    int64_t pause = judge->every_ns < FIRST_NS ? judge->every_ns : FIRST_NS;
    while (et_pause_wait(&judge->pause, pause)) {
        int64_t before = et_monotonic(); /* the clock may be set meanwhile */
        judge_all(judge);
        int64_t took = et_monotonic() - before;
        pause = took > judge->every_ns / 9 ? 9 * took : judge->every_ns;
    }
    return NULL;
}

/* ---- for others ---- */

struct et_judge *et_judge_start(struct et_server *server, int64_t every_ns)
{
    if (every_ns <= 0) {
        return NULL;
    }
    struct et_judge *judge = et_alloc(1, sizeof *judge);
    judge->server = server;
    judge->every_ns = every_ns;
    et_pause_init(&judge->pause);
    if (pthread_create(&judge->thread, NULL, judge_thread, judge) == 0) {
        return judge;
    }
    et_error("cannot start the thread that compares versions");
    et_pause_destroy(&judge->pause);
    free(judge);
    return NULL;
}

void et_judge_stop(struct et_judge *judge)
{
    if (!judge) {
        return;
    }
    et_pause_stop(&judge->pause);
    pthread_join(judge->thread, NULL);
    et_pause_destroy(&judge->pause);
    et_verdict_metrics_free(&judge->metrics);
    free(judge);
}

void et_judge_metrics(struct et_judge *judge, struct et_buf *out)
{
    if (judge) {
        pthread_mutex_lock(&judge->pause.lock);
        et_verdict_metrics_put(&judge->metrics, out);
        pthread_mutex_unlock(&judge->pause.lock);
    }
}
