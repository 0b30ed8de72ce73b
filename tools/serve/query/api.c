/* See api.h. */
#include "tools/serve/query/api.h"
#include "tools/serve/http/http.h"
#include "tools/lib/gzip.h"
#include "tools/formats/json.h"
#include "tools/lib/kinds.h"
#include "tools/formats/unsampled.h"
#include "tools/formats/compact.h"
#include "tools/formats/pprof_read.h"
#include "tools/lib/json_write.h"
#include "tools/profile/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void et_api_error(struct et_buf *out, const char *text)
{
    et_buf_text(out, "{\"error\":");
    et_json_string(out, text);
    et_buf_text(out, "}\n");
}

unsigned et_api_failed(struct et_store *store, struct et_buf *out)
{
    out->size = 0;
    et_api_error(out, et_store_why(store));
    return et_read_status(store);
}

void et_api_tags(struct et_buf *out, const char *tags)
{
    char *copy = et_strdup(tags), *rest = copy, *line;
    const char *comma = "";
    et_buf_char(out, '{');
    while ((line = strsep(&rest, "\n"))) {
        char *equals = strchr(line, '=');
        if (equals) {
            *equals = '\0';
            et_buf_text(out, comma);
            et_json_string(out, line);
            et_buf_char(out, ':');
            et_json_string(out, equals + 1);
            comma = ",";
        }
    }
    et_buf_char(out, '}');
    free(copy);
}

/* ---- services ---- */

struct service_list {
    struct et_store *store;
    struct et_buf *out;
    const char *comma;
    const char *of; /* write only this service's tag sets, once; "": all */
    bool written;
    bool failed; /* to read tags */
    struct et_unsampled unsampled;
};

static void write_tag_set(void *context, const char *tags)
{
    struct service_list *list = context;
    et_buf_text(list->out, list->comma);
    et_api_tags(list->out, tags);
    list->comma = ",";
}

/* Of the answer; once it is too large, the database's next step fails. */
static void count_answer(const struct service_list *list, size_t before)
{
    (void)et_store_counts(list->store, list->out->size - before);
}

static void write_service(void *context, const struct et_service_row *row)
{
    struct service_list *list = context;
    struct et_buf *out = list->out;
    size_t before = out->size;
    const struct et_kind *kind = et_kind_named(row->kind);
    et_buf_printf(out, "%s\n{\"service\":", list->comma);
    et_json_string(out, row->service);
    et_buf_text(out, ",\"kind\":");
    et_json_string(out, row->kind);
    et_buf_text(out, ",\"unit\":");
    et_json_string(out, row->unit);
    et_buf_text(out, ",\"title\":");
    et_json_title(out, row->kind);
    et_buf_text(out, ",\"counts\":");
    et_json_string(out, kind ? kind->counts : "");
    et_buf_text(out, ",\"first\":");
    et_json_seconds(out, row->first_ns);
    et_buf_text(out, ",\"last\":");
    et_json_seconds(out, row->last_ns);
    et_buf_printf(out, ",\"profiles\":%lld,\"tags\":[", (long long)row->profiles);
    struct service_list tags = {.out = out, .comma = ""};
    if (!*list->of || (!list->written && strcmp(list->of, row->service) == 0)) {
        list->failed = et_store_tagsets(list->store, row->service, write_tag_set, &tags) < 0 || list->failed;
        list->written = true;
    }
    et_buf_text(out, "]}");
    list->comma = ",";
    count_answer(list, before);
}

unsigned et_api_services(struct et_store *store, const char *of, struct et_buf *out)
{
    struct service_list list = {.store = store, .out = out, .comma = "", .of = of};
    et_buf_text(out, "{\"services\":[");
    if (et_store_services(store, write_service, &list) < 0 || list.failed) {
        return et_api_failed(store, out);
    }
    et_buf_text(out, "]}\n");
    return 200;
}

/* ---- stats ---- */

void et_api_loss(struct et_buf *out, uint32_t reason, uint64_t count, uint64_t weight_ns)
{
    et_buf_printf(out, "{\"reason\":\"%s\",\"number\":%u,\"count\":%llu,\"weight_ns\":%llu,\"kept\":%s}",
                  et_loss_name(reason), reason, (unsigned long long)count, (unsigned long long)weight_ns,
                  et_loss_kept(reason) ? "true" : "false");
}

