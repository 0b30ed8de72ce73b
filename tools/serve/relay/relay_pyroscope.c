/*
 * Grafana Pyroscope's push.v1.PusherService/Push: one series per profile, with one raw profile. Names are those known
 * to Pyroscope's user interface. Stack labels become series labels there, at most 30 in all. A sample type may not
 * contain '-'. A part has what the server's rules demand of age, labels and sizes, because the server stores what is
 * good of a request that it refuses. It takes 4 MB a second in bursts of 2 MB, inflated.
 */
#include "tools/lib/gzip.h"
#include "tools/serve/relay/relay_pyroscope.h"
#include "tools/formats/protobuf.h"

#include <stdio.h>

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
    {"write", "write", "writes", "written", "space", "bytes", false},
    {"sync", "sync", "syncs", "sync_time", "sync_time", "nanoseconds", false},
    {NULL, "", "", "", "", "", false},
};

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

static void pyroscope_piece(void *context, const struct et_relay_part *pprof)
{
    struct et_relay_pprof *in = context;
    struct et_relay_part part = *pprof;
    struct et_buf series = {0}, sample = {0}, gzipped = {0};
    uint8_t id[16];
    char text[37];
    et_relay_id(in->row, part.number, id);
    et_relay_id_text(id, text);
    et_gzip_fast(pprof->bytes.data, pprof->bytes.size, &gzipped);
    et_put_bytes(&sample, 1, gzipped.data, gzipped.size);
    et_put_text(&sample, 2, text);
    pyroscope_put_labels(&series, &in->series);
    part.inflated += series.size; /* the server counts labels, too */
    part.start_ns = in->row->profile->start_ns + part.number;
    et_put_message(&series, 2, &sample);
    part.bytes = (struct et_buf){0};
    et_put_message(&part.bytes, 1, &series);
    et_buf_free(&series);
    et_buf_free(&sample);
    et_buf_free(&gzipped);
    in->take(in->context, &part);
}

static void pyroscope_cut(const struct et_relay_form *form, const struct et_arrival *row, et_relay_take *take,
                          void *context)
{
    struct et_relay_pprof in = {.backend = &et_relay_pyroscope,
                                .form = form,
                                .row = row,
                                .piece = pyroscope_piece,
                                .take = take,
                                .context = context};
    et_relay_labels_add(&in.series, "__delta__", "false"); /* values of an interval, not sums since the start */
    et_relay_labels_add(&in.series, "spy_name", "edgeprof");
    et_relay_series(&in);
    et_relay_labels_free(&in.series);
}

static void pyroscope_join(const struct et_relay_form *form, const struct et_relay_part *const *parts, size_t count,
                           struct et_buf *body, char type[96])
{
    (void)form;
    for (size_t i = 0; i < count; i++) {
        et_buf_add(body, parts[i]->bytes.data, parts[i]->bytes.size);
    }
    snprintf(type, 96, "application/proto");
}

const struct et_relay_backend et_relay_pyroscope = {
    .name = "pyroscope",
    .path = "/push.v1.PusherService/Push",
    .names = names,
    .series_labels = 20,
    .labels = 30,
    .depth = 1000,
    .oldest_s = 3600,
    .newest_s = 600,
    .limit = 1900000,
    .samples = 16000,
    .rows = 1000,
    .burst = 1950000,
    .pace = 3950000,
    .timeout_s = 60,
    .drops_nameless = true,
    .cut = pyroscope_cut,
    .join = pyroscope_join,
    .judge = et_relay_pyroscope_judge,
};
