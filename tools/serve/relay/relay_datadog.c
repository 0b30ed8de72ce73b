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

static void put_part(struct et_buf *out, const char *name, const char *type, const struct et_buf *content)
{
    et_buf_printf(out,
                  "--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"%s\"\r\nContent-Type: %s\r\n\r\n",
                  BOUNDARY, strcmp(name, "event.json") == 0 ? "event" : name, name, type);
    et_buf_add(out, content->data, content->size);
    et_buf_text(out, "\r\n");
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

static void put_tags(const struct et_relay_pprof *in, struct et_buf *tags)
{
    const struct et_origin *origin = &in->row->origin;
    char number[24];
    size_t size;
    put_tag(tags, "service", origin->service);
    et_labels_each(origin->tags, put_tag, tags);
    put_tag(tags, "host", et_labels_value(origin->tags, "host", &size) ? "" : origin->host);
    put_tag(tags, "language", in->form->family);
    put_tag(tags, "process_architecture", origin->arch);
    snprintf(number, sizeof number, "%u", origin->pid);
    put_tag(tags, "process_id", origin->pid ? number : "");
    put_tag(tags, "profiler_version", EP_VERSION_TEXT);
    if (in->form->bare) {
        put_tag(tags, "remote_symbols", "yes");
    }
}

static void put_event(const struct et_relay_pprof *in, struct et_buf *event)
{
    const struct et_profile *p = in->row->profile;
    struct et_buf tags = {0};
    put_tags(in, &tags);
    et_buf_text(event, "{\"attachments\":[\"profile.pprof\"],\"tags_profiler\":");
    et_json_string(event, tags.data);
    et_buf_text(event, ",\"start\":");
    put_time(event, p->start_ns);
    et_buf_text(event, ",\"end\":");
    put_time(event, p->end_ns);
    et_buf_text(event, ",\"family\":");
    et_json_string(event, in->form->family);
    et_buf_text(event, ",\"version\":\"4\"}");
    et_buf_free(&tags);
}

static void datadog_piece(void *context, const struct et_relay_part *pprof)
{
    struct et_relay_pprof *in = context;
    struct et_relay_part part = *pprof;
    struct et_buf event = {0}, gzipped = {0};
    part.bytes = (struct et_buf){0};
    et_gzip_fast(pprof->bytes.data, pprof->bytes.size, &gzipped);
    put_event(in, &event);
    put_part(&part.bytes, "event.json", "application/json", &event);
    put_part(&part.bytes, "profile.pprof", "application/octet-stream", &gzipped);
    et_buf_printf(&part.bytes, "--%s--\r\n", BOUNDARY);
    et_buf_free(&event);
    et_buf_free(&gzipped);
    in->take(in->context, &part);
}

static void datadog_cut(const struct et_relay_form *form, const struct et_arrival *row, et_relay_take *take,
                        void *context)
{
    const struct et_profile *p = row->profile;
    const struct et_relay_name *name = et_relay_name(&et_relay_datadog, et_text(&p->strings, p->kind));
    if (!name) { /* a type of another sender, such as wall:wall:... */
        struct et_relay_own own;
        et_relay_own(p, &own);
        name = strcmp(own.family, own.type) == 0 ? et_relay_name(&et_relay_datadog, own.family) : NULL;
    }
    if (!name) {
        return;
    }
    struct et_pprof_form pprof = {.count = p->counts ? name->count : "",
                                  .value = name->value,
                                  .period = name->period,
                                  .period_unit = name->period_unit,
                                  .bare = form->bare,
                                  .label = convert_label};
    et_relay_pprof_pieces(&(struct et_relay_pprof){.backend = &et_relay_datadog,
                                                   .form = form,
                                                   .row = row,
                                                   .pprof = &pprof,
                                                   .piece = datadog_piece,
                                                   .take = take,
                                                   .context = context});
}

static void datadog_join(const struct et_relay_form *form, const struct et_relay_part *const *parts, size_t count,
                         struct et_buf *body, char type[96])
{
    (void)form;
    (void)count; /* 1, by `rows` and `burst` */
    et_buf_add(body, parts[0]->bytes.data, parts[0]->bytes.size);
    snprintf(type, 96, "multipart/form-data; boundary=%s", BOUNDARY);
}

const struct et_relay_backend et_relay_datadog = {
    .name = "datadog",
    .path = "/profiling/v1/input",
    .keyed_path = "/api/v2/profile",
    .names = names,
    .limit = 4000000,
    .rows = 1,
    .burst = 1, /* one part a request */
    .timeout_s = 60,
    .cut = datadog_cut,
    .join = datadog_join,
};
