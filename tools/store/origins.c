/* See store.h: lists of what there is. Profiles are loaded by store_load.c. */
#include "tools/lib/labels.h"
#include "tools/store/owner.h"
#include "tools/store/store_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *et_process_value(const char *labels, const struct et_process *process, const char *key, size_t *size)
{
    if (strcmp(key, ET_SERVICE_NAME) == 0) { /* a label or tag of that name would hide the service */
        *size = strlen(process->service);
        return process->service;
    }
    const char *value = et_labels_value(labels, key, size);
    value = value ? value : et_labels_value(process->tags, key, size);
    if (!value) {
        value = strcmp(key, ET_HOST) == 0 ? process->host : NULL;
        *size = value ? strlen(value) : 0;
    }
    return value;
}

bool et_process_matches(const struct et_matcher *matcher, const char *labels, const struct et_process *process)
{
    size_t size = 0;
    const char *value = et_process_value(matcher->process ? "" : labels, process, matcher->name, &size);
    return et_matcher_matches(matcher, value ? value : "", size);
}

static bool origin_matches(const struct et_origin *origin, const struct et_query *query)
{
    struct et_process process = {.tags = origin->tags, .service = origin->service, .host = origin->host};
    for (size_t i = 0; i < query->matcher_count; i++) {
        if (!et_process_matches(&query->matchers[i], "", &process)) {
            return false;
        }
    }
    return true;
}

/*
 * The service with the latest profile first, its kinds together. A program without hooks for its memory sends a live
 * heap that is always empty: it has no such kind.
 */
static const char SERVICES[] =
    "SELECT * FROM (SELECT o.service AS service, s.kind AS kind, s.unit, min(s.first_ns), max(s.last_ns) AS last,"
    " sum(s.profiles) FROM series s JOIN origin o ON o.id = s.origin GROUP BY o.service, s.kind"
    " HAVING s.kind <> 'live' OR coalesce((SELECT max(m.value) FROM metric m WHERE m.service = o.service"
    " AND m.kind = 'live'), 1) > 0 UNION ALL SELECT o.service, 'wall', 'nanoseconds', min(s.first_ns), max(s.last_ns),"
    " sum(s.profiles) FROM series s JOIN origin o ON o.id = s.origin WHERE s.kind IN ('cpu', 'wait', 'wall')"
    " GROUP BY o.service HAVING max(s.kind = 'wait') AND NOT max(s.kind = 'wall'))"
    " ORDER BY max(last) OVER (PARTITION BY service) DESC, service, last DESC, kind";

int et_store_services(struct et_store *store, void (*call)(void *context, const struct et_service_row *row),
                      void *context)
{
    sqlite3_stmt *row = et_store_bind(store, SERVICES, "");
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        struct et_service_row service = {
            .service = et_column_text(row, 0),
            .kind = et_column_text(row, 1),
            .unit = et_column_text(row, 2),
            .first_ns = sqlite3_column_int64(row, 3),
            .last_ns = sqlite3_column_int64(row, 4),
            .profiles = sqlite3_column_int64(row, 5),
        };
        call(context, &service);
    }
    return got;
}

static const char LAST_AT[] =
    "SELECT coalesce((SELECT at_ns FROM profile WHERE level = 0 ORDER BY at_ns DESC LIMIT 1), (SELECT at_ns"
    " FROM profile WHERE level = 1 ORDER BY at_ns DESC LIMIT 1), (SELECT at_ns FROM profile WHERE level = 2"
    " ORDER BY at_ns DESC LIMIT 1), 0)";

int64_t et_store_newest(struct et_store *store)
{
    return et_store_number(store, LAST_AT, "");
}

struct names {
    struct et_buf *list;
    struct et_strings seen;
};

static void on_name(void *context, const struct et_service_row *row)
{
    struct names *names = context;
    size_t before = names->seen.count;
    et_intern(&names->seen, row->service);
    if (names->seen.count != before) { /* not the same service with another kind */
        et_buf_printf(names->list, "%s%s", names->list->size ? ", " : "", row->service);
    }
}

static bool chooses_services(const struct et_query *query)
{
    for (size_t i = 0; i < query->matcher_count; i++) {
        if (strcmp(query->matchers[i].name, ET_SERVICE_NAME) == 0) {
            return true;
        }
    }
    return false;
}

