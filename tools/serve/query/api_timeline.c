/* See api.h: sums over time. The database computes the sums; this file chooses round step lengths. */
#include "tools/serve/query/api.h"
#include "tools/lib/json_write.h"
#include "tools/lib/kinds.h"
#include "tools/lib/labels.h"
#include "tools/lib/time_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUCKETS = 2000 };

#define SECOND INT64_C(1000000000)

int64_t et_api_step(int64_t length_ns, size_t buckets)
{
    static const int steps[] = {10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
    const size_t count = sizeof steps / sizeof *steps;
    for (size_t i = 0; i < count; i++) {
        if (length_ns <= (int64_t)buckets * steps[i] * SECOND) {
            return (int64_t)steps[i] * SECOND;
        }
    }
    int64_t days = length_ns / (int64_t)buckets / (86400 * SECOND) + 1;
    return days * 86400 * SECOND;
}

/* First and last time of the data, for queries without times. */
struct data_range {
    const char *service;
    int64_t first_ns, last_ns;
};

static void extend_range(void *context, const struct et_service_row *row)
{
    struct data_range *extent = context;
    if (!*extent->service || strcmp(extent->service, row->service) == 0) {
        extent->first_ns = row->first_ns < extent->first_ns ? row->first_ns : extent->first_ns;
        extent->last_ns = row->last_ns > extent->last_ns ? row->last_ns : extent->last_ns;
    }
}

static int set_missing_times(struct et_store *store, struct et_query *query)
{
    struct data_range extent = {.service = query->service, .first_ns = INT64_MAX, .last_ns = 0};
    int err = query->from_ns == 0 ? et_store_services(store, extend_range, &extent) : 0;
    if (query->from_ns == 0 && extent.first_ns != INT64_MAX) {
        query->from_ns = extent.first_ns;
        query->to_ns = query->to_ns < extent.last_ns ? query->to_ns : extent.last_ns;
    }
    query->to_ns = query->to_ns < et_now() ? query->to_ns : et_now();
    if (query->from_ns >= query->to_ns) {
        query->from_ns = query->to_ns > SECOND ? query->to_ns - SECOND : 0;
    }
    return err;
}

/* Of several labels: their values, with commas between them, and the list of them. */
static void write_names(struct et_buf *out, const char *lines)
{
    struct et_buf text = {0}, values = {0};
    char *copy = et_strdup(lines), *rest = copy, *line;
    bool several = strchr(lines, '\n') != NULL;
    et_buf_text(&text, "");
    et_buf_text(&values, "");
    while ((line = strsep(&rest, "\n"))) {
        et_buf_printf(&text, "%s%s", line == copy ? "" : ", ", several && !*line ? "(none)" : line);
        et_buf_text(&values, values.size ? "," : "");
        et_json_string(&values, line);
    }
    et_json_string(out, text.data);
    if (several) {
        et_buf_printf(out, ",\"values_of\":[%s]", values.data);
    }
    et_buf_free(&text);
    et_buf_free(&values);
    free(copy);
}

static void write_split(struct et_buf *out, const char *group)
{
    struct et_buf key = {0}, text = {0};
    et_buf_text(&text, "");
    while (et_group_next(&group, &key)) {
        et_buf_printf(&text, "%s%s", text.size ? ", " : "", key.data);
    }
    et_json_string(out, text.data);
    et_buf_free(&text);
    et_buf_free(&key);
}

static void write_line(struct et_buf *out, const struct et_timeline *timeline, size_t first, size_t count, bool rest)
{
    unsigned long long total = 0;
    for (size_t k = 0; k < count; k++) {
        total += timeline->lines[first + k].total;
    }
    et_buf_text(out, first ? ",\n{\"name\":" : "\n{\"name\":");
    write_names(out, rest ? "" : timeline->lines[first].name);
    et_buf_printf(out, ",\"rest\":%s,\"total\":%llu,\"values\":[", rest ? "true" : "false", total);
    for (size_t i = 0; i < timeline->steps; i++) {
        unsigned long long sum = 0;
        for (size_t k = 0; k < count; k++) {
            sum += timeline->lines[first + k].sums[i];
        }
        et_buf_printf(out, i ? ",%llu" : "%llu", sum);
    }
    et_buf_text(out, "]}");
}

static void write_timeline(struct et_buf *out, const struct et_query *query, const struct et_timeline *timeline,
                           size_t shown)
{
    const struct et_kind *kind = et_kind_named(timeline->kind);
    et_buf_text(out, "{\"kind\":");
    et_json_string(out, timeline->kind);
    et_buf_text(out, ",\"unit\":");
    et_json_string(out, timeline->unit);
    et_buf_printf(out, ",\"level\":%s,\"split\":", kind && kind->level ? "true" : "false");
    write_split(out, query->group);
    et_buf_text(out, ",\"asked_from\":");
    et_json_seconds(out, query->from_ns);
    et_buf_text(out, ",\"asked_to\":");
    et_json_seconds(out, query->to_ns);
    et_buf_text(out, ",\"from\":");
    et_json_seconds(out, timeline->from_ns);
    et_buf_printf(out, ",\"step\":%lld,\"buckets\":%zu,\"groups\":%zu,\"series\":[",
                  (long long)(timeline->step_ns / SECOND), timeline->steps, timeline->line_count);
    size_t own = timeline->line_count > shown ? shown : timeline->line_count;
    for (size_t i = 0; i < own; i++) {
        write_line(out, timeline, i, 1, false);
    }
    if (timeline->line_count > own) {
        write_line(out, timeline, own, timeline->line_count - own, true);
    }
    et_buf_text(out, "]}\n");
}

unsigned et_api_timeline(struct et_store *store, const struct et_query *query, const struct et_timeline_request *wanted,
                         struct et_buf *out)
{
    struct et_buf service = {0};
    struct et_query own = *query;
    struct et_timeline timeline;
    size_t buckets = wanted->buckets < 1 ? 1 : wanted->buckets;
    unsigned status = et_api_service(store, query, &service, out);
    own.service = service.data;
    if (status != 200) {
        et_buf_free(&service);
        return status;
    }
    if (set_missing_times(store, &own) < 0) {
        status = et_api_failed(store, out);
    } else {
        int64_t step = et_api_step(own.to_ns - own.from_ns, buckets > MOST_BUCKETS ? MOST_BUCKETS : buckets);
        struct et_query whole = own;
        whole.from_ns = own.from_ns / step * step;
        if (et_store_series(store, &whole, step, &timeline) < 0) {
            status = et_api_failed(store, out);
        } else {
            write_timeline(out, &own, &timeline, wanted->series < 1 ? 1 : wanted->series);
            et_timeline_free(&timeline);
        }
    }
    et_buf_free(&service);
    return status;
}
