/*
 * See api.h: the list of devices. A device is a service on a host, or with a tag "device". The latest stats of its
 * processes are combined: losses and samples are summed, cost is the mean by CPU time, so that one that sleeps does not
 * speak for the others. Cost and spools are of the processes seen within LATE of the newest.
 */
#include "tools/serve/query/api.h"
#include "tools/lib/json_write.h"
#include "tools/lib/labels.h"
#include "tools/lib/time_text.h"
#include "tools/formats/compact.h"
#include "tools/lib/kinds.h"

#include <stdlib.h>
#include <string.h>

enum { REASONS = 64, NAMED = 8 };

static const int64_t LATE = INT64_C(300) * 1000000000;

struct device {
    uint32_t device, service, host, tags, executable, arch;
    uint32_t versions[NAMED], agents[NAMED]; /* distinct, newest first; 0 ends the list */
    uint64_t processes, profiles, unknown_kinds, samples, exact, gap, cut;
    uint64_t spool_messages, spool_bytes, spool_error;
    double cost_ppm_ns, cpu_ns; /* sums: cost times CPU time, CPU time */
    int64_t first_ns, last_ns;
    bool told; /* a process has sent running totals */
    struct {
        uint64_t count, weight_ns;
    } losses[REASONS];
};

struct device_list {
    struct et_strings strings;
    struct et_map index; /* service << 32 | device -> device + 1 */
    struct device *rows;
    size_t count, capacity;
};

static uint32_t find_value(struct device_list *all, const char *tags, const char *key)
{
    size_t size = 0;
    struct et_buf text = {0};
    const char *value = et_labels_value(tags, key, &size);
    et_buf_add(&text, value ? value : "", size);
    et_buf_text(&text, "");
    uint32_t number = et_intern(&all->strings, text.data);
    et_buf_free(&text);
    return number;
}

static void add_name(uint32_t names[NAMED], uint32_t name)
{
    for (size_t i = 0; i < NAMED && name; i++) {
        if (!names[i]) {
            names[i] = name;
        }
        if (names[i] == name) {
            return;
        }
    }
}

static struct device *find_device(struct device_list *all, const struct et_origin_row *row)
{
    uint32_t name = find_value(all, row->origin.tags, "device"), host = et_intern(&all->strings, row->origin.host);
    uint32_t service = et_intern(&all->strings, row->origin.service);
    name = name ? name : host;
    uint64_t *known = et_map_at(&all->index, (uint64_t)service << 32 | name);
    if (!*known) {
        all->rows = et_reserve(all->rows, &all->capacity, all->count + 1, sizeof *all->rows);
        all->rows[all->count] = (struct device){.device = name,
                                                .service = service,
                                                .host = host,
                                                .tags = et_intern(&all->strings, row->origin.tags),
                                                .executable = et_intern(&all->strings, row->origin.executable),
                                                .arch = et_intern(&all->strings, row->origin.arch),
                                                .first_ns = row->first_ns,
                                                .last_ns = row->last_ns};
        *known = ++all->count;
    }
    return &all->rows[*known - 1];
}

static void add_stats(struct device *device, const struct et_origin_row *row)
{
    Edgeprof__V1__Stats *stats = row->stats ? edgeprof__v1__stats__unpack(NULL, row->stats_size, row->stats) : NULL;
    if (!stats) {
        return;
    }
    device->told = true;
    device->samples += stats->samples;
    device->exact += stats->exact;
    device->gap += stats->gap;
    device->cut += stats->cut;
    for (size_t i = 0; i < stats->n_losses; i++) {
        uint32_t reason = stats->losses[i]->reason < REASONS ? stats->losses[i]->reason : REASONS - 1;
        device->losses[reason].count += stats->losses[i]->count;
        device->losses[reason].weight_ns += stats->losses[i]->weight_ns;
    }
    if (row->last_ns >= device->last_ns - LATE) {
        double cpu_ns = 1 + (double)stats->weight_ns + (double)stats->thread_exit_ns; /* old devices send neither */
        device->cost_ppm_ns += (double)stats->cost_ppm * cpu_ns;
        device->cpu_ns += cpu_ns;
        device->spool_messages += stats->spool_messages;
        device->spool_bytes += stats->spool_bytes;
        device->spool_error = device->spool_error ? device->spool_error : stats->spool_error;
    }
    edgeprof__v1__stats__free_unpacked(stats, NULL);
}