static void write_losses(struct et_buf *out, const Edgeprof__V1__Stats *stats)
{
    et_buf_text(out, ",\"losses\":[");
    for (size_t i = 0; i < stats->n_losses; i++) {
        const Edgeprof__V1__Loss *loss = stats->losses[i];
        et_buf_text(out, i ? "," : "");
        et_api_loss(out, loss->reason, loss->count, loss->weight_ns);
    }
    et_buf_char(out, ']');
}

static void write_totals(struct et_buf *out, const void *bytes, size_t size)
{
    Edgeprof__V1__Stats *stats = bytes ? edgeprof__v1__stats__unpack(NULL, size, bytes) : NULL;
    if (!stats) {
        return;
    }
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
        {"samples", stats->samples},
        {"exact", stats->exact},
        {"gap", stats->gap},
        {"cut", stats->cut},
        {"rule_hits", stats->rule_hits},
        {"rule_misses", stats->rule_misses},
        {"threads", stats->threads},
        {"stretches", stats->stretches},
        {"cost_ppm", stats->cost_ppm},
        {"spool_messages", stats->spool_messages},
        {"spool_bytes", stats->spool_bytes},
        {"spool_error", stats->spool_error},
        {"unsampled_ns", stats->unsampled_ns},
        {"intervals_early", stats->intervals_early},
        {"degraded_labels", stats->degraded_labels},
        {"degraded_addresses", stats->degraded_addresses},
        {"degraded_frames", stats->degraded_frames},
        {"clock_error", stats->clock_error},
    };
    et_buf_text(out, ",\"stats\":{");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        et_buf_printf(out, "%s\"%s\":%llu", i ? "," : "", fields[i].name, (unsigned long long)fields[i].value);
    }
    write_losses(out, stats);
    et_buf_char(out, '}');
    edgeprof__v1__stats__free_unpacked(stats, NULL);
}

static void write_origin(void *context, const struct et_origin_row *row)
{
    struct service_list *list = context;
    struct et_buf *out = list->out;
    size_t before = out->size;
    const struct {
        const char *name, *text;
    } fields[] = {
        {"service", row->origin.service},       {"host", row->origin.host}, {"boot_id", row->origin.boot_id},
        {"executable", row->origin.executable}, {"arch", row->origin.arch}, {"agent", row->origin.agent},
    };
    et_buf_printf(out, "%s\n{\"pid\":%u", list->comma, row->origin.pid);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        et_buf_printf(out, ",\"%s\":", fields[i].name);
        et_json_string(out, fields[i].text);
    }
    et_buf_text(out, ",\"tags\":");
    et_api_tags(out, row->origin.tags);
    et_buf_text(out, ",\"first\":");
    et_json_seconds(out, row->first_ns);
    et_buf_text(out, ",\"last\":");
    et_json_seconds(out, row->last_ns);
    et_buf_printf(out, ",\"profiles\":%lld,\"samples_in_range\":%llu,\"unknown_kinds\":%lld", (long long)row->profiles,
                  (unsigned long long)row->samples, (long long)row->skipped);
    write_totals(out, row->stats, row->stats_size);
    et_unsampled_stats(&list->unsampled, row->stats, row->stats_size);
    et_buf_char(out, '}');
    list->comma = ",";
    count_answer(list, before);
}

unsigned et_api_stats(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out)
{
    (void)symbols; /* unused: all query answers have the same signature */
    struct service_list list = {.store = store, .out = out, .comma = ""};
    et_buf_text(out, "{\"processes\":[");
    int err = et_store_origins(store, query, write_origin, &list);
    if (err >= 0) {
        struct et_buf line = {0};
        et_unsampled_text(&list.unsampled, &line);
        et_buf_text(out, "],\"unsampled\":");
        et_json_string(out, line.data ? line.data : "");
        et_buf_text(out, "}\n");
        et_buf_free(&line);
    }
    et_unsampled_free(&list.unsampled);
    return err < 0 ? et_api_failed(store, out) : 200;
}

/* ---- levels ---- */

