/* See report.h: the devices, those that differ, and what they lost. The figures are those of the API. */
#include "tools/cmd/report.h"
#include "tools/lib/kinds.h"
#include "tools/serve/query/api.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN = 3, COMPARED = 200 };

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static unsigned ask_devices(struct et_store *store, const struct et_query *query, const void *context,
                            struct et_buf *out)
{
    (void)context;
    return et_api_devices(store, query, out);
}

static unsigned ask_timeline(struct et_store *store, const struct et_query *query, const void *context,
                             struct et_buf *out)
{
    (void)context;
    return et_api_timeline(store, query, &(struct et_timeline_request){.buckets = 1, .series = COMPARED}, out);
}

static int by_number(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The device that used most, beside the median of all. */
static void add_most(struct et_report *report, const json_t *document, const char *key)
{
    const json_t *series = json_object_get(document, "series"), *most = json_array_get(series, 0), *one;
    size_t i, count = json_array_size(series);
    double *totals = et_alloc(count + 1, sizeof *totals);
    char value[32], middle[32];
    json_array_foreach(series, i, one)
    {
        totals[i] = number_of(one, "total");
        most = totals[i] > number_of(most, "total") ? one : most;
    }
    qsort(totals, count, sizeof *totals, by_number);
    double median = count % 2 ? totals[count / 2] : (totals[count ? count / 2 - 1 : 0] + totals[count / 2]) / 2;
    double ratio = median > 0 ? number_of(most, "total") / median : 0;
    if (count > 1 && ratio > 0) {
        struct et_note *note =
            et_notes_add(report->notes, "Devices", ratio >= 2 && count > 2, ratio, "times the median");
        et_value_text((uint64_t)number_of(most, "total"), "nanoseconds", value);
        et_value_text((uint64_t)median, "nanoseconds", middle);
        et_notes_name(&note->text, et_json_words(most, "name"));
        et_buf_printf(&note->text, " used most CPU time, %s, %.1f times the median of %zu devices (%s)", value, ratio,
                      count, middle);
        et_buf_printf(&note->command, "query timeline --group-by %s%s", key, report->place);
    }
    free(totals);
}

static int compare_devices(struct et_report *report, const char *key)
{
    struct et_buf path = {0}, text = {0};
    struct et_query query = report->query;
    json_t *document;
    query.kind = ET_CPU;
    query.group = key;
    et_buf_printf(&path, "/api/timeline?buckets=1&series=%d", COMPARED);
    int code = et_options_ask(report->options, path.data, &query, ask_timeline, NULL, &text);
    code = et_report_read(code, &text, &document);
    if (!code) {
        add_most(report, document, key);
    }
    json_decref(document);
    et_buf_free(&path);
    return code;
}

struct device_sums {
    size_t spooling;
    double exact, all, losses, cost;
    const char *costly_name;
    bool tagged;
};

static void add_losses(const json_t *device, struct et_buf *reasons, struct device_sums *sums)
{
    const json_t *loss;
    size_t i;
    json_array_foreach(json_object_get(device, "losses"), i, loss)
    {
        const char *reason = et_json_words(loss, "reason");
        sums->losses += number_of(loss, "count");
        if (!reasons->data || !strstr(reasons->data, reason)) {
            et_buf_printf(reasons, "%s%s", reasons->size ? ", " : "", reason);
        }
    }
}

static void sum_device(const json_t *device, struct device_sums *sums)
{
    double cost = number_of(device, "cost_ppm");
    sums->exact += number_of(device, "exact");
    sums->all += number_of(device, "exact") + number_of(device, "gap") + number_of(device, "cut");
    sums->spooling += number_of(device, "spool_messages") > 0;
    sums->tagged |= *et_json_words(json_object_get(device, "tags"), "device") != '\0';
    if (cost > sums->cost) {
        sums->cost = cost;
        sums->costly_name = et_json_words(device, "device");
    }
}

static void write_version_names(const json_t *devices, struct et_buf *out)
{
    struct et_strings names = {0};
    const json_t *device, *version;
    size_t i, k;
    et_intern(&names, "");
    json_array_foreach(devices, i, device)
    {
        json_array_foreach(json_object_get(device, "versions"), k, version)
        {
            et_intern(&names, json_string_value(version) ? json_string_value(version) : "");
        }
    }
    et_buf_printf(out, ", %zu version%s", names.count - 1, names.count == 2 ? "" : "s");
    for (uint32_t n = 1; n < names.count && n <= SHOWN; n++) {
        et_buf_printf(out, "%s%s", n > 1 ? ", " : ": ", et_text(&names, n));
    }
    et_strings_free(&names);
}

static void add_devices(struct et_report *report, const json_t *devices, struct device_sums *sums)
{
    struct et_buf reasons = {0};
    const json_t *device;
    size_t i;
    json_array_foreach(devices, i, device)
    {
        sum_device(device, sums);
        add_losses(device, &reasons, sums);
    }
    struct et_note *note = et_notes_add(report->notes, "Devices", false, (double)i, "devices");
    et_buf_printf(&note->text, "%zu device%s", i, i == 1 ? "" : "s");
    write_version_names(devices, &note->text);
    if (sums->cost > 0) {
        et_buf_printf(&note->text, "; profiling costs at most %.2f %% of the CPU time, on ", sums->cost / 1e4);
        et_notes_name(&note->text, sums->costly_name);
    }
    if (sums->spooling) {
        et_buf_printf(&note->text, "; %zu still have profiles in the spool", sums->spooling);
    }
    et_buf_printf(&note->command, "devices%s", report->place);
    if (sums->losses > 0) {
        note = et_notes_add(report->notes, "Not measured", false, sums->losses, "events");
        et_buf_printf(&note->text, "%.0f events were lost, or had less detail: %s", sums->losses, reasons.data);
        et_buf_printf(&note->command, "devices%s", report->place);
    }
    if (sums->all > 0 && sums->exact < sums->all) {
        double share = 100 * (1 - sums->exact / sums->all);
        note = et_notes_add(report->notes, "Not measured", share >= 10, share, "percent");
        et_buf_printf(&note->text, "%.2f %% of the stacks have a gap or are cut", share);
        et_buf_printf(&note->command, "devices --json%s", report->place);
    }
    et_buf_free(&reasons);
}

int et_report_devices(struct et_report *report)
{
    struct device_sums sums = {0};
    json_t *document;
    int code = et_report_ask(report, "/api/devices", ask_devices, NULL, &document);
    if (!code) {
        add_devices(report, json_object_get(document, "devices"), &sums);
        code = compare_devices(report, sums.tagged ? "device" : ET_HOST);
    }
    json_decref(document);
    return code;
}