static void add_to_device(void *context, const struct et_origin_row *row)
{
    struct device_list *all = context;
    struct device *device = find_device(all, row);
    device->processes++;
    device->profiles += (uint64_t)row->profiles;
    device->unknown_kinds += (uint64_t)row->skipped;
    device->first_ns = row->first_ns < device->first_ns ? row->first_ns : device->first_ns;
    add_name(device->versions, find_value(all, row->origin.tags, "version"));
    add_name(device->agents, et_intern(&all->strings, row->origin.agent));
    add_stats(device, row);
}

static void write_names(struct et_buf *out, const struct device_list *all, const char *name, const uint32_t list[NAMED])
{
    et_buf_printf(out, ",\"%s\":[", name);
    for (size_t i = 0; i < NAMED && list[i]; i++) {
        et_buf_text(out, i ? "," : "");
        et_json_string(out, et_text(&all->strings, list[i]));
    }
    et_buf_char(out, ']');
}

static void write_losses(struct et_buf *out, const struct device *device)
{
    const char *comma = "";
    et_buf_text(out, ",\"losses\":[");
    for (uint32_t i = 0; i < REASONS; i++) {
        if (device->losses[i].count || device->losses[i].weight_ns) {
            et_buf_text(out, comma);
            et_api_loss(out, i, device->losses[i].count, device->losses[i].weight_ns);
            comma = ",";
        }
    }
    et_buf_char(out, ']');
}

static void write_texts(struct et_buf *out, const struct device_list *all, const struct device *device)
{
    const struct {
        const char *name;
        uint32_t text;
    } fields[] = {{"service", device->service},
                  {"host", device->host},
                  {"executable", device->executable},
                  {"arch", device->arch}};
    et_buf_text(out, "\"device\":");
    et_json_string(out, et_text(&all->strings, device->device));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        et_buf_printf(out, ",\"%s\":", fields[i].name);
        et_json_string(out, et_text(&all->strings, fields[i].text));
    }
    et_buf_text(out, ",\"tags\":");
    et_api_tags(out, et_text(&all->strings, device->tags));
    write_names(out, all, "versions", device->versions);
    write_names(out, all, "agents", device->agents);
}

static void write_figures(struct et_buf *out, const struct device *device)
{
    const struct {
        const char *name;
        uint64_t value;
    } fields[] = {
        {"processes", device->processes},
        {"profiles", device->profiles},
        {"unknown_kinds", device->unknown_kinds},
        {"samples", device->samples},
        {"exact", device->exact},
        {"gap", device->gap},
        {"cut", device->cut},
        {"cost_ppm", device->cpu_ns > 0 ? (uint64_t)(device->cost_ppm_ns / device->cpu_ns) : 0},
        {"spool_messages", device->spool_messages},
        {"spool_bytes", device->spool_bytes},
        {"spool_error", device->spool_error},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        et_buf_printf(out, ",\"%s\":%llu", fields[i].name, (unsigned long long)fields[i].value);
    }
    et_buf_text(out, ",\"spool_error_text\":");
    et_json_string(out, device->spool_error ? strerror((int)(device->spool_error & 0xfff)) : "");
    et_buf_printf(out, ",\"told\":%s,\"first\":", device->told ? "true" : "false");
    et_json_seconds(out, device->first_ns);
    et_buf_text(out, ",\"last\":");
    et_json_seconds(out, device->last_ns);
}

unsigned et_api_devices(struct et_store *store, const struct et_query *query, struct et_buf *out)
{
    struct device_list all = {0};
    et_intern(&all.strings, "");
    int err = et_store_origins(store, query, add_to_device, &all);
    et_buf_text(out, "{\"now\":");
    et_json_seconds(out, et_now());
    et_buf_text(out, ",\"devices\":[");
    for (size_t i = 0; i < all.count; i++) {
        et_buf_text(out, i ? ",\n{" : "\n{");
        write_texts(out, &all, &all.rows[i]);
        write_figures(out, &all.rows[i]);
        write_losses(out, &all.rows[i]);
        et_buf_char(out, '}');
    }
    et_buf_text(out, "]}\n");
    et_strings_free(&all.strings);
    et_map_free(&all.index);
    free(all.rows);
    return err < 0 ? et_api_failed(store, out) : 200;
}
