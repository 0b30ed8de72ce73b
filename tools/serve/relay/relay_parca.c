/*
 * Parca's ProfileStoreService/WriteRaw as JSON: one series per profile, with the pprof gzipped. Names are those of Go
 * programs. Level kinds have no duration, because a duration makes the type `:delta`. Parca reads a request for at most
 * 5 s, so requests are small.
 */
#include "tools/lib/gzip.h"
#include "tools/lib/json_write.h"
#include "tools/lib/json_read.h"
#include "tools/serve/relay/relay_backend.h"

#include <stdio.h>
#include <stdlib.h>

static const struct et_relay_name names[] = {
    {"cpu", "process_cpu", "samples", "cpu", "cpu", "nanoseconds", false},
    {"wall", "wall", "", "wall", "wall", "nanoseconds", false},
    {"wait", "block", "contentions", "delay", "contentions", "count", false},
    {"lock", "mutex", "contentions", "delay", "contentions", "count", false},
    {"alloc", "memory", "alloc_objects", "alloc_space", "space", "bytes", false},
    {"live", "memory", "inuse_objects", "inuse_space", "space", "bytes", true},
    {"exception", "exception", "", "exception", "exception", "count", false},
    {"gc", "gc", "pauses", "pause", "pause", "nanoseconds", false},
    {"thread", "goroutine", "", "goroutine", "goroutine", "count", true},
    {"heap", "gc_heap", "", "heap_size", "space", "bytes", true},
    {NULL, "", "", "", "", "", false},
};

struct parca_request {
    const struct et_relay_form *form;
    struct et_buf series;          /* the array's elements, with commas */
    struct et_relay_labels labels; /* of the series in progress */
};

static void *parca_begin(const struct et_relay_form *form)
{
    struct parca_request *request = et_alloc(1, sizeof *request);
    request->form = form;
    return request;
}

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

static void parca_add_piece(void *context, unsigned number, const struct et_buf *pprof)
{
    struct parca_request *request = context;
    struct et_buf gzipped = {0};
    (void)number;
    et_gzip(pprof->data, pprof->size, &gzipped);
    et_buf_text(&request->series, request->series.size ? ",{\"labels\":" : "{\"labels\":");
    parca_put_labels(&request->series, &request->labels);
    et_buf_text(&request->series, ",\"samples\":[{\"rawProfile\":\"");
    et_base64_put(&request->series, gzipped.data, gzipped.size);
    et_buf_text(&request->series, "\"}]}");
    et_buf_free(&gzipped);
}

static size_t parca_add(void *context, const struct et_arrival *row)
{
    struct parca_request *request = context;
    size_t pieces =
        et_relay_series(&et_relay_parca, row, request->form->bare, &request->labels, parca_add_piece, request);
    et_relay_labels_free(&request->labels);
    return pieces;
}

static size_t parca_size(const void *request)
{
    return ((const struct parca_request *)request)->series.size;
}

static void parca_finish(void *context, struct et_buf *body, char type[96])
{
    struct parca_request *request = context;
    et_buf_text(body, "{\"series\":[");
    et_buf_add(body, request->series.data, request->series.size);
    et_buf_text(body, "],\"normalized\":true}");
    snprintf(type, 96, "application/json");
    et_buf_free(&request->series);
    free(request);
}

const struct et_relay_backend et_relay_parca = {
    .name = "parca",
    .path = "/api/profiles/writeraw",
    .names = names,
    .series_labels = 30,
    .labels = 60,
    .limit = 4000000,
    .rows = 4,
    .enough = 256000,
    .timeout_s = 5,
    .begin = parca_begin,
    .add = parca_add,
    .size = parca_size,
    .finish = parca_finish,
};
