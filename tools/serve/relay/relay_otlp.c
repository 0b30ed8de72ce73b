/*
 * OTLP profiles, protobuf: by HTTP, and for Parca by gRPC, which is its only way in that keeps the labels of stacks. A
 * profile has one sample type, so most rows become two. Pyroscope names the series by the period type, so wait and lock
 * use "block" and "mutex", not "contentions" as in pprof. Parca names them by the scope, and makes a type with a
 * duration `:delta`, so amounts have none.
 */
#include "tools/formats/otlp.h"
#include "tools/serve/relay/relay_backend.h"

#include <stdio.h>
#include <string.h>

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
    {"write", "write", "writes", "written", "space", "bytes", false},
    {"sync", "sync", "syncs", "sync_time", "sync_time", "nanoseconds", false},
    {NULL, "", "", "", "", "", false},
};

/* Adds the entries of a row to a request. Returns the number of profiles. */
static size_t add_entries(struct et_otlp *otlp, const struct et_relay_backend *backend, const struct et_arrival *row,
                          const struct et_otlp_range *range)
{
    const struct et_profile *p = row->profile;
    const struct et_relay_name *name = et_relay_name(backend, et_text(&p->strings, p->kind));
    struct et_relay_own own;
    et_relay_own(p, &own);
    struct et_otlp_type types[2] = {
        {.type = name ? name->value : own.type, .unit = own.unit},
        {.type = name ? name->count : "", .unit = "count", .count = true},
    };
    for (size_t i = 0; i < 2; i++) {
        types[i].period = name ? name->period : own.period;
        types[i].period_unit = name ? name->period_unit : own.period_unit;
        types[i].level = name && name->level;
        et_relay_id(row, (unsigned)(2 * range->shift_ns + i), types[i].id);
    }
    const struct et_otlp_process process = {
        .scope = backend->grpc ? (name ? name->family : own.family) : "edgeprof",
        .service = row->origin.service,
        .tags = row->origin.tags,
        .host = row->origin.host,
        .executable = row->origin.executable,
        .arch = row->origin.arch,
    };
    return et_otlp_add(otlp, &process, p, range, types, *types[1].type && p->counts ? 2 : 1);
}

struct otlp_cut {
    const struct et_relay_backend *backend;
    const struct et_relay_form *form;
    const struct et_arrival *row;
    et_relay_take *take;
    void *context;
};

/* Encodes the entries alone: an upper bound of what they add to a request. */
static size_t encode_alone(void *context, unsigned number, size_t first, size_t entries, struct et_buf *out)
{
    const struct otlp_cut *cut = context;
    struct et_otlp *otlp = et_otlp_new(cut->form->bare);
    const struct et_otlp_range range = {.first = first, .entries = entries, .shift_ns = number};
    size_t added = add_entries(otlp, cut->backend, cut->row, &range);
    et_otlp_finish(otlp, out);
    return added ? entries : 0;
}

static void otlp_piece(void *context, const struct et_relay_part *whole)
{
    const struct otlp_cut *cut = context;
    struct et_relay_part part = *whole;
    part.bytes = (struct et_buf){0}; /* a request has one dictionary, so join() encodes the row again */
    part.row = cut->row;
    cut->take(cut->context, &part);
}

static void cut_row(struct otlp_cut *cut)
{
    et_relay_pieces(cut->backend, cut->form->limit, cut->row->profile->entry_count, encode_alone, otlp_piece, cut);
}

static void otlp_cut(const struct et_relay_form *form, const struct et_arrival *row, et_relay_take *take, void *context)
{
    cut_row(&(struct otlp_cut){.backend = &et_relay_otlp, .form = form, .row = row, .take = take, .context = context});
}

static void parca_cut(const struct et_relay_form *form, const struct et_arrival *row, et_relay_take *take,
                      void *context)
{
    cut_row(&(struct otlp_cut){.backend = &et_relay_parca, .form = form, .row = row, .take = take, .context = context});
}

static void join_rows(const struct et_relay_backend *backend, const struct et_relay_form *form,
                      const struct et_relay_part *const *parts, size_t count, struct et_buf *body)
{
    struct et_otlp *otlp = et_otlp_new(form->bare);
    for (size_t i = 0; i < count; i++) {
        const struct et_otlp_range range = {
            .first = parts[i]->first, .entries = parts[i]->entries, .shift_ns = parts[i]->number};
        add_entries(otlp, backend, parts[i]->row, &range);
    }
    et_otlp_finish(otlp, body);
}

static void otlp_join(const struct et_relay_form *form, const struct et_relay_part *const *parts, size_t count,
                      struct et_buf *body, char type[96])
{
    join_rows(&et_relay_otlp, form, parts, count, body);
    snprintf(type, 96, "application/x-protobuf");
}

static void parca_join(const struct et_relay_form *form, const struct et_relay_part *const *parts, size_t count,
                       struct et_buf *body, char type[96])
{
    struct et_buf message = {0};
    join_rows(&et_relay_parca, form, parts, count, &message);
    const uint8_t head[5] = {0, (uint8_t)(message.size >> 24), (uint8_t)(message.size >> 16),
                             (uint8_t)(message.size >> 8), (uint8_t)message.size};
    et_buf_add(body, (const char *)head, sizeof head);
    et_buf_add(body, message.data, message.size);
    et_buf_free(&message);
    snprintf(type, 96, "application/grpc");
}

/* 4 MiB is what a gRPC receiver, and Pyroscope's limit of a profile, allow. */
const struct et_relay_backend et_relay_otlp = {
    .name = "otlp",
    .path = "/v1development/profiles",
    .names = names,
    .limit = 1900000,
    .samples = 16000,
    .rows = 64,
    .burst = 3900000,
    .timeout_s = 60,
    .gzip = true,
    .keeps_rows = true,
    .cut = otlp_cut,
    .join = otlp_join,
};

const struct et_relay_backend et_relay_parca = {
    .name = "parca",
    .path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    .names = et_relay_parca_names,
    .limit = 1900000,
    .samples = 16000,
    .rows = 64,
    .burst = 3900000,
    .timeout_s = 60,
    .grpc = true,
    .keeps_rows = true,
    .cut = parca_cut,
    .join = parca_join,
};
