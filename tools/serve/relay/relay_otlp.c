/*
 * OTLP/HTTP profiles, protobuf. A profile has one sample type, so most rows become two. Pyroscope names the series by
 * the period type, so wait and lock use "block" and "mutex", not "contentions" as in pprof.
 */
#include "tools/formats/otlp.h"
#include "tools/serve/relay/relay_backend.h"

#include <stdio.h>

static const struct et_relay_name names[] = {
    {"cpu", "cpu", "samples", "cpu", "cpu", "nanoseconds", false},
    {"wall", "wall", "", "wall", "wall", "nanoseconds", false},
    {"wait", "block", "contentions", "delay", "block", "count", false},
    {"lock", "mutex", "contentions", "delay", "mutex", "count", false},
    {"alloc", "memory", "alloc_objects", "alloc_space", "space", "bytes", false},
    {"live", "memory", "inuse_objects", "inuse_space", "space", "bytes", false},
    {"exception", "exception", "", "exception", "exception", "count", false},
    {"gc", "gc", "pauses", "pause", "pause", "nanoseconds", false},
    {"thread", "goroutine", "", "goroutine", "goroutine", "count", false},
    {"heap", "gc_heap", "", "heap_size", "space", "bytes", false},
    {NULL, "", "", "", "", "", false},
};

static void *otlp_begin(const struct et_relay_form *form)
{
    return et_otlp_new(form->bare);
}

static size_t otlp_add(void *request, const struct et_arrival *row)
{
    const struct et_profile *p = row->profile;
    const char *kind = et_text(&p->strings, p->kind), *unit = et_text(&p->strings, p->value_unit);
    const struct et_relay_name *name = et_relay_name(&et_relay_otlp, kind);
    char own[128];
    et_relay_legal(kind, own);
    struct et_otlp_type types[2] = {
        {.type = name ? name->value : own, .unit = unit},
        {.type = name ? name->count : "", .unit = "count", .count = true},
    };
    for (size_t i = 0; i < 2; i++) {
        types[i].period = name ? name->period : own;
        types[i].period_unit = name ? name->period_unit : unit;
        et_relay_id(row, (unsigned)i, types[i].id);
    }
    const struct et_otlp_process process = {
        .service = row->origin.service,
        .tags = row->origin.tags,
        .host = row->origin.host,
        .executable = row->origin.executable,
        .arch = row->origin.arch,
    };
    return et_otlp_add(request, &process, p, types, *types[1].type && p->counts ? 2 : 1);
}

static size_t otlp_size(const void *request)
{
    return et_otlp_size(request);
}

static void otlp_finish(void *request, struct et_buf *body, char type[96])
{
    et_otlp_finish(request, body);
    snprintf(type, 96, "application/x-protobuf");
}

const struct et_relay_backend et_relay_otlp = {
    .name = "otlp",
    .path = "/v1development/profiles",
    .names = names,
    .rows = 16,
    .enough = 4000000,
    .timeout_s = 30,
    .gzip = true,
    .begin = otlp_begin,
    .add = otlp_add,
    .size = otlp_size,
    .finish = otlp_finish,
};