int et_store_choose(struct et_store *store, const struct et_query *query, struct et_buf *service)
{
    et_buf_text(service, query->service ? query->service : "");
    if (service->size || chooses_services(query)) {
        return 0;
    }
    struct names names = {.list = service};
    et_intern(&names.seen, "");
    int err = et_store_services(store, on_name, &names);
    size_t count = names.seen.count - 1;
    et_strings_free(&names.seen);
    return err ? err : count > 1 ? -EINVAL : 0;
}

int et_store_tagsets(struct et_store *store, const char *service, void (*call)(void *context, const char *tags),
                     void *context)
{
    sqlite3_stmt *row =
        et_store_bind(store, "SELECT DISTINCT tags FROM origin WHERE service = ? ORDER BY tags", "s", service);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        call(context, et_column_text(row, 0));
    }
    return got;
}

int et_store_all_tags(struct et_store *store, void (*call)(void *context, const char *service, const char *tags),
                      void *context)
{
    sqlite3_stmt *row = et_store_bind(store, "SELECT service, tags FROM origin", "");
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        call(context, et_column_text(row, 0), et_column_text(row, 1));
    }
    return got;
}

int et_store_all_labels(struct et_store *store, void (*call)(void *context, const char *lines), void *context)
{
    sqlite3_stmt *row = et_store_bind(store, "SELECT lines FROM labels", "");
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        call(context, et_column_text(row, 0));
    }
    return got;
}

static const char KIND[] =
    "SELECT s.kind FROM series s JOIN origin o ON o.id = s.origin WHERE (?1 = '' OR o.service = ?1)"
    " ORDER BY s.kind = 'cpu' DESC, s.last_ns DESC LIMIT 1";

