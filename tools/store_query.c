/*
 * See store.h: everything that reads. Loading a profile adds up the values of all matching profiles by node first and
 * then fetches each node, frame and module that occurs once.
 */
#include "store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool et_tags_match(const char *tags, const struct et_query *query)
{
    for (size_t i = 0; i < query->tag_count; i++) {
        const char *wanted = query->tags[i], *at = tags;
        size_t size = strlen(wanted);
        while (at && (strncmp(at, wanted, size) != 0 || at[size] != '\n')) {
            at = strchr(at, '\n');
            at = at ? at + 1 : NULL;
        }
        if (!at) {
            return false;
        }
    }
    return true;
}

/* ---- sums ---- */

struct sums {
    struct et_map values; /* node id -> value */
    struct et_profile *profile;
    uint64_t weighted_period;
};

static void add_stacks(struct sums *sums, const uint8_t *at, const uint8_t *end, uint64_t quantum)
{
    uint64_t node, value;
    while (at && et_varint_get(&at, end, &node) && et_varint_get(&at, end, &value)) {
        *et_map_at(&sums->values, node) += value * quantum;
        sums->profile->total += value * quantum;
    }
}

static void add_profile(struct sums *sums, sqlite3_stmt *row)
{
    struct et_profile *p = sums->profile;
    int64_t start = sqlite3_column_int64(row, 2), end = sqlite3_column_int64(row, 3);
    if (p->profiles == 0 || start < p->start_ns) {
        p->start_ns = start;
    }
    if (p->profiles == 0 || end > p->end_ns) {
        p->end_ns = end;
    }
    p->profiles++;
    p->unit = et_intern(&p->strings, et_column_text(row, 1));
    p->period = (uint64_t)sqlite3_column_int64(row, 4);
    p->samples += (uint64_t)sqlite3_column_int64(row, 5);
    const uint8_t *stacks = sqlite3_column_blob(row, 7);
    add_stacks(sums, stacks, stacks ? stacks + sqlite3_column_bytes(row, 7) : NULL,
               (uint64_t)sqlite3_column_int64(row, 6));
}

static int sum_profiles(struct et_store *store, const struct et_query *query, const char *kind, struct sums *sums)
{
    const char *service = query->service ? query->service : "";
    sqlite3_stmt *row = et_store_bind(store, S_PROFILES, "iiss", query->from_ns, query->to_ns, service, kind);
    int got;
    while ((got = et_store_step(store, row)) == 1) {
        if (et_tags_match(et_column_text(row, 0), query)) {
            add_profile(sums, row);
        }
    }
    return got;
}

/* ---- dictionary ---- */

struct loader {
    struct et_store *store;
    struct et_profile *profile;
    struct et_map modules, frames, nodes; /* id in the store -> index in the profile, modules + 1 */
    int err;
};

/* Whoever gets a row resets its statement after use: an open one would hold on to the state of the database. */
static bool row_of(struct loader *loader, sqlite3_stmt *statement)
{
    int got = et_store_step(loader->store, statement);
    if (got != 1) {
        loader->err = got ? got : -EIO;
    }
    return got == 1;
}

static uint32_t load_module(struct loader *loader, int64_t id)
{
    uint64_t *index = et_map_at(&loader->modules, (uint64_t)id);
    if (id && !*index) {
        sqlite3_stmt *row = et_store_bind(loader->store, S_MODULE_GET, "i", id);
        if (row_of(loader, row)) {
            *index = et_profile_module(loader->profile, et_column_text(row, 0), et_column_text(row, 1));
        }
        sqlite3_reset(row);
    }
    return (uint32_t)*index;
}

static uint32_t load_frame(struct loader *loader, int64_t id)
{
    uint64_t *known = et_map_find(&loader->frames, (uint64_t)id);
    if (known) {
        return (uint32_t)*known;
    }
    sqlite3_stmt *row = et_store_bind(loader->store, S_FRAME_GET, "i", id);
    if (!row_of(loader, row)) {
        return 0;
    }
    struct et_strings *strings = &loader->profile->strings;
    int64_t module = sqlite3_column_int64(row, 0);
    struct et_frame frame = {
        .address = (uint64_t)sqlite3_column_int64(row, 1),
        .name = et_intern(strings, et_column_text(row, 2)),
        .file = et_intern(strings, et_column_text(row, 3)),
        .line = (uint32_t)sqlite3_column_int64(row, 4),
    };
    sqlite3_reset(row);
    frame.module = load_module(loader, module);
    uint32_t index = et_profile_frame(loader->profile, frame);
    *et_map_at(&loader->frames, (uint64_t)id) = index;
    return index;
}