static void write_change(void *context, const struct et_rate_change *change)
{
    struct service_list *list = context;
    struct et_buf *out = list->out;
    size_t before = out->size;
    et_buf_printf(out, "%s\n{\"time\":", list->comma);
    et_json_seconds(out, change->at_ns);
    et_buf_text(out, ",\"host\":");
    et_json_string(out, change->host);
    et_buf_text(out, ",\"tags\":");
    et_api_tags(out, change->tags);
    et_buf_printf(out, ",\"before\":%llu,\"after\":%llu}", (unsigned long long)change->before,
                  (unsigned long long)change->after);
    list->comma = ",";
    count_answer(list, before);
}

unsigned et_api_rates(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out)
{
    (void)symbols;
    struct service_list list = {.store = store, .out = out, .comma = ""};
    et_buf_text(out, "{\"changes\":[");
    if (et_store_rate_changes(store, query, write_change, &list) < 0) {
        return et_api_failed(store, out);
    }
    et_buf_text(out, "]}\n");
    return 200;
}

/* ---- profile ---- */

unsigned et_api_service(struct et_store *store, const struct et_query *query, struct et_buf *service,
                        struct et_buf *out)
{
    int err = et_store_choose(store, query, service);
    if (err == -EINVAL) {
        struct et_buf text = {0};
        et_buf_printf(&text, "several services exist; choose one: %s", service->data);
        et_api_error(out, text.data);
        et_buf_free(&text);
        return 400;
    }
    return err ? et_api_failed(store, out) : 200;
}

unsigned et_api_load(struct et_store *store, const struct et_query *query, struct et_profile **profile,
                     struct et_buf *out)
{
    struct et_buf service = {0};
    struct et_query own = *query;
    unsigned status = et_api_service(store, query, &service, out);
    own.service = service.data;
    if (status != 200) {
        et_buf_free(&service);
        return status;
    }
    if (et_store_load(store, &own, profile) < 0) {
        status = et_api_failed(store, out);
    } else if (et_store_counts(store, et_tree_memory(*profile)) < 0) {
        et_profile_free(*profile);
        *profile = NULL;
        status = et_api_failed(store, out);
    }
    et_buf_free(&service);
    return status;
}

unsigned et_api_load_ran(struct et_store *store, const struct et_query *query, struct et_profile **profile,
                         struct et_buf *out)
{
    struct et_query own = *query;
    unsigned status = et_api_load(store, query, profile, out);
    if (status != 200) {
        return status;
    }
    own.service = et_text(&(*profile)->strings, (*profile)->service);
    if (et_store_ran(store, &own, *profile) < 0) {
        et_profile_free(*profile);
        *profile = NULL;
        return et_api_failed(store, out);
    }
    return 200;
}

/* Leaves only the outermost frames, so that more of them are in the answer. */
static void flatten(struct et_profile *profile)
{
    uint32_t *kept = et_alloc(profile->node_count, sizeof *kept), count = 1;
    for (size_t i = 0; i < profile->entry_count; i++) {
        struct et_entry *entry = &profile->entries[i];
        while (entry->node && profile->nodes[entry->node].parent) {
            entry->node = profile->nodes[entry->node].parent;
        }
    }
    for (size_t i = 1; i < profile->node_count; i++) {
        if (!profile->nodes[i].parent) {
            kept[i] = count;
            profile->nodes[count++] = profile->nodes[i];
        }
    }
    for (size_t i = 0; i < profile->entry_count; i++) {
        profile->entries[i].node = kept[profile->entries[i].node];
    }
    profile->node_count = profile->node_count ? count : 0;
    et_profile_show(profile, profile->measure); /* sums the entries of each node */
    free(kept);
}

unsigned et_api_profile(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        struct et_buf *out)
{
    struct et_profile *profile;
    struct et_query merged = *query;
    merged.keep_labels = false;
    unsigned status = et_api_load(store, &merged, &profile, out);
    if (status == 200) {
        if (query->groups_only) {
            flatten(profile);
        }
        et_symbolize(symbols, profile);
        et_json_profile(out, profile, 2000);
        et_profile_free(profile);
    }
    return status;
}

unsigned et_api_export(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                       enum et_format format, struct et_buf *out)
{
    struct et_profile *profile;
    unsigned status = et_api_load_ran(store, query, &profile, out);
    if (status == 200) {
        et_symbolize(symbols, profile);
        et_output_make(profile, format, out);
        et_profile_free(profile);
    }
    return status;
}
