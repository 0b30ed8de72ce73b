/* See store.h: lists of what there is. Profiles are loaded by store_load.c. */
#include "labels.h"
#include "store_internal.h"

#include <errno.h>
#include <string.h>

const char *et_process_value(const char *labels, const struct et_process *process, const char *key, size_t *size)
{
    const char *value = et_labels_value(labels, key, size);
    value = value ? value : et_labels_value(process->tags, key, size);
    if (!value) {
        value = strcmp(key, ET_SERVICE_NAME) == 0 ? process->service : strcmp(key, ET_HOST) == 0 ? process->host : NULL;
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

int et_store_services(struct et_store *store, void (*call)(void *context, const struct et_service_row *row),
                      void *context)
{
    sqlite3_stmt *row = et_store_bind(store, S_SERVICES, "");
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
    sqlite3_stmt *row = et_store_bind(store, S_TAGSETS, "s", service);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        call(context, et_column_text(row, 0));
    }
    return got;
}

static void origin_row(sqlite3_stmt *row, struct et_origin_row *out)
{
    out->origin = (struct et_origin){
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
    out->stats = sqlite3_column_blob(row, 9);
    out->stats_size = (size_t)sqlite3_column_bytes(row, 9);
    out->first_ns = sqlite3_column_int64(row, 10);
    out->last_ns = sqlite3_column_int64(row, 11);
    out->profiles = sqlite3_column_int64(row, 12);
    out->samples = (uint64_t)sqlite3_column_int64(row, 13);
    out->skipped = sqlite3_column_int64(row, 14);
}

int et_store_origins(struct et_store *store, const struct et_query *query,
                     void (*call)(void *context, const struct et_origin_row *row), void *context)
{
    const char *service = query->service ? query->service : "";
    sqlite3_stmt *row = et_store_bind(store, S_ORIGINS, "iis", query->from_ns, query->to_ns, service);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        struct et_origin_row origin;
        origin_row(row, &origin);
        if (origin_matches(&origin.origin, query)) {
            call(context, &origin);
        }
    }
    return got;
}