int et_store_choose_kind(struct et_store *store, const struct et_query *query, struct et_buf *kind)
{
    if (query->kind && query->kind[0]) {
        et_buf_text(kind, query->kind);
        return 0;
    }
    sqlite3_stmt *row = et_store_bind(store, KIND, "s", query->service ? query->service : "");
    int got = et_store_step(store, row);
    et_buf_text(kind, got == 1 ? et_column_text(row, 0) : ET_CPU);
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

int et_store_labels_text(struct et_store *store, int64_t labels, struct et_buf *out)
{
    sqlite3_stmt *row = labels ? et_store_bind(store, "SELECT lines FROM labels WHERE id = ?", "i", labels) : NULL;
    int got = labels ? et_store_step(store, row) : 0;
    et_buf_text(out, got == 1 ? et_column_text(row, 0) : "");
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

/* ---- origins ---- */

struct origin_sum {
    int64_t origin, first_ns, last_ns, profiles;
    uint64_t samples;
    bool seen, sums; /* any row, one that is of no level */
};

static void add_origin(struct origin_sum *sum, const struct et_row *row, bool level)
{
    bool begins = level ? row->start_ns > sum->first_ns : row->start_ns < sum->first_ns;
    if (!sum->seen || (level ? !sum->sums && begins : !sum->sums || begins)) {
        sum->first_ns = row->start_ns;
    }
    sum->last_ns = !sum->seen || row->end_ns > sum->last_ns ? row->end_ns : sum->last_ns;
    sum->profiles += level ? 0 : (int64_t)row->profiles;
    sum->samples += level ? 0 : row->samples;
    sum->seen = true;
    sum->sums |= !level;
}

static int newest_first(const void *a, const void *b)
{
    const struct origin_sum *x = a, *y = b;
    if (x->last_ns != y->last_ns) {
        return x->last_ns > y->last_ns ? -1 : 1;
    }
    return x->origin > y->origin ? -1 : x->origin < y->origin;
}

static struct et_origin origin_of(sqlite3_stmt *row)
{
    return (struct et_origin){
        .service = et_column_text(row, 0),
        .tags = et_column_text(row, 1),
        .host = et_column_text(row, 2),
        .boot_id = et_column_text(row, 3),
        .executable = et_column_text(row, 4),
        .arch = et_column_text(row, 5),
        .agent = et_column_text(row, 6),
        .pid = (uint32_t)sqlite3_column_int64(row, 7),
        .process_start_ns = (uint64_t)sqlite3_column_int64(row, 8),
    };
}

static const char ORIGIN_GET[] =
    "SELECT service, tags, host, boot_id, executable, arch, agent, pid, process_start, stats, skipped FROM origin"
    " WHERE id = ?";

int et_store_origin_get(struct et_store *store, int64_t id, struct et_strings *strings, struct et_origin *out)
{
    sqlite3_stmt *row = et_store_bind(store, ORIGIN_GET, "i", id);
    int got = et_store_step(store, row);
    if (got == 1) {
        *out = origin_of(row);
        const char **texts[] = {&out->service,    &out->tags, &out->host, &out->boot_id,
                                &out->executable, &out->arch, &out->agent};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            *texts[i] = et_text(strings, et_intern(strings, *texts[i]));
        }
    }
    sqlite3_reset(row);
    return got;
}

static int origin_row(struct et_store *store, const struct origin_sum *sum, const struct et_query *query,
                      void (*call)(void *context, const struct et_origin_row *row), void *context)
{
    sqlite3_stmt *row = et_store_bind(store, ORIGIN_GET, "i", sum->origin);
    int got = et_store_step(store, row);
    if (got == 1) {
        struct et_origin_row out = {
            .id = sum->origin,
            .origin = origin_of(row),
            .stats = sqlite3_column_blob(row, 9),
            .stats_size = (size_t)sqlite3_column_bytes(row, 9),
            .skipped = sqlite3_column_int64(row, 10),
            .first_ns = sum->first_ns,
            .last_ns = sum->last_ns,
            .profiles = sum->profiles,
            .samples = sum->samples,
        };
        if (origin_matches(&out.origin, query)) {
            call(context, &out);
        }
    }
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

/* Sums the rows by their origins, newest first. free() the result. */
static struct origin_sum *sum_origins(const struct et_selection *selection, const struct et_rows *rows, size_t *count)
{
    struct et_map index = {0};
    struct origin_sum *sums = et_alloc(selection->count, sizeof *sums);
    for (size_t i = 0; i < rows->count; i++) {
        const struct et_series *series = &selection->series[rows->rows[i].series];
        const struct et_kind *kind = et_kind_named(series->kind);
        uint64_t *at = et_map_at(&index, (uint64_t)series->origin);
        *at = *at ? *at : index.count;
        sums[*at - 1].origin = series->origin;
        add_origin(&sums[*at - 1], &rows->rows[i], kind && kind->level);
    }
    *count = index.count;
    et_map_free(&index);
    qsort(sums, *count, sizeof *sums, newest_first);
    return sums;
}

int et_store_origins(struct et_store *store, const struct et_query *query,
                     void (*call)(void *context, const struct et_origin_row *row), void *context)
{
    struct et_selection selection = {0};
    struct et_rows rows = {0};
    size_t count = 0;
    bool began = et_store_reading(store);
    int err = et_selection_make(store, query, NULL, ET_SLACK_NS, &selection);
    err = err ? err : et_rows_choose(store, &selection, query->from_ns, query->to_ns, ET_LEVELS - 1, &rows);
    struct origin_sum *sums = sum_origins(&selection, &rows, &count);
    for (size_t i = 0; i < count && !err; i++) {
        err = origin_row(store, &sums[i], query, call, context);
    }
    et_store_reading_done(store, began);
    free(sums);
    free(rows.rows);
    et_selection_free(&selection);
    return err;
}

static void add_run(void *context, const struct et_origin_row *row)
{
    struct et_profile *profile = context;
    profile->ran_ns += row->last_ns - row->first_ns;
}

int et_store_ran(struct et_store *store, const struct et_query *query, struct et_profile *profile)
{
    profile->ran_ns = 0;
    return et_store_origins(store, query, add_run, profile);
}

int et_store_owner(struct et_store *store, int64_t origin, struct et_strings *strings, const char **service,
                   const char **tags)
{
    struct et_origin found;
    int got = et_store_origin_get(store, origin, strings, &found);
    if (got == 1) {
        *service = found.service;
        *tags = found.tags;
    }
    return got;
}
