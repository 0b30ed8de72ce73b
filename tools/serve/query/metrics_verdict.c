/* See metrics_verdict.h. */
#include "tools/serve/query/metrics_verdict.h"
#include "tools/serve/query/metrics.h"

#include <math.h>
#include <string.h>

/* Functions found that are listed for a service. */
enum { LISTED = 20 };

enum { VERDICT, INCREASE, DETECTABLE, NEEDED, LEAK };

static const struct {
    const char *name, *help;
} families[ET_VERDICT_FAMILIES] = {
    [VERDICT] = {"edgeprof_verdict",
                 "1: the verdict on the newest version of the service, compared with the one before."},
    [INCREASE] = {"edgeprof_verdict_increase_ratio",
                  "Usage that a function of the newest version has more, in parts of the service's usage."},
    [DETECTABLE] =
        {"edgeprof_verdict_detectable_ratio",
         "The increase of any function that is found with 80 % probability, in parts of the service's usage."},
    [NEEDED] = {"edgeprof_verdict_devices_needed", "Devices per version that a verdict needs; 0: there are enough."},
    [LEAK] =
        {"edgeprof_leak_bytes_per_hour",
         "Live bytes of a place of allocation that grow steadily, per process and hour, over the last seven days."},
};

static void put_number(struct et_buf *out, double number)
{
    if (isfinite(number)) {
        et_buf_printf(out, "%.6g\n", number);
    } else {
        et_buf_text(out, "+Inf\n");
    }
}

static void add_increase(struct et_buf *out, const struct et_versions *versions, const struct et_verdict_row *row)
{
    static const char *const words[] = {"", "share", "load", "both"};
    et_metrics_sample(out, families[INCREASE].name, "service", versions->service, "version", versions->names[ET_RIGHT],
                      "baseline", versions->names[ET_LEFT], "function",
                      row->shared ? et_text(&versions->fleet.strings, row->function) : "", "figure",
                      row->total ? "total" : "self", "by", words[row->by], NULL);
    put_number(out, row->by == ET_BY_LOAD ? row->load.change : row->share.change);
}

static void add_plain(struct et_verdict_metrics *metrics, size_t family, const struct et_versions *versions,
                      double number)
{
    et_metrics_sample(&metrics->families[family], families[family].name, "service", versions->service, "version",
                      versions->names[ET_RIGHT], "baseline", versions->names[ET_LEFT], NULL);
    put_number(&metrics->families[family], number);
}

void et_verdict_metrics_add(struct et_verdict_metrics *metrics, const struct et_versions *versions)
{
    const struct et_verdict *verdict = &versions->verdict;
    if (versions->state != ET_VERSIONS_COMPARED) {
        return;
    }
    et_metrics_sample(&metrics->families[VERDICT], families[VERDICT].name, "service", versions->service, "version",
                      versions->names[ET_RIGHT], "baseline", versions->names[ET_LEFT], "verdict",
                      et_versions_word(versions), NULL);
    put_number(&metrics->families[VERDICT], 1);
    if (verdict->all.judgement == ET_DIFF_MORE) {
        add_increase(&metrics->families[INCREASE], versions, &verdict->all);
    }
    for (size_t i = 0; i < verdict->row_count && i < LISTED && verdict->rows[i].judgement == ET_DIFF_MORE; i++) {
        add_increase(&metrics->families[INCREASE], versions, &verdict->rows[i]);
    }
    add_plain(metrics, DETECTABLE, versions, verdict->detectable);
    add_plain(metrics, NEEDED, versions, verdict->devices_needed);
}

void et_verdict_metrics_add_leaks(struct et_verdict_metrics *metrics, const struct et_leaks *leaks)
{
    struct et_buf *out = &metrics->families[LEAK];
    for (size_t i = 0; i < leaks->count && i < LISTED && leaks->leaks[i].grows; i++) {
        et_metrics_sample(out, families[LEAK].name, "service", leaks->service, "site",
                          et_text(&leaks->strings, leaks->leaks[i].name), NULL);
        put_number(out, leaks->leaks[i].bytes.slope);
    }
}

void et_verdict_metrics_put(const struct et_verdict_metrics *metrics, struct et_buf *out)
{
    for (size_t i = 0; i < ET_VERDICT_FAMILIES; i++) {
        if (metrics->families[i].size) {
            et_metrics_family(out, families[i].name, "gauge", families[i].help);
            et_buf_add(out, metrics->families[i].data, metrics->families[i].size);
        }
    }
}

void et_verdict_metrics_free(struct et_verdict_metrics *metrics)
{
    for (size_t i = 0; i < ET_VERDICT_FAMILIES; i++) {
        et_buf_free(&metrics->families[i]);
    }
}
