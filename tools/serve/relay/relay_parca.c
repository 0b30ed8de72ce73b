/*
 * Parca's ProfileStoreService/WriteRaw as JSON: one series per profile, with the pprof gzipped. Names are those of Go
 * programs. Level kinds have no duration, because a duration makes the type `:delta`. Parca reads a request for at most
 * 5 s, so requests are small. It drops the labels of stacks, and shows samples:count times the period, so that is not
 * sent. relay_otlp.c has the way that keeps labels.
 */
#include "tools/lib/gzip.h"
#include "tools/lib/json_write.h"
#include "tools/lib/json_read.h"
#include "tools/serve/relay/relay_backend.h"

#include <stdio.h>

const struct et_relay_name et_relay_parca_names[] = {
    {"cpu", "process_cpu", "", "cpu", "cpu", "nanoseconds", false},
    {"wall", "wall", "", "wall", "wall", "nanoseconds", false},
    {"wait", "block", "contentions", "delay", "contentions", "count", false},
    {"lock", "mutex", "contentions", "delay", "contentions", "count", false},
    {"alloc", "memory", "alloc_objects", "alloc_space", "space", "bytes", false},
    {"live", "memory", "inuse_objects", "inuse_space", "space", "bytes", true},
    {"exception", "exception", "", "exception", "exception", "count", false},
    {"gc", "gc", "pauses", "pause", "pause", "nanoseconds", false},
    {"thread", "goroutine", "", "goroutine", "goroutine", "count", true},
    {"heap", "gc_heap", "", "heap_size", "space", "bytes", true},
    {"write", "write", "writes", "written", "space", "bytes", false},
    {"sync", "sync", "syncs", "sync_time", "sync_time", "nanoseconds", false},
    {NULL, "", "", "", "", "", false},
};

static void parca_put_labels(struct et_buf *out, const struct et_relay_labels *series)
{
    et_buf_text(out, "{\"labels\":[");
    for (size_t i = 0; i < series->count; i++) {
        et_buf_text(out, i ? ",{\"name\":" : "{\"name\":");
        et_json_string(out, series->labels[i].name);
        et_buf_text(out, ",\"value\":");
        et_json_string(out, series->labels[i].value);
        et_buf_char(out, '}');
    }
    et_buf_text(out, "]}");
}

static void parca_piece(void *context, const struct et_relay_part *pprof)
{
    struct et_relay_pprof *in = context;
    struct et_relay_part part = *pprof;
    struct et_buf gzipped = {0};
    part.bytes = (struct et_buf){0};
    et_gzip_fast(pprof->bytes.data, pprof->bytes.size, &gzipped);
    et_buf_text(&part.bytes, "{\"labels\":");
    parca_put_labels(&part.bytes, &in->series);
    et_buf_text(&part.bytes, ",\"samples\":[{\"rawProfile\":\"");
    et_base64_put(&part.bytes, gzipped.data, gzipped.size);
    et_buf_text(&part.bytes, "\"}]}");
    et_buf_free(&gzipped);
    in->take(in->context, &part);
}

static void parca_cut(const struct et_relay_form *form, const struct et_arrival *row, et_relay_take *take,
                      void *context)
{
    struct et_relay_pprof in = {.backend = &et_relay_parca_raw,
                                .form = form,
                                .row = row,
                                .piece = parca_piece,
                                .take = take,
                                .context = context};
    et_relay_series(&in);
    et_relay_labels_free(&in.series);
}

static void parca_join(const struct et_relay_form *form, const struct et_relay_part *const *parts, size_t count,
                       struct et_buf *body, char type[96])
{
    (void)form;
    et_buf_text(body, "{\"series\":[");
    for (size_t i = 0; i < count; i++) {
        et_buf_text(body, i ? "," : "");
        et_buf_add(body, parts[i]->bytes.data, parts[i]->bytes.size);
    }
    et_buf_text(body, "],\"normalized\":true}");
    snprintf(type, 96, "application/json");
}

const struct et_relay_backend et_relay_parca_raw = {
    .name = "parca-writeraw",
    .path = "/api/profiles/writeraw",
    .names = et_relay_parca_names,
    .series_labels = 30,
    .labels = 60,
    .limit = 4000000,
    .rows = 64,
    .burst = 1000000,
    .timeout_s = 60,
    .cut = parca_cut,
    .join = parca_join,
};
