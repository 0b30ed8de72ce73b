/* See api.h: the verdict on a version. versions.h compares; this file writes JSON. */
#include "tools/serve/query/api.h"
#include "tools/serve/query/versions.h"
#include "tools/lib/json_write.h"

#include <errno.h>
#include <math.h>

enum { ROWS = 200 };

static const char *judgement_name(const struct et_verdict_row *row)
{
    static const char *const words[] = {"same", "more", "less", "unsure", "none"};
    return words[row->judgement];
}

static const char *by_name(enum et_verdict_by by)
{
    static const char *const words[] = {"", "share", "load", "both"};
    return words[by];
}

/* JSON has no infinity: null. */
static void put_number(struct et_buf *out, const char *name, double number)
{
    if (isfinite(number)) {
        et_buf_printf(out, ",\"%s\":%.6g", name, number);
    } else {
        et_buf_printf(out, ",\"%s\":null", name);
    }
}

static void write_estimate(struct et_buf *out, const char *name, const struct et_estimate *estimate)
{
    et_buf_printf(out, ",\"%s\":{\"before\":%.6f,\"after\":%.6f,\"change\":%.6f,\"low\":%.6f,\"high\":%.6f,\"p\":%.3g}",
                  name, estimate->before, estimate->after, estimate->change, estimate->low, estimate->high,
                  estimate->p);
}

static void write_row(struct et_buf *out, const struct et_fleet *fleet, const struct et_verdict_row *row)
{
    et_buf_text(out, "{\"name\":");
    et_json_string(out, row->shared ? et_text(&fleet->strings, row->function) : "");
    et_buf_printf(out, ",\"figure\":\"%s\",\"means\":\"%s\",\"by\":\"%s\"", row->total ? "total" : "self",
                  judgement_name(row), by_name(row->by));
    if (row->shared) {
        write_estimate(out, "share", &row->share);
    }
    write_estimate(out, "load", &row->load);
    put_number(out, "detectable", row->detectable);
    put_number(out, "devices_needed", row->devices_needed);
    et_buf_char(out, '}');
}

static void write_sides(struct et_buf *out, const struct et_versions *versions)
{
    et_buf_text(out, ",\n\"sides\":[");
    for (enum et_side side = ET_LEFT; side < ET_SIDES; side++) {
        double seconds = 0, total = 0;
        size_t devices = 0;
        for (size_t i = 0; i < versions->verdict.cohort_count; i++) {
            const struct et_verdict_cohort *cohort = &versions->verdict.cohorts[i];
            devices += cohort->devices[side];
            seconds += cohort->seconds[side];
            total += cohort->total[side];
        }
        et_buf_text(out, side ? ",{\"version\":" : "{\"version\":");
        et_json_string(out, versions->names[side]);
        et_buf_printf(out, ",\"devices\":%zu,\"seconds\":%.3f,\"total\":%.0f,\"samples\":%.0f,\"first\":", devices,
                      seconds, total, versions->samples[side]);
        et_json_seconds(out, versions->first_ns[side]);
        et_buf_text(out, ",\"last\":");
        et_json_seconds(out, versions->last_ns[side]);
        et_buf_char(out, '}');
    }
    et_buf_char(out, ']');
}

static void write_cohorts(struct et_buf *out, const struct et_versions *versions)
{
    et_buf_text(out, ",\n\"cohorts\":[");
    for (size_t i = 0; i < versions->verdict.cohort_count; i++) {
        const struct et_verdict_cohort *cohort = &versions->verdict.cohorts[i];
        et_buf_text(out, i ? ",{\"name\":" : "{\"name\":");
        et_json_string(out, et_text(&versions->fleet.strings, cohort->cohort));
        et_buf_printf(out, ",\"devices\":[%zu,%zu],\"both\":%zu,\"compared\":%s}", cohort->devices[ET_LEFT],
                      cohort->devices[ET_RIGHT], cohort->both, cohort->used ? "true" : "false");
    }
    et_buf_char(out, ']');
}

static void write_comparison(struct et_buf *out, const struct et_versions *versions)
{
    const struct et_verdict *verdict = &versions->verdict;
    et_buf_printf(out, ",\"tests\":%zu,\"correction\":\"Holm\",\"unsure\":%zu", verdict->tests, verdict->unsure);
    put_number(out, "detectable", verdict->detectable);
    put_number(out, "devices_needed", verdict->devices_needed);
    write_sides(out, versions);
    write_cohorts(out, versions);
    if (verdict->tests) {
        et_buf_text(out, ",\n\"all\":");
        write_row(out, &versions->fleet, &verdict->all);
    }
    et_buf_printf(out, ",\"functions\":%zu,\n\"rows\":[", verdict->row_count);
    for (size_t i = 0; i < verdict->row_count && i < ROWS; i++) {
        et_buf_text(out, i ? ",\n" : "\n");
        write_row(out, &versions->fleet, &verdict->rows[i]);
    }
    et_buf_char(out, ']');
}

static void write_versions(struct et_buf *out, const struct et_versions *versions)
{
    et_buf_text(out, "{\"service\":");
    et_json_string(out, versions->service);
    et_buf_text(out, ",\"version\":");
    et_json_string(out, versions->names[ET_RIGHT]);
    et_buf_text(out, ",\"baseline\":");
    et_json_string(out, versions->names[ET_LEFT]);
    et_buf_text(out, ",\"kind\":");
    et_json_string(out, versions->kind ? versions->kind : "");
    et_buf_text(out, ",\"unit\":");
    et_json_string(out, versions->unit ? versions->unit : "");
    et_buf_printf(out, ",\"verdict\":\"%s\",\"threshold\":%g", et_versions_word(versions), versions->threshold);
    if (versions->state == ET_VERSIONS_COMPARED) {
        write_comparison(out, versions);
    }
    et_buf_text(out, "}\n");
}

unsigned et_api_verdict(struct et_store *store, struct et_symbols *symbols, const struct et_query *query,
                        const struct et_versions_request *request, struct et_buf *out)
{
    struct et_versions versions;
    struct et_query own = *query;
    struct et_buf service = {0};
    unsigned status = et_api_service(store, query, &service, out);
    if (status == 200) {
        own.service = service.data;
        int err = et_versions_compare(store, symbols, &own, request, &versions);
        if (err == -EINVAL) {
            et_api_error(out, "this kind is a level; a verdict needs one that adds up over time, such as cpu or alloc");
            status = 400;
        } else if (err) {
            status = et_api_failed(store, out);
        } else {
            write_versions(out, &versions);
        }
        et_versions_free(&versions);
    }
    et_buf_free(&service);
    return status;
}
