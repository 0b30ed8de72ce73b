/* See api.h: what of the live heap grows. leaks.h finds it; this file writes JSON. */
#include "tools/serve/query/api.h"
#include "tools/serve/query/leaks.h"
#include "tools/lib/json_write.h"

#include <math.h>

enum { ROWS = 200 };

/* JSON has no infinity: null. */
static void put_number(struct et_buf *out, const char *name, double number)
{
    if (isfinite(number)) {
        et_buf_printf(out, ",\"%s\":%.6g", name, number);
    } else {
        et_buf_printf(out, ",\"%s\":null", name);
    }
}

/* names: of the slope and its interval, which a few hours do not have. */
static void put_trend(struct et_buf *out, const char *const names[3], const struct et_trend *trend)
{
    const double numbers[] = {trend->slope, trend->low, trend->high};
    for (size_t i = 0; i < 3; i++) {
        put_number(out, names[i], trend->pairs ? numbers[i] : (double)NAN);
    }
}

static void write_leak(struct et_buf *out, const struct et_leaks *leaks, const struct et_leak *leak)
{
    et_buf_text(out, "{\"site\":");
    et_json_string(out, et_text(&leaks->strings, leak->name));
    et_buf_printf(out, ",\"grows\":%s", leak->grows ? "true" : "false");
    put_trend(out, (const char *const[]){"bytes_per_hour", "low", "high"}, &leak->bytes);
    put_trend(out, (const char *const[]){"objects_per_hour", "objects_low", "objects_high"}, &leak->objects);
    put_number(out, "p", leak->bytes.p);
    et_buf_printf(out, ",\"bytes\":%.0f,\"processes\":%zu}", leak->last, leak->processes);
}

static void write_leaks(struct et_buf *out, const struct et_leaks *leaks)
{
    size_t grows = 0;
    for (size_t i = 0; i < leaks->count; i++) {
        grows += leaks->leaks[i].grows;
    }
    et_buf_text(out, "{\"service\":");
    et_json_string(out, leaks->service);
    et_buf_text(out, ",\"from\":");
    et_json_seconds(out, leaks->from_ns);
    et_buf_text(out, ",\"to\":");
    et_json_seconds(out, leaks->to_ns);
    et_buf_printf(out, ",\"processes\":%zu,\"hours\":%zu,\"grows\":%zu,\"count\":%zu,\n\"sites\":[", leaks->processes,
                  leaks->hours, grows, leaks->count);
    for (size_t i = 0; i < leaks->count && i < ROWS; i++) {
        et_buf_text(out, i ? ",\n" : "\n");
        write_leak(out, leaks, &leaks->leaks[i]);
    }
    et_buf_text(out, "]}\n");
}

unsigned et_api_leaks(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                      struct et_buf *out)
{
    struct et_leaks leaks;
    struct et_query own = *query;
    struct et_buf service = {0};
    unsigned status = et_api_service(store, query, &service, out);
    if (status == 200) {
        own.service = service.data;
        if (et_leaks_find(store, symbols, &own, &leaks)) {
            status = et_api_failed(store, out);
        } else {
            write_leaks(out, &leaks);
        }
        et_leaks_free(&leaks);
    }
    et_buf_free(&service);
    return status;
}
