/*
 * Grafana Pyroscope's push.v1.PusherService/Push: one series per profile, with one raw profile. Names are those known
 * to Pyroscope's user interface. Stack labels become series labels there, at most 30 in all. A sample type may not
 * contain '-'.
 */
#include "tools/lib/gzip.h"
#include "tools/serve/relay/relay_backend.h"
#include "tools/formats/protobuf.h"

#include <stdio.h>
#include <stdlib.h>

static const struct et_relay_name names[] = {
    {"cpu", "process_cpu", "samples", "cpu", "cpu", "nanoseconds", false},
    {"wall", "wall", "", "wall", "cpu", "nanoseconds", false},
    {"wait", "block", "contentions", "delay", "contentions", "count", false},
    {"lock", "mutex", "contentions", "delay", "contentions", "count", false},
    {"alloc", "memory", "alloc_objects", "alloc_space", "space", "bytes", false},
    {"live", "memory", "inuse_objects", "inuse_space", "space", "bytes", false},
    {"exception", "exception", "", "exception", "cpu", "nanoseconds", false},
    {"gc", "gc", "pauses", "pause", "pause", "nanoseconds", false},
    {"thread", "goroutine", "", "goroutine", "goroutine", "count", false},
    {"heap", "gc_heap", "", "heap_size", "space", "bytes", false},
    {NULL, "", "", "", "", "", false},
};

struct pyroscope_request {
    const struct et_relay_form *form;
    struct et_buf body;
    struct et_relay_labels series; /* in progress */
    const struct et_arrival *row;
};

static void *pyroscope_begin(const struct et_relay_form *form)
{
    struct pyroscope_request *request = et_alloc(1, sizeof *request);
    request->form = form;
    return request;
}

static void pyroscope_put_labels(struct et_buf *out, const struct et_relay_labels *series)
{
    for (size_t i = 0; i < series->count; i++) {
        struct et_buf pair = {0};
        et_put_text(&pair, 1, series->labels[i].name);
        et_put_text(&pair, 2, series->labels[i].value);
        et_put_message(out, 1, &pair);
        et_buf_free(&pair);
    }
}

static void pyroscope_add_piece(void *context, unsigned number, const struct et_buf *pprof)
{
    struct pyroscope_request *request = context;
    struct et_buf series = {0}, sample = {0}, gzipped = {0};
    uint8_t id[16];
    char text[37];
    et_relay_id(request->row, number, id);
    et_relay_id_text(id, text);
    et_gzip(pprof->data, pprof->size, &gzipped);
    et_put_bytes(&sample, 1, gzipped.data, gzipped.size);
    et_put_text(&sample, 2, text);
    pyroscope_put_labels(&series, &request->series);
    et_put_message(&series, 2, &sample);
    et_put_message(&request->body, 1, &series);
    et_buf_free(&series);
    et_buf_free(&sample);
    et_buf_free(&gzipped);
}

static size_t pyroscope_add(void *context, const struct et_arrival *row)
{
    struct pyroscope_request *request = context;
    request->row = row;
    et_relay_labels_add(&request->series, "__delta__", "false"); /* values of an interval, not sums since the start */
    et_relay_labels_add(&request->series, "spy_name", "edgeprof");
    size_t pieces =
        et_relay_series(&et_relay_pyroscope, row, request->form->bare, &request->series, pyroscope_add_piece, request);
    et_relay_labels_free(&request->series);
    return pieces;
}

static size_t pyroscope_size(const void *request)
{
    return ((const struct pyroscope_request *)request)->body.size;
}

static void pyroscope_finish(void *context, struct et_buf *body, char type[96])
{
    struct pyroscope_request *request = context;
    *body = request->body;
    snprintf(type, 96, "application/proto");
    free(request);
}

const struct et_relay_backend et_relay_pyroscope = {
    .name = "pyroscope",
    .path = "/push.v1.PusherService/Push",
    .names = names,
    .series_labels = 20,
    .labels = 30,
    .depth = 1000,
    .oldest_s = 3600,
    .limit = 2000000,
    .samples = 16000,
    .rows = 16,
    .enough = 1000000,
    .timeout_s = 30,
    .begin = pyroscope_begin,
    .add = pyroscope_add,
    .size = pyroscope_size,
    .finish = pyroscope_finish,
};
