/*
 * See store.h: counters per service, version and device. The transaction that stores a profile also adds to its
 * counters. Merging, retention and restarts never reduce them.
 *
 *   et_store_count         adds a received profile
 *   et_store_count_losses  adds the increase of a process's running totals of losses
 */
#include "tools/lib/config.h"
#include "tools/lib/labels.h"
#include "tools/store/age.h"
#include "tools/store/store_internal.h"
#include "tools/lib/time_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of sets of service, version, device and labels; further ones count as ET_METRIC_OTHER. */
enum { SETS = 4096 };

/* When all sets are used, sets unseen for 30 days are dropped; checked once an hour. */
#define UNSEEN_NS (30 * 86400 * 1000000000LL)
#define SWEEP_NS  (3600 * 1000000000LL)

struct metric_set {
    char *service, *version, *device, *labels;
};

void et_store_set_metric_labels(struct et_store *store, const char *names)
{
    free(store->metric_labels);
    store->metric_labels = names ? et_strdup(names) : NULL;
}

struct label_choice {
    const char *tags;
    struct et_labels chosen;
};

static bool choose_label(void *context, const char *name)
{
    struct label_choice *choice = context;
    size_t size;
    const char *value = et_labels_value(choice->tags, name, &size);
    char label[ET_METRIC_LABEL];
    if (value && size && et_metric_label(name, label)) {
        char *own = et_clean(value, size);
        et_labels_add(&choice->chosen, label, own);
        free(own);
    }
    return true;
}

static char *copy_value(const char *lines, const char *key, const char *other)
{
    size_t size;
    const char *value = et_labels_value(lines, key, &size);
    return value ? et_clean(value, size) : et_strdup(other);
}

/* Reads the origin's set. Returns 1, or as et_store_step(). */
static int read_set(struct et_store *store, int64_t origin, struct metric_set *set)
{
    sqlite3_stmt *row = et_store_bind(store, "SELECT service, tags, host FROM origin WHERE id = ?", "i", origin);
    int got = et_store_step(store, row);
    if (got == 1) {
        const char *tags = et_column_text(row, 1);
        set->service = et_strdup(et_column_text(row, 0));
        set->version = copy_value(tags, "version", "");
        set->device = copy_value(tags, "device", et_column_text(row, 2));
        struct label_choice choice = {.tags = tags};
        (void)(store->metric_labels && et_config_list(store->metric_labels, choose_label, &choice));
        set->labels = et_labels_join(&choice.chosen);
    }
    sqlite3_reset(row);
    return got;
}

static void free_set(struct metric_set *set)
{
    free(set->service);
    free(set->version);
    free(set->device);
    free(set->labels);
}

