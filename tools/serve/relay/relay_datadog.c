/*
 * Datadog's profiling intake: multipart with event.json and a pprof, one profile per request. Names are those of
 * Datadog's .NET profiler and library; kinds without such a name are omitted. Labels keep their names, but span ids
 * become numbers.
 */
#include "tools/lib/gzip.h"
#include "tools/lib/json_write.h"
#include "tools/lib/labels.h"
#include "tools/serve/relay/relay_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct et_relay_name names[] = {
    {"cpu", "cpu", "cpu-samples", "cpu", "RealTime", "Nanoseconds", false},
    {"wall", "wall", "", "wall", "RealTime", "Nanoseconds", false},
    {"wait", "off-cpu", "off-cpu-samples", "off-cpu-time", "RealTime", "Nanoseconds", false},
    {"lock", "lock", "lock-count", "lock-time", "RealTime", "Nanoseconds", false},
    {"alloc", "alloc", "alloc-samples", "alloc-size", "RealTime", "Nanoseconds", false},
    {"live", "heap", "inuse-objects", "inuse-space", "RealTime", "Nanoseconds", false},
    {"exception", "exception", "", "exception", "RealTime", "Nanoseconds", false},
    {NULL, "", "", "", "", "", false},
};

static const char BOUNDARY[] = "edgeprof-3f9a6c1d7e2b48";

struct datadog_request {
    const struct et_relay_form *form;
    const struct et_arrival *row;
    struct et_buf names, parts; /* attachments: their names as JSON; their multipart parts */
};

static void *datadog_begin(const struct et_relay_form *form)
{
    struct datadog_request *request = et_alloc(1, sizeof *request);
    request->form = form;
    return request;
}

static void put_part(struct et_buf *out, const char *name, const char *type, const struct et_buf *content)
{
    et_buf_printf(out,
                  "--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"%s\"\r\nContent-Type: %s\r\n\r\n",
                  BOUNDARY, strcmp(name, "event.json") == 0 ? "event" : name, name, type);
    et_buf_add(out, content->data, content->size);
    et_buf_text(out, "\r\n");
}

static void datadog_add_piece(void *context, unsigned number, const struct et_buf *pprof)
{
    struct datadog_request *request = context;
    struct et_buf gzipped = {0};
    char name[32];
    snprintf(name, sizeof name, number ? "profile-%u.pprof" : "profile.pprof", number);
    et_gzip(pprof->data, pprof->size, &gzipped);
    et_buf_printf(&request->names, "%s\"%s\"", number ? "," : "", name);
    put_part(&request->parts, name, "application/octet-stream", &gzipped);
    et_buf_free(&gzipped);
}

static const char *span_number(const char *value, uint64_t *number)
{
    char *end;
    *number = strtoull(value, &end, 16);
    return strlen(value) == 16 && !*end ? NULL : value;
}

static bool convert_label(void *context, const char *key, const char *value, struct et_pprof_label *out)
{
    (void)context;
    bool thread = strcmp(key, "thread") == 0, span = strcmp(key, ET_SPAN_ID) == 0;
    snprintf(out->key, sizeof out->key, "%s", thread ? "thread name" : span ? "span id" : key);
    out->text = span ? span_number(value, &out->number) : value;
    return *value && (!span || !out->text) && strncmp(key, "pprof::", 7) != 0;
}

static size_t datadog_add(void *context, const struct et_arrival *row)
{
    struct datadog_request *request = context;
    const struct et_profile *p = row->profile;
    const struct et_relay_name *name = et_relay_name(&et_relay_datadog, et_text(&p->strings, p->kind));
    struct et_pprof_form form = {.bare = request->form->bare, .label = convert_label};
    if (!name) {
        return 0;
    }
    form.count = p->counts ? name->count : "";
    form.value = name->value;
    form.period = name->period;
    form.period_unit = name->period_unit;
    request->row = row;
    return et_relay_pieces(&et_relay_datadog, p, &form, datadog_add_piece, request);
}

static size_t datadog_size(const void *request)
{
    return ((const struct datadog_request *)request)->parts.size;
}

/* ---- event.json ---- */

static void put_time(struct et_buf *out, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm utc;
    char text[32];
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    et_buf_printf(out, "\"%s.%09dZ\"", text, (int)(ns % 1000000000));
}

/* Writes "key:value"; a comma would start the next tag. */
static void put_tag(void *context, const char *key, const char *value)
{
    struct et_buf *tags = context;
    if (!*value || strncmp(key, "__", 2) == 0) {
        return;
    }
    struct et_buf tag = {0};
    et_buf_printf(&tag, "%s:%s", key, value);
    for (size_t i = 0; i < tag.size; i++) {
        tag.data[i] = tag.data[i] == ',' ? '_' : tag.data[i];
    }
    et_buf_printf(tags, "%s%s", tags->size ? "," : "", tag.data);
    et_buf_free(&tag);
}

static void put_tags(const struct datadog_request *request, struct et_buf *tags)
{
    const struct et_origin *origin = &request->row->origin;
    char number[24];
    size_t size;
    put_tag(tags, "service", origin->service);
    et_labels_each(origin->tags, put_tag, tags);
    put_tag(tags, "host", et_labels_value(origin->tags, "host", &size) ? "" : origin->host);
    put_tag(tags, "language", request->form->family);
    put_tag(tags, "process_architecture", origin->arch);
    snprintf(number, sizeof number, "%u", origin->pid);
    put_tag(tags, "process_id", origin->pid ? number : "");
    put_tag(tags, "profiler_version", EP_VERSION_TEXT);
    if (request->form->bare) {
        put_tag(tags, "remote_symbols", "yes");
    }
}

static void put_event(const struct datadog_request *request, struct et_buf *event)
{
    const struct et_profile *p = request->row->profile;
    struct et_buf tags = {0};
    put_tags(request, &tags);
    et_buf_printf(event, "{\"attachments\":[%s],\"tags_profiler\":", request->names.data);
    et_json_string(event, tags.data);
    et_buf_text(event, ",\"start\":");
    put_time(event, p->start_ns);
    et_buf_text(event, ",\"end\":");
    put_time(event, p->end_ns);
    et_buf_text(event, ",\"family\":");
    et_json_string(event, request->form->family);
    et_buf_text(event, ",\"version\":\"4\"}");
    et_buf_free(&tags);
}

static void datadog_finish(void *context, struct et_buf *body, char type[96])
{
    struct datadog_request *request = context;
    struct et_buf event = {0};
    if (request->row) {
        put_event(request, &event);
        put_part(body, "event.json", "application/json", &event);
        et_buf_add(body, request->parts.data, request->parts.size);
        et_buf_printf(body, "--%s--\r\n", BOUNDARY);
    }
    snprintf(type, 96, "multipart/form-data; boundary=%s", BOUNDARY);
    et_buf_free(&event);
    et_buf_free(&request->names);
    et_buf_free(&request->parts);
    free(request);
}

const struct et_relay_backend et_relay_datadog = {
    .name = "datadog",
    .path = "/profiling/v1/input",
    .keyed_path = "/api/v2/profile",
    .names = names,
    .limit = 4000000,
    .rows = 1,
    .enough = 1,
    .timeout_s = 10,
    .begin = datadog_begin,
    .add = datadog_add,
    .size = datadog_size,
    .finish = datadog_finish,
};