/* Parents first, so that indices only ever point back. A stack has at most ET_MAX_DEPTH nodes. */
static uint32_t load_node(struct loader *loader, int64_t id)
{
    int64_t ids[ET_MAX_DEPTH + 1], frames[ET_MAX_DEPTH + 1];
    size_t count = 0;
    while (id && !et_map_find(&loader->nodes, (uint64_t)id) && count <= ET_MAX_DEPTH) {
        sqlite3_stmt *row = et_store_bind(loader->store, S_NODE_GET, "i", id);
        if (!row_of(loader, row)) {
            return 0;
        }
        ids[count] = id;
        id = sqlite3_column_int64(row, 0);
        frames[count++] = sqlite3_column_int64(row, 1);
        sqlite3_reset(row);
    }
    uint64_t *known = et_map_find(&loader->nodes, (uint64_t)id);
    uint32_t node = id && known ? (uint32_t)*known : 0;
    while (count-- > 0 && !loader->err) {
        node = et_profile_node(loader->profile, node, load_frame(loader, frames[count]));
        *et_map_at(&loader->nodes, (uint64_t)ids[count]) = node;
    }
    return node;
}

static int load_dictionary(struct et_store *store, const struct sums *sums)
{
    struct loader loader = {.store = store, .profile = sums->profile};
    for (size_t i = 0; i < sums->values.capacity && !loader.err; i++) {
        const struct et_map_entry *entry = &sums->values.entries[i];
        if (entry->used) {
            uint32_t node = load_node(&loader, (int64_t)entry->key);
            sums->profile->nodes[node].self += entry->value;
        }
    }
    et_map_free(&loader.modules);
    et_map_free(&loader.frames);
    et_map_free(&loader.nodes);
    return loader.err;
}

static int choose_kind(struct et_store *store, const struct et_query *query, struct et_buf *kind)
{
    if (query->kind && query->kind[0]) {
        et_buf_text(kind, query->kind);
        return 0;
    }
    sqlite3_stmt *row = et_store_bind(store, S_KIND, "s", query->service ? query->service : "");
    int got = et_store_step(store, row);
    et_buf_text(kind, got == 1 ? et_column_text(row, 0) : "cpu");
    sqlite3_reset(row);
    return got < 0 ? got : 0;
}

int et_store_load(struct et_store *store, const struct et_query *query, struct et_profile **out)
{
    struct sums sums = {.profile = et_profile_new()};
    struct et_buf kind = {0};
    /* one reading transaction: a message that arrives meanwhile is seen whole or not at all */
    sqlite3_exec(store->db, "BEGIN", NULL, NULL, NULL);
    int err = choose_kind(store, query, &kind);
    sums.profile->kind = et_intern(&sums.profile->strings, kind.data ? kind.data : "");
    sums.profile->service = et_intern(&sums.profile->strings, query->service ? query->service : "");
    sums.profile->unit = et_intern(&sums.profile->strings, "nanoseconds");
    err = err ? err : sum_profiles(store, query, kind.data, &sums);
    err = err ? err : load_dictionary(store, &sums);
    sqlite3_exec(store->db, "COMMIT", NULL, NULL, NULL);
    et_buf_free(&kind);
    et_map_free(&sums.values);
    if (err) {
        et_profile_free(sums.profile);
        return err;
    }
    *out = sums.profile;
    return 0;
}

/* ---- lists ---- */

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

int et_store_choose(struct et_store *store, const struct et_query *query, struct et_buf *service)
{
    et_buf_text(service, query->service ? query->service : "");
    if (service->size) {
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
        if (et_tags_match(origin.origin.tags, query)) {
            call(context, &origin);
        }
    }
    return got;
}