static int count_sets(struct et_store *store)
{
    sqlite3_stmt *row =
        et_store_bind(store, "SELECT count(*) FROM (SELECT DISTINCT service, version, device, labels FROM metric)", "");
    int got = et_store_step(store, row);
    store->metric_sets = got == 1 ? sqlite3_column_int64(row, 0) : store->metric_sets;
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

static const char METRIC_DROP[] =
    "DELETE FROM metric WHERE (service, version, device, labels) IN (SELECT service, version, device, labels"
    " FROM metric WHERE service <> ? GROUP BY 1, 2, 3, 4 HAVING max(last_ns) < ?)";

/* Counts the sets, and drops old ones when there are too many. Returns 0 or an error. */
static int drop_unseen_sets(struct et_store *store, int64_t now_ns)
{
    int err = count_sets(store);
    store->metric_swept_ns = now_ns;
    if (err || store->metric_sets < SETS) {
        return err;
    }
    err = et_store_run(store, METRIC_DROP, "si", ET_METRIC_OTHER, now_ns - UNSEEN_NS);
    return err ? err : count_sets(store);
}

/* Whether the set exists or may be added: 1, 0 or an error. The handle caches the number of sets; when the limit is
 * reached, it is recounted once an hour and not for each profile. */
static int has_room(struct et_store *store, const struct metric_set *set)
{
    sqlite3_stmt *row = et_store_bind(
        store, "SELECT 1 FROM metric WHERE service = ? AND version = ? AND device = ? AND labels = ? LIMIT 1", "ssss",
        set->service, set->version, set->device, set->labels);
    int known = et_store_step(store, row);
    int64_t now_ns = et_age_now(store->age);
    sqlite3_reset(row);
    bool due = !store->metric_swept_ns || (store->metric_sets >= SETS && now_ns - store->metric_swept_ns > SWEEP_NS);
    int err = known == 0 && due ? drop_unseen_sets(store, now_ns) : 0;
    if (known || err) {
        return known ? known : err;
    }
    bool room = store->metric_sets < SETS;
    store->metric_sets += room;
    if (!room && !store->metric_full) {
        et_error("/metrics: %d sets of service, version, device and metric-labels; further ones count as service %s",
                 SETS, ET_METRIC_OTHER);
    }
    store->metric_full = !room;
    return room;
}

static const char METRIC_MORE[] =
    "UPDATE metric SET value = value + ?, count = count + ?, profiles = profiles + ?, last_ns = max(last_ns, ?)"
    " WHERE service = ? AND version = ? AND device = ? AND labels = ? AND kind = ?";
static const char METRIC_NEW[] =
    "INSERT INTO metric (service, version, device, labels, kind, value, count, profiles, last_ns) VALUES (?, ?,"
    " ?, ?, ?, ?, ?, ?, ?)";

static int add_to_set(struct et_store *store, const struct metric_set *set, const char *kind,
                      const struct et_counted *more)
{
    sqlite3_stmt *row = et_store_bind(store, METRIC_MORE, "uuuisssss", more->value, more->count, more->profiles,
                                      more->last_ns, set->service, set->version, set->device, set->labels, kind);
    int err = et_store_step(store, row);
    if (err || sqlite3_changes(store->db)) {
        return err;
    }
    static char name[] = ET_METRIC_OTHER, none[] = "";
    static const struct metric_set other = {name, none, none, none};
    int room = set == &other ? 1 : has_room(store, set);
    if (room <= 0) {
        return room < 0 ? room : add_to_set(store, &other, kind, more);
    }
    return et_store_run(store, METRIC_NEW, "sssssuuui", set->service, set->version, set->device, set->labels, kind,
                        more->value, more->count, more->profiles, more->last_ns);
}

int et_store_count(struct et_store *store, int64_t origin, const char *kind, const struct et_counted *more)
{
    struct metric_set set = {0};
    int got = read_set(store, origin, &set);
    got = got == 1 ? add_to_set(store, &set, kind, more) : got;
    free_set(&set);
    return got;
}

/* ---- losses ---- */

static const Edgeprof__V1__Loss *find_loss(const Edgeprof__V1__Stats *stats, uint32_t reason)
{
    for (size_t i = 0; stats && i < stats->n_losses; i++) {
        if (stats->losses[i]->reason == reason) {
            return stats->losses[i];
        }
    }
    return NULL;
}

static int add_losses(struct et_store *store, const struct metric_set *set, const Edgeprof__V1__Stats *before,
                      const Edgeprof__V1__Stats *now)
{
    int err = 0;
    for (size_t i = 0; i < now->n_losses && !err; i++) {
        const Edgeprof__V1__Loss *loss = now->losses[i], *known = find_loss(before, loss->reason);
        uint64_t count = known ? known->count : 0, weight = known ? known->weight_ns : 0;
        struct et_counted more = {.value = loss->weight_ns > weight ? loss->weight_ns - weight : 0,
                                  .count = loss->count > count ? loss->count - count : 0};
        char kind[32];
        snprintf(kind, sizeof kind, ET_METRIC_LOSS "%u", loss->reason < 64 ? loss->reason : 63);
        err = more.value || more.count ? add_to_set(store, set, kind, &more) : 0;
    }
    return err;
}

static Edgeprof__V1__Stats *known_stats(struct et_store *store, int64_t origin)
{
    sqlite3_stmt *row = et_store_bind(store, "SELECT stats FROM origin WHERE id = ?", "i", origin);
    Edgeprof__V1__Stats *stats = NULL;
    if (et_store_step(store, row) == 1 && sqlite3_column_blob(row, 0)) {
        stats = edgeprof__v1__stats__unpack(NULL, (size_t)sqlite3_column_bytes(row, 0), sqlite3_column_blob(row, 0));
    }
    sqlite3_reset(row);
    return stats;
}

int et_store_count_losses(struct et_store *store, int64_t origin, const void *stats, size_t size)
{
    Edgeprof__V1__Stats *now = edgeprof__v1__stats__unpack(NULL, size, stats);
    struct metric_set set = {0};
    int err = 0;
    if (now && now->n_losses) {
        Edgeprof__V1__Stats *before = known_stats(store, origin);
        int got = read_set(store, origin, &set);
        err = got == 1 ? add_losses(store, &set, before, now) : got;
        free_set(&set);
        edgeprof__v1__stats__free_unpacked(before, NULL);
    }
    edgeprof__v1__stats__free_unpacked(now, NULL);
    return err;
}

/* ---- reading ---- */

static const char METRICS[] =
    "SELECT service, version, device, kind, value, count, profiles, last_ns, labels FROM metric ORDER BY service,"
    " version, device, labels, kind";

int et_store_metrics(struct et_store *store, void (*call)(void *context, const struct et_metric *metric), void *context)
{
    sqlite3_stmt *row = et_store_bind(store, METRICS, "");
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        struct et_metric metric = {
            .service = et_column_text(row, 0),
            .version = et_column_text(row, 1),
            .device = et_column_text(row, 2),
            .kind = et_column_text(row, 3),
            .sum = {.value = (uint64_t)sqlite3_column_int64(row, 4),
                    .count = (uint64_t)sqlite3_column_int64(row, 5),
                    .profiles = (uint64_t)sqlite3_column_int64(row, 6),
                    .last_ns = sqlite3_column_int64(row, 7)},
            .labels = et_column_text(row, 8),
        };
        call(context, &metric);
    }
    return got;
}
